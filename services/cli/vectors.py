"""The published test vectors: what shuffling, chaining and signing make of given octets.

Every value is made by the code that deals, stores and signs in play; docs/fairness/README.md says
how each can be made again.
"""

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import engines.durak.deal as durak_deal
import engines.rami.table as rami_table
from engines import azi, durak, merkle, rami
from engines.cards import text, texts
from engines.openings import cards_root, openings
from engines.shuffle import Stream, deal_seed, digest, drawn, framed, shuffled
from services.kernel.envelope import Recorded
from services.runtime.keys import key_id
from services.runtime.signing import (
    acknowledge,
    acknowledgement,
    receipt_octets,
    sign_receipt,
)
from services.runtime.store import chain

GAME = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
PACKS: Mapping[str, Any] = {"azi": azi.PACK, "durak": durak.PACK, "rami": rami.PACK}
BOUNDS = (1, 2, 6, 27, 36, 52, 1_000_003, 2**63 + 1)
"""With the last one, about every other word is rejected."""
NUMBERS = 6
"""How many numbers of each stream are given."""
CONTRIBUTIONS: tuple[tuple[str, tuple[bytes | None, ...]], ...] = (
    ("nobody gave a seed", (None, None)),
    ("the first seat gave one, the second none", (bytes(16), None)),
    ("the second gave it, the first none", (None, bytes(16))),
    ("both, of the least and of the greatest length", (bytes(range(16)), bytes(range(64)))),
    ("three of four seats", (b"a" * 32, None, b"b" * 16, b"c" * 17)),
)
RECEIPT: Mapping[str, Any] = {
    "version": 2,
    "kind": "full",
    "viewer": None,
    "ended": True,
    "rows": [{"version": 1, "payload": "00ff"}, {"version": 2, "payload": ""}],
    "payouts": [],
    "acknowledged": {"seat": 0},
}


def document() -> str:
    """All vectors as one JSON document."""
    made = {
        "about": "test vectors of docs/fairness/README.md; octets in hexadecimal",
        "cards": {name: texts(pack) for name, pack in PACKS.items()},
        "framed": _framed(),
        "commitments": [_commitment(seed) for seed in (bytes(32), bytes(range(32)), b"k" * 16)],
        "deal_seeds": list(_deal_seeds()),
        "streams": list(_streams()),
        "decks": list(_decks()),
        "deals": [*_azi_deals(), *_durak_deals(), *_rami_deals()],
        "draws": list(_draws()),
        "trees": list(_trees()),
        "openings": list(_openings()),
        "chain": _chain(),
        "signatures": list(_signatures()),
    }
    return json.dumps(made, indent=1, ensure_ascii=True) + "\n"


def _framed() -> list[dict[str, Any]]:
    lists: tuple[tuple[bytes | None, ...], ...] = ((), (None,), (b"",), (b"deal", None, b"\x00"))
    return [{"fields": [_hex(f) for f in each], "octets": framed(*each).hex()} for each in lists]


def _commitment(seed: bytes) -> dict[str, str]:
    return {"seed": seed.hex(), "commitment": digest(seed).hex()}


def _deal_seeds() -> Any:
    for about, contributions in CONTRIBUTIONS:
        for server, deal in ((bytes(32), 1), (bytes(range(32)), 1), (bytes(range(32)), 70_000)):
            made = deal_seed(server, deal, GAME.bytes, contributions)
            yield {
                "about": about,
                "server_seed": server.hex(),
                "game": str(GAME),
                "deal": deal,
                "contributions": [_hex(seed) for seed in contributions],
                "deal_seed": made.hex(),
                "deal_seed_hash": digest(made).hex(),
            }


def _streams() -> Any:
    for label in ("deck", "opener", "starter"):
        for bound in BOUNDS:
            stream = Stream(bytes(range(32)), label)
            yield {
                "seed": bytes(range(32)).hex(),
                "label": label,
                "bound": str(bound),
                "numbers": [str(stream.below(bound)) for _ in range(NUMBERS)],
            }


def _decks() -> Any:
    for name, pack in PACKS.items():
        for seed in (bytes(32), bytes(range(32)), digest(name.encode())):
            yield {"game": name, "deal_seed": seed.hex(), "deck": texts(shuffled(seed, pack))}


def _azi_deals() -> Any:
    seed = digest(b"azi dealt")
    deck = shuffled(seed, azi.PACK)
    for size, seats in ((3, (0, 1)), (4, (0, 2, 5)), (3, tuple(range(6)))):
        dealt = len(seats) * size
        event = azi.Dealt(1, seats, size, deck[dealt], False, azi.DealtSecret(deck))
        hands = azi.dealt_hands(event)
        yield {
            "game": "azi",
            "deal_seed": seed.hex(),
            "seats": list(seats),
            "cards": size,
            "hands": [texts(hands[seat]) for seat in seats],
            "shown": text(event.turned),
            "rest": texts(deck[dealt + 1 :]),
        }


