"""Tokens: whoever does not hold the right key can claim nothing."""

import base64
import hmac
import json
import shutil
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from services.kernel.errors import Kind, Refused
from services.runtime.auth import Role
from services.runtime.clients import ServiceToken
from services.runtime.keyring import Keyring
from services.runtime.keys import (
    ISSUERS,
    decode_secret,
    ensure_keys,
    load_private,
    master_keys,
    read_secret,
)
from services.runtime.settings import SERVICES, Settings
from services.runtime.tokens import MAY_CLAIM, Verifier, load_signer


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = 1_800_000_000.0

    def __call__(self) -> float:
        """Unix seconds."""
        return self.at


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of keys."""
    folder = tmp_path_factory.mktemp("keys")
    ensure_keys(folder)
    return folder


def refusal(verifier: Verifier, token: str) -> str:
    """The reason a token is refused for."""
    with pytest.raises(Refused) as caught:
        verifier.verify(token)
    assert caught.value.kind is Kind.UNAUTHENTICATED
    return caught.value.reason


def claims(**changes: Any) -> dict[str, Any]:
    """A player's claims, changed; None removes."""
    good = {"iss": "players", "sub": "p-1", "aud": "kozyr", "role": "player"}
    every = good | {"iat": 1_800_000_000, "exp": 1_800_000_900} | changes
    return {name: value for name, value in every.items() if value is not None}


def signed(keys: Path, issuer: str, payload: dict[str, Any], **headers: Any) -> str:
    """Claims signed by an issuer, whatever they say."""
    signer = load_signer(keys, issuer)
    given = {"kid": signer.key_id} | headers
    return jwt.encode(payload, signer.key, "EdDSA", headers=given)


def text(octets: bytes) -> str:
    """Base64 as JWTs have it."""
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def unsigned(head: dict[str, Any], payload: dict[str, Any]) -> str:
    """The part of a JWT that is signed, whatever it says."""
    return f"{text(json.dumps(head).encode())}.{text(json.dumps(payload).encode())}"


@pytest.mark.parametrize("issuer", ISSUERS)
def test_an_issuer_speaks_for_its_own_role_only(keys: Path, issuer: str) -> None:
    """What is issued verifies, with the one role of its issuer."""
    clock = Clock()
    subject = issuer if issuer in SERVICES else "someone-1"
    token = load_signer(keys, issuer, clock).issue(subject, 900_000)
    caller = Verifier(Keyring(keys), 0, clock).verify(token)
    assert (caller.role, caller.subject) == (MAY_CLAIM[issuer], subject)
    assert caller.expires_at == 1_800_000_900


@pytest.mark.parametrize("issuer", ISSUERS)
@pytest.mark.parametrize("role", [r.value for r in Role])
def test_a_key_cannot_claim_another_role(keys: Path, issuer: str, role: str) -> None:
    """Not even when the claims are signed with it."""
    subject = issuer if issuer in SERVICES else "p-1"
    token = signed(keys, issuer, claims(iss=issuer, role=role, sub=subject))
    verifier = Verifier(Keyring(keys), 0, Clock())
    if role == MAY_CLAIM[issuer].value:
        assert verifier.verify(token).role.value == role
    else:
        assert refusal(verifier, token) == "TOKEN_INVALID"


def test_a_service_cannot_speak_for_another(keys: Path) -> None:
    """Nor issue such a token, nor sign such claims."""
    token = signed(keys, "ai", claims(iss="ai", role="service", sub="game"))
    assert refusal(Verifier(Keyring(keys), 0, Clock()), token) == "TOKEN_INVALID"
    with pytest.raises(ValueError, match="ai"):
        load_signer(keys, "ai").issue("game", 1000)


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "operators"}, {"iss": None}, {"aud": "other"}, {"aud": None}, {"exp": None},
        {"iat": None}, {"sub": None}, {"role": None}, {"exp": "soon"}, {"exp": 1e12}, {"exp": True},
        {"iat": 1_800_000_100}, {"iat": "x"}, {"sub": ""}, {"sub": "x" * 65}, {"sub": "a b"},
        {"sub": "ä"}, {"sub": 7}, {"sub": "a\nb"}, {"role": "operator"}, {"role": ["player"]},
    ],
)  # fmt: skip
def test_claims_that_are_not_right_are_refused(keys: Path, changes: dict[str, Any]) -> None:
    """Every claim is needed, of its type and within its bounds."""
    payload = claims(**changes)
    signer = load_signer(keys, "players")
    body = unsigned({"alg": "EdDSA", "kid": signer.key_id}, payload)
    token = f"{body}.{text(signer.key.sign(body.encode()))}"
    assert refusal(Verifier(Keyring(keys), 0, Clock()), token) == "TOKEN_INVALID"


