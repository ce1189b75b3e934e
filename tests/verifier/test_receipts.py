"""Receipts: both verifiers take what the service gives, and nothing that was changed."""

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from engines.shuffle import digest
from services.runtime.keys import key_id
from services.runtime.signing import acknowledge
from services.runtime.store import chain as stored_chain
from tests.verifier.node import ROOT, node
from tests.verifier.played import KEY, Played, played
from verifier.__main__ import check
from verifier.chain import GENESIS, link
from verifier.keys import parse_key, read_keys
from verifier.receipt import load
from verifier.verify import check_full, verify
from verifier.wrong import Wrong

VARIANTS = ("azi", "durak", "rami")
REVEALS = ("full", "own")
GAMES = 4
FLIPS = 160
"""How many characters of a receipt's trusted part are changed, one at a time."""


def names(verdict: Any) -> Any:
    """What a verdict says of a receipt, in short."""
    return verdict.receipt.kind, verdict.receipt.ended


@pytest.fixture(scope="module")
def games() -> dict[tuple[str, str], list[Played]]:
    """Some games of each kind played to the end, by kind and option."""
    return {(v, r): [played(v, n, r) for n in range(GAMES)] for v in VARIANTS for r in REVEALS}


def written(folder: Path, documents: list[bytes]) -> list[Path]:
    """The documents as files."""
    files = [folder / f"{number}.json" for number in range(len(documents))]
    for file, document in zip(files, documents, strict=True):
        file.write_bytes(document)
    return files


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("reveal", REVEALS)
def test_both_verifiers_take_every_receipt(
    variant: str, reveal: str, games: dict[tuple[str, str], list[Played]], tmp_path: Path
) -> None:
    """Whole games with bots, absent seeds, expired turns; running ones; a player's and a
    spectator's; and where decks stay closed, the auditor's."""
    documents = []
    for number, game in enumerate(games[variant, reveal]):
        full = game.receipt(auditor=True)
        assert names(verify(full)) == ("full", True)
        for viewer in (None, *range(len(game.state.seats))):
            mine = game.receipt(viewer)
            kind = "player" if reveal == "own" else "full"
            assert names(verify(mine)) == (kind, True)
            documents.append(mine)
        running = played(variant, number, reveal, moves=3 + 3 * number)
        for viewer in (None, 0):
            mine = running.receipt(viewer, auditor=True)
            assert verify(mine).receipt.kind == ("full" if running.state.ended else "player")
            documents.append(mine)
        documents.append(full)
    code, lines = node(*written(tmp_path, documents))
    assert (code, len(lines)) == (0, len(documents)), [ln for ln in lines if "WRONG" in ln]


def test_seeds_that_count_and_seeds_that_do_not_are_in_the_receipts(
    games: dict[tuple[str, str], list[Played]],
) -> None:
    """The games above are not all alike: seeds given, withheld, none at all; bots; time lost."""
    events = {row.name for made in games.values() for game in made for row in game.rows}
    for name in (
        "game.SeedRevealed",
        "game.ClockCredited",
        "game.BotTookOver",
        "game.DealRevealed",
    ):
        assert name in events
    assert {f"{variant}.TurnExpired" for variant in VARIANTS} <= events
    assert "azi.OpenerDrawn" in events
    states = [game.state for made in games.values() for game in made]
    given = [[bool(seat.seed) for seat in state.seats] for state in states]
    assert any(all(each) for each in given)
    assert any(not any(each) for each in given)
    assert any(any(each) and not all(each) for each in given)
    assert any(seat.seed_hash and not seat.seed for state in states for seat in state.seats)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to every leaf of a JSON value that is not nothing."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from leaves(inner, (*path, key))
    else:
        yield path


def flipped(value: Any, rng: Random) -> Any:
    """The leaf with one character changed, or what else is nearest to it."""
    match value:
        case None:
            return rng.choice([0, "", "00", False])
        case bool():
            return not value
        case int():
            return value + rng.choice((-1, 1))
        case str() if value:
            at = rng.randrange(len(value))
            other = rng.choice([c for c in "0123456789abcdef-." if c != value[at]])
            return value[:at] + other + value[at + 1 :]
        case _:
            return rng.choice(["0", "00", None])


def changed(whole: dict[str, Any], path: tuple[Any, ...], rng: Random) -> bytes:
    """The receipt with one leaf flipped."""
    made = copy.deepcopy(whole)
    at: Any = made
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = flipped(at[path[-1]], rng)
    return json.dumps(made).encode()


