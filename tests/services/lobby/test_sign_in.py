"""Signing in and out over the wire: every door, what is told, what a token outlives."""

import json
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from kozyr.lobby.v1 import identity_pb2 as pb

from services.kernel.errors import Kind, Refused
from services.lobby.devices import LABEL
from services.runtime.keys import ISSUERS
from tests.services.lobby.hall import Guest, Hall
from tests.services.lobby.ways import PASSWORD

NOBODY = "00000000-0000-7000-8000-000000000000"


async def named(hall: Hall, login: str = "Nino") -> Guest:
    """A guest who has chosen a login name and a password."""
    guest = await hall.guest()
    await guest.call(pb.SetPasswordRequest(login_name=login, new_password=PASSWORD))
    return guest


def by_password(login: str = "nino", password: str = PASSWORD) -> pb.SignInWithPasswordRequest:
    """A request to sign in."""
    return pb.SignInWithPasswordRequest(login_name=login, password=password, device_name="Phone")


async def by_key(hall: Hall, player_id: str, key: Ed25519PrivateKey) -> Any:
    """Sign in by a device's key, as the contract says that it is done."""
    nobody, public = hall.caller(None), key.public_key().public_bytes_raw()
    asked = pb.GetChallengeRequest(player_id=player_id, public_key=public)
    challenge = (await nobody.call(asked)).challenge
    signature = key.sign(f"{LABEL}\n{player_id}\n{challenge}\n".encode())
    return await nobody.call(
        pb.SignInWithKeyRequest(
            player_id=player_id, public_key=public, challenge=challenge, signature=signature
        )
    )


async def test_every_door_leads_to_the_same_player(hall: Hall) -> None:
    """Password and key give tokens that serve; the profile tells of both and of all sessions."""
    nino, key = await named(hall), Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw()
    await nino.call(pb.AddDeviceRequest(device_name="Laptop", public_key=public))
    first = await hall.caller(None).call(by_password("NINO"))
    second = await by_key(hall, nino.player_id, key)
    profile = pb.GetProfileResponse()
    for reply in (first, second):
        assert reply.player.player_id == nino.player_id
        me = hall.caller(reply.tokens.access_token, nino.player_id)
        profile = await me.call(pb.GetProfileRequest())
        (mine,) = [session for session in profile.sessions if session.current]
        assert mine.device_name == ("Phone" if reply is first else "Laptop")
    assert profile.login_name == "nino"
    assert [(d.device_name, d.public_key) for d in profile.devices] == [("Laptop", public)]
    assert {session.means for session in profile.sessions} == {
        pb.SIGN_IN_MEANS_SIGN_UP,
        pb.SIGN_IN_MEANS_PASSWORD,
        pb.SIGN_IN_MEANS_KEY,
    }


async def test_nobody_else_sees_how_a_player_signs_in(hall: Hall) -> None:
    """His name is listed as ever; his profile is his and operators'."""
    nino, dato = await named(hall), await hall.guest("Dato")
    listed = await dato.call(pb.ListPlayersRequest(player_ids=[nino.player_id]))
    assert listed.players[0] == pb.Player(player_id=nino.player_id, display_name="Nino")
    refused = await dato.refused(pb.GetProfileRequest(player_id=nino.player_id))
    assert refused.reason == "NOT_YOURS"


async def test_signing_out_ends_renewing_and_the_token_runs_out_by_itself(hall: Hall) -> None:
    """Its own session, one that is named, or all."""
    nino, nobody = await named(hall), hall.caller(None)
    replies = [await nobody.call(by_password()) for _ in range(3)]
    first, second, third = (hall.caller(r.tokens.access_token, nino.player_id) for r in replies)
    await first.call(pb.SignOutRequest())
    profile = await second.call(pb.GetProfileRequest())
    (mine,) = [session for session in profile.sessions if session.current]
    await first.call(pb.SignOutRequest(session_id=mine.session_id))
    left = await third.call(pb.GetProfileRequest())
    assert len(left.sessions) == 2
    await second.call(pb.SignOutEverywhereRequest())
    assert list((await third.call(pb.GetProfileRequest())).sessions) == []
    for reply in replies:
        refused = await nobody.refused(pb.RefreshRequest(refresh_token=reply.tokens.refresh_token))
        assert refused.reason == "REFRESH_TOKEN_INVALID"


async def test_a_lost_answer_is_asked_for_again(hall: Hall) -> None:
    """By the same try, with the same token; a client of the release before names none."""
    nobody = hall.caller(None)
    made = await nobody.call(pb.SignUpRequest(display_name="Nino"))
    asked = pb.RefreshRequest(
        refresh_token=made.tokens.refresh_token, attempt_id="a-try-nobody-guesses"
    )
    tokens = [(await nobody.call(asked)).tokens.refresh_token for _ in range(3)]
    assert len(set(tokens)) == 1
    asked.attempt_id = ""
    assert (await nobody.refused(asked)).reason == "REFRESH_TOKEN_REUSED"


async def test_wrong_passwords_lead_to_a_wait_that_names_its_limit(hall: Hall) -> None:
    """RESOURCE_EXHAUSTED with the time to come back, for a name that exists and one that does
    not; the account's secret serves all the while."""
    await named(hall)
    nobody, told = hall.caller(None), {}
    for login in ("nino", "nobody"):
        refusals: list[Refused] = [
            await nobody.refused(by_password(login, "certainly not it")) for _ in range(6)
        ]
        told[login] = [(each.kind, each.reason, each.message) for each in refusals]
        last = refusals[-1]
        assert (last.kind, last.reason) == (Kind.EXHAUSTED, "SIGN_IN_LOCKED")
        assert last.facts["limit"] == "account_failures"
        assert 0 < (last.retry_after_ms or 0) <= 2_001
    assert told["nino"] == told["nobody"]


