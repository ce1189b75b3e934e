"""Audits that trust no list: every log is found, whole exports of any length come through."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest
from kozyr.game.v1 import audit_pb2, game_pb2

from services.game import auditing, export
from tests.services.game.system import Seat, System, new_id, setup, system
from tests.services.game.test_service import settled


async def faults(operator: Seat, game_id: str) -> list[tuple[int, str]]:
    """What an audit finds in a game: versions and kinds."""
    request = audit_pb2.VerifyGameRequest(game_id=game_id)
    verdict = await operator.call(operator.audits.VerifyGame, request)
    return [(fault.version, fault.kind) for fault in verdict.faults]


async def logs(operator: Seat) -> list[audit_pb2.LogHead]:
    """Every log there is."""
    stream = operator.client.stream(operator.audits.ListLogs, audit_pb2.ListLogsRequest())
    return [head async for page in stream for head in page.heads]


async def finished(house: System, bots: int = 2) -> str:
    """A game of bots alone that has ended."""
    before = len(house.table.reports)
    game_id = (await house.open(variant="durak", people=0, bots=bots)).game_id
    await settled(house, before + 1)
    return game_id


async def cancelled(house: System) -> str:
    """A game that was cancelled before it opened."""
    request = setup()
    cancel = game_pb2.CancelGameRequest(request_id=new_id(), game_id=request.game_id)
    await house.lobby.call(house.lobby.games.CancelGame, cancel)
    return request.game_id


def write(folder: Path, statement: str, game_id: str) -> None:
    """Change rows of one game, as somebody who holds the database might."""
    with closing(sqlite3.connect(folder / "game.db", timeout=60)) as database:
        changed = database.execute(statement, (UUID(game_id).hex,))
        assert changed.rowcount > 0
        database.commit()


async def test_an_audit_of_all_finds_what_no_list_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A game without its tags and a tombstone are listed, disputes are not; all in order.

    What lists go by is audited against the log: tags, and whether the head knows of the end.
    """
    monkeypatch.setattr(auditing, "HEADS_A_MESSAGE", 2)
    async with system(tmp_path) as house:
        hidden, wrong, ended = [await finished(house) for _ in range(3)]
        tombstone = await cancelled(house)
        request = await house.open(people=2, bots=0)
        player = house.game(request.seats[0].player_id)
        complaint = audit_pb2.OpenDisputeRequest(
            request_id=new_id(), game_id=request.game_id, complaint="Too slow."
        )
        await player.call(player.audits.OpenDispute, complaint)
        running = request.game_id
        games = [hidden, wrong, ended, tombstone, running]
        assert [await faults(house.operator, game) for game in games] == [[]] * 5
    write(tmp_path, "DELETE FROM tags WHERE stream = ?", hidden)
    write(tmp_path, "UPDATE heads SET ended = FALSE WHERE stream = ?", wrong)
    write(tmp_path, "UPDATE heads SET ended = TRUE WHERE stream = ?", running)
    async with system(tmp_path) as house:
        operator = house.operator
        listed = await operator.call(operator.games.ListGames, game_pb2.ListGamesRequest())
        assert {game.game_id for game in listed.games} == {wrong, ended, running}
        heads = await logs(operator)
        assert [head.game_id for head in heads] == games
        found = {game: await faults(operator, game) for game in games}
        assert found[ended] == found[tombstone] == []
        assert found[hidden] == [(0, "NOT_LISTED")]
        assert found[wrong] == [(heads[1].version, "WRONG_HEAD")]
        assert [kind for _, kind in found[running]] == ["WRONG_HEAD"]


async def test_an_export_longer_than_a_message_comes_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pieces are one JSON document with every event, though no message could carry it."""
    monkeypatch.setattr(export, "CHUNK_BYTES", 16_384)
    async with system(tmp_path, message_max_bytes=65_536, request_max_bytes=65_536) as house:
        game_id = await finished(house, bots=5)
        operator = house.operator
        request = audit_pb2.ExportGameRequest(game_id=game_id)
        stream = operator.client.stream(operator.audits.ExportGame, request)
        pieces = [piece.chunk async for piece in stream]
        assert sum(map(len, pieces)) > 65_536
        document = json.loads(b"".join(pieces))
        assert document["game"] == game_id
        versions = [event["version"] for event in document["events"]]
        assert versions == list(range(1, document["version"] + 1))
