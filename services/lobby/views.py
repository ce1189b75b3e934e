"""A table as one viewer may see it."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from kozyr.game.v1 import variant_pb2
from kozyr.lobby.v1 import identity_pb2, lobby_pb2, talk_pb2

from services.lobby.devices import Device
from services.lobby.erasures import Erasure
from services.lobby.evolve import rules_of
from services.lobby.model import Phase, Rules, Seat, Table, Variant, Visibility
from services.lobby.players import Player
from services.lobby.seeing import kick_of
from services.lobby.sessions import Session
from services.lobby.talk import Line
from services.lobby.variants import write_game_options
from services.runtime.moments import timestamp


def table_view(
    table_id: UUID, table: Table, viewer: UUID | None, names: Mapping[UUID, Player]
) -> lobby_pb2.Table:
    """The table as `viewer` (None: nobody who could sit there) sees it.

    The invite code and who was invited is for those who sit there, who was sent away for the host,
    and why for him who was; everything else is for whoever may see the table.
    """
    rules = rules_of(table)
    seated = viewer is not None and table.seat_of(viewer) is not None
    private = rules.visibility is Visibility.PRIVATE
    view = lobby_pb2.Table(
        table_id=str(table_id),
        host_id=str(table.host),
        rules=_rules_view(rules, seated=seated),
        state=lobby_pb2.TableState.ValueType(table.phase),
        seats=[_seat_view(table, n, seat, names) for n, seat in enumerate(table.seats)],
        game_id=str(table.game or ""),
        games_played=table.games,
        last_winner_id=str(table.last_winner or ""),
        series=[
            lobby_pb2.SeriesLine(player_id=str(t.player), wins=t.wins, losses=t.losses)
            for t in table.series
        ],
        invite_code=rules.invite_code if seated and private else "",
        start_failure=table.failure,
        version=table.version,
    )
    if (moments := [s.wish.at for _, s in table.people() if s.wish]) and table.free():
        view.fill_time.CopyFrom(timestamp(min(moments)))
    if viewer is not None:
        view.kicked = lobby_pb2.KickReason.ValueType(kick_of(table, viewer))
        if viewer == table.host:
            view.kicked_player_ids.extend(str(each.player) for each in table.kicked)
    view.opened_time.CopyFrom(timestamp(table.opened_at))
    return view


def players_at(table: Table) -> Iterable[UUID]:
    """Everybody whose name a view of the table needs."""
    return (seat.player for _, seat in table.taken())


def player_view(player: Player) -> identity_pb2.Player:
    """A player as others see him."""
    return identity_pb2.Player(
        player_id=str(player.player),
        display_name=player.name,
        bot=player.bot,
        erased=player.erased,
    )


def talk_line(line: Line, names: Mapping[UUID, Player]) -> talk_pb2.TalkLine:
    """Something that was said."""
    known = names.get(line.player)
    shown = talk_pb2.TalkLine(
        table_id=str(line.table),
        number=line.number,
        player_id=str(line.player),
        display_name=known.name if known else "",
        said_time=timestamp(line.said_at),
    )
    if line.words is None:
        shown.emote = talk_pb2.Emote.ValueType(line.emote)
    else:
        shown.text = line.words
    return shown


def session_view(session: Session, current: str) -> identity_pb2.Session:
    """A session; `current` is the id of the caller's own."""
    view = identity_pb2.Session(
        expire_time=timestamp(session.expires_at),
        session_id=str(session.session),
        device_name=session.device_name,
        means=identity_pb2.SignInMeans.ValueType(session.means),
        current=str(session.session) == current,
    )
    if session.started_at is not None:
        view.start_time.CopyFrom(timestamp(session.started_at))
    if session.renewed_at is not None:
        view.renew_time.CopyFrom(timestamp(session.renewed_at))
    return view


def device_view(device: Device) -> identity_pb2.Device:
    """A device."""
    view = identity_pb2.Device(
        device_id=str(device.device),
        device_name=device.name,
        public_key=device.public_key,
        created_time=timestamp(device.created_at),
    )
    if device.used_at is not None:
        view.used_time.CopyFrom(timestamp(device.used_at))
    return view


def erasure_view(erasure: Erasure, *, operator: bool) -> identity_pb2.Erasure:
    """An erasure; which operator asked for it is for operators."""
    view = identity_pb2.Erasure(
        player_id=str(erasure.player),
        step=identity_pb2.ErasureStep.ValueType(erasure.step),
        asked_time=timestamp(erasure.asked_at),
        asked_by=erasure.asked_by if operator else "",
        chips=erasure.chips,
    )
    if erasure.ends_at is not None:
        view.end_time.CopyFrom(timestamp(erasure.ends_at))
    return view


def _rules_view(rules: Rules, *, seated: bool) -> lobby_pb2.TableRules:
    return lobby_pb2.TableRules(
        options=write_game_options(rules.variant, rules.options),
        seats=rules.seats,
        turn_ms=rules.turn_ms,
        visibility=lobby_pb2.Visibility.ValueType(rules.visibility),
        spectators=rules.spectators,
        absent_policy=variant_pb2.AbsentPolicy.ValueType(rules.absent),
        buy_in_min=rules.buy_in_min,
        buy_in_max=rules.buy_in_max,
        no_series=rules.variant is Variant.DURAK and not rules.series,
        time_bank_ms=rules.time_bank_ms,
        spectator_delay=rules.spectator_delay,
        bot_after=rules.bot_after,
        no_hints=rules.no_hints,
        no_chat=rules.no_chat,
        no_bots=rules.no_bots,
        invited_player_ids=[str(player) for player in rules.invited] if seated else [],
    )


def _seat_view(
    table: Table, number: int, seat: Seat | None, names: Mapping[UUID, Player]
) -> lobby_pb2.TableSeat:
    if seat is None:
        return lobby_pb2.TableSeat(seat=number)
    known = names.get(seat.player)
    return lobby_pb2.TableSeat(
        seat=number,
        player_id=str(seat.player),
        display_name=known.name if known else "",
        bot_level=variant_pb2.BotLevel.ValueType(seat.bot),
        stack=seat.stack,
        ready=seat.ready,
        problem=seat.problem,
        in_game=table.phase in {Phase.STARTING, Phase.PLAYING} and number in table.playing,
        rematch=seat.again,
    )
