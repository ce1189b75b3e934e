"""Whether a service's master keys are all there, on both engines."""

import pytest

from services.runtime.eventstore import require_keys
from services.runtime.server import CannotStart
from services.runtime.store.sealing import MasterKeys
from services.runtime.store.sql import SqlStore
from tests.runtime.appends import append, numbered
from tests.runtime.conftest import KEYS

OTHER = bytes(32)


async def test_every_master_key_in_use_must_be_there_and_open_something(store: SqlStore) -> None:
    """An empty database needs none; a missing key and one that is only named so are told."""
    engine = store._engine
    await require_keys(engine, MasterKeys("second", {"second": OTHER}))
    for number in range(3):
        await store.append(append(0, stream=numbered(number), secret=b"hidden"))
    await require_keys(engine, KEYS)
    await require_keys(engine, MasterKeys("second", {**KEYS.keys, "second": OTHER}))
    for keys in ({"second": OTHER}, {"second": OTHER, "first": OTHER}):
        with pytest.raises(CannotStart, match=r"not in the key folder: first;"):
            await require_keys(engine, MasterKeys("second", keys))
