"""What the service itself could forge, with a new chain and a genuine signature, is found."""

import copy
import json
from random import Random
from typing import Any
from uuid import UUID

import pytest

from engines.shuffle import digest
from services.game import domain
from services.game.audit import verify_log
from services.game.model import Stage
from services.game.rulebook import RULEBOOK as SERVED
from services.runtime.signing import sign_receipt
from tests.services.game.logs import GAME_ID, opening
from tests.verifier.played import KEY, Played, played
from verifier.chain import GENESIS, Row, link, secret_digest
from verifier.events import RULEBOOK
from verifier.verify import verify
from verifier.wrong import Wrong


def stored(row: dict[str, Any]) -> Row:
    """The row as it would lie in the database."""
    plain = ("version", "name", "schema", "recorded_at")
    made: dict[str, Any] = {name: row[name] for name in plain}
    for name in row.keys() - plain:
        made[name] = None if row[name] is None else bytes.fromhex(row[name])
    return Row(**made)


def forged(whole: dict[str, Any]) -> bytes:
    """A receipt whose chain is made again and which is signed by the service's own key."""
    trusted = whole["receipt"]
    previous = GENESIS
    for row in trusted["rows"]:
        if row["secret"] is not None:
            made = secret_digest(bytes.fromhex(row["salt"]), bytes.fromhex(row["secret"]))
            row["secret_digest"] = made.hex()
        previous = link(previous, UUID(trusted["game"]), stored(row))
        row["hash"] = trusted["head"] = previous.hex()
    trusted["version"] = len(trusted["rows"])
    whole["signature"]["signature"] = sign_receipt(KEY, trusted).hex()
    return json.dumps(whole).encode()


def row_of(whole: dict[str, Any], name: str, number: int = 0) -> dict[str, Any]:
    """The row of an event's name."""
    rows = [row for row in whole["receipt"]["rows"] if row["name"] == name]
    found: dict[str, Any] = rows[number]
    return found


def swap_deck(whole: dict[str, Any]) -> int:
    """Other cards were dealt."""
    row = row_of(whole, "durak.Dealt")
    deck = bytearray.fromhex(row["secret"])
    deck[3], deck[7] = deck[7], deck[3]
    row["secret"] = deck.hex()
    return int(row["version"])


def drop_move(whole: dict[str, Any]) -> int:
    """A move was taken out."""
    rows = whole["receipt"]["rows"]
    at = next(n for n, row in enumerate(rows) if row["name"] == "durak.Attacked")
    end = next(n for n in range(at + 1, len(rows)) if rows[n]["request_id"] is not None)
    del rows[at:end]
    for number, row in enumerate(rows, start=1):
        row["version"] = number
    return at + 1


def other_seed(whole: dict[str, Any]) -> int:
    """A player's seed was exchanged."""
    row = row_of(whole, "game.SeedRevealed")
    row["payload"] = row["payload"][:-2] + ("00" if row["payload"][-2:] != "00" else "01")
    return int(row["version"])


def other_hash(whole: dict[str, Any]) -> int:
    """A deal's seed was not the one whose hash was published."""
    row = row_of(whole, "game.DealSeeded")
    row["payload"] = row["payload"][:-2] + ("00" if row["payload"][-2:] != "00" else "01")
    return int(row["version"])


def late_move(whole: dict[str, Any]) -> int:
    """A move was taken after its time."""
    row = row_of(whole, "durak.Attacked")
    for each in whole["receipt"]["rows"][row["version"] - 1 :]:
        each["recorded_at"] += 3_600_000_000
    return int(row["version"])


FORGERIES = (swap_deck, drop_move, other_seed, other_hash, late_move)


@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_the_service_itself_forges_is_found_by_the_rules(forgery: Any) -> None:
    """With the chain made again and a genuine signature: the first wrong version is named."""
    number = next(n for n in range(50) if played("durak", n).state.seats[0].seed)
    whole = json.loads(played("durak", number).receipt())
    verify(forged(copy.deepcopy(whole)))
    version = forgery(whole)
    with pytest.raises(Wrong) as wrong:
        verify(forged(whole))
    assert wrong.value.where == f"version {version}"


SEEDS = (b"\x01" * 16, b"\x02" * 16)


