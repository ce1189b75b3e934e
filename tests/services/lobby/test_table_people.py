"""A table decides: who may come, who is sent away, who wants another game, who waits too long."""

import pytest

from services.kernel.errors import Refused
from services.lobby.commands import (
    AddBot,
    Command,
    Confirm,
    EndGame,
    FillSeats,
    FreeSeat,
    HandOver,
    Invite,
    Kick,
    LeaveSeat,
    Line,
    Open,
    Rematch,
    SetReady,
    StartGame,
    TakeSeat,
    Uninvite,
)
from services.lobby.conditions import Moot
from services.lobby.domain import INVITED_MAX, KICKED_MAX, decide
from services.lobby.evolve import FILL, plan
from services.lobby.model import (
    BotLevel,
    HostChanged,
    Kicked,
    KickReason,
    LeftCause,
    PlayerInvited,
    PlayerUninvited,
    ReadySet,
    SeatLeft,
    SeatTaken,
    StartBegun,
    Table,
    TableClosed,
    Wish,
)
from services.lobby.seeing import may_see, require_sight
from tests.services.lobby.rounds import end, playing, ready
from tests.services.lobby.tables import (
    AT,
    G,
    bot,
    durak_rules,
    game,
    given,
    opened,
    player,
    refusal,
    sit,
    when,
)

NEXT = game(2)
WISH = Wish(BotLevel.NORMAL, 5_000)


def by_invitation(seats: int = 3, *named: int, **changes: object) -> Table:
    """A table of player 0 to which these are invited."""
    rules = durak_rules(
        seats,
        listed=False,
        by_invitation=True,
        invite_code="code",
        invited=tuple(map(player, named)),
        **changes,
    )
    return given(opened(rules))


def after_a_game(seats: int, *others: int) -> Table:
    """A table where player 0 and others have just played."""
    table = playing(durak_rules(seats), *others)
    return when(table, EndGame(G, False, (), None, frozenset()))[1]


def kick(number: int, by: int = 0) -> Kick:
    """The host sends a player away."""
    return Kick(player(by), player(number), KickReason.CONDUCT, NEXT)


def rematch(number: int) -> Rematch:
    """A player wants another game."""
    return Rematch(player(number), NEXT)


# --------------------------------------------------------------------------------------- invitation


def test_a_table_by_invitation_is_there_for_those_who_were_named() -> None:
    """Others are answered as if there were none, whatever they ask, also with its code."""
    table = by_invitation(3, 1)
    stranger: list[Command] = [
        sit(9, code="code"),
        ready(9),
        LeaveSeat(player(9), G),
        rematch(9),
        kick(0, by=9),
        Invite(player(9), player(9)),
        Uninvite(player(9), player(1)),
        HandOver(player(9), player(0)),
        StartGame(player(9), G),
    ]
    for command in stranger:
        answers = []
        for there in (table, Table()):
            with pytest.raises(Refused) as caught:
                decide(there, command)
            answers.append((caught.value.kind, caught.value.reason, caught.value.message))
        assert answers[0] == answers[1]
        assert answers[0][1] == "TABLE_NOT_FOUND"
    assert when(table, sit(1))[0] == [SeatTaken(1, player(1), BotLevel.PERSON, 0)]


def test_invitations_are_given_and_taken_back_between_games() -> None:
    """By the host, each once; who sits there keeps his until he has left."""
    table = by_invitation(3, 1)
    assert refusal(table, Invite(player(0), player(1))) == "ALREADY_INVITED"
    assert refusal(table, Uninvite(player(0), player(2))) == "NOT_INVITED"
    events, table = when(table, Invite(player(0), player(2)))
    assert events == [PlayerInvited(player(2))]
    _, table = when(table, sit(2))
    assert refusal(table, Invite(player(2), player(3))) == "NOT_HOST"
    assert refusal(table, Uninvite(player(0), player(2))) == "SEATED"
    _, table = when(table, LeaveSeat(player(2), G))
    events, table = when(table, Uninvite(player(0), player(2)))
    assert events == [PlayerUninvited(player(2))]
    assert not may_see(table, player(2))
    public = given(opened(durak_rules(3)))
    assert refusal(public, Invite(player(0), player(1))) == "NOT_BY_INVITATION"


