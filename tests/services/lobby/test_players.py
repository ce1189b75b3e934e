"""Players, secrets and refresh tokens; what races or writes, on both databases."""

import asyncio
from uuid import UUID

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from services.kernel.errors import Refused
from services.lobby.bots import NAMES, new_bot
from services.lobby.choices import Choices
from services.lobby.players import (
    NAME_MAX,
    SIGN_UP_REPEAT_US,
    Players,
    display_name,
)
from services.lobby.schema import players as players_table
from services.lobby.schema import refresh_tokens
from services.lobby.sessions import REFRESH_US
from services.runtime.database import read
from services.runtime.store.api import RequestReused
from tests.services.lobby.ways import Clock

REQUEST = "a-long-request-id-nobody-guesses"


BOTH = pytest.mark.parametrize("engine", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def players(engine: AsyncEngine, clock: Clock) -> Players:
    """The players of an empty database."""
    return Players(engine, clock)


async def refused(players: Players, token: str) -> str:
    """The reason a refresh token is refused for."""
    with pytest.raises(Refused) as caught:
        await players.sessions.refresh(token)
    return caught.value.reason


@BOTH
async def test_a_repeated_sign_up_is_the_same_player_with_a_new_secret(players: Players) -> None:
    """The first secret and the first refresh token end; nobody is shown a secret twice."""
    first = await players.sign_up("Nino", REQUEST)
    second = await players.sign_up("Nino", REQUEST)
    assert second.player == first.player
    assert second.secret != first.secret
    with pytest.raises(Refused, match="SIGN_IN_REFUSED"):
        await players.sign_in(first.player.player, first.secret)
    assert await refused(players, first.refresh.token) == "REFRESH_TOKEN_INVALID"
    assert (await players.sign_in(first.player.player, second.secret))[0] == first.player
    other = await players.sign_up("Nino", REQUEST + "2")
    assert other.player.player != first.player.player


@BOTH
async def test_a_sign_up_is_repeated_by_many_at_once(players: Players) -> None:
    """One player comes of it."""
    made = await asyncio.gather(*(players.sign_up("Nino", REQUEST) for _ in range(5)))
    assert len({m.player.player for m in made}) == 1


async def test_a_sign_up_with_another_name_is_another_request(players: Players) -> None:
    """And is refused under the same id."""
    await players.sign_up("Nino", REQUEST)
    with pytest.raises(RequestReused):
        await players.sign_up("Dato", REQUEST)


@pytest.mark.parametrize("use", ["secret", "refresh", "time"])
async def test_a_sign_up_cannot_be_repeated_once_it_was_used_or_is_old(
    players: Players, clock: Clock, use: str
) -> None:
    """So whoever comes upon a request id later gets nothing by it."""
    made = await players.sign_up("Nino", REQUEST)
    match use:
        case "secret":
            await players.sign_in(made.player.player, made.secret)
        case "refresh":
            await players.sessions.refresh(made.refresh.token)
        case _:
            clock.now += SIGN_UP_REPEAT_US
    with pytest.raises(Refused, match="ALREADY_SIGNED_UP"):
        await players.sign_up("Nino", REQUEST)
    assert (await players.sign_in(made.player.player, made.secret))[0].name == "Nino"


async def test_signing_in_needs_the_players_own_secret(players: Players) -> None:
    """Unknown players, bots and wrong secrets are refused alike."""
    nino, dato = await players.sign_up("Nino", REQUEST), await players.sign_up("Dato", REQUEST * 2)
    bot = new_bot(UUID(int=7), ())
    await players.add_bots([bot])
    for player, secret in (
        (nino.player.player, dato.secret),
        (UUID(int=1), nino.secret),
        (bot.player, nino.secret),
        (nino.player.player, ""),
    ):
        with pytest.raises(Refused, match="SIGN_IN_REFUSED"):
            await players.sign_in(player, secret)


async def test_a_refresh_token_is_spent_by_its_use(players: Players) -> None:
    """Each gives the next one of its family."""
    made = await players.sign_up("Nino", REQUEST)
    player, second = await players.sessions.refresh(made.refresh.token)
    assert player == made.player.player
    _, third = await players.sessions.refresh(second.token)
    assert len({made.refresh.token, second.token, third.token}) == 3


@BOTH
async def test_using_a_spent_token_ends_its_family_and_no_other(players: Players) -> None:
    """A thief and his victim both lose the family; the secret makes a new one."""
    made = await players.sign_up("Nino", REQUEST)
    _, elsewhere = await players.sign_in(made.player.player, made.secret)
    _, newest = await players.sessions.refresh(made.refresh.token)
    assert await refused(players, made.refresh.token) == "REFRESH_TOKEN_REUSED"
    assert await refused(players, newest.token) == "REFRESH_TOKEN_INVALID"
    assert await refused(players, made.refresh.token) == "REFRESH_TOKEN_INVALID"
    assert (await players.sessions.refresh(elsewhere.token))[0] == made.player.player


@BOTH
async def test_of_many_who_use_a_token_at_once_one_gets_the_next(players: Players) -> None:
    """And the family ends, since more than one held it."""
    made = await players.sign_up("Nino", REQUEST)
    tries = (players.sessions.refresh(made.refresh.token) for _ in range(4))
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    won = [o for o in outcomes if not isinstance(o, BaseException)]
    assert len(won) == 1
    assert await refused(players, won[0][1].token) == "REFRESH_TOKEN_INVALID"


async def test_a_refresh_token_ends_after_thirty_days(players: Players, clock: Clock) -> None:
    """The next one of a family lives for thirty days of its own."""
    made = await players.sign_up("Nino", REQUEST)
    clock.now += REFRESH_US - 1
    _, second = await players.sessions.refresh(made.refresh.token)
    clock.now += REFRESH_US
    assert await refused(players, second.token) == "REFRESH_TOKEN_EXPIRED"


async def test_nothing_that_lets_one_in_is_stored(players: Players, engine: AsyncEngine) -> None:
    """Hashes only: of the secret, of refresh tokens, of the sign-up's request id."""
    made = await players.sign_up("Nino", REQUEST)
    async with read(engine) as connection:
        rows = [*(await connection.execute(select(players_table))).all()]
        rows += (await connection.execute(select(refresh_tokens))).all()
    stored = repr([tuple(row) for row in rows])
    for secret in (made.secret, made.refresh.token, REQUEST):
        assert secret not in stored
        assert secret.encode().hex() not in stored
    assert made.secret not in repr(made)
    assert made.refresh.token not in repr(made)


async def test_names_are_found_by_id(players: Players) -> None:
    """Of persons and bots, in a new process too; unknown ids are left out."""
    nino = (await players.sign_up("Nino", REQUEST)).player
    bot = new_bot(UUID(int=5), ())
    await players.add_bots([bot])
    await players.add_bots([bot])
    for _ in range(2):
        found = await players.find([nino.player, bot.player, UUID(int=1)])
        assert found == {nino.player: nino, bot.player: bot}


@BOTH
async def test_accounts_wait_until_the_wallet_has_them(players: Players) -> None:
    """In the order of signing up; bots have none at first."""
    made = [(await players.sign_up("Nino", f"{REQUEST}{n}")).player.player for n in range(3)]
    await players.add_bots([new_bot(UUID(int=5), ())])
    assert set(await players.without_account()) == set(made)
    await players.account_opened(made[1])
    assert set(await players.without_account()) == {made[0], made[2]}


@BOTH
async def test_a_request_keeps_the_table_it_chose(engine: AsyncEngine) -> None:
    """Until it chooses another instead of exactly that one."""
    choices, tables = Choices(engine), [UUID(int=n) for n in range(4)]
    assert await choices.find("r") is None
    assert await choices.choose("r", tables[0]) == tables[0]
    assert await choices.choose("r", tables[1]) == tables[0]
    assert await choices.choose("r", tables[2], instead_of=tables[1]) == tables[0]
    assert await choices.choose("r", tables[3], instead_of=tables[0]) == tables[3]
    assert await choices.find("r") == tables[3]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("Nino", "Nino"),
        ("ნინო", "ნინო"),
        ("Zé_1.2-3", "Zé_1.2-3"),
        ("Ana Maria", "Ana Maria"),
        ("Ze\u0301", "Z\u00e9"),
        ("x" * NAME_MAX, "x" * NAME_MAX),
    ],
)
def test_display_names_are_kept_in_one_form(given: str, name: str) -> None:
    """NFC, so that one name has one spelling."""
    assert display_name(given) == name


@pytest.mark.parametrize(
    "given",
    [
        "",
        " ",
        " Nino",
        "Nino ",
        "A  B",
        "A\tB",
        "A\u00a0B",
        "Nino (bot)",
        "x" * (NAME_MAX + 1),
        "<b>",
        "a\u202eb",
        "a\u200bb",
        "...",
        "😀",
        "q\u0323\u0307\u0308",
    ],
)
def test_display_names_hold_letters_digits_and_few_signs(given: str) -> None:
    """No invisible or stacked signs, nobody with a bot's name, no name of signs only."""
    with pytest.raises(Refused) as caught:
        display_name(given)
    assert caught.value.fields[0].field == "display_name"


def test_bots_at_a_table_have_different_names() -> None:
    """For as many as there are names; a bot's id always gives the same one."""
    taken: set[str] = set()
    for number in range(len(NAMES)):
        name = new_bot(UUID(int=number * 7), taken).name
        assert name not in taken
        taken.add(name)
    assert new_bot(UUID(int=3), ()) == new_bot(UUID(int=3), ())