def closed(stage: Stage, after_ms: int) -> Played:
    """A game of two of whom the second's seed is left out: hash or seed was not there so many
    milliseconds after the phase for it began, which was to last 2000."""
    game = Played(Random(1))
    game.when(opening("durak", 2, seed_ms=2_000))
    game.when(domain.CommitSeed(0, digest(SEEDS[0])), "player", wait=0)
    if stage is Stage.REVEALING:
        game.when(domain.CommitSeed(1, digest(SEEDS[1])), "player", wait=0)
        game.when(domain.RevealSeed(0, SEEDS[0]), "player", wait=0)
        game.when(domain.CloseSeeds(Stage.REVEALING), wait=after_ms * 1_000)
    else:
        game.when(domain.CloseSeeds(Stage.COMMITTING), wait=after_ms * 1_000)
        game.when(domain.RevealSeed(0, SEEDS[0]), "player", wait=0)
    assert game.state.stage is Stage.PLAYING
    return game


@pytest.mark.parametrize(
    ("stage", "version"), [(Stage.COMMITTING, 3), (Stage.REVEALING, 6)], ids=["hash", "seed"]
)
def test_a_seed_left_out_before_its_time_was_up_is_found(stage: Stage, version: int) -> None:
    """Whoever closes a phase when he likes chooses whose seeds count, and so the cards: it is found
    in a full receipt, in a player's of the running game, and by the audit."""
    for after_ms, refused in ((2_000, False), (1_950, False), (1_500, True), (0, True)):
        running = closed(stage, after_ms)
        player = running.receipt(1)
        faults = [(each.kind, each.version) for each in verify_log(GAME_ID, running.rows, None)]
        running.play()
        for document in (player, running.receipt()):
            if refused:
                with pytest.raises(Wrong, match=r"before its time was up") as wrong:
                    verify(document)
                assert wrong.value.where == f"version {version}"
            else:
                verify(document)
        assert (("CLOSED_EARLY", version) in faults) == refused


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("server_seed", "00" * 32),
        ("rules", "durak 9.9.9"),
        ("payouts", []),
        ("result", None),
        ("ended", False),
        ("game", "01890a5d-ac96-774b-bcce-b302099a8057"),
    ],
)
def test_a_claim_that_the_log_does_not_bear_out_is_refused(field: str, value: Any) -> None:
    """Although the service signed it."""
    whole = json.loads(played("azi", 0).receipt())
    assert whole["receipt"][field] != value
    whole["receipt"][field] = value
    with pytest.raises(Wrong):
        verify(forged(whole))


def test_payouts_are_what_the_log_says() -> None:
    """To the chip, for every seat; one chip moved from seat to seat is refused."""
    whole = json.loads(played("azi", 0).receipt())
    lines = whole["receipt"]["payouts"]
    chips = [
        [int(line[k]) for k in ("brought", "paid_in", "paid_out", "ends_with")] for line in lines
    ]
    assert all(brought - paid_in + out == end for brought, paid_in, out, end in chips)
    assert sum(line[0] for line in chips) == sum(line[3] for line in chips)
    lines[0]["ends_with"] = str(int(lines[0]["ends_with"]) + 1)
    lines[1]["ends_with"] = str(int(lines[1]["ends_with"]) - 1)
    with pytest.raises(Wrong, match=r"receipt\.payouts"):
        verify(forged(whole))


@pytest.mark.parametrize("variant", ["azi", "durak", "rami"])
def test_any_octets_in_a_log_are_executed_or_refused(variant: str) -> None:
    """One octet of a payload or a secret changed, with the chain made again and a genuine
    signature: nothing but Wrong is raised, and all but what no rule speaks of is refused."""
    rng = Random(variant)
    document = played(variant, 1).receipt()
    taken = []
    for _ in range(120):
        whole = json.loads(document)
        row = rng.choice(whole["receipt"]["rows"])
        name = "secret" if row["secret"] and rng.random() < 0.7 else "payload"
        octets = bytearray.fromhex(row[name])
        if not octets:
            continue
        octets[rng.randrange(len(octets))] ^= 1 << rng.randrange(8)
        row[name] = octets.hex()
        try:
            verify(forged(whole))
        except Wrong:
            continue
        taken.append((row["name"], name))
    assert {name for name, _ in taken} <= {"game.GameOpened", "game.ClockCredited", *FREE[variant]}


FREE: dict[str, set[str]] = {
    "azi": {"azi.CardPlayed", "azi.BidMade"},
    "durak": {"durak.Attacked", "durak.Beaten"},
    "rami": {"rami.Discarded"},
}
"""Moves for which another would have been allowed, and have led to the same."""


def test_the_verifier_executes_every_version_that_the_service_does() -> None:
    """A version added to the service's book is added to the verifier's."""
    assert set(RULEBOOK) == set(SERVED)