def test_invitations_are_bounded() -> None:
    """No more than a table may name when it is opened."""
    table = by_invitation(3, *range(1, INVITED_MAX + 1))
    assert refusal(table, Invite(player(0), player(99))) == "TOO_MANY_INVITED"
    _, table = when(table, Uninvite(player(0), player(1)))
    assert when(table, Invite(player(0), player(99)))[0] == [PlayerInvited(player(99))]


def test_whom_a_table_invites_finds_it() -> None:
    """By a tag of his own, set when he is named."""
    table = by_invitation(3, 1)
    assert f"invited:{player(1)}" in plan(Table(), table).tags
    assert "public" not in plan(Table(), table).tags
    _, after = when(table, Invite(player(0), player(2)))
    assert plan(table, after).tags == (f"invited:{player(2)}",)


# ---------------------------------------------------------------------------------------- no bots


def test_where_no_bots_are_allowed_none_sits_down() -> None:
    """Not by the host, not with the opening, and nobody's wish for some is kept."""
    rules = durak_rules(3, no_bots=True)
    table = given(opened(rules))
    with pytest.raises(Refused) as caught:
        decide(table, AddBot(player(0), bot(1), None, 0, G))
    assert caught.value.reason == "BOTS_NOT_ALLOWED"
    assert [f.field for f in caught.value.fields] == ["rules.no_bots"]
    assert refusal(Table(), Open(player(0), rules, 0, G, (bot(1),))) == "BOTS_NOT_ALLOWED"
    wishing = Open(player(0), rules, 0, G, ready=True, wish=WISH)
    assert refusal(Table(), wishing) == "BOTS_NOT_ALLOWED"
    _, table = when(table, TakeSeat(player(1), None, 0, "", G, ready=True, wish=WISH))
    seat = table.seats[1]
    assert seat is not None
    assert seat.wish is None


# -------------------------------------------------------------------------------------------- kick


def test_who_was_sent_away_stays_away_until_he_is_invited() -> None:
    """He is told why, and cannot sit back at once; anybody else can."""
    table = given(opened(durak_rules(3), 1))
    events, table = when(table, kick(1))
    assert events == [SeatLeft(1, LeftCause.KICKED, KickReason.CONDUCT)]
    assert table.kicked == (Kicked(player(1), KickReason.CONDUCT),)
    with pytest.raises(Refused) as caught:
        decide(table, sit(1))
    assert caught.value.reason == "KICKED"
    assert caught.value.facts == {"kick_reason": "CONDUCT"}
    assert when(table, sit(2))[0]
    _, table = when(table, Invite(player(0), player(1)))
    assert when(table, sit(1))[0] == [SeatTaken(1, player(1), BotLevel.PERSON, 0)]


def test_who_was_sent_away_from_a_hidden_table_is_told_that_and_no_more() -> None:
    """Neither the code nor an earlier invitation lets him look; a stranger is told nothing."""
    private = given(opened(durak_rules(3, listed=False, invite_code="code"), 1))
    _, invited = when(by_invitation(3, 1), sit(1))
    for table in (private, invited):
        _, after = when(table, kick(1))
        for code in ("", "code"):
            with pytest.raises(Refused, match="KICKED"):
                require_sight(after, player(1), code)
        with pytest.raises(Refused, match="TABLE_NOT_FOUND"):
            require_sight(after, player(9))
        _, again = when(after, Invite(player(0), player(1)))
        assert may_see(again, player(1), "code")


