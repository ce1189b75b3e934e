"""Signing in by an external issuer: a real one over HTTP on the loopback, keys changing there."""

import asyncio
import hmac
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from kozyr.lobby.v1 import identity_pb2 as pb
from pydantic import ValidationError

from services.kernel.errors import Kind, Refused
from services.lobby.oidc import AGAIN_S, FRESH_S, KEPT_S, ExternalIssuer, Unreachable, fetch
from services.runtime.settings import Settings
from tests.services.lobby.hall import Guest, Hall, lobby_hall
from tests.services.lobby.issuer import AUDIENCE, Issuer, issuing
from tests.services.lobby.peers import WELCOME


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """An issuer with a key."""
    with issuing() as made:
        made.add("one")
        yield made


@pytest.fixture
async def outside(issuer: Issuer, tmp_path: Path) -> AsyncIterator[Hall]:
    """A lobby that takes this issuer's word."""
    changes = {"oidc_issuer": issuer.address, "oidc_audience": AUDIENCE}
    async with lobby_hall(tmp_path, **changes) as made:
        yield made


async def nonce(guest: Guest) -> str:
    """A challenge for an id token."""
    reply: pb.GetChallengeResponse = await guest.call(pb.GetChallengeRequest())
    return reply.challenge


async def enter(guest: Guest, token: bytes, name: str = "Nino") -> Any:
    """Sign in by an id token."""
    return await guest.call(pb.SignInExternalRequest(id_token=token, display_name=name))


async def test_a_subject_is_one_player_for_good(outside: Hall, issuer: Issuer) -> None:
    """Made at first, with a welcome; the same afterwards, whatever the name says then."""
    nobody = outside.caller(None)
    first = await enter(nobody, issuer.token(await nonce(nobody), "one"))
    again = await enter(nobody, issuer.token(await nonce(nobody), "one"), "")
    other = await enter(nobody, issuer.token(await nonce(nobody), "one", sub="u-2"), "Dato")
    assert (first.created, again.created, other.created) == (True, False, True)
    assert first.player == again.player != other.player
    assert outside.others.bank.balances[first.player.player_id] == WELCOME
    me = outside.caller(again.tokens.access_token, first.player.player_id)
    profile = await me.call(pb.GetProfileRequest())
    assert [each.issuer for each in profile.externals] == [issuer.address]
    assert {session.means for session in profile.sessions} == {pb.SIGN_IN_MEANS_EXTERNAL}


async def test_a_subject_that_comes_twice_at_once_is_one_player(
    outside: Hall, issuer: Issuer
) -> None:
    """Two devices at the first sign-in."""
    nobody = outside.caller(None)
    tokens = [issuer.token(await nonce(nobody), "one") for _ in range(4)]
    entered = await asyncio.gather(*(enter(nobody, token) for token in tokens))
    assert len({each.player.player_id for each in entered}) == 1
    assert [each.created for each in entered].count(True) == 1


async def link_nonce(guest: Guest) -> str:
    """A challenge for an id token to be linked to a player."""
    asked = pb.GetChallengeRequest(player_id=guest.player_id)
    reply: pb.GetChallengeResponse = await guest.call(asked)
    return reply.challenge


async def linking(
    guest: Guest, issuer: Issuer, sub: str = "u-1", **given: Any
) -> pb.LinkExternalRequest:
    """A request to link a subject, with a challenge of its own."""
    token = issuer.token(given.pop("nonce", None) or await link_nonce(guest), "one", sub=sub)
    return pb.LinkExternalRequest(id_token=token, **given)


async def test_a_guest_links_a_subject_and_comes_back_by_it(outside: Hall, issuer: Issuer) -> None:
    """With his name, his games and his chips; asked again it is what it was."""
    nino, nobody = await outside.guest("Nino"), outside.caller(None)
    request = await linking(nino, issuer)
    linked = await nino.call(request)
    assert linked.issuer == issuer.address
    assert await nino.call(request) == linked
    assert await nino.call(await linking(nino, issuer)) == linked
    entered = await enter(nobody, issuer.token(await nonce(nobody), "one"), "")
    assert (entered.player.player_id, entered.created) == (nino.player_id, False)
    profile = await nino.call(pb.GetProfileRequest())
    assert [(each.issuer, each.created_time) for each in profile.externals] == [
        (linked.issuer, linked.created_time)
    ]


