"""No channel tells a viewer what he may not know, and a leak in any of them would be seen."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from engines import rami
from engines.cards import text
from services.ai import minds
from services.ai import views as ai_views
from services.game import (
    delays,
    export,
    games,
    histories,
    proving,
    reactions,
    receipts,
    shared,
    views,
    watching,
)
from services.game import domain as rules
from services.game.model import Stage, State
from services.game.pacing import Pace
from services.kernel.envelope import Due, Plan
from services.kernel.errors import Refused
from services.runtime import log, metrics, traces
from tests.leaks.channels import CHANNELS
from tests.leaks.fuzz import SEATS, Game, Leak, Tally, check, fuzz, game, known
from tests.leaks.octets import carried, spelt
from tests.rpcs import path, rpcs
from tests.services.game.logs import GAME_ID
from tests.services.game.worlds import Viewer

GAMES = int(os.environ.get("KOZYR_LEAKS_N", "2"))
"""Random games of each kind; every second opens its cards one by one."""

NO_CHANNELS = {
    *("CreateGame", "CancelGame"),  # of the lobby, before there are cards
    *("GetConsistencyProof", "GetCoverage", "VerifyTree"),  # of the tree: hashes and counts
    *("ListShares", "RevokeShare"),  # of links: ids and moments
    "VerifyGames",  # as VerifyGame, in other processes
    *("ListKeys", "ListClosedGames", "WrapKeys", "ListAccesses"),  # of keys and looks: ids
    *("ListDisputes", "GetDispute", "ResolveDispute", "ApproveRuling", "WithdrawRuling"),
    *("ListClaims", "CollectClaim"),  # of disputes: words of people, chips after the end
    *("ErasePlayer", "CheckErasure", "GetTraces"),  # of persons: ids and moments
}
"""RPCs of the game service that no channel asks, for they know no game's state."""

Real = Callable[..., Any]


@pytest.mark.parametrize("variant", SEATS)
async def test_no_channel_tells_what_a_viewer_may_not_know(variant: str) -> None:
    """Random games, each viewer, each channel: equal in worlds alike to him, and no hidden card."""
    tally = Tally()
    for number in range(GAMES):
        await fuzz(variant, number, tally)
    assert tally.other_worlds > tally.viewers // 2
    empty = {name for name in CHANNELS if not tally.pieces[name]}
    assert empty <= {"questions to bots", "the ai's log", "wallet and lobby"}
    of_games = {path(method) for service, method in rpcs() if service == "game"}
    unasked = {name.rpartition("/")[2] for name in of_games - tally.asked}
    assert unasked - {"LeaveGame", "ReturnToSeat"} == NO_CHANNELS


def hand(state: State) -> Any:
    """The hand of the seat after the one that is to move; empty before the first deal."""
    if state.stage is not Stage.PLAYING or not state.engine.hands:
        return ()
    (seat,) = rami.to_act(state.engine)
    return sorted(state.engine.hands[(seat + 1) % len(state.seats)])


def number(state: State) -> int:
    """That hand as a number that no reader would take for cards."""
    return sum((place + 1) * int(card) for place, card in enumerate(hand(state)))


def words(state: State) -> str:
    """That hand in words."""
    return " ".join(text(card) for card in hand(state))


def a_number_in_the_view(real: Real) -> Real:
    """The clock's turn time is longer by what a hand holds."""

    def game_view(state: State, viewer: Viewer, head: bytes, now: int | None = None) -> Any:
        view = real(state, viewer, head, now)
        view.clock.turn_ms += number(state)
        return view

    return game_view


def another_seats_view(real: Real) -> Real:
    """Who has no seat is sent the table as seat 0 sees it."""

    def view_octets(shared: Any, state: State, viewer: Viewer) -> Any:
        return real(shared, state, viewer or 0)

    return view_octets


def another_seats_events(real: Real) -> Real:
    """Who has no seat is told of events as seat 0 is."""
    return lambda variant, event, viewer: real(variant, event, viewer or 0)


def a_number_in_tokens(real: Real) -> Real:
    """A token stands for a version and a hand."""

    def step(signed: Any, step: Any, viewer: Viewer) -> Any:
        whole, told = real(signed, step, viewer), step.told(viewer, signed._now())
        version = step.loaded.version * 1_000 + number(step.loaded.state)
        return whole[: len(told)] + signed._sign(version)

    return step


def a_number_in_a_replay(real: Real) -> Real:
    """A turn has the number of a hand."""

    def own_step(append: Any, seat: int) -> Any:
        step = real(append, seat)
        step.view.turn += number(append.after)
        return step

    return own_step


def a_deck_behind_a_link(real: Real) -> Real:
    """A turn has the number of a deck."""

    def view(state: State) -> Any:
        made = real(state)
        made.turn += sum((n + 1) * int(card) for n, card in enumerate(state.deals[-1].deck))
        return made

    return view


def words_in_lists(real: Real) -> Real:
    """The table's id in a list is a hand."""
    return lambda state: {**real(state), "table_id": words(state)}


