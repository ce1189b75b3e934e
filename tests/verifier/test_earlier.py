"""Receipts of one game at different times, and receipts of old logs."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from services.game import receipts
from services.game.games import decider
from services.game.model import State
from services.game.pacing import AT_ONCE
from services.kernel.decider import fold
from services.runtime.signing import sign_receipt
from tests.proto.golden_logs import SHOWN, rows_of
from tests.verifier.played import KEY, played
from verifier.__main__ import main
from verifier.verify import verify
from verifier.wrong import Wrong

VARIANTS = ("azi", "durak", "rami")


@pytest.mark.parametrize("reveal", ["full", "own"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_later_receipt_tells_the_game_of_the_earlier_one(variant: str, reveal: str) -> None:
    """A player's from the middle beside his last and beside the auditor's; never the other way."""
    for number in range(3):
        game = played(variant, number, reveal, moves=4)
        early, version = game.receipt(0), game.state.version
        game.play()
        for late in (game.receipt(0), game.receipt(auditor=True)):
            assert "earlier" in verify(late, earlier=early).checks
            if version < game.state.version:
                with pytest.raises(Wrong, match=r"earlier\.version"):
                    verify(early, earlier=late)
    one, two = (played(variant, number, reveal).receipt(0) for number in (8, 9))
    with pytest.raises(Wrong, match=r"earlier\.game"):
        verify(one, earlier=two)


def resigned(whole: dict[str, Any]) -> bytes:
    """The receipt under a genuine signature, whatever it says."""
    whole["signature"]["signature"] = sign_receipt(KEY, whole["receipt"]).hex()
    return json.dumps(whole).encode()


@pytest.mark.parametrize("reveal", ["full", "own"])
def test_a_game_told_otherwise_later_is_found(reveal: str) -> None:
    """Another card where one was stated, another time of a row: each receipt holds by itself."""
    game = played("durak", 0, reveal, moves=4)
    early = json.loads(game.receipt(0))
    game.play()
    late = game.receipt(auditor=True)
    told = copy.deepcopy(early)
    told["receipt"]["rows"][2]["recorded_at"] += 1
    with pytest.raises(Wrong, match="version 3: is another"):
        verify(late, earlier=resigned(told))
    if reveal == "full":
        one, two = early["receipt"]["cards"][:2]
        one["card"], two["card"] = two["card"], one["card"]
        with pytest.raises(Wrong, match=r"earlier\.cards\[0\]: another card"):
            verify(late, earlier=resigned(early))


def test_the_command_compares_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `--earlier`, and with files that are not there."""
    game = played("rami", 1, moves=3)
    early, late = tmp_path / "early.json", tmp_path / "late.json"
    early.write_bytes(game.receipt(0))
    game.play()
    late.write_bytes(game.receipt(0))
    assert main([str(late), "--earlier", str(early)]) == 0
    assert "earlier" in capsys.readouterr().out
    assert main([str(early), "--earlier", str(late)]) == 1
    assert capsys.readouterr().out.startswith(f"WRONG {early}: earlier.version: ")
    assert main([str(late), "--earlier", str(tmp_path / "none")]) == 2
    assert main([str(tmp_path / "none")]) == 1
    assert main([str(late), "--trusted", str(late)]) == 2


@pytest.mark.parametrize("kind", sorted(SHOWN))
def test_receipts_of_logs_of_every_stored_version_hold(kind: str) -> None:
    """What was stored before there were receipts, or the option to keep decks closed."""
    header, rows = rows_of(kind)
    state = fold(decider(AT_ONCE), State(), rows)
    assert state.ended
    document = receipts.document(KEY, state, rows, None, auditor=False)
    assert verify(document).receipt.head.hex() == header["head"]
