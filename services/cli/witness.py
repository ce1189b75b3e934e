"""What anybody can keep of the log over all games, and check without the server that gave it.

A file of checkpoints has one JSON object a line: a signed note, and the proof that its tree
continues that of the line before. A proof file holds the way from one game's log to a checkpoint.
Signatures are checked with the game service's public keys in the key folder (`game.pub` and
`game.<label>.pub`), which whoever plays at a server elsewhere has from its operator.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from kozyr.game.v1 import checkpoint_pb2, checkpoint_pb2_grpc

from services.cli.outcome import Failure
from services.client import seeds
from services.client.calls import Caller
from services.client.profile import write_private
from services.game.tree import Leaf
from services.kernel import merkle
from services.kernel.errors import Kind, Refused
from services.runtime import signing
from services.runtime.notes import Checkpoint, FalseNote, open_note
from services.runtime.settings import Settings

CHECKPOINT = "kozyr checkpoint 1"
PROOF = "kozyr proof 1"
Keys = Sequence[Ed25519PublicKey]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file of checkpoints: the note, what it says, the proof from the line before."""

    note: str
    checkpoint: Checkpoint
    proof: tuple[bytes, ...]

    def text(self) -> str:
        """The line as it is written."""
        proof = [octets.hex() for octets in self.proof]
        return json.dumps({"format": CHECKPOINT, "note": self.note, "proof": proof}) + "\n"


@dataclass(frozen=True, slots=True)
class Proof:
    """That a game's log had come to a version with a head, and under which checkpoint."""

    game_id: UUID
    version: int
    head: bytes
    leaf: int
    proof: tuple[bytes, ...]
    note: str
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class HeldHead:
    """A head of a game that somebody kept under the service's signature; version 0: not known."""

    game_id: str
    version: int
    hash: bytes


def keys_of(settings: Settings) -> Keys:
    """The keys that may sign checkpoints; raises Failure where none is known."""
    keys = seeds.signers(settings)
    if not keys:
        raise Failure(f"{settings.keys()}: there is no game.pub to check signatures with")
    return keys


# ----------------------------------------------------------------------------- files of checkpoints


def read_lines(path: Path, keys: Keys) -> list[Line]:
    """The lines of a file of checkpoints, each checked against the one before; raises Failure.

    A file that is not there has no lines.
    """
    try:
        texts = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise Failure(f"{path}: {getattr(error, 'strerror', None) or 'not a text'}") from None
    lines: list[Line] = []
    for number, text in enumerate(texts, start=1):
        try:
            kept = json.loads(text)
            if kept["format"] != CHECKPOINT:
                raise ValueError
            proof = tuple(bytes.fromhex(each) for each in kept["proof"])
            line = Line(kept["note"], open_note(kept["note"], keys), proof)
        except FalseNote as false:
            raise Failure(f"{path} line {number}: {false}") from None
        except (ValueError, KeyError, TypeError):
            raise Failure(f"{path} line {number}: not a checkpoint") from None
        if not continues(lines[-1].checkpoint if lines else None, line):
            raise Failure(f"{path} line {number}: does not continue the line before")
        lines.append(line)
    return lines


def continues(earlier: Checkpoint | None, line: Line) -> bool:
    """Whether a line's proof leads from an earlier checkpoint to its own."""
    if earlier is None:
        return True
    later = line.checkpoint
    return merkle.is_consistent(earlier.size, earlier.root, later.size, later.root, line.proof)


def append_line(path: Path, line: Line) -> None:
    """Add a line to a file of checkpoints, on disk when this returns; raises Failure."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(line.text())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from None


async def newest(caller: Caller, keys: Keys, earlier: Checkpoint | None) -> Line | None:
    """The service's newest checkpoint with the proof that it continues an earlier one.

    None before the first. Raises Refused TREE_REWRITTEN where it does not: what was signed then is
    no longer what the service has.
    """
    stub: Any = caller.stub("game", checkpoint_pb2_grpc.CheckpointServiceStub)
    asked = checkpoint_pb2.ListCheckpointsRequest(newest=True)
    found = (await caller.call("game", stub.ListCheckpoints, asked)).checkpoints
    if not found:
        if earlier is not None:
            raise rewritten(earlier, None)
        return None
    line = Line(found[0].note, _opened(found[0].note, keys), ())
    if earlier is None:
        return line
    if line.checkpoint.size < earlier.size:
        raise rewritten(earlier, line.checkpoint)
    request = checkpoint_pb2.GetConsistencyProofRequest(
        from_size=earlier.size, to_size=line.checkpoint.size
    )
    reply = await caller.call("game", stub.GetConsistencyProof, request)
    line = Line(line.note, line.checkpoint, tuple(reply.proof))
    if not continues(earlier, line):
        raise rewritten(earlier, line.checkpoint)
    return line


async def continued(caller: Caller, keys: Keys, lines: Sequence[Line]) -> int:
    """How many of the lines of a file the service's tree continues, from the first on."""
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high) // 2 if high < len(lines) else high - 1
        try:
            await newest(caller, keys, lines[middle].checkpoint)
            low = middle + 1
        except Refused as refused:
            if refused.reason not in ("TREE_REWRITTEN", "TREE_BROKEN"):
                raise
            high = middle
    return low


