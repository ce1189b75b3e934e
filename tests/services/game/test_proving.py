"""Proofs over the wire: who gets one, that it is checked, what a rewritten record looks like."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from kozyr.game.v1 import audit_pb2, checkpoint_pb2, checkpoint_pb2_grpc, game_pb2
from kozyr.game.v1.view_pb2 import STAGE_PLAYING

from services.cli import witness
from services.cli.outcome import Failure
from services.game import checkpoints
from services.kernel.errors import Kind, Refused
from services.runtime.keys import public_keys
from services.runtime.notes import open_note
from tests.services.game.system import Seat, System, new_id, system
from tests.services.game.test_auditing import cancelled, faults, finished


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[System]:
    """Services that sign every tenth of a second."""
    async with system(tmp_path, checkpoint_ms=100) as made:
        yield made


class Asker:
    """A caller as the command line's functions take it, over a test's client."""

    def __init__(self, seat: Seat) -> None:
        self.seat = seat

    def stub(self, _service: str, make: Any) -> Any:
        """A stub on the game service's channel."""
        return make(self.seat.client.channel)

    async def call(self, _service: str, method: Any, request: Any) -> Any:
        """Call, or raise Refused."""
        return await self.seat.call(method, request)


async def covered(house: System, game_id: str, version: int = 1) -> witness.Proof:
    """The checked proof of a game, once a checkpoint covers it."""
    keys = public_keys(house.settings.keys(), "game")
    while True:
        try:
            return await witness.prove(cast(Any, Asker(house.operator)), keys, game_id, version)
        except Refused as refused:
            if refused.reason != "NOT_CHECKPOINTED":
                raise


async def test_a_player_is_given_the_proof_of_his_game(house: System) -> None:
    """Of its last covered version or of the first that covers a given one; the client checks it
    against the head in its own view."""
    request = await house.open(people=2, bots=0)
    player = house.game(request.seats[0].player_id)
    while (view := await player.view(request.game_id)).stage != STAGE_PLAYING:
        pass
    await covered(house, request.game_id, view.version)
    keys = public_keys(house.settings.keys(), "game")
    asker = cast(Any, Asker(player))
    proof = await witness.prove(asker, keys, request.game_id)
    assert (proof.version, proof.head) == (view.version, view.head)
    assert witness.is_proven(proof)
    first = await witness.prove(asker, keys, request.game_id, 1)
    assert first.version <= proof.version
    with pytest.raises(Refused) as caught:
        await witness.prove(asker, keys, request.game_id, view.version + 1)
    assert caught.value.reason == "NOT_CHECKPOINTED"
    with pytest.raises(Refused) as caught:
        await witness.prove(asker, [], request.game_id)
    assert caught.value.reason == "CHECKPOINT_FALSE"


async def test_others_learn_nothing_from_asking(house: System) -> None:
    """A stranger is answered alike for a game and for none; a spectator is not seated."""
    hidden = (await house.open(people=2, bots=0)).game_id
    shown = (await house.open(people=2, bots=0, spectators=True)).game_id
    for game in (hidden, shown):
        await covered(house, game)
    stranger = house.game(new_id())
    stub: Any = checkpoint_pb2_grpc.CheckpointServiceStub(stranger.client.channel)
    answers = []
    for game in (hidden, new_id(), shown):
        asked = checkpoint_pb2.GetInclusionProofRequest(game_id=game)
        with pytest.raises(Refused) as caught:
            await stranger.call(stub.GetInclusionProof, asked)
        answers.append((caught.value.kind, caught.value.reason, caught.value.message))
    assert answers[0] == answers[1]
    assert [(kind, reason) for kind, reason, _ in answers[1:]] == [
        (Kind.NOT_FOUND, "GAME_NOT_FOUND"),
        (Kind.DENIED, "NOT_SEATED"),
    ]
    for method, message in (
        (stub.GetCoverage, checkpoint_pb2.GetCoverageRequest()),
        (stub.ListCheckpoints, checkpoint_pb2.ListCheckpointsRequest(after_size=-1)),
        (stub.GetConsistencyProof, checkpoint_pb2.GetConsistencyProofRequest()),
        (stub.GetConsistencyProof, checkpoint_pb2.GetConsistencyProofRequest(from_size=10**6)),
    ):
        with pytest.raises(Refused) as caught:
            await stranger.call(method, message)
        assert caught.value.kind in (Kind.DENIED, Kind.INVALID)


