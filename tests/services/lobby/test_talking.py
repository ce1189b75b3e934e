"""Talk over the wire: who may say and read what, at which table, in which of its states."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kozyr.lobby.v1 import identity_pb2, lobby_pb2
from kozyr.lobby.v1 import talk_pb2 as pb
from structlog.testing import capture_logs

from services.kernel.errors import Kind, Refused
from services.lobby.erasing import NAMING
from services.lobby.server import FOLDERS
from tests import postgres
from tests.services.lobby.hall import Guest, Hall, durak, full_table, is_in, lobby_hall, two_lobbies

PRIVATE = lobby_pb2.VISIBILITY_PRIVATE
RULES: dict[str, dict[str, Any]] = {
    "plain": {},
    "watched": {"spectators": True},
    "watched late": {"spectators": True, "spectator_delay": 3},
    "private": {"visibility": PRIVATE},
    "private, watched": {"visibility": PRIVATE, "spectators": True},
    "silent": {"no_chat": True, "spectators": True},
}
PEOPLE = ("seated", "muted", "silenced", "left", "stranger", "invited")
"""Seated, seated and muted by the host for himself, seated and silenced by the host; who has left,
who never sat there, and who never did but holds the invite code."""


def expected(rules: str, who: str) -> tuple[str, str]:
    """Why a player may not talk and why he may not read at an open table; nothing where he may."""
    given = RULES[rules]
    sits = who in ("seated", "muted", "silenced")
    private, silent = "visibility" in given, "no_chat" in given
    live = "spectators" in given and "spectator_delay" not in given
    unseen = private and who in ("left", "stranger")
    away = "TABLE_NOT_FOUND" if private else "TALK_OFF" if silent else "NOT_SEATED"
    talking = "SILENCED" if who == "silenced" else ""
    reading = "TABLE_NOT_FOUND" if unseen else "" if sits or live else "NOT_SEATED"
    return (
        ("TALK_OFF" if silent else talking) if sits else away,
        "TALK_OFF" if silent and not unseen else reading,
    )


@dataclass
class Scene:
    """A table, its host, and one player of each kind."""

    table: lobby_pb2.Table
    host: Guest
    people: dict[str, Guest]

    async def talk(self, who: Guest, text: str = "Hm.") -> pb.TalkLine:
        """Say something there."""
        request = pb.SendMessageRequest(table_id=self.table.table_id, text=text)
        line: pb.TalkLine = (await who.call(request)).line
        return line

    def listen(self, who: Guest, **changes: Any) -> AsyncIterator[pb.WatchTalkResponse]:
        """Follow what is said there."""
        code = self.table.invite_code if who is self.people.get("invited") else ""
        given = {"table_id": self.table.table_id, "invite_code": code}
        stream: Any = who.talk.WatchTalk
        return who.client.stream(stream, pb.WatchTalkRequest(**(given | changes)))

    async def reads(self, who: Guest) -> list[str]:
        """What he is sent at once."""
        return [line.text for line in (await anext(self.listen(who))).lines]

    async def outcome(self, name: str) -> tuple[str, str]:
        """Why talking and reading are refused, as in `expected`; what he says he reads as well."""
        who = self.people[name]
        outcome = (await reason(self.talk(who, name)), await reason(self.reads(who)))
        assert outcome != ("", "") or name in await self.reads(who)
        return outcome


async def reason(acting: Awaitable[Any]) -> str:
    """Why it is refused, or nothing."""
    try:
        await acting
    except Refused as refused:
        return refused.reason
    return ""


async def scene(hall: Hall, rules: str) -> Scene:
    """A table by these rules with everybody in his place."""
    host = await hall.guest("Host")
    people = {name: await hall.guest(name.capitalize()) for name in PEOPLE}
    asked = lobby_pb2.CreateTableRequest(rules=durak(4, **RULES[rules]))
    table = (await host.call(asked)).table
    for name in ("left", "muted", "silenced", "seated"):
        await people[name].call(
            lobby_pb2.TakeSeatRequest(table_id=table.table_id, invite_code=table.invite_code)
        )
        if name == "left":
            await people[name].call(lobby_pb2.LeaveSeatRequest(table_id=table.table_id))
    await host.call(pb.MuteRequest(player_id=people["muted"].player_id))
    silenced = people["silenced"].player_id
    await host.call(pb.MuteRequest(player_id=silenced, table_id=table.table_id))
    return Scene(table, host, people)


async def waiting(_hall: Hall, _scene: Scene) -> None:
    """The table waits for players."""


async def playing(_hall: Hall, scene: Scene) -> None:
    """A game is played."""
    for guest in (scene.host, *(scene.people[n] for n in ("seated", "muted", "silenced"))):
        await guest.call(lobby_pb2.SetReadyRequest(table_id=scene.table.table_id, ready=True))
    await scene.host.until(scene.table.table_id, is_in(lobby_pb2.TABLE_STATE_PLAYING))


async def closed(_hall: Hall, scene: Scene) -> None:
    """No more games."""
    await scene.host.call(lobby_pb2.CloseTableRequest(table_id=scene.table.table_id))


@pytest.mark.parametrize("state", [waiting, playing, closed], ids=lambda state: state.__name__)
async def test_who_may_talk_and_read(
    hall: Hall, state: Callable[[Hall, Scene], Awaitable[None]]
) -> None:
    """Every kind of player at every kind of table: what the rules say, in each of its states; at a
    closed table nobody says anything, and who might read reads what is left."""
    for rules, given in RULES.items():
        made = await scene(hall, rules)
        await state(hall, made)
        for who in PEOPLE:
            talking, reading = expected(rules, who)
            if state is closed:
                hidden = talking == "TABLE_NOT_FOUND"
                talking = talking if hidden else "TABLE_CLOSED"
                told = (
                    await reason(made.talk(made.people[who])),
                    await reason(made.reads(made.people[who])),
                )
                assert told == (talking, reading), (rules, who)
            else:
                assert await made.outcome(who) == (talking, reading), (rules, who)
        if state is not closed and "no_chat" not in given:
            assert await made.reads(made.host) == ["seated"]
            assert await made.reads(made.people["seated"]) == ["seated", "muted"]


async def test_operators_and_services_hear_nothing(hall: Hall) -> None:
    """Not at the table, and not of a player's: the calls are players' alone."""
    made = await scene(hall, "watched")
    for staff in (hall.staff(), hall.staff("game", "game")):
        for request in (
            pb.SendMessageRequest(table_id=made.table.table_id, text="Hm."),
            pb.ListTalkRequest(),
            pb.ListMutesRequest(),
        ):
            refused = await staff.refused(request)
            assert (refused.kind, refused.reason) == (Kind.DENIED, "ROLE_NOT_ALLOWED")
        assert await reason(anext(made.listen(staff))) == "ROLE_NOT_ALLOWED"


async def texts(stream: AsyncIterator[pb.WatchTalkResponse], count: int) -> list[str]:
    """The next lines of a stream, signs of life passed over."""
    found: list[str] = []
    async with asyncio.timeout(10):
        while len(found) < count:
            found += [line.text for line in (await anext(stream)).lines]
    return found


async def test_lines_come_as_they_are_said_and_no_more_once_one_may_not_read(hall: Hall) -> None:
    """To those who sit there and who watch. Who leaves is told so before another line is sent; a
    stream ends with its table."""
    made = await scene(hall, "plain")
    host, seated = made.host, made.people["seated"]
    streams = [made.listen(guest) for guest in (host, seated)]
    for stream in streams:
        await anext(stream)
    await made.talk(seated, "One.")
    await host.call(pb.SendEmoteRequest(table_id=made.table.table_id, emote=pb.EMOTE_WOW))
    for stream in streams:
        assert await texts(stream, 2) == ["One.", ""]
    await seated.call(lobby_pb2.LeaveSeatRequest(table_id=made.table.table_id))
    await made.talk(host, "Now that he is gone.")
    assert await reason(texts(streams[1], 1)) == "NOT_SEATED"
    await host.call(lobby_pb2.CloseTableRequest(table_id=made.table.table_id))
    assert await texts(streams[0], 1) == ["Now that he is gone."]
    async with asyncio.timeout(10):
        assert [reply async for reply in streams[0] if reply.lines] == []


async def test_a_stream_is_taken_up_again_where_it_was(hall: Hall) -> None:
    """By the token of any message: what was said since, once; another's token is none of his."""
    made = await scene(hall, "watched")
    host, seated = made.host, made.people["seated"]
    await made.talk(seated, "One.")
    first = await anext(made.listen(host))
    await made.talk(seated, "Two.")
    again = made.listen(host, resume_token=first.resume_token)
    assert await texts(again, 1) == ["Two."]
    await made.talk(host, "Three.")
    assert await texts(again, 1) == ["Three."]
    for player in (seated, made.people["stranger"]):
        stream = made.listen(player, resume_token=first.resume_token)
        assert await reason(anext(stream)) == "BAD_TOKEN"