async def test_a_token_of_no_session_changes_nothing(hall: Hall) -> None:
    """As the release before issued them: it neither signs out by itself nor counts as fresh."""
    nino = await named(hall)
    old = hall.caller(hall.token("players", nino.player_id), nino.player_id)
    key = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    for request, reason in (
        (pb.SignOutRequest(), "NO_SESSION"),
        (pb.AddDeviceRequest(device_name="X", public_key=key), "SIGN_IN_NOT_FRESH"),
        (pb.SetPasswordRequest(new_password="another password"), "SIGN_IN_NOT_FRESH"),
        (pb.RemoveDeviceRequest(device_id=nino.player_id), "SIGN_IN_NOT_FRESH"),
    ):
        refused = await old.refused(request)
        assert (refused.kind, refused.reason) == (Kind.PRECONDITION, reason), request
    await old.call(pb.SignOutEverywhereRequest())
    assert list((await nino.call(pb.GetProfileRequest())).sessions) == []


async def test_published_keys_verify_tokens(hall: Hall) -> None:
    """A stranger's library takes the key set and reads a player's token with it."""
    nobody = hall.caller(None)
    made = await nobody.call(pb.SignUpRequest(display_name="Nino"))
    told = json.loads((await nobody.call(pb.GetKeysRequest())).jwks)
    keys = jwt.PyJWKSet.from_dict(told)
    kid = jwt.get_unverified_header(made.tokens.access_token)["kid"]
    claims = jwt.decode(
        made.tokens.access_token, keys[kid], ["EdDSA"], audience="kozyr", issuer="players"
    )
    assert claims["sub"] == made.player.player_id
    assert [set(key) for key in told["keys"]] == [{"kty", "crv", "use", "alg", "kid", "x"}]
    sets = {
        issuer: (await nobody.call(pb.GetKeysRequest(issuer=issuer))).jwks for issuer in ISSUERS
    }
    assert len(set(sets.values())) == len(ISSUERS)
    assert json.loads(sets["players"]) == told


async def test_a_request_to_choose_a_login_is_one_however_often_it_comes(hall: Hall) -> None:
    """And the login name that is kept is told."""
    nino = await hall.guest()
    request = pb.SetPasswordRequest(request_id="r-1", login_name="NINO", new_password=PASSWORD)
    for _ in range(2):
        assert (await nino.call(request)).login_name == "nino"
    request.login_name = "dato"
    refused = await nino.refused(request)
    assert refused.reason == "REQUEST_ID_REUSED"
    missing = await (await hall.guest("Dato")).refused(pb.SetPasswordRequest(new_password=PASSWORD))
    assert (missing.kind, missing.reason) == (Kind.PRECONDITION, "LOGIN_NAME_MISSING")


async def test_doors_refuse_bad_fields_by_name(hall: Hall) -> None:
    """Each with INVALID_ARGUMENT and the field, and no content of it."""
    nobody, called = hall.caller(None), {"login_name": "nino", "password": "x"}
    for request, field in (
        (pb.SignInWithPasswordRequest(password="x"), "login_name"),
        (pb.SignInWithPasswordRequest(login_name="nino"), "password"),
        (pb.SignInWithPasswordRequest(login_name="nino", password="x" * 129), "password"),
        (pb.SignInWithPasswordRequest(**called, device_name="<"), "device_name"),
        (pb.GetChallengeRequest(public_key=bytes(32)), "player_id"),
        (pb.GetChallengeRequest(player_id=NOBODY, public_key=b"k"), "public_key"),
        (pb.SignInWithKeyRequest(), "player_id"),
        (pb.SignInExternalRequest(id_token="ä".encode()), "id_token"),
        (pb.RefreshRequest(refresh_token="x", attempt_id="short"), "attempt_id"),
        (pb.GetKeysRequest(issuer="nobody"), "issuer"),
        (pb.SignUpRequest(request_id="x" * 20, display_name="N", device_name="<"), "device_name"),
    ):
        refused = await nobody.refused(request)
        assert (refused.kind, refused.fields[0].field) == (Kind.INVALID, field), request


async def test_what_players_change_is_refused_by_field(hall: Hall) -> None:
    """Names, passwords, keys."""
    nino = await hall.guest()
    for request, field in (
        (pb.SetPasswordRequest(login_name="a b", new_password=PASSWORD), "login_name"),
        (pb.SetPasswordRequest(login_name="nino", new_password="short"), "new_password"),
        (pb.AddDeviceRequest(device_name="", public_key=b"k" * 32), "device_name"),
        (pb.AddDeviceRequest(device_name="X", public_key=b"k" * 31), "public_key"),
        (pb.AddDeviceRequest(device_name="X", public_key=bytes(32)), "public_key"),
        (pb.RemoveDeviceRequest(device_id="x"), "device_id"),
        (pb.LinkExternalRequest(id_token="ä".encode()), "id_token"),
        (pb.SignOutRequest(session_id="x"), "session_id"),
    ):
        refused = await nino.refused(request)
        assert (refused.kind, refused.fields[0].field) == (Kind.INVALID, field), request
