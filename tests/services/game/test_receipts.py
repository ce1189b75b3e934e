"""GetReceipt over real gRPC: who is given what of a game, and that it holds."""

import json
import sqlite3
from base64 import b64encode
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from kozyr.game.v1 import audit_pb2, game_pb2

from services.game import audit
from services.game.auditing import replayed
from services.game.published import published
from services.kernel.envelope import Recorded
from services.kernel.errors import Refused
from services.runtime.keys import key_id, load_private
from tests.services.game.system import Seat, System, new_id, setup, system
from tests.services.game.test_service import dealt, play_out, settled
from tests.verifier.node import node
from verifier.verify import Verdict, verify


async def receipt(caller: Seat, game_id: str) -> bytes:
    """The receipt as the caller is given it."""
    request = game_pb2.GetReceiptRequest(game_id=game_id)
    pieces = caller.client.stream(caller.games.GetReceipt, request)
    return b"".join([piece.chunk async for piece in pieces])


def checked(house: System, document: bytes) -> Verdict:
    """What the verifier says, trusting the service's own key only."""
    key = load_private(house.settings.keys() / "game.key").public_key()
    return verify(document, {key_id(key): key.public_bytes_raw()})


def asked(variant: str, reveal: str, people: int, bots: int, **changes: Any) -> Any:
    """A game to open, its decks laid open or not."""
    request = setup(variant, people, bots, **changes)
    getattr(request.options, variant).reveal = reveal
    return request


@pytest.mark.parametrize("variant", ["azi", "durak", "rami"])
async def test_everybody_is_given_all_of_an_ended_game_that_is_laid_open(
    tmp_path: Path, variant: str
) -> None:
    """The player and the operator the same, and both verifiers take it."""
    async with system(tmp_path / "house") as house:
        request = await house.open(asked(variant, "full", 1, 2))
        player = house.game(request.seats[0].player_id)
        await play_out(player, request.game_id, Random(3))
        await settled(house)
        mine = await receipt(player, request.game_id)
        assert mine == await receipt(house.operator, request.game_id)
        verdict = checked(house, mine)
        view = await player.view(request.game_id)
        assert (verdict.receipt.kind, verdict.receipt.version) == ("full", view.version)
        assert verdict.receipt.head == view.head
        for line in verdict.receipt.payouts:
            account = await house.account(line.player)
            assert account.balance == 10_000 - line.brought + line.ends_with
        file = tmp_path / "receipt.json"
        file.write_bytes(mine)
        assert node("--trusted", house.settings.keys() / "game.pub", file)[0] == 0


def rows_of(document: dict[str, Any]) -> list[Recorded]:
    """The rows of a log as its full receipt has them."""

    def octets(written: str | None) -> bytes | None:
        return None if written is None else bytes.fromhex(written)

    found = []
    for row in document["rows"]:
        asked_by = octets(row["request_id"])
        read: Any = {
            name: octets(row[name]) for name in ("body_hash", "secret_digest", "salt", "secret")
        }
        whole: Any = {name: bytes.fromhex(row[name]) for name in ("payload", "metadata", "hash")}
        plain: Any = {name: row[name] for name in ("version", "name", "schema", "recorded_at")}
        request_id = None if asked_by is None else asked_by.decode()
        stream = UUID(document["game"])
        found.append(Recorded(stream=stream, request_id=request_id, **plain, **read, **whole))
    return found


@pytest.mark.parametrize("variant", ["azi", "durak", "rami"])
async def test_a_players_replay_and_export_are_in_his_receipt(tmp_path: Path, variant: str) -> None:
    """Octet by octet: whoever has the receipt of a game that was laid open can make the replay of
    all hands himself, and has every octet of the export."""
    async with system(tmp_path) as house:
        request = await house.open(asked(variant, "full", 1, 2))
        player, game = house.game(request.seats[0].player_id), request.game_id
        await play_out(player, game, Random(6))
        rows = rows_of(json.loads(await receipt(player, game))["receipt"])
        replay = audit_pb2.ReplayGameRequest(game_id=game)
        shown = [s async for s in player.client.stream(player.audits.ReplayGame, replay)]
        assert shown == [replayed(step) for step in audit.replay(published(rows) or [])]
        export = audit_pb2.ExportGameRequest(game_id=game)
        pieces = player.client.stream(player.audits.ExportGame, export)
        document = json.loads(b"".join([piece.chunk async for piece in pieces]))
        for given, row in zip(document["events"], rows, strict=True):
            for name in ("payload", "metadata", "body_hash", "secret_digest", "salt", "secret"):
                octets = getattr(row, name)
                assert given[name] == (None if octets is None else b64encode(octets).decode()), name
            assert (given["request_id"], given["recorded_at"]) == (row.request_id, row.recorded_at)