async def test_checkpoints_are_listed_in_pages(house: System) -> None:
    """In order of size, each signed; the newest is the last; the coverage says it is all."""
    games = []
    for _ in range(3):
        games.append(await cancelled(house))
        await covered(house, games[-1])
    operator = house.operator
    stub: Any = checkpoint_pb2_grpc.CheckpointServiceStub(operator.client.channel)
    keys = public_keys(house.settings.keys(), "game")
    sizes: list[int] = []
    asked = checkpoint_pb2.ListCheckpointsRequest(page_size=2)
    while True:
        page = await operator.call(stub.ListCheckpoints, asked)
        for each in page.checkpoints:
            assert open_note(each.note, keys).size == each.size
            sizes.append(each.size)
        if not page.more:
            break
        asked.after_size = sizes[-1]
    assert sizes == sorted(set(sizes))
    assert len(sizes) >= 3
    newest = checkpoint_pb2.ListCheckpointsRequest(newest=True)
    assert (await operator.call(stub.ListCheckpoints, newest)).checkpoints[0].size >= sizes[-1]
    coverage = await operator.call(stub.GetCoverage, checkpoint_pb2.GetCoverageRequest())
    assert (coverage.logs, coverage.uncovered_logs, coverage.uncovered_events) == (3, 0, 0)
    assert not coverage.HasField("oldest_uncovered_time")
    steps = [
        step
        async for step in operator.client.stream(
            stub.VerifyTree, checkpoint_pb2.VerifyTreeRequest()
        )
    ]
    assert steps[-1].leaves == steps[-1].of >= 3
    assert [fault for step in steps for fault in step.faults] == []


async def test_a_service_that_stops_covers_what_it_did_last(tmp_path: Path) -> None:
    """However long the time between two checkpoints is."""
    async with system(tmp_path, checkpoint_ms=600_000) as house:
        game = await finished(house)
        operator = house.operator
        stub: Any = checkpoint_pb2_grpc.CheckpointServiceStub(operator.client.channel)
        before = await operator.call(stub.GetCoverage, checkpoint_pb2.GetCoverageRequest())
        assert before.uncovered_events > 0
    async with system(tmp_path, checkpoint_ms=600_000) as house:
        view = await house.operator.view(game)
        proof = await covered(house, game, view.version)
        assert (proof.version, proof.head) == (view.version, view.head)


async def test_an_older_copy_of_the_file_is_found(tmp_path: Path) -> None:
    """A database that lost its last games whole, by a restored copy or a torn log of SQLite, is in
    itself sound; a checkpoint that was exported tells, at once and after it has grown again; a head
    that a player kept tells too."""
    folder, file = tmp_path / "house", tmp_path / "kept.jsonl"
    async with system(folder, checkpoint_ms=100) as house:
        first = await finished(house)
        await covered(house, first, (await house.operator.view(first)).version)
    shutil.copy(folder / "game.db", tmp_path / "older.db")
    async with system(folder, checkpoint_ms=100) as house:
        lost = await finished(house)
        proof = await covered(house, lost, (await house.operator.view(lost)).version)
        keys = public_keys(house.settings.keys(), "game")
        line = await witness.newest(cast(Any, Asker(house.operator)), keys, None)
        assert line is not None
        witness.append_line(file, line)
        witness.write_proof(tmp_path / "proof.json", proof)
    shutil.copy(tmp_path / "older.db", folder / "game.db")
    (folder / "game.checkpoint").unlink()  # what the service itself would notice it by
    kept = witness.read_lines(file, keys)[-1].checkpoint
    held = witness.read_held(tmp_path / "proof.json", keys)
    assert held == witness.HeldHead(lost, proof.version, proof.head)
    async with system(folder, checkpoint_ms=100) as house:
        asker = cast(Any, Asker(house.operator))
        assert await faults(house.operator, first) == []
        for _ in range(3):
            with pytest.raises(Refused) as caught:
                await witness.newest(asker, keys, kept)
            assert caught.value.reason == "TREE_REWRITTEN"
            game = await finished(house)
            await covered(house, game, (await house.operator.view(game)).version)
        newest = await witness.newest(asker, keys, None)
        assert newest is not None
        assert newest.checkpoint.size > kept.size
        with pytest.raises(Refused) as caught:
            await faults(house.operator, lost)
        assert caught.value.reason == "GAME_NOT_FOUND"
        mine = audit_pb2.HeldHead(version=proof.version, hash=proof.head)
        request = audit_pb2.VerifyGameRequest(game_id=first, held=[mine])
        verdict = await house.operator.call(house.operator.audits.VerifyGame, request)
        assert [fault.kind for fault in verdict.faults] == ["NOT_AS_HELD"]