async def test_a_subject_is_linked_to_one_account_and_an_account_to_one_subject(
    outside: Hall, issuer: Issuer
) -> None:
    """Whether it was linked or came by itself; however many ask at once. Nothing is changed by a
    refusal, and its challenge may still serve."""
    nino, dato = await outside.guest("Nino"), await outside.guest("Dato")
    nobody = outside.caller(None)
    await enter(nobody, issuer.token(await nonce(nobody), "one", sub="alone"), "Alone")
    for sub in ("alone", "u-1"):
        if sub == "u-1":
            await nino.call(await linking(nino, issuer))
        refused = await dato.refused(await linking(dato, issuer, sub))
        assert (refused.kind, refused.reason) == (Kind.EXISTS, "EXTERNAL_TAKEN")
    refused = await nino.refused(await linking(nino, issuer, "u-2"))
    assert (refused.kind, refused.reason) == (Kind.PRECONDITION, "EXTERNAL_LINKED")
    spare = await link_nonce(dato)
    assert (await dato.refused(await linking(dato, issuer, nonce=spare))).reason == "EXTERNAL_TAKEN"
    await dato.call(await linking(dato, issuer, "u-2", nonce=spare))
    guests = [await outside.guest(f"Guest {n}") for n in range(4)]
    asked = [await linking(guest, issuer, "u-3") for guest in guests]
    calls = [guest.call(request) for guest, request in zip(guests, asked, strict=True)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    refusals = [each.reason for each in answers if isinstance(each, Refused)]
    assert refusals == ["EXTERNAL_TAKEN"] * 3


async def test_nobodys_sign_in_can_be_made_a_link(outside: Hall, issuer: Issuer) -> None:
    """A challenge is for one purpose and one player; a token serves once, and needs a session that
    has just begun."""
    nino, dato = await outside.guest("Nino"), await outside.guest("Dato")
    for strange in (await nonce(nino), await link_nonce(dato)):
        refused = await nino.refused(await linking(nino, issuer, nonce=strange))
        assert [each.field for each in refused.fields] == ["id_token"]
    mine = await link_nonce(nino)
    refused = await nino.refused(
        pb.SignInExternalRequest(id_token=issuer.token(mine, "one"), display_name="Eka")
    )
    assert [each.field for each in refused.fields] == ["id_token"]
    stale = outside.caller(outside.token("players", nino.player_id), nino.player_id)
    refused = await stale.refused(await linking(nino, issuer, nonce=mine))
    assert refused.reason == "SIGN_IN_NOT_FRESH"
    await nino.call(await linking(nino, issuer, nonce=mine))
    await nino.call(pb.ErasePlayerRequest(confirm_name="Nino", give_up_chips=True))
    again = pb.LinkExternalRequest(id_token=issuer.token(mine, "one"))
    assert (await nino.refused(again)).reason == "BEING_ERASED"


async def test_what_was_linked_goes_with_its_player(outside: Hall, issuer: Issuer) -> None:
    """His erasure frees the subject: whoever comes by it is somebody new, or links it anew."""
    nino, dato = await outside.guest("Nino"), await outside.guest("Dato")
    await nino.call(await linking(nino, issuer))
    await nino.call(pb.ErasePlayerRequest(confirm_name="Nino", give_up_chips=True))
    await dato.call(await linking(dato, issuer))
    nobody = outside.caller(None)
    entered = await enter(nobody, issuer.token(await nonce(nobody), "one"))
    assert entered.player.player_id == dato.player_id


async def test_an_id_token_serves_once(outside: Hall, issuer: Issuer) -> None:
    """A refused name does not use it up."""
    nobody = outside.caller(None)
    token = issuer.token(await nonce(nobody), "one")
    refused = await nobody.refused(pb.SignInExternalRequest(id_token=token))
    assert [each.field for each in refused.fields] == ["display_name"]
    await enter(nobody, token)
    refused = await nobody.refused(pb.SignInExternalRequest(id_token=token))
    assert (refused.kind, refused.reason) == (Kind.UNAUTHENTICATED, "CHALLENGE_USED")


async def test_id_tokens_that_are_not_right_are_refused(outside: Hall, issuer: Issuer) -> None:
    """Claims, algorithms, keys; each alike, and nobody is made by them."""
    nobody, now = outside.caller(None), int(time.time())
    issuer.add("elliptic", "ES256")
    good = await nonce(nobody)
    stranger = Issuer()
    stranger.address = issuer.address
    stranger.add("one")
    head, body, _ = issuer.token(good, "one").split(b".")
    confused = json.dumps({"alg": "HS256", "kid": "shared"}).encode()
    wrong = {
        "of another issuer": issuer.token(good, "one", iss="https://elsewhere"),
        "for another client": issuer.token(good, "one", aud="another"),
        "for several, by another": issuer.token(good, "one", aud=[AUDIENCE, "x"], azp="x"),
        "for several, by nobody": issuer.token(good, "one", aud=[AUDIENCE, "x"]),
        "by another client": issuer.token(good, "one", azp="x"),
        "from the future": issuer.token(good, "one", iat=now + 600),
        "of nobody": issuer.token(good, "one", sub=None),
        "of an empty subject": issuer.token(good, "one", sub=""),
        "of a long subject": issuer.token(good, "one", sub="x" * 256),
        "without a nonce": issuer.token(good, "one", nonce=None),
        "without an expiry": issuer.token(good, "one", exp=None),
        "without an issue": issuer.token(good, "one", iat=None),
        "by a stranger's key": stranger.token(good, "one"),
        "without a signature": b".".join((head, body, b"")),
        "by a shared secret": _signed(confused, body, b"secret"),
        "no token": b"x.y.z",
    }
    for what, token in wrong.items():
        refused = await nobody.refused(
            pb.SignInExternalRequest(id_token=token, display_name="Nino")
        )
        assert (refused.kind, refused.reason) == (
            Kind.UNAUTHENTICATED,
            "EXTERNAL_TOKEN_INVALID",
        ), what
    old = issuer.token(good, "one", iat=now - 900, exp=now - 600)
    refused = await nobody.refused(pb.SignInExternalRequest(id_token=old, display_name="N"))
    assert refused.reason == "EXTERNAL_TOKEN_EXPIRED"
    for stale in ("made-up", (await nobody.call(_for_device())).challenge):
        refused = await nobody.refused(
            pb.SignInExternalRequest(id_token=issuer.token(stale, "one"), display_name="N")
        )
        assert [each.field for each in refused.fields] == ["id_token"]
    assert outside.others.bank.balances == {}
    assert (await enter(nobody, issuer.token(good, "one", aud=[AUDIENCE]))).created


def _signed(head: bytes, body: bytes, secret: bytes) -> bytes:
    from jwt.utils import base64url_encode

    signed = base64url_encode(head) + b"." + body
    return signed + b"." + base64url_encode(hmac.digest(secret, signed, "sha256"))


def _for_device() -> pb.GetChallengeRequest:
    return pb.GetChallengeRequest(
        player_id="00000000-0000-7000-8000-000000000000", public_key=bytes(32)
    )


async def test_without_an_issuer_it_is_refused_as_such(hall: Hall) -> None:
    """A typed refusal that says so."""
    nino = await hall.guest()
    refused = await nino.refused(pb.LinkExternalRequest(id_token=b"x.y.z"))
    assert refused.reason == "EXTERNAL_SIGN_IN_UNCONFIGURED"
    refused = await hall.caller(None).refused(
        pb.SignInExternalRequest(id_token=b"x.y.z", display_name="Nino")
    )
    assert (refused.kind, refused.reason) == (
        Kind.PRECONDITION,
        "EXTERNAL_SIGN_IN_UNCONFIGURED",
    )


def reader(issuer: Issuer, clock: list[float], **changes: Any) -> ExternalIssuer:
    """The issuer as a lobby reads it, by a clock of one's own."""
    named = {"oidc_issuer": issuer.address, "oidc_audience": AUDIENCE} | changes
    return ExternalIssuer(Settings(**named), now=lambda: clock[0])


async def reason(reading: ExternalIssuer, token: bytes) -> str:
    """How a token is answered; its subject."""
    try:
        return (await reading.read(token.decode())).subject
    except Refused as refused:
        return refused.reason


async def test_keys_that_change_at_the_issuer_are_followed(issuer: Issuer) -> None:
    """A new one from its first token on, a removed one no longer than five minutes; unknown ones
    make nobody ask the issuer all the time."""
    clock = [10_000.0]
    reading = reader(issuer, clock)
    assert await reason(reading, issuer.token("n", "one")) == "u-1"
    for kid, algorithm in (("two", "ES256"), ("three", "RS256")):
        issuer.add(kid, algorithm)
        clock[0] += AGAIN_S
        assert await reason(reading, issuer.token("n", kid)) == "u-1"
    asked = len(issuer.asked)
    old = issuer.token("n", "one")
    del issuer.keys["one"]
    issuer.add("four")
    for _ in range(5):
        assert await reason(reading, issuer.token("n", "four")) == "EXTERNAL_TOKEN_INVALID"
    assert len(issuer.asked) == asked
    clock[0] += FRESH_S
    assert await reason(reading, old) == "EXTERNAL_TOKEN_INVALID"
    assert await reason(reading, issuer.token("n", "four")) == "u-1"


async def test_an_issuer_that_is_away_is_done_without_for_an_hour(issuer: Issuer) -> None:
    """Then it is UNAVAILABLE; at first as well, and when it speaks in another's name."""
    clock = [10_000.0]
    reading, token = reader(issuer, clock), issuer.token("n", "one")
    assert await reason(reading, token) == "u-1"
    issuer.away = True
    clock[0] += FRESH_S
    assert await reason(reading, token) == "u-1"
    clock[0] += KEPT_S
    assert await reason(reading, token) == "EXTERNAL_ISSUER_UNAVAILABLE"
    assert await reason(reader(issuer, clock), token) == "EXTERNAL_ISSUER_UNAVAILABLE"
    issuer.away, issuer.named_issuer = False, "https://elsewhere"
    assert await reason(reader(issuer, clock), token) == "EXTERNAL_ISSUER_UNAVAILABLE"
    named = reader(issuer, clock, oidc_jwks_url=f"{issuer.address}/jwks")
    assert await reason(named, token) == "u-1"


async def test_keys_may_come_from_a_file(issuer: Issuer, tmp_path: Path) -> None:
    """Then nobody is asked; an algorithm that is not allowed is none."""
    file, clock = tmp_path / "jwks.json", [10_000.0]
    file.write_text(json.dumps(issuer.jwks()))
    token = issuer.token("n", "one")
    assert await reason(reader(issuer, clock, oidc_jwks_file=file), token) == "u-1"
    changes = {"oidc_jwks_file": file, "oidc_algorithms": "RS256"}
    assert await reason(reader(issuer, clock, **changes), token) == "EXTERNAL_TOKEN_INVALID"
    assert issuer.asked == []


async def test_only_this_machine_is_asked_without_encryption() -> None:
    """Nor is a file of the machine an address."""
    for address in ("http://192.0.2.1/jwks", "file:///etc/passwd", "ftp://127.0.0.1/", "x"):
        with pytest.raises(Unreachable):
            await fetch(address)


@pytest.mark.parametrize(
    "changes",
    [
        {"oidc_issuer": "https://x"},
        {"oidc_algorithms": "HS256"},
        {"oidc_algorithms": "none"},
        {"oidc_algorithms": ""},
    ],
)
def test_settings_that_would_let_anybody_in_are_refused(changes: dict[str, Any]) -> None:
    """No audience, or an algorithm whose key is a shared secret."""
    with pytest.raises(ValidationError):
        Settings(**changes)
