"""Where a call comes from: what a proxy of ours says is believed, and nothing that anybody says."""

import random
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import grpc
import pytest

from services.runtime import headers
from services.runtime.origin import FORWARDED, HOPS_MAX, NOWHERE, address, networks, subscriber
from tests.runtime.echo import Caller, Echo, refused, serving, settings, token

OK, EXHAUSTED = grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED
PROXIES = networks("10.0.0.0/8, fd00::/8")


def origin(at: str, *forwarded: str) -> str:
    """The address of a call from this peer, with a header a line, behind `PROXIES`."""
    metadata = [("user-agent", "x"), *((FORWARDED, line) for line in forwarded)]
    return address(at, headers.read(metadata).get(FORWARDED, ""), PROXIES)


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("ipv4:203.0.113.7:5001", "203.0.113.7"),
        ("ipv6:[2001:db8:1:2:3:4:5:6]:5001", "2001:db8:1:2::/64"),
        ("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:5001", "2001:db8:1:2::/64"),
        ("ipv6:[fe80::1%25eth0]:5001", "fe80::/64"),
        ("ipv6:[::ffff:203.0.113.7]:5001", "203.0.113.7"),
        ("unix:/run/kozyr", NOWHERE),
        ("unix:", NOWHERE),
        ("", NOWHERE),
        ("ipv4:nonsense:1", NOWHERE),
    ],
)
def test_a_peer_has_its_own_address(peer: str, expected: str) -> None:
    """Without its port; of IPv6 the network of one subscriber; whatever a header says."""
    assert origin(peer) == expected
    assert origin(peer, "198.51.100.1") == expected


@pytest.mark.parametrize(
    ("forwarded", "expected"),
    [
        (("198.51.100.1",), "198.51.100.1"),
        (("198.51.100.1:4711",), "198.51.100.1"),
        (("[2001:db8::9]:4711",), "2001:db8::/64"),
        (("2001:db8::9",), "2001:db8::/64"),
        (("1.1.1.1, 198.51.100.1",), "198.51.100.1"),
        (("1.1.1.1, 198.51.100.1, 10.9.9.9",), "198.51.100.1"),
        (("1.1.1.1", "198.51.100.1 , 10.9.9.9"), "198.51.100.1"),
        (("1.1.1.1, nonsense, 10.9.9.9",), "10.9.9.9"),
        (("10.3.3.3, 10.9.9.9",), "10.3.3.3"),
        ((), "10.0.0.1"),
        (("",), "10.0.0.1"),
        (("unknown",), "10.0.0.1"),
    ],
)
def test_of_what_a_proxy_forwards_the_last_untrusted_hop_counts(
    forwarded: Sequence[str], expected: str
) -> None:
    """Further left anybody may have written it; what cannot be read ends the way."""
    assert origin("ipv4:10.0.0.1:5001", *forwarded) == expected


def test_no_header_moves_a_caller_from_his_address() -> None:
    """Whatever he sends, through a proxy or past it, he is counted where he is."""
    chance = random.Random(1)
    pieces = ["1.1.1.1", "10.1.1.1", "fd00::1", "[::1]:9", "x", "", "::ffff:10.0.0.1", "%", "a:b:c"]
    for _ in range(2_000):
        claimed = ",".join(chance.choices(pieces, k=chance.randrange(0, 3 * HOPS_MAX)))
        assert origin("ipv4:203.0.113.7:1", claimed) == "203.0.113.7"
        told = f"{claimed}, 203.0.113.7" if claimed else "203.0.113.7"
        assert origin("ipv4:10.0.0.1:1", told) == "203.0.113.7"
        assert origin("ipv4:10.0.0.1:1", f"{told}, 10.2.2.2") == "203.0.113.7"


def test_all_addresses_of_a_subscriber_are_one() -> None:
    """He changes the lower half of an IPv6 address at will."""
    chance = random.Random(2)
    for _ in range(200):
        network = chance.getrandbits(64) << 64
        one, two = (IPv6Address(network | chance.getrandbits(64)) for _ in range(2))
        assert subscriber(one) == subscriber(two)
        assert subscriber(one) != subscriber(IPv6Address((network ^ 1 << 64) & (1 << 128) - 1))
    assert subscriber(IPv4Address("203.0.113.7")) != subscriber(IPv4Address("203.0.113.8"))


async def test_a_proxy_of_ours_is_no_caller(tmp_path: Path) -> None:
    """Its clients are limited each by himself; from others the header says nothing."""
    changes: dict[str, Any] = {"peer_rate_per_second": 0.01, "peer_rate_burst": 1}

    given = settings(tmp_path / "behind", trusted_proxies="127.0.0.0/8, ::1/128", **changes)
    async with serving(Echo(), given) as server, Caller(server, given) as caller:
        for one in ("198.51.100.1", "198.51.100.2"):
            assert await caller.forwarded("Echo", one) is OK
            assert await caller.forwarded("Echo", one) is EXHAUSTED
    given = settings(tmp_path / "open", **changes)
    async with serving(Echo(), given) as server, Caller(server, given) as caller:
        assert await caller.forwarded("Echo", "198.51.100.1") is OK
        assert await caller.forwarded("Echo", "198.51.100.2") is EXHAUSTED


async def test_many_players_at_one_address_share_a_limit(tmp_path: Path) -> None:
    """Each within his own, all together within the address's; services and operators are apart."""
    given = settings(tmp_path, address_rate_per_second=0.01, address_rate_burst=3)
    async with serving(Echo(), given) as server:
        for name in ("p-1", "p-2", "p-3"):
            async with Caller(server, given, token(given, "players", name)) as caller:
                await caller.unary("Mine")
        async with Caller(server, given, token(given, "players", "p-4")) as caller:
            refusal = await refused(caller.unary("Mine"))
            assert (refusal.reason, refusal.facts["limit"]) == ("RATE_LIMITED", "players_address")
            assert refusal.retry_after_ms
        for issuer in ("operators", "game"):
            async with Caller(server, given, token(given, issuer, issuer[:4])) as caller:
                await caller.unary("Mine")


@pytest.mark.parametrize("wrong", ["10.0.0.0/33", "10.0.0.1/8", "proxy", "10.0.0.0/8;::1"])
def test_networks_that_are_none_are_refused(wrong: str) -> None:
    """A proxy that is misspelt is no proxy of ours."""
    with pytest.raises(ValueError, match=r"[a-z]"):
        networks(wrong)
