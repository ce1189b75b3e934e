"""Where a call comes from: the address that limits by address and lock-outs count by.

It is the peer's, or, where the peer is a proxy of ours (`KOZYR_TRUSTED_PROXIES`), the last hop of
`x-forwarded-for` that is none: what stands left of that one is what anybody may have claimed. An
address is IPv4 in dotted decimal, or the /64 network of an IPv6 address, of which a caller has all
addresses. Below a handler `services.runtime.call.address()` gives it.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias
from urllib.parse import unquote

FORWARDED = "x-forwarded-for"
HOPS_MAX = 16
"""More hops than these are not followed."""
PEERS_KEPT = 4_096
"""Of how many connections the address is kept."""
SUBSCRIBER_BITS = 64
"""How much of an IPv6 address tells one subscriber from another."""
NOWHERE = "local"
"""Whoever has no address: a socket of the machine itself."""

Address: TypeAlias = IPv4Address | IPv6Address
Networks: TypeAlias = tuple[IPv4Network | IPv6Network, ...]


def networks(text: str) -> Networks:
    """Networks in CIDR notation with commas between; raises ValueError.

    >>> networks("10.0.0.0/8, ::1/128")
    (IPv4Network('10.0.0.0/8'), IPv6Network('::1/128'))
    """
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())


def address(peer: str, forwarded: str = "", proxies: Networks = ()) -> str:
    """Where a call from a gRPC peer comes from, as limits count it; `forwarded` is the header."""
    found = of_peer(peer)
    if found is None:
        return NOWHERE
    if proxies and _within(found, proxies):
        found = _before(found, _hops(forwarded), proxies)
    return subscriber(found)


@lru_cache(PEERS_KEPT)
def of_peer(peer: str) -> Address | None:
    """The address of a gRPC peer, `ipv4:host:port` or `ipv6:[host]:port`; None if it has none."""
    kind, _, rest = unquote(peer).partition(":")
    return _parsed(rest) if kind in {"ipv4", "ipv6"} else None


@lru_cache(PEERS_KEPT)
def subscriber(found: Address) -> str:
    """An address as limits count it.

    >>> subscriber(ip_address("2001:db8:1:2:3:4:5:6"))
    '2001:db8:1:2::/64'
    """
    if isinstance(found, IPv4Address):
        return str(found)
    return str(IPv6Network((int(found), SUBSCRIBER_BITS), strict=False))


def _before(proxy: Address, hops: Iterable[str], proxies: Networks) -> Address:
    """The last hop that is no proxy of ours, or the one nearest to it that can be read."""
    found = proxy
    for hop in hops:
        named = _parsed(hop)
        if named is None:
            return found
        found = named
        if not _within(found, proxies):
            return found
    return found


def _hops(forwarded: str) -> Iterator[str]:
    """The hops that the peer was told of, its own neighbour first."""
    yield from reversed(forwarded.rsplit(",", HOPS_MAX)[-HOPS_MAX:])


def _within(found: Address, proxies: Networks) -> bool:
    return any(found in network for network in proxies)


def _parsed(text: str) -> Address | None:
    """An address with or without a port, brackets or a zone; IPv4 within IPv6 is IPv4."""
    host = text.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found