def trusted_leaves(whole: dict[str, Any], rng: Random) -> list[tuple[Any, ...]]:
    """Leaves of what is trusted: some of those of rows, all others."""
    found = [path for path in leaves(whole) if path[0] != "readable"]
    rows = [path for path in found if path[:2] == ("receipt", "rows")]
    cards = [path for path in found if path[:2] == ("receipt", "cards")]
    others = [path for path in found if path not in set(rows) | set(cards)]
    return others + rng.sample(rows, min(FLIPS, len(rows))) + rng.sample(cards, min(60, len(cards)))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_change_of_any_character_is_refused(variant: str) -> None:
    """Of a full receipt even without looking at the signature: chain, secrets, rules and claims
    leave nothing open. Each refusal names a field or a version."""
    rng = Random(variant)
    game = played(variant, 1)
    whole = json.loads(game.receipt())
    for path in trusted_leaves(whole, rng):
        document = changed(whole, path, rng)
        with pytest.raises(Wrong) as wrong:
            verify(document)
        assert wrong.value.where
        if path[0] == "receipt":
            with pytest.raises(Wrong):
                check_full(load(document))


@pytest.mark.parametrize("ended", [True, False])
def test_a_change_of_a_players_receipt_is_refused(ended: bool) -> None:
    """The signature covers every field of it."""
    rng = Random(5)
    for variant in VARIANTS:
        game = played(variant, 2, "own", moves=100_000 if ended else 9)
        whole = json.loads(game.receipt(0))
        assert whole["receipt"]["cards"]
        for path in trusted_leaves(whole, rng):
            with pytest.raises(Wrong):
                verify(changed(whole, path, rng))


def test_the_other_verifier_refuses_changes_too(tmp_path: Path) -> None:
    """Whatever was changed in the trusted part, in receipts of each kind and option."""
    rng = Random(9)
    documents = []
    for variant in VARIANTS:
        for reveal, auditor in (("full", False), ("own", True), ("own", False)):
            whole = json.loads(played(variant, 3, reveal).receipt(0, auditor=auditor))
            paths = trusted_leaves(whole, rng)
            documents += [changed(whole, path, rng) for path in rng.sample(paths, 25)]
    code, lines = node(*written(tmp_path, documents))
    assert code == 1
    assert [line for line in lines if line.startswith("ok")] == []


def test_what_is_readable_is_not_looked_at() -> None:
    """It may say anything, and stands for nothing."""
    whole = json.loads(played("durak", 0).receipt())
    whole["readable"] = "the moon is made of cheese"
    assert verify(json.dumps(whole).encode()).receipt.version == len(whole["receipt"]["rows"])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"ended": true,', '"ended": true, "ended": true,', "a field twice"),
        ('"version": 1,', '"version": 1.0,', "not whole"),
        ('"version": 1,', '"version": NaN,', "not whole"),
        ('"ended": true,', '"ended": true, "trust": "me",', "means nothing"),
        ('"kind": "full"', '"kind": "half"', "receipt.kind"),
        ('"format": "kozyr receipt 1"', '"format": "kozyr receipt 2"', "file.format"),
        ("{", "[", "not JSON"),
    ],
)
def test_a_receipt_has_one_form(old: str, new: str, said: str) -> None:
    """No field twice, none of another kind, none that means nothing."""
    text = played("rami", 0).receipt().decode()
    assert old in text
    with pytest.raises(Wrong, match=said):
        verify(text.replace(old, new, 1).encode())


def test_only_a_trusted_key_counts_where_one_is_named(tmp_path: Path) -> None:
    """Another key's genuine signature is refused; without a named key its id is only shown."""
    document = played("rami", 0).receipt()
    public = KEY.public_key()
    file = tmp_path / "game.pub"
    file.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    trusted = read_keys([file])
    assert trusted == {key_id(public): public.public_bytes_raw()}
    assert verify(document, trusted).pinned
    assert not verify(document).pinned
    other = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    with pytest.raises(Wrong, match="not among those trusted"):
        verify(document, {"other": other})
    assert parse_key("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----") is None
    receipt = tmp_path / "receipt.json"
    receipt.write_bytes(document)
    assert node("--trusted", file, receipt)[0] == 0


def kept(game: Played, seat: int, **changes: Any) -> bytes:
    """What a client keeps of its acknowledged seed."""
    seed = game.seeds[seat]
    hashed = digest(seed)
    head = next(row.hash for row in game.rows if hashed in row.payload)
    signature = acknowledge(KEY, game.state.game_id, seat, hashed, head)
    made = {
        "format": "kozyr acknowledgement 1",
        "game_id": str(game.state.game_id),
        "seat": seat,
        "hash": hashed.hex(),
        "head": head.hex(),
        "signature": signature.hex(),
        "seed": seed.hex(),
        "checked": True,
    }
    return json.dumps({**made, **changes}).encode()