async def test_mutes_are_between_two_and_silence_is_for_all(hall: Hall) -> None:
    """A muted player talks on and is told nothing; who lifts a mute reads what he missed. Who was
    silenced may not talk, whoever is host, until it is lifted."""
    made = await scene(hall, "plain")
    host, muted, silenced = made.host, made.people["muted"], made.people["silenced"]
    await made.talk(muted, "Can you hear me?")
    assert await made.reads(host) == []
    own = await host.call(pb.ListMutesRequest())
    assert (list(own.player_ids), list(own.silenced_at_table_ids)) == ([muted.player_id], [])
    for other in (muted, silenced):
        theirs = await other.call(pb.ListMutesRequest())
        silences = [made.table.table_id] if other is silenced else []
        assert (list(theirs.player_ids), list(theirs.silenced_at_table_ids)) == ([], silences)
    await host.call(pb.UnmuteRequest(player_id=muted.player_id))
    assert await made.reads(host) == ["Can you hear me?"]
    lifting = pb.UnmuteRequest(player_id=silenced.player_id, table_id=made.table.table_id)
    assert (await silenced.refused(lifting)).reason == "NOT_HOST"
    await host.call(lobby_pb2.LeaveSeatRequest(table_id=made.table.table_id))
    heir = (await muted.call(lobby_pb2.GetTableRequest(table_id=made.table.table_id))).table.host_id
    assert await reason(made.talk(silenced)) == "SILENCED"
    at_table = pb.ListMutesRequest(table_id=made.table.table_id)
    assert list((await muted.call(at_table)).player_ids) == [silenced.player_id]
    host_now = next(each for each in made.people.values() if each.player_id == heir)
    await host_now.call(lifting)
    await made.talk(silenced)