def test_other_algorithms_are_refused(keys: Path) -> None:
    """No signature, or one made with the public key as a secret, is no signature."""
    verifier = Verifier(Keyring(keys), 0, Clock())
    key_id = load_signer(keys, "players").key_id
    none = unsigned({"alg": "none", "kid": key_id}, claims()) + "."
    public = (keys / "players.pub").read_bytes()
    body = unsigned({"alg": "HS256", "kid": key_id}, claims())
    confused = f"{body}.{text(hmac.digest(public, body.encode(), 'sha256'))}"
    for token in (none, confused):
        assert refusal(verifier, token) == "TOKEN_INVALID"


@pytest.mark.parametrize("kid", [None, "", "unknown", 5, ["x"], {"a": 1}])
def test_unknown_keys_are_refused(keys: Path, kid: Any) -> None:
    """Which key it is must be said, and be known."""
    stranger = Ed25519PrivateKey.generate()
    body = unsigned({"alg": "EdDSA"} | ({} if kid is None else {"kid": kid}), claims())
    token = f"{body}.{text(stranger.sign(body.encode()))}"
    assert refusal(Verifier(Keyring(keys), 0, Clock()), token) == "TOKEN_INVALID"


@given(given_text=st.text(max_size=200) | st.binary(max_size=200).map(lambda b: b.hex()))
def test_no_text_crashes_the_verifier(keys: Path, given_text: str) -> None:
    """Whatever is sent as a token, the answer is TOKEN_INVALID."""
    assert refusal(Verifier(Keyring(keys), 0, Clock()), given_text) == "TOKEN_INVALID"


def test_a_changed_token_is_refused(keys: Path) -> None:
    """Any character changed anywhere."""
    clock = Clock()
    token = load_signer(keys, "players", clock).issue("p-1", 900_000)
    verifier = Verifier(Keyring(keys), 0, clock)
    for place in range(0, len(token) - 1, 7):
        other = "A" if token[place] != "A" else "B"
        changed = token[:place] + other + token[place + 1 :]
        assert refusal(verifier, changed) == "TOKEN_INVALID"
    assert refusal(verifier, token + "A" * 1024) == "TOKEN_INVALID"


def test_expiry_is_checked_also_for_remembered_tokens(keys: Path) -> None:
    """A token that was good a moment ago is not good for ever; small differences are forgiven."""
    clock = Clock()
    verifier = Verifier(Keyring(keys), 5_000, clock)
    token = load_signer(keys, "players", clock).issue("p-1", 10_000)
    assert not verifier.knows(token)
    for later in (0, 9, 14):
        clock.at = 1_800_000_000.0 + later
        assert verifier.verify(token).subject == "p-1"
        assert verifier.knows(token)
    clock.at += 1
    assert refusal(verifier, token) == "TOKEN_EXPIRED"
    assert not verifier.knows(token)
    assert refusal(verifier, token) == "TOKEN_EXPIRED"


def test_a_token_from_the_future_is_refused_beyond_the_skew(keys: Path) -> None:
    """An issuer's clock may be a little ahead, not more."""
    clock, ahead = Clock(), Clock()
    ahead.at += 5
    token = load_signer(keys, "players", ahead).issue("p-1", 10_000)
    assert Verifier(Keyring(keys), 5_000, clock).verify(token).subject == "p-1"
    assert refusal(Verifier(Keyring(keys), 4_000, clock), token) == "TOKEN_INVALID"