def test_an_acknowledged_seed_is_in_the_deal_or_its_absence_is_named() -> None:
    """Revealed: it counts. Withheld: the receipt says it does not. Left out of the log: the
    acknowledgement proves that the log is another."""
    revealed = withheld = 0
    for number in range(60):
        game = played("rami", number)
        for seat in game.seeds:
            mine, document = kept(game, seat), game.receipt()
            if game.state.seats[seat].seed:
                assert "mine" in verify(document, kept=mine).checks
                revealed += 1
            else:
                with pytest.raises(Wrong, match="not among those shown"):
                    verify(document, kept=mine)
                withheld += 1
            if revealed == 1:
                _check_other_games(game, seat)
        if revealed > 3 and withheld:
            return
    raise AssertionError("no game had both")


def _check_other_games(game: Played, seat: int) -> None:
    document = game.receipt()
    dropped = digest(b"a seed that the log lacks")
    head = bytes(32)
    signature = acknowledge(KEY, game.state.game_id, seat, dropped, head)
    for changes, said in (
        ({"game_id": "other"}, "another game"),
        ({"seed": "00" * 32}, "not that of the hash"),
        ({"signature": "00" * 64}, "not of the key"),
        ({"format": "kozyr acknowledgement 9"}, "none of the format"),
        (
            {
                "seed": b"a seed that the log lacks".hex(),
                "hash": dropped.hex(),
                "head": head.hex(),
                "signature": signature.hex(),
            },
            "the log lacks your hash",
        ),
    ):
        with pytest.raises(Wrong, match=said):
            verify(document, kept=kept(game, seat, **changes))


def test_a_running_games_receipt_opens_own_cards_only() -> None:
    """Cards dealt to the viewer or drawn by him; no salt of a whole row, no metadata, no seed."""
    opened = 0
    for variant in VARIANTS:
        for reveal in REVEALS:
            game = played(variant, 1, reveal, moves=2, seats=2)
            assert not game.state.ended
            found = load(game.receipt(0))
            hands = _hands(game)
            shown = {card.opening.card for card in found.cards}
            assert hands[0] <= shown
            assert not shown & hands[1]
            assert {card.proven for card in found.cards} <= {reveal == "own"}
            opened += len(found.cards)
            assert found.server_seed == b""
            hidden = ("salt", "secret", "metadata", "request_id", "body_hash")
            assert not any(getattr(row, name) for row in found.rows for name in hidden)
            assert load(game.receipt(None)).cards == ()
    assert opened > 30


def _hands(game: Played) -> dict[int, set[int]]:
    engine = game.state.engine
    hands = getattr(engine, "hands", None)
    if hands is None:
        hands = [() if player.blind else player.hand for player in engine.players]
    return {seat: set(hand) for seat, hand in enumerate(hands)}


def test_it_is_said_whose_seeds_are_in_the_cards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The seats whose seeds count, in receipts of either kind; where there are none, that too."""
    kinds = set()
    for number in range(12):
        for game in (played("azi", number), played("durak", number, "own", moves=3)):
            seats = tuple(n for n, seat in enumerate(game.state.seats) if seat.seed)
            assert verify(game.receipt()).contributed == seats
            (file,) = written(tmp_path, [game.receipt()])
            assert check([file], {}, lambda _: None, as_json=False) == 0
            said = f"of seats {', '.join(map(str, seats))};" if seats else "NO PLAYER'S SEED"
            assert said in capsys.readouterr().out
            kinds.add(bool(seats))
    assert kinds == {True, False}


def test_the_verifier_runs_alone(tmp_path: Path) -> None:
    """Nothing but the standard library, `engines` and `verifier` is there, and it says the same."""
    for package in ("engines", "verifier"):
        (tmp_path / package).symlink_to(ROOT / package)
    good, bad = written(tmp_path, [played("azi", 0).receipt(), b"{}"])
    command = [sys.executable, "-S", "-m", "verifier", str(good), str(bad)]
    environment = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (1, "")
    assert lines[0].startswith(f"ok {good}: azi")
    assert lines[1] == f"WRONG {bad}: file.format: is missing"


def test_the_chain_is_written_down_twice_and_is_one() -> None:
    """The store's hashes and the verifier's are the same for every row."""
    game = played("azi", 2)
    previous = GENESIS
    for row, read in zip(game.rows, load(game.receipt()).rows, strict=True):
        assert stored_chain.link(previous, row) == link(previous, game.state.game_id, read)
        previous = row.hash
