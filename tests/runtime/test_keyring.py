"""Keys change while processes run: announced before use, used after, given up last."""

import time
from pathlib import Path

import jwt
import pytest

from services.kernel.errors import Refused
from services.runtime import keyring
from services.runtime.clients import ServiceToken
from services.runtime.keyring import Keyring
from services.runtime.keys import ensure_keys, load_public, make_next
from services.runtime.tokens import RingSigner, Verifier, load_signer

ANNOUNCE_MS = 60_000


class Clock:
    """The machine's clock and some seconds more: how long a file is there cannot be made up."""

    def __init__(self) -> None:
        self.later = 0.0

    def __call__(self) -> float:
        """Unix seconds."""
        return time.time() + self.later


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of keys."""
    ensure_keys(tmp_path)
    return tmp_path


def ring(folder: Path, clock: Clock) -> Keyring:
    """The keys as the lobby has them."""
    return Keyring(folder, ("players", "lobby"), ANNOUNCE_MS, clock)


def kid(token: str) -> str:
    """The key a token names."""
    found: str = jwt.get_unverified_header(token)["kid"]
    return found


def test_a_new_key_verifies_at_once_and_signs_after_its_announcement(folder: Path) -> None:
    """On every process alike, restarted or not; until then the old one signs."""
    clock = Clock()
    keys = ring(folder, clock)
    signer, verifier = RingSigner("players", keys, clock), Verifier(keys, 0, clock)
    old = signer.issue("p-1", 900_000)
    make_next(folder, "players", 2)
    new = load_signer(folder, "players", clock)
    early = new.issue("p-1", 900_000)
    with pytest.raises(Refused, match="TOKEN_INVALID"):
        verifier.verify(early)
    keys.refresh()
    assert verifier.verify(early).subject == "p-1"
    for later in (0, ANNOUNCE_MS / 1_000 - 1):
        clock.later = later
        assert signer.key_id == ring(folder, clock).signing("players").key_id == kid(old)
    clock.later = ANNOUNCE_MS / 1_000 + 1
    assert signer.key_id == ring(folder, clock).signing("players").key_id == new.key_id
    assert kid(signer.issue("p-1", 900_000)) == new.key_id
    assert verifier.verify(old).subject == "p-1"
    assert load_signer(folder, "players", clock, ANNOUNCE_MS).key_id == new.key_id


def test_a_removed_key_verifies_nothing_more_and_the_rest_stays_known(folder: Path) -> None:
    """Tokens that were verified before included; an added key makes nobody be checked anew."""
    clock = Clock()
    keys = ring(folder, clock)
    signer, verifier = RingSigner("players", keys, clock), Verifier(keys, 0, clock)
    old = signer.issue("p-1", 900_000)
    operator = load_signer(folder, "operators", clock).issue("olga", 900_000)
    verifier.verify(old), verifier.verify(operator)
    make_next(folder, "players", 2)
    keys.refresh()
    new = load_signer(folder, "players", clock).issue("p-1", 900_000)
    verifier.verify(new)
    assert verifier.knows(old)
    for kind in ("key", "pub"):
        (folder / f"players.{kind}").unlink()
    keys.refresh()
    with pytest.raises(Refused, match="TOKEN_INVALID"):
        verifier.verify(old)
    assert verifier.knows(operator)
    assert verifier.knows(new)
    assert signer.key_id == kid(new)


def test_a_key_without_its_public_one_does_not_sign(folder: Path) -> None:
    """Nobody could verify it; it signs from its announcement on, which begins with the public."""
    clock = Clock()
    clock.later = 10 * ANNOUNCE_MS
    keys = ring(folder, clock)
    before = keys.signing("players").key_id
    make_next(folder, "players", 2)
    public = folder / "players.2.pub"
    octets = public.read_bytes()
    public.unlink()
    keys.refresh()
    assert keys.signing("players").key_id == before
    public.write_bytes(octets)
    keys.refresh()
    assert keys.signing("players").key_id != before


@pytest.mark.parametrize("name", ["players.2.pub", "players.2.key", "players.next.key"])
def test_what_cannot_be_read_changes_nothing(folder: Path, name: str) -> None:
    """A torn or misnamed file: what was known stays, and a good one is taken when it is there."""
    keys = ring(folder, Clock())
    before, public = keys.signing("players").key_id, keys.public
    (folder / name).write_bytes(b"-----BEGIN")
    keys.refresh()
    assert keys.signing("players").key_id == before
    assert keys.public.keys() == public.keys()
    (folder / name).unlink()
    make_next(folder, "players", 2)
    keys.refresh()
    assert len(keys.public) == len(public) + 1


def test_of_keys_half_of_which_cannot_be_read_none_are_taken(folder: Path) -> None:
    """A new public key beside a torn private one: as if nothing had come; both when both can."""
    keys = ring(folder, Clock())
    public = keys.public
    make_next(folder, "players", 2)
    private = folder / "players.2.key"
    octets = private.read_bytes()
    private.write_bytes(octets[:40])
    keys.refresh()
    assert keys.public == public
    private.write_bytes(octets)
    keys.refresh()
    assert len(keys.public) == len(public) + 1


def test_what_could_not_be_read_for_a_moment_is_read_the_next_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files need not change again for it."""
    keys = ring(folder, Clock())
    public = keys.public
    make_next(folder, "players", 2)
    with monkeypatch.context() as broken:
        broken.setattr(keyring, "load_public", _out_of_files)
        keys.refresh()
    assert keys.public == public
    keys.refresh()
    assert len(keys.public) == len(public) + 1


def _out_of_files(folder: Path) -> None:
    raise OSError(24, "Too many open files")


def test_of_several_new_keys_the_highest_number_signs(folder: Path) -> None:
    """Numbers are numbers: the tenth comes after the ninth."""
    clock = Clock()
    clock.later = 10 * ANNOUNCE_MS
    for number in (10, 9, 2):
        make_next(folder, "players", number)
    by_id = load_public(folder)
    assert ring(folder, clock).signing("players").number == 10
    assert len([1 for issuer, _ in by_id.values() if issuer == "players"]) == 4


def test_a_service_changes_its_token_with_its_key(folder: Path) -> None:
    """At once, not when the old token would have run out."""
    clock = Clock()
    keys = ring(folder, clock)
    token = ServiceToken(RingSigner("lobby", keys, clock), 600_000, clock)
    old = token()
    assert token() == old
    make_next(folder, "lobby", 2)
    keys.refresh()
    assert token() == old
    clock.later = ANNOUNCE_MS / 1_000 + 1
    assert kid(token()) == load_signer(folder, "lobby", clock).key_id != kid(old)