def rewritten(earlier: Checkpoint, now: Checkpoint | None) -> Refused:
    """What is said of a tree that does not continue an earlier one."""
    size = 0 if now is None else now.size
    return Refused(
        Kind.PRECONDITION,
        "TREE_REWRITTEN",
        f"the service's tree of {size} leaves does not continue the one of {earlier.size} leaves "
        f"that it signed: games were changed, removed or lost",
    )


def _opened(note: str, keys: Keys) -> Checkpoint:
    try:
        return open_note(note, keys)
    except FalseNote as false:
        raise Refused(Kind.PRECONDITION, "CHECKPOINT_FALSE", str(false)) from None


# ------------------------------------------------------------------------------- proofs of one game


async def prove(caller: Caller, keys: Keys, game_id: str, version: int = 0) -> Proof:
    """Have a game's place in the tree proven, and check the proof.

    Raises Refused: PROOF_FALSE, CHECKPOINT_FALSE, NOT_CHECKPOINTED, and what the service refuses.
    """
    stub: Any = caller.stub("game", checkpoint_pb2_grpc.CheckpointServiceStub)
    request = checkpoint_pb2.GetInclusionProofRequest(game_id=game_id, version=version)
    reply: checkpoint_pb2.GetInclusionProofResponse = await caller.call(
        "game", stub.GetInclusionProof, request
    )
    note = reply.checkpoint.note
    proof = Proof(
        game_id=UUID(game_id),
        version=reply.version,
        head=reply.head,
        leaf=reply.leaf,
        proof=tuple(reply.proof),
        note=note,
        checkpoint=_opened(note, keys),
    )
    if reply.version < version or not is_proven(proof):
        problem = "the service's proof does not lead from the game to the checkpoint"
        raise Refused(Kind.PRECONDITION, "PROOF_FALSE", problem)
    return proof


def is_proven(proof: Proof) -> bool:
    """Whether the way leads from the game's head to the checkpoint's root."""
    if not 0 < proof.version < 2**63 or len(proof.head) != 32:
        return False
    leaf = Leaf(proof.game_id, proof.version, proof.head).hash
    to = proof.checkpoint
    return merkle.is_included(leaf, proof.leaf, to.size, proof.proof, to.root)


def write_proof(path: Path, proof: Proof) -> None:
    """Keep a proof in a file of its own; raises Failure."""
    kept = {
        "format": PROOF,
        "game_id": str(proof.game_id),
        "version": proof.version,
        "head": proof.head.hex(),
        "leaf": proof.leaf,
        "proof": [octets.hex() for octets in proof.proof],
        "note": proof.note,
    }
    write_private(path, kept)


def read_held(path: Path, keys: Keys) -> HeldHead:
    """The head a player kept, in a proof, a receipt or an acknowledgement; raises Failure for a
    false one."""
    try:
        kept = json.loads(path.read_text("utf-8"))
        match kept["format"]:
            case _ if kept["format"] == PROOF:
                proof = _proof(kept, keys)
                if not is_proven(proof):
                    raise Failure(f"{path}: the proof does not lead to its checkpoint")
                return HeldHead(str(proof.game_id), proof.version, proof.head)
            case seeds.FORMAT:
                made = seeds.Acknowledgement(**{k: v for k, v in kept.items() if k != "format"})
                seeds.check(made, keys)
                return HeldHead(made.game_id, 0, bytes.fromhex(made.head))
            case signing.RECEIPT:
                said, under = kept["receipt"], bytes.fromhex(kept["signature"]["signature"])
                if not signing.is_signed(under, signing.receipt_octets(said), keys):
                    raise Failure(f"{path}: the receipt is not signed with a key that is known")
                return HeldHead(said["game"], said["version"], bytes.fromhex(said["head"]))
            case _:
                raise ValueError
    except FalseNote as false:
        raise Failure(f"{path}: {false}") from None
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Failure(f"{path}: neither a proof, a receipt nor an acknowledgement") from None


def _proof(kept: dict[str, Any], keys: Keys) -> Proof:
    return Proof(
        game_id=UUID(kept["game_id"]),
        version=int(kept["version"]),
        head=bytes.fromhex(kept["head"]),
        leaf=int(kept["leaf"]),
        proof=tuple(bytes.fromhex(each) for each in kept["proof"]),
        note=str(kept["note"]),
        checkpoint=open_note(str(kept["note"]), keys),
    )