def a_number_in_errors(real: Real) -> Real:
    """A refusal's facts know a hand."""

    async def play(self: Any, state: State, *given: Any) -> Any:
        try:
            return await real(self, state, *given)
        except Refused as refused:
            now = (await self.load(state.game_id)).state
            refused.facts["at"] = str(number(now))
            raise

    return play


def a_card_in_receipts(real: Real) -> Real:
    """A receipt opens the last card of the stock."""

    def cards(state: State, rows: Any, viewer: Viewer) -> Iterator[dict[str, Any]]:
        yield from real(state, rows, viewer)
        deck = state.deals[-1].deck
        yield {"deal": 1, "place": len(deck) - 1, "card": int(deck[-1]), "salt": None, "path": None}

    return cards


def a_number_in_proofs(real: Real) -> Real:
    """A proof is of a version that tells a hand."""

    async def proof(self: Any, request: Any, context: Any) -> Any:
        reply = await real(self, request, context)
        loaded = await self._games.load(GAME_ID)
        reply.version += number(loaded.state)
        return reply

    return proof


def words_in_hints(real: Real) -> Real:
    """A hint knows where every king is."""

    def show(*given: Any) -> Any:
        reply = real(*given)
        reply.reason = "they hold KS KH KD KC"
        return reply

    return show


def a_number_in_questions(real: Real) -> Real:
    """A bot is asked to think as long as a hand says."""

    async def question(self: Any, state: State, seat: int, head: bytes) -> Any:
        asked = await real(self, state, seat, head)
        asked.budget_ms = number(state)
        return asked

    return question


def a_number_in_the_ais_log(real: Real) -> Real:
    """A bot counts its hand where it is heard."""

    def think(question: Any) -> Any:
        total = sum((n + 1) * int(card) for n, card in enumerate(question.view.hand))
        log.get().info("thought", count=total)
        return real(question)

    return think


def a_deck_in_reports(real: Real) -> Real:
    """A table is told of a player whose name is made of the order of a deck."""

    def report(game_id: Any, state: State) -> Any:
        made = real(game_id, state)
        total = sum((n + 1) * int(card) for n, card in enumerate(state.deals[-1].deck))
        made.left_player_ids.append(f"P{total}")
        return made

    return report


def a_hand_in_timers(real: Real) -> Real:
    """A deadline comes the earlier the better a hand is."""

    def plan(before: State, after: State, pace: Pace) -> Plan:
        made: Plan = real(before, after, pace)
        later = tuple(Due(d.kind, d.key, d.after_ms + number(after)) for d in made.due)
        return replace(made, due=later)

    return plan


def secrets_in_audits(real: Real) -> Real:
    """An operator is shown secrets of a running game."""
    return lambda row, secrets: real(row, secrets=True)


def words_in_logs(real: Real) -> Real:
    """A line tells a hand under a key that may be logged."""

    def decide(state: State, command: Any) -> Any:
        log.get().info("decided", state=words(state))
        return real(state, command)

    return decide


def a_number_in_logs(real: Real) -> Real:
    """A line tells a hand as if it were a count."""

    def decide(state: State, command: Any) -> Any:
        log.get().info("decided", count=number(state))
        return real(state, command)

    return decide


def a_number_in_metrics(real: Real) -> Real:
    """As much news is counted as a hand holds."""

    def decide(state: State, command: Any) -> Any:
        metrics.RELAY_NEWS.of("sent").inc(number(state))
        return real(state, command)

    return decide


def words_in_metrics(real: Real) -> Real:
    """A hand is the label of something that is counted."""

    def decide(state: State, command: Any) -> Any:
        metrics.RELAY_NEWS.metric.labels(words(state)).inc()
        return real(state, command)

    return decide


def a_number_in_traces(real: Real) -> Real:
    """A step is of a version that tells a hand."""

    def decide(state: State, command: Any) -> Any:
        if span := traces.current():
            span.note(version=number(state))
        return real(state, command)

    return decide


def a_word_in_traces(real: Real) -> Real:
    """A step has a card for its reason."""

    def decide(state: State, command: Any) -> Any:
        if span := traces.current():
            span.note(reason=max(words(state).split(), default=None))
        return real(state, command)

    return decide


SEEDED: list[tuple[str, Any, str, Callable[[Real], Real]]] = [
    ("view", views, "game_view", a_number_in_the_view),
    ("happenings", views, "shown_event", another_seats_events),
    ("stream", views, "view_octets", another_seats_view),
    ("resumed stream", views, "view_octets", another_seats_view),
    ("own replay", histories, "own_step", a_number_in_a_replay),
    ("shared game", shared, "_view", a_deck_behind_a_link),
    ("tokens", watching.Signed, "step", a_number_in_tokens),
    ("lists", views, "summary", words_in_lists),
    ("errors", games.Games, "play", a_number_in_errors),
    ("receipt", receipts, "_cards", a_card_in_receipts),
    ("inclusion proof", proving.CheckpointServicer, "GetInclusionProof", a_number_in_proofs),
    ("hints", ai_views, "show_thought", words_in_hints),
    ("questions to bots", reactions.Reactions, "_question", a_number_in_questions),
    ("the ai's log", minds, "think", a_number_in_the_ais_log),
    ("wallet and lobby", reactions, "report", a_deck_in_reports),
    ("timers", games, "plan", a_hand_in_timers),
    ("audits", export, "log_row", secrets_in_audits),
    ("evidence", export, "log_row", secrets_in_audits),
    ("metrics", rules, "decide", a_number_in_metrics),
    ("metrics", rules, "decide", words_in_metrics),
    ("traces", rules, "decide", a_number_in_traces),
    ("traces", rules, "decide", a_word_in_traces),
    ("logs", rules, "decide", words_in_logs),
    ("logs", rules, "decide", a_number_in_logs),
]
"""A leak for every channel: what is put in a function's place."""


