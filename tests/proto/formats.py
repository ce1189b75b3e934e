"""Formats that are no events: digests, seeds, decks, seals, ids, and what they must come out as.

`python tests/proto/formats.py` adds those that golden/formats.json lacks, and changes none.
"""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.game.v1 import variant_pb2

from engines import azi, durak
from engines.cards import texts
from engines.rami import rules as rami_rules
from engines.shuffle import deal_seed, digest, drawn, shuffled
from services.game.disputes import dispute_id
from services.runtime.store.chain import secret_digest
from services.runtime.store.sealing import MasterKeys, seal, wrap
from tests.proto import goldens

SEED = digest(b"golden")
GAME = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
KEYS = MasterKeys("1", {"1": digest(b"master")})
PACKS = {"azi": azi.PACK, "durak": durak.PACK, "rami": rami_rules.PACK}

FORMATS: Mapping[str, Callable[[], Any]] = {
    "secret digest": lambda: secret_digest(digest(b"salt"), b"secret").hex(),
    "deal seed, all seats": lambda: deal_seed(SEED, 1, GAME.bytes, (b"a" * 16, b"b" * 64)).hex(),
    "deal seed, one absent": lambda: deal_seed(SEED, 2, GAME.bytes, (None, b"b" * 16)).hex(),
    "deck azi": lambda: texts(shuffled(SEED, PACKS["azi"])),
    "deck durak": lambda: texts(shuffled(SEED, PACKS["durak"])),
    "deck rami": lambda: texts(shuffled(SEED, PACKS["rami"])),
    "draws": lambda: [drawn(SEED, label, 6) for label in ("opener", "starter", "dealer")],
    "sealed secret": lambda: seal(SEED, GAME, 3, bytes(32), b"secret", bytes(12)).hex(),
    "wrapped key": lambda: wrap(KEYS, GAME, SEED, bytes(12)).hex(),
    "dispute id": lambda: str(dispute_id(GAME, "player", "request")),
    "metadata": lambda: (
        stored.Metadata(actor="bot", subject="S", reason="R", level=variant_pb2.BOT_LEVEL_HARD)
        .SerializeToString(deterministic=True)
        .hex()
    ),
}
"""How things other than events are stored or made from what is stored."""


def golden_formats() -> dict[str, Any]:
    """What each format came out as when it was first stored."""
    path = goldens.FOLDER / "formats.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def main() -> int:
    """Add what is missing; returns the exit code."""
    there = golden_formats()
    made = {name: there[name] if name in there else make() for name, make in FORMATS.items()}
    text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
    (goldens.FOLDER / "formats.json").write_text(text, "utf-8")
    print(f"{len(made.keys() - there.keys())} formats added")
    return 0


if __name__ == "__main__":
    sys.exit(main())