async def test_what_cannot_be_muted_is_refused(hall: Hall) -> None:
    """Oneself, nobody, and at a table who does not sit there or whom one is not host of."""
    made = await scene(hall, "plain")
    host, seated, stranger = made.host, made.people["seated"], made.people["stranger"]
    nobody, table_id = "00000000-0000-7000-8000-000000000000", made.table.table_id
    for who, request, why in (
        (host, pb.MuteRequest(player_id=host.player_id), "INVALID_FIELD"),
        (host, pb.MuteRequest(player_id=nobody), "PLAYER_NOT_FOUND"),
        (host, pb.MuteRequest(player_id=host.player_id, table_id=table_id), "NOT_SEATED"),
        (host, pb.MuteRequest(player_id=stranger.player_id, table_id=table_id), "NOT_SEATED"),
        (seated, pb.MuteRequest(player_id=host.player_id, table_id=table_id), "NOT_HOST"),
        (stranger, pb.MuteRequest(player_id=host.player_id, table_id=table_id), "NOT_HOST"),
        (host, pb.MuteRequest(player_id=seated.player_id, table_id=nobody), "TABLE_NOT_FOUND"),
        (stranger, pb.ListMutesRequest(table_id=table_id), "NOT_SEATED"),
        (host, pb.SendEmoteRequest(table_id=table_id), "INVALID_FIELD"),
    ):
        assert (await who.refused(request)).reason == why, request