def test_an_issuer_can_change_its_key(keys: Path, tmp_path: Path) -> None:
    """Old and new public keys stand side by side; a revoked one is simply not there."""
    folder, fresh = tmp_path / "keys", tmp_path / "fresh"
    shutil.copytree(keys, folder)
    ensure_keys(fresh)
    clock = Clock()
    old = load_signer(folder, "players", clock).issue("p-1", 10_000)
    new = load_signer(fresh, "players", clock).issue("p-1", 10_000)
    assert refusal(Verifier(Keyring(folder), 0, clock), new) == "TOKEN_INVALID"
    shutil.copy(fresh / "players.pub", folder / "players.next.pub")
    both = Verifier(Keyring(folder), 0, clock)
    assert both.verify(old) == both.verify(new)
    (folder / "players.pub").unlink()
    assert refusal(Verifier(Keyring(folder), 0, clock), old) == "TOKEN_INVALID"


def test_keys_are_private_and_kept(keys: Path) -> None:
    """Files are mode 0600, all are there, and making keys again changes none."""
    before = {path.name: path.read_bytes() for path in keys.iterdir()}
    expected = {f"{issuer}.{kind}" for issuer in ISSUERS for kind in ("key", "pub")}
    assert before.keys() == expected | {f"{s}.seal" for s in SERVICES} | {"master.key"}
    assert {path.stat().st_mode & 0o777 for path in keys.iterdir()} == {0o600}
    ensure_keys(keys)
    assert {path.name: path.read_bytes() for path in keys.iterdir()} == before


def test_somebody_elses_key_is_not_made_up(keys: Path, tmp_path: Path) -> None:
    """Where only the public key is at hand, no private key appears that would not fit it."""
    shutil.copy(keys / "operators.pub", tmp_path / "operators.pub")
    ensure_keys(tmp_path)
    assert not (tmp_path / "operators.key").exists()
    assert (tmp_path / "operators.pub").read_bytes() == (keys / "operators.pub").read_bytes()


def test_bad_keys_are_named_without_their_content(keys: Path, tmp_path: Path) -> None:
    """A secret of the wrong length or kind."""
    for content in ("c2hvcnQ=", "not base64 at all", ""):
        (tmp_path / "x.seal").write_text(content)
        with pytest.raises(ValueError, match=r"x\.seal: must be base64 of 32 bytes"):
            read_secret(tmp_path / "x.seal")
    (tmp_path / "stranger.pub").write_bytes((keys / "players.pub").read_bytes())
    with pytest.raises(ValueError, match=r"stranger\.pub"):
        Verifier(Keyring(tmp_path), 0)
    with pytest.raises(ValueError, match="no public keys"):
        Verifier(Keyring(tmp_path / "nothing"), 0)
    (tmp_path / "x.key").write_text("x")
    with pytest.raises(ValueError, match=r"."):
        load_private(tmp_path / "x.key")


def test_master_keys_come_from_a_file_or_a_setting(keys: Path, tmp_path: Path) -> None:
    """The current one by its id, older ones beside it."""
    folder = tmp_path / "keys"
    shutil.copytree(keys, folder)
    old = base64.b64encode(b"o" * 32).decode()
    (folder / "master.0.key").write_text(old)
    found = master_keys(Settings(data_folder=tmp_path))
    assert found.current == "1"
    assert found.keys == {"1": read_secret(folder / "master.key"), "0": b"o" * 32}
    new: Any = base64.b64encode(b"n" * 32).decode()
    given = master_keys(Settings(data_folder=tmp_path, master_key=new, master_key_id="2"))
    assert (given.current, given.keys["2"], given.keys["0"]) == ("2", b"n" * 32, b"o" * 32)
    with pytest.raises(ValueError, match="KOZYR_MASTER_KEY: must be"):
        decode_secret("secret", "KOZYR_MASTER_KEY")


def test_a_service_renews_its_token_in_time(keys: Path) -> None:
    """The same token while it is fresh, another well before it expires."""
    clock = Clock()
    token = ServiceToken(load_signer(keys, "game", clock), 100_000, clock)
    first = token()
    clock.at += 59
    assert token() == first
    clock.at += 1
    second = token()
    assert second != first
    assert Verifier(Keyring(keys), 0, clock).verify(second).subject == "game"