def test_the_host_sends_away_another_person_between_games() -> None:
    """No bot, not himself, nobody who is not there, and nobody in a game."""
    table = given(opened(durak_rules(4), 1))
    _, table = when(table, AddBot(player(0), bot(1), None, 0, G))
    assert refusal(table, kick(0, by=1)) == "NOT_HOST"
    assert refusal(table, kick(0)) == "OWN_SEAT"
    assert refusal(table, kick(9)) == "NOT_SEATED"
    away = Kick(player(0), bot(1).player, KickReason.OTHER, G)
    assert refusal(table, away) == "NOT_A_PERSON"
    running = playing(durak_rules(3), 1)
    _, running = when(running, sit(2))
    for number in (1, 2):
        assert refusal(running, kick(number)) == "GAME_RUNNING"


def test_a_table_keeps_so_many_off_and_no_more() -> None:
    """Beyond that the host has to let one come back."""
    table = given(opened(durak_rules(2)))
    for number in range(1, KICKED_MAX + 1):
        _, table = when(table, sit(number))
        _, table = when(table, kick(number))
    _, table = when(table, sit(999))
    assert refusal(table, kick(999)) == "TOO_MANY_KICKED"
    _, table = when(table, Invite(player(0), player(7)))
    assert when(table, kick(999))[0]


# --------------------------------------------------------------------------------------------- host


def test_a_host_hands_over_to_another_person() -> None:
    """Who then may do what hosts may, also in mid-game; a bot and a stranger cannot be hosts."""
    table = given(opened(durak_rules(3), 1))
    _, table = when(table, AddBot(player(0), bot(1), None, 0, G))
    assert refusal(table, HandOver(player(1), player(1))) == "NOT_HOST"
    assert refusal(table, HandOver(player(0), player(0))) == "ALREADY_HOST"
    assert refusal(table, HandOver(player(0), player(9))) == "NOT_SEATED"
    assert refusal(table, HandOver(player(0), bot(1).player)) == "NOT_A_PERSON"
    events, table = when(table, HandOver(player(0), player(1)))
    assert events == [HostChanged(player(1))]
    assert when(table, kick(0, by=1))[0]
    assert when(playing(durak_rules(2), 1), HandOver(player(0), player(1)))[0]


# ------------------------------------------------------------------------------------------ rematch


def test_those_of_the_last_game_play_again_when_all_of_them_want_to() -> None:
    """Though a seat is free, and without the host."""
    table = after_a_game(4, 1, 2)
    events, table = when(table, rematch(2))
    assert events == [ReadySet(2, True, again=True)]
    _, table = when(table, ready(0))
    events, table = when(table, rematch(1))
    assert events == [ReadySet(1, True, again=True), StartBegun(NEXT, (0, 1, 2))]


def test_who_does_not_want_to_play_again_holds_nobody_up() -> None:
    """Once he has left, was sent away, or was not ready for too long."""
    table = after_a_game(3, 1, 2)
    for number in (0, 2):
        _, table = when(table, rematch(number))
    start = StartBegun(NEXT, (0, 2))
    left = LeaveSeat(player(1), NEXT)
    late = FreeSeat(1, table.version, NEXT)
    for command in (left, kick(1), late):
        events, _ = when(table, command)
        assert events[-1] == start


def test_newcomers_wait_for_the_game_after_unless_they_are_ready() -> None:
    """They hold up nobody who wants to play again."""
    table = after_a_game(4, 1)
    for number in (2, 3):
        _, table = when(table, sit(number))
    _, table = when(table, ready(3))
    _, table = when(table, rematch(0))
    events, table = when(table, rematch(1))
    assert events[-1] == StartBegun(NEXT, (0, 1, 3))
    _, table = when(table, Confirm(NEXT))
    assert refusal(table, ready(2)) == "GAME_RUNNING"


def test_one_alone_with_bots_plays_again_at_once_and_alone_waits() -> None:
    """Bots always want to."""
    table = given(opened(durak_rules(3)))
    _, table = when(table, AddBot(player(0), bot(1), None, 0, G))
    _, table = when(table, AddBot(player(0), bot(2), None, 0, G))
    _, table = when(table, ready(0))
    _, table = when(table, Confirm(G))
    _, table = when(table, EndGame(G, False, (), None, frozenset()))
    assert when(table, rematch(0))[0][-1] == StartBegun(NEXT, (0, 1, 2))
    alone = when(after_a_game(2, 1), LeaveSeat(player(1), G))[1]
    assert when(alone, rematch(0))[0] == [ReadySet(0, True, again=True)]


