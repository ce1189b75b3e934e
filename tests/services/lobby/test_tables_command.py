"""`kozyr tables` against a lobby: lists, and what hosts and players decide."""

import json
from pathlib import Path
from typing import Any

import pytest
from kozyr.lobby.v1 import identity_pb2
from kozyr.lobby.v1 import lobby_pb2 as pb

from services.cli import tables
from services.cli.main import main, refusal_line
from services.cli.outcome import FINE, USAGE
from services.client.profile import Profile, ProfileFile
from services.kernel.errors import Refused
from tests.services.lobby.hall import Guest, Hall, azi, durak


@pytest.fixture
async def nino(hall: Hall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guest:
    """A player with a profile at this terminal."""
    monkeypatch.setenv("KOZYR_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KOZYR_DATA", str(tmp_path))
    monkeypatch.setenv("KOZYR_LOBBY_ADDRESS", hall.address)
    made = await hall.caller(None).call(identity_pb2.SignUpRequest(display_name="Nino"))
    who = made.player.player_id
    ProfileFile().write(Profile(who, "Nino", made.secret, bytes(32)))
    return hall.caller(made.tokens.access_token, who)


async def told(capsys: pytest.CaptureFixture[str], *typed: str) -> Any:
    """The JSON lines that a command says."""
    capsys.readouterr()
    assert await tables.tell(tables.parser().parse_args([*typed, "--json"])) == FINE
    lines = capsys.readouterr().out.splitlines()
    return [json.loads(line) for line in lines if line.startswith('{"')]


async def refusal(*typed: str) -> str:
    """What a command is refused for."""
    with pytest.raises(Refused) as caught:
        await tables.tell(tables.parser().parse_args(typed))
    return refusal_line(caught.value)


async def test_tables_are_listed_by_what_one_looks_for(
    hall: Hall, nino: Guest, capsys: pytest.CaptureFixture[str]
) -> None:
    """Game, stakes, seats, one's own; an operator sees the public ones."""
    dato = await hall.guest("Dato")
    mine = (await nino.call(pb.CreateTableRequest(rules=durak(2)))).table.table_id
    rules = durak(4, visibility=pb.VISIBILITY_INVITED, invited_player_ids=[nino.player_id])
    invited = (await dato.call(pb.CreateTableRequest(rules=rules))).table.table_id
    dear = (await dato.call(pb.CreateTableRequest(rules=azi(3)))).table.table_id
    for typed, expected in (
        ((), [dear, mine]),
        (("--most", "1"), [dear]),
        (("--variant", "durak"), [mine]),
        (("--free-seats", "2"), [dear]),
        (("--fee-min", "10"), [dear]),
        (("--fee-max", "9"), [mine]),
        (("--chips", "199"), [mine]),
        (("--mine",), [mine]),
        (("--invited",), [invited]),
        (("--operator",), [dear, mine]),
    ):
        found = await told(capsys, "list", *typed)
        assert [table["table_id"] for table in found] == expected, typed
    assert await tables.tell(tables.parser().parse_args(["list"])) == FINE
    assert f"{dear}  azi     10  waiting" in capsys.readouterr().out
    assert "mine: for players only" in await refusal("list", "--operator", "--mine")


async def test_a_host_decides_who_comes_and_stays(
    hall: Hall, nino: Guest, capsys: pytest.CaptureFixture[str]
) -> None:
    """Invited, sent away, let come back; another host; the table closed by an operator."""
    dato, ana = await hall.guest("Dato"), await hall.guest("Ana")
    rules = durak(3, visibility=pb.VISIBILITY_INVITED)
    table = (await nino.call(pb.CreateTableRequest(rules=rules))).table.table_id
    (now,) = await told(capsys, "invite", table, dato.player_id)
    assert now["rules"]["invited_player_ids"] == [dato.player_id]
    await told(capsys, "invite", table, ana.player_id)
    (now,) = await told(capsys, "uninvite", table, ana.player_id)
    assert now["rules"]["invited_player_ids"] == [dato.player_id]
    take = pb.TakeSeatRequest(table_id=table)
    await dato.call(take)
    (now,) = await told(capsys, "kick", table, dato.player_id, "--reason", "absent")
    assert now["kicked_player_ids"] == [dato.player_id]
    assert (await dato.refused(pb.GetTableRequest(table_id=table))).facts["kick_reason"] == "ABSENT"
    await told(capsys, "invite", table, dato.player_id)
    take.request_id = ""
    await dato.call(take)
    (now,) = await told(capsys, "host", table, dato.player_id)
    assert now["host_id"] == dato.player_id
    assert "NOT_HOST" in await refusal("close", table)
    assert "NO_LAST_GAME" in await refusal("rematch", table)
    assert main(["tables", "kick", table, dato.player_id, "--operator"]) == USAGE
    (now,) = await told(capsys, "close", table, "--operator")
    assert now["state"] == "TABLE_STATE_CLOSED"
