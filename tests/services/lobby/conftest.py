"""A whole lobby over real loopback gRPC, with a wallet and a game service in memory beside it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.services.lobby.hall import Hall, lobby_hall


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    """A lobby at work."""
    async with lobby_hall(tmp_path) as opened:
        yield opened