async def test_where_decks_stay_closed_only_an_operator_is_given_all(tmp_path: Path) -> None:
    """A player gets what he saw, proven; replay and export of all hands are refused to him."""
    async with system(tmp_path) as house:
        request = await house.open(asked("durak", "own", 1, 3))
        player, operator = house.game(request.seats[0].player_id), house.operator
        messages = await play_out(player, request.game_id, Random(4))
        last = messages[-1].step.view
        assert (last.server_seed, bool(last.result.seats)) == (b"", True)
        mine = checked(house, await receipt(player, request.game_id)).receipt
        assert (mine.kind, mine.viewer, mine.ended) == ("player", 0, True)
        assert mine.cards
        assert all(card.proven for card in mine.cards)
        assert not any(row.name == "game.DealRevealed" for row in mine.rows)
        whole = checked(house, await receipt(operator, request.game_id)).receipt
        assert (whole.kind, whole.head) == ("full", mine.head)
        assert [row.hash for row in whole.rows] == [row.hash for row in mine.rows]
        replay = audit_pb2.ReplayGameRequest(game_id=request.game_id)
        export = audit_pb2.ExportGameRequest(game_id=request.game_id)
        for caller, refused in ((player, True), (operator, False)):
            calls: tuple[tuple[Any, Any], ...] = (
                (caller.audits.ReplayGame, replay),
                (caller.audits.ExportGame, export),
            )
            for method, asks in calls:
                stream = caller.client.stream(method, asks)
                if refused:
                    with pytest.raises(Refused, match="HANDS_CLOSED"):
                        await anext(stream)
                else:
                    assert [piece async for piece in stream]
        verdict = await operator.call(
            operator.audits.VerifyGame, audit_pb2.VerifyGameRequest(game_id=request.game_id)
        )
        assert list(verdict.faults) == []


@pytest.mark.parametrize("reveal", ["full", "own"])
async def test_a_running_games_receipt_is_its_viewers(tmp_path: Path, reveal: str) -> None:
    """A player's has his cards and his acknowledged seed; an operator's has no card at all; a
    stranger is told that there is no such game."""
    async with system(tmp_path) as house:
        request = await house.open(asked("rami", reveal, 2, 0, seed_ms=400))
        ann, bo = (house.game(seat.player_id) for seat in request.seats)
        commit = game_pb2.CommitSeedRequest(
            request_id=new_id(), game_id=request.game_id, hash=bytes(32)
        )
        await ann.call(ann.games.CommitSeed, commit)
        before = checked(house, await receipt(ann, request.game_id)).receipt
        assert before.acknowledged is not None
        assert not before.cards
        await dealt(ann, request.game_id)
        found = {}
        for caller in (ann, bo, house.operator):
            made = checked(house, await receipt(caller, request.game_id)).receipt
            assert (made.kind, made.ended) == ("player", False)
            found[made.viewer] = {card.opening.card for card in made.cards}
        view = await ann.view(request.game_id)
        assert found[0] == {card - 1 for card in view.rami.hand}
        assert len(found[1]) == len(found[0])
        assert not found[0] & found[1]
        assert found[None] == set()
        with pytest.raises(Refused, match="GAME_NOT_FOUND"):
            await receipt(house.game(new_id()), request.game_id)


async def test_looks_of_operators_at_receipts_are_recorded(tmp_path: Path) -> None:
    """Like every other look at a game."""
    async with system(tmp_path) as house:
        request = await house.open(asked("rami", "full", 2, 0))
        await receipt(house.operator, request.game_id)
        with closing(sqlite3.connect(tmp_path / "game.db")) as database:
            looked = database.execute("SELECT action, game, operator FROM accesses").fetchall()
        assert looked == [("GetReceipt", UUID(request.game_id).hex, "olga")]


async def test_a_receipt_is_readable_beside_what_is_trusted(tmp_path: Path) -> None:
    """One entry an event, with its name; of an ended game who acted and why."""
    async with system(tmp_path) as house:
        request = await house.open(asked("durak", "full", 0, 2))
        await settled(house)
        whole = json.loads(await receipt(house.operator, request.game_id))
        events = [entry["event"] for entry in whole["readable"]]
        assert events == [row["name"] for row in whole["receipt"]["rows"]]
        assert {entry.get("by") for entry in whole["readable"]} >= {"bot", "server"}