def _durak_deals() -> Any:
    seed = digest(b"durak dealt")
    deck = shuffled(seed, durak.PACK)
    for seats in durak.SEATS:
        yield {
            "game": "durak",
            "deal_seed": seed.hex(),
            "seats": list(range(seats)),
            "hands": [texts(hand) for hand in durak_deal.dealt_hands(deck, seats)],
            "shown": text(deck[min(durak.HAND_SIZE * seats, len(deck) - 1)]),
            "rest": texts(durak_deal.dealt_talon(deck, seats)),
        }


def _rami_deals() -> Any:
    seed = digest(b"rami dealt")
    deck = shuffled(seed, rami.PACK)
    for seats in rami.SEATS:
        dealt, starter = rami_table.cards_dealt(seats), seats - 1
        yield {
            "game": "rami",
            "deal_seed": seed.hex(),
            "seats": list(range(seats)),
            "starter": starter,
            "hands": [texts(hand) for hand in rami_table.dealt_hands(deck, seats, starter)],
            "shown": text(deck[dealt]),
            "rest": texts(deck[dealt + 1 :]),
        }


def _draws() -> Any:
    for label in ("opener", "starter"):
        for bound in range(2, 7):
            for seed in (bytes(32), digest(label.encode())):
                number = drawn(seed, label, bound)
                yield {"deal_seed": seed.hex(), "label": label, "bound": bound, "drawn": number}


def _trees() -> Any:
    for size in (1, 2, 3, 5, 8, 27):
        leaves = [merkle.leaf_hash(bytes([n])) for n in range(size)]
        for place in sorted({0, size // 2, size - 1}):
            yield {
                "items": [bytes([n]).hex() for n in range(size)],
                "root": merkle.root_hash(leaves).hex(),
                "place": place,
                "path": [neighbour.hex() for neighbour in merkle.path(leaves, place)],
            }


def _openings() -> Any:
    for name, pack in PACKS.items():
        seed = digest(b"opened " + name.encode())
        deck = shuffled(seed, pack)
        for made in openings(seed, deck, (0, 9, len(pack) - 1)):
            yield {
                "game": name,
                "deal_seed": seed.hex(),
                "cards_root": cards_root(seed, deck).hex(),
                "place": made.place,
                "card": int(made.card),
                "salt": made.salt.hex(),
                "path": [neighbour.hex() for neighbour in made.path],
            }


def _chain() -> dict[str, Any]:
    rows, previous = [], chain.GENESIS
    for version in (1, 2, 3):
        secret = b"what nobody may know yet" if version == 1 else None
        salt = None if secret is None else bytes(range(32))
        digested = None if secret is None or salt is None else chain.secret_digest(salt, secret)
        row = Recorded(
            stream=GAME,
            version=version,
            name="game.SeedCommitted",
            schema=1,
            payload=bytes([version]) * (version - 1),
            metadata=b"\x0a\x06player",
            request_id="0/ключ" if version < 3 else None,
            body_hash=bytes(32) if version < 3 else None,
            recorded_at=1_800_000_000_000_000 + version,
            secret_digest=digested,
            salt=salt,
            secret=secret,
            hash=b"",
        )
        previous = chain.link(previous, row)
        rows.append(
            {
                "version": row.version,
                "name": row.name,
                "schema": row.schema,
                "payload": row.payload.hex(),
                "secret_digest": _hex(row.secret_digest),
                "salt": _hex(row.salt),
                "secret": _hex(row.secret),
                "metadata": row.metadata.hex(),
                "request_id": None if row.request_id is None else row.request_id.encode().hex(),
                "body_hash": _hex(row.body_hash),
                "recorded_at": row.recorded_at,
                "hash": previous.hex(),
            }
        )
    return {"game": str(GAME), "rows": rows}


def _signatures() -> Any:
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    public = key.public_key()
    named = {"public_key": public.public_bytes_raw().hex(), "key": key_id(public)}
    hashed, head = digest(b"s" * 16), digest(b"head")
    yield {
        "about": "an acknowledgement",
        **named,
        "game": str(GAME),
        "seat": 2,
        "hash": hashed.hex(),
        "head": head.hex(),
        "signed": acknowledgement(GAME, 2, hashed, head).hex(),
        "signature": acknowledge(key, GAME, 2, hashed, head).hex(),
    }
    yield {
        "about": "a receipt",
        **named,
        "receipt": RECEIPT,
        "signed": receipt_octets(RECEIPT).hex(),
        "signature": sign_receipt(key, RECEIPT).hex(),
    }


def _hex(octets: bytes | None) -> str | None:
    return None if octets is None else octets.hex()