def test_a_rematch_is_for_those_who_were_in_a_game() -> None:
    """And is taken back by not being ready."""
    table = given(opened(durak_rules(3), 1))
    assert refusal(table, rematch(0)) == "NO_LAST_GAME"
    table = after_a_game(3, 1)
    _, table = when(table, sit(2))
    assert refusal(table, rematch(2)) == "NO_LAST_GAME"
    assert refusal(playing(durak_rules(2), 1), rematch(0)) == "GAME_RUNNING"
    _, table = when(table, rematch(0))
    _, table = when(table, SetReady(player(0), False, NEXT))
    assert when(table, ready(1))[0] == [ReadySet(1, True)]


# ------------------------------------------------------------------------------------------- timers


def test_who_is_not_ready_for_too_long_loses_his_seat() -> None:
    """The host as well, and the table closes with its last person."""
    table = given(opened(durak_rules(3), 1))
    events, after = when(table, FreeSeat(0, table.version, G))
    assert events == [SeatLeft(0, LeftCause.UNREADY), HostChanged(player(1))]
    events, _ = when(after, FreeSeat(1, after.version, G))
    assert events == [SeatLeft(1, LeftCause.UNREADY), TableClosed()]


def test_a_time_that_was_over_for_somebody_else_is_moot() -> None:
    """He is ready, has gone, sat down later, or plays."""
    table = given(opened(durak_rules(3), 1))
    old = FreeSeat(1, table.version, G)
    _, now_ready = when(table, ready(1))
    _, gone = when(table, LeaveSeat(player(1), G))
    _, another = when(gone, sit(2))
    _, unready = when(now_ready, SetReady(player(1), False, G))
    for state in (now_ready, gone, another, unready, playing(durak_rules(3), 1), Table()):
        with pytest.raises(Moot):
            decide(state, old)
    assert decide(another, FreeSeat(1, another.version, G))


def test_bots_take_what_seats_people_left_free() -> None:
    """All of them, and the game starts; nobody's wish is older than his seat."""
    opening = Open(player(0), durak_rules(3), 0, G, ready=True, wish=WISH)
    _, table = when(Table(), opening)
    assert [(d.kind, d.after_ms) for d in plan(Table(), table).due if d.kind == FILL] == [
        (FILL, 5_000)
    ]
    seat = table.seats[0]
    assert seat is not None
    assert seat.wish == Wish(BotLevel.NORMAL, 5_000, AT + 5_000_000)
    fill = FillSeats(0, table.version, (bot(1), bot(2)), NEXT)
    events, started = when(table, fill)
    assert [type(event) for event in events] == [SeatTaken, SeatTaken, StartBegun]
    for state in (started, when(table, SetReady(player(0), False, G))[1]):
        with pytest.raises(Moot):
            decide(state, fill)
    with pytest.raises(Moot):
        decide(table, FillSeats(0, 1, (bot(1),), NEXT))


def test_a_seat_that_becomes_free_at_a_full_table_is_waited_for_anew() -> None:
    """By whoever had wished for bots, who were not needed meanwhile."""
    _, table = when(Table(), Open(player(0), durak_rules(2), 0, G, ready=True, wish=WISH))
    _, full = when(table, sit(1))
    assert (FILL, "0") in plan(table, full).done
    _, free = when(full, LeaveSeat(player(1), G))
    assert [d.kind for d in plan(full, free).due if d.kind == FILL] == [FILL]
    assert decide(free, FillSeats(0, free.version, (bot(1),), NEXT))


def test_a_finished_game_sets_no_ones_rest_aside() -> None:
    """Everybody who is not ready after it has his time from its end."""
    table = playing(durak_rules(3), 1)
    _, table = when(table, sit(2))
    _, after = when(table, end(*(Line(player(n), 0) for n in (0, 1))))
    assert {d.key for d in plan(table, after).due if d.kind == "unready"} == {"0", "1", "2"}