def suited(channel: str) -> tuple[Game, Viewer]:
    """A game of Rami, and one who looks, who is told something by this channel."""
    if channel in ("wallet and lobby", "shared game"):
        return next(one for at in count(1, 2) if (one := game("azi", at)).state.ended), None
    for at in count(0, 2):
        one = game("rami", at, moves=6)
        if one.state.ended or any(seat.left for seat in one.state.seats):
            continue
        (asked,) = rami.to_act(one.state.engine)
        if channel in ("hints", "errors", "inclusion proof", "own replay"):
            return one, asked
        if channel not in ("questions to bots", "the ai's log"):
            return one, None
        bots = {c.seat for c in one.commands if isinstance(c, rules.Play) and c.by_bot}
        if bots:
            return one, min(bots) if channel == "questions to bots" else None
    raise AssertionError


@pytest.mark.parametrize(
    ("channel", "place", "name", "leak"), SEEDED, ids=[f"{s[0]}: {s[3].__name__}" for s in SEEDED]
)
async def test_a_leak_is_seen(
    channel: str, place: Any, name: str, leak: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is seeded in one channel is found there; without it, nothing is."""
    one, viewer = suited(channel)
    await check(one, viewer, Tally(), only=[channel])
    monkeypatch.setattr(place, name, leak(getattr(place, name)))
    with pytest.raises(Leak, match=channel):
        await check(one, viewer, Tally(), only=[channel])


def behind() -> Game:
    """A game in which cards have been played that those who are kept behind have not seen."""
    for at in count(0, 2):
        one = game("durak", at)
        running = one.state.spectator_delay and not one.state.ended
        if running and known(one.true, None) - known(one.seen(None), None):
            return one
    raise AssertionError


@pytest.mark.parametrize("channel", ["view", "happenings", "receipt", "stream"])
async def test_what_is_shown_too_soon_is_seen(
    channel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where those who are kept behind are shown the present after all."""

    async def present(_delays: Any, loaded: Any, _viewer: Viewer) -> Any:
        return loaded

    one = behind()
    await check(one, None, Tally(), only=[channel])
    monkeypatch.setattr(delays.Delays, "seen", present)
    monkeypatch.setattr(watching, "delay_of", lambda _state, _viewer: 0)
    with pytest.raises(Leak, match=rf"{channel}: piece \d+ names a hidden card"):
        await check(one, None, Tally(), only=[channel])


def test_every_channel_has_a_leak_that_is_seen() -> None:
    """A channel more needs a leak more."""
    assert {seeded[0] for seeded in SEEDED} == set(CHANNELS)


@pytest.mark.parametrize(
    "said",
    [
        "TS",
        "has TS, 9",
        "TEN_OF_SPADES",
        "CARD_TEN_OF_SPADES",
        "10♠",
        "T♠",
        "Card(8)",
        "{'x': 'TS'}",
    ],
)
def test_a_card_is_found_in_words(said: str) -> None:
    """However it is written."""
    assert [text(card) for card in spelt(said)] == ["TS"]


def test_what_is_no_card_is_not_taken_for_one() -> None:
    """Ids, hashes and words."""
    assert not list(spelt("01890a5d-ac96-7adc-bc8d 7c5 UNITS TSAR x2d AS1 4d"))


def test_a_secret_is_found_in_octets() -> None:
    """Plain, in hexadecimal, in base64 of either alphabet."""
    secret = bytes(range(200, 232))
    for form in (secret, secret.hex().encode(), b"yMnKy8zNzs_Q0dLT1NXW19jZ2tvc3d7f4OHi4-Tl5uc"):
        assert list(carried(b"before " + form + b" after", [secret])) == [secret]
    assert not list(carried(b"before and after", [secret]))


def test_a_card_is_found_in_words_and_not_in_a_signature() -> None:
    """Two letters that meet in a signature or a token are no card; those in a sentence are."""
    note = "kozyr 3 — 7Hc+/9S+uRrk2QkP0aBzWm4TqXy/8D/AbCdEf0123456789+/==\n"
    token = "eyJhbGciOiJFZERTQSJ9_9S-aGVsbG8td29ybGQ_8D-QkP0aBzWm4T"
    assert list(spelt(note)) == list(spelt(token)) == []
    said = (
        "drops 9S",
        "9S/8D/7C/6H/5S/4D/3C/2H/TS/JD",
        "cards-9S-8D",
        "his-card-is-the-9S-of-spades",
    )
    assert all(list(spelt(each)) for each in said)
