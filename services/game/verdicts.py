"""What is said of games: everything their own database has of them, and the wallet."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from services.game.arbitration import Disputes
from services.game.audit import Fault
from services.game.auditors import Answer, Auditors
from services.game.checking import Checked, Held, check_game, logs_after
from services.game.disputes import Standing
from services.game.peers import Peers
from services.game.reconciling import compare_rulings
from services.game.settled import wallet_faults
from services.runtime import metrics
from services.runtime.store.api import Store
from services.runtime.streams import refusals


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Checks games of one database. Methods raise Refused."""

    engine: AsyncEngine
    store: Store
    peers: Peers
    auditors: Auditors
    disputes: Disputes

    async def one(self, game_id: UUID, held: Sequence[Held]) -> Checked | None:
        """What is found in a game; None where there is nothing of this id."""
        with refusals():
            checked = await check_game(self.engine, self.store, game_id, held)
        return None if checked is None else await self._beside_wallet(game_id, checked)

    async def page(self, after: UUID | None, limit: int) -> AsyncGenerator[list[Answer], None]:
        """What is found in each log of a page, in the order of ids, some at a time.

        The games are read and executed by other processes, the wallet is asked by this one.
        """
        with refusals():
            games = await logs_after(self.engine, after, limit)
        async with aclosing(self.auditors.check(games)) as checking:
            async for answers in checking:
                beside = (self._beside_wallet(game, found) for game, found in answers)
                found = await asyncio.gather(*beside)
                yield [(game, each) for (game, _), each in zip(answers, found, strict=True)]

    async def _beside_wallet(self, game_id: UUID, checked: Checked) -> Checked:
        if (end := checked.end) is None:
            return _counted(checked)
        with refusals():
            now = await self.store.now()
        found = await wallet_faults(self.peers, game_id, end.state, end.head, now)
        found += await self._ruling_faults(game_id)
        return _counted(replace(checked, faults=(*checked.faults, *found), end=None))

    async def _ruling_faults(self, game_id: UUID) -> list[Fault]:
        """Differences between rulings and ledger; chips on their way are looked for again."""
        transfers = await self.peers.transfers(str(game_id))
        disputes = {found.id: found.state async for found in self.disputes.about(game_id)}
        paid = {key: state for key, state in disputes.items() if state.paid is not None}
        under_way = {str(key) for key in disputes if disputes[key].standing is Standing.PAYING}
        done = [transfer for transfer in transfers if transfer.dispute_id not in under_way]
        return compare_rulings(paid, done)


def _counted(checked: Checked) -> Checked:
    """What was found, told to the metrics."""
    metrics.AUDITED.of("faulty" if checked.faults else "sound").inc()
    return checked