async def test_a_receipt_is_a_held_head(house: System, tmp_path: Path) -> None:
    """Under its signature: the log must have come by it; one that was edited is none."""
    game = await finished(house)
    operator = house.operator
    request = game_pb2.GetReceiptRequest(game_id=game)
    pieces = operator.client.stream(operator.games.GetReceipt, request)
    document = b"".join([piece.chunk async for piece in pieces])
    kept = tmp_path / "receipt.json"
    kept.write_bytes(document)
    keys = public_keys(house.settings.keys(), "game")
    held = witness.read_held(kept, keys)
    view = await operator.view(game)
    assert held == witness.HeldHead(game, view.version, view.head)
    kept.write_bytes(document.replace(view.head.hex().encode(), b"00" * 32))
    with pytest.raises(Failure, match="not signed"):
        witness.read_held(kept, keys)


async def test_a_service_notices_that_its_file_is_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what it signed last, which stands beside the database: games go on, and nothing is signed
    until an operator has moved that away."""
    said: list[str] = []

    class Said:
        """Takes in what is logged as an error."""

        def error(self, event: str, **_: object) -> None:
            """An error."""
            said.append(event)

    monkeypatch.setattr(checkpoints, "log", Said())
    async with system(tmp_path, checkpoint_ms=100) as house:
        await finished(house)
    shutil.copy(tmp_path / "game.db", tmp_path / "older.db")
    async with system(tmp_path, checkpoint_ms=100) as house:
        await finished(house)
    shutil.copy(tmp_path / "older.db", tmp_path / "game.db")
    async with system(tmp_path, checkpoint_ms=100) as house:
        game = await finished(house)
        operator = house.operator
        stub: Any = checkpoint_pb2_grpc.CheckpointServiceStub(operator.client.channel)
        coverage = await operator.call(stub.GetCoverage, checkpoint_pb2.GetCoverageRequest())
        assert coverage.uncovered_logs == 1
        assert await faults(operator, game) == []
    assert said
    assert set(said) == {"checkpoint_tree_broken"}
    (tmp_path / "game.checkpoint").unlink()
    async with system(tmp_path, checkpoint_ms=100) as house:
        await covered(house, game, (await house.operator.view(game)).version)


async def test_what_is_kept_is_checked(tmp_path: Path) -> None:
    """A file of checkpoints or a proof in which anything was changed is refused by its line."""
    async with system(tmp_path / "house", checkpoint_ms=100) as house:
        keys = public_keys(house.settings.keys(), "game")
        asker = cast(Any, Asker(house.operator))
        file, last = tmp_path / "kept.jsonl", None
        proofs = []
        for _ in range(4):
            proofs.append(await covered(house, await cancelled(house)))
            line = await witness.newest(asker, keys, last)
            assert line is not None
            witness.append_line(file, line)
            last = line.checkpoint
    proof = proofs[-1]
    witness.write_proof(tmp_path / "proof.json", proof)
    assert len(witness.read_lines(file, keys)) == 4
    text = file.read_text("utf-8")
    first, second, third, fourth = text.splitlines(keepends=True)
    for damaged, said in (
        (first + third + fourth, "line 2: does not continue"),
        (first + third + second + fourth, "line 2: does not continue"),
        (text.replace("time 1", "time 2", 1), "line 1: the checkpoint is not signed"),
        (text.replace("checkpoint 1", "checkpoint 2", 1), "line 1: not a checkpoint"),
        (text[:-20], "line 4: not a checkpoint"),
    ):
        file.write_text(damaged, "utf-8")
        with pytest.raises(Failure, match=said):
            witness.read_lines(file, keys)
    kept = (tmp_path / "proof.json").read_text("utf-8")
    for old, new in (
        (proof.head.hex(), "00" * 32),
        (f'"version": {proof.version}', f'"version": {proof.version + 1}'),
        (f'"leaf": {proof.leaf}', f'"leaf": {proof.leaf + 1}'),
        (str(proof.game_id), new_id()),
        ("kozyr proof 1", "kozyr proof 2"),
        ("time 1", "time 2"),
    ):
        assert old in kept
        (tmp_path / "false.json").write_text(kept.replace(old, new), "utf-8")
        with pytest.raises(Failure):
            witness.read_held(tmp_path / "false.json", keys)
