"""How many games a player may have open, and on how many seats of one he may sit."""

from pathlib import Path
from random import Random

from services.kernel.errors import Kind
from tests.services.game.system import new_id, setup, system
from tests.services.game.test_histories import refusal
from tests.services.game.test_service import play_out


async def test_a_player_has_so_many_games_open(tmp_path: Path) -> None:
    """One more is refused by the limit's name and his seat, before chips are bound; what has been
    opened is opened when it is asked for again, and a game that ends makes room. Bots may play in
    any number."""
    async with system(tmp_path, games_per_player_max=2) as house:
        me, opened = new_id(), []
        for _ in range(2):
            request = setup("rami", people=1, bots=1)
            request.seats[0].player_id = me
            opened.append(await house.open(request))
        more = setup("azi", people=2, bots=1)
        more.seats[1].player_id = me
        await house.reserve(more)
        lobby = house.lobby
        refused = await refusal(lobby.call(lobby.games.CreateGame, more))
        assert (refused.kind, refused.reason) == (Kind.PRECONDITION, "TOO_MANY_GAMES")
        facts = {name: refused.facts[name] for name in ("limit", "most", "seat")}
        assert facts == {"limit": "games", "most": "2", "seat": "1"}
        await lobby.call(lobby.games.CreateGame, opened[1])
        await play_out(house.game(me), opened[0].game_id, Random(3))
        await lobby.call(lobby.games.CreateGame, more)


async def test_a_player_sits_on_one_seat_of_a_game(tmp_path: Path) -> None:
    """However his id is written."""
    async with system(tmp_path) as house:
        for spelt in (str, str.upper):
            request = setup("durak", people=3, bots=0)
            request.seats[2].player_id = spelt(request.seats[0].player_id)
            lobby = house.lobby
            refused = await refusal(lobby.call(lobby.games.CreateGame, request))
            assert refused.kind is Kind.INVALID
            assert refused.fields[0].field.startswith("seats")