async def test_talk_is_in_no_log(hall: Hall) -> None:
    """Neither in the table's events, whose version stays, nor in what the process writes."""
    made = await scene(hall, "plain")
    before = (await made.host.call(lobby_pb2.GetTableRequest(table_id=made.table.table_id))).table
    with capture_logs() as written:
        await made.talk(made.host, "Schuhlöffel")
        await made.reads(made.host)
        assert (await made.host.refused(pb.SendMessageRequest(text="Schuhlöffel"))).fields
    after = (await made.host.call(lobby_pb2.GetTableRequest(table_id=made.table.table_id))).table
    assert after == before
    events = await made.host.call(lobby_pb2.ListTableEventsRequest())
    for said in (str(written), str(events)):
        assert "Schuh" not in said


async def test_what_one_said_is_read_back_and_goes_with_an_erasure(tmp_path: Path) -> None:
    """With a page token; nothing of it is left, not in an embedded database's file, and others'
    lists name him no more."""
    async with lobby_hall(tmp_path, talk_player_max=9) as hall:
        nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
        table = (await dato.call(lobby_pb2.CreateTableRequest(rules=durak(3)))).table
        made = Scene(table, dato, {})
        await nino.call(lobby_pb2.TakeSeatRequest(table_id=table.table_id))
        for number in range(5):
            await made.talk(nino, f"Schuhlöffel {number}")
        await made.talk(dato, "Aha.")
        await dato.call(pb.MuteRequest(player_id=nino.player_id))
        await dato.call(pb.MuteRequest(player_id=nino.player_id, table_id=table.table_id))
        read, token = [], ""
        while True:
            page = await nino.call(pb.ListTalkRequest(page_size=2, page_token=token))
            read += [line.text for line in page.lines]
            if not (token := page.next_page_token):
                break
        assert read == [f"Schuhlöffel {number}" for number in range(4, -1, -1)]
        await nino.call(lobby_pb2.LeaveSeatRequest(table_id=table.table_id))
        await nino.call(identity_pb2.ErasePlayerRequest(confirm_name="Nino", give_up_chips=True))
        assert await made.reads(dato) == ["Aha."]
        for request in (pb.ListMutesRequest(), pb.ListMutesRequest(table_id=table.table_id)):
            assert list((await dato.call(request)).player_ids) == []
        assert not remains(tmp_path, b"Schuhl")
    assert "talk" in NAMING


def remains(folder: Path, what: bytes) -> list[Path]:
    """Files of the lobby's database in which this still stands."""
    return [file for file in folder.glob("lobby.db*") if what in file.read_bytes()]


async def test_replicas_tell_each_other_at_once(tmp_path: Path, postgres_url: str) -> None:
    """A line said at one is read at the other long before it would look, with one token for both;
    the limits are of both together."""
    url = await postgres.migrated(postgres_url, FOLDERS)
    async with two_lobbies(tmp_path, url, feed_interval_ms=60_000) as (one, two):
        nino, dato = await one.guest("Nino"), await one.guest("Dato")
        table = await full_table(nino, durak(2), dato)
        here, there = Scene(table, nino, {}), Scene(table, dato, {})
        elsewhere = two.caller(two.token("players", dato.player_id), dato.player_id)
        stream = there.listen(elsewhere)
        first = await anext(stream)
        await here.talk(nino, "One.")
        assert await texts(stream, 1) == ["One."]
        await there.talk(elsewhere, "Two.")
        resumed = here.listen(dato, resume_token=first.resume_token)
        assert await texts(resumed, 2) == ["One.", "Two."]
        outcomes = await asyncio.gather(
            *(reason(there.talk(each, f"{n}")) for n in range(6) for each in (dato, elsewhere))
        )
        assert sorted(outcomes) == [""] * 4 + ["RATE_LIMITED"] * 8
