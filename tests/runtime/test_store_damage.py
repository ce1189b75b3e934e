"""What was stored cannot be changed, and where somebody managed to, it is found and named."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import exc, insert, literal, select, text

from services.kernel.envelope import Head, Recorded
from services.runtime.store.api import Damaged
from services.runtime.store.chain import verify
from services.runtime.store.keys import Rewrapped
from services.runtime.store.schema import event_secrets, events, metadata, stream_keys
from services.runtime.store.sealing import KeyUnknown, MasterKeys, SealBroken, unwrap
from services.runtime.store.sql import SqlStore
from tests.runtime.appends import OTHER, STREAM, append
from tests.runtime.owner import as_owner
from tests.runtime.stored import verify_stream

SECRET = b"the deck nobody may know"
Statement = Callable[[str], Awaitable[None]]


@pytest.fixture
async def filled(store: SqlStore) -> SqlStore:
    """A store with two streams of three events, of which the second hides something."""
    for stream in (STREAM, OTHER):
        await store.append(append(0, "Opened", stream=stream))
        await store.append(append(1, "Dealt", "BidMade", stream=stream, secret=SECRET))
    return store


async def run(store: SqlStore, *statements: str, **values: object) -> None:
    """Runs statements as the owner of the tables might."""
    async with as_owner(store) as connection:
        for statement in statements:
            await connection.execute(text(statement), values)


async def disarm(store: SqlStore) -> None:
    """Takes the guards away, as only the owner of the tables can."""
    if store._engine.dialect.name == "postgresql":
        for table in ("events", "event_secrets"):
            await run(store, f"ALTER TABLE {table} DISABLE TRIGGER ALL")
        return
    async with as_owner(store) as connection:
        guards = await connection.exec_driver_sql(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        )
        for guard in guards.scalars().all():
            await connection.exec_driver_sql(f"DROP TRIGGER {guard}")


# ------------------------------------------------------------------------------------- immutability


CHANGES = (
    "UPDATE {table} SET version = version + 10",
    "DELETE FROM {table}",
    "DELETE FROM {table} WHERE version = 3 OR version = 2",
    "TRUNCATE {table}",
    "TRUNCATE {table}, heads CASCADE",
    "SET session_replication_role = replica; DELETE FROM {table}",
    "INSERT OR REPLACE INTO {table} SELECT * FROM {table}",
    "REPLACE INTO {table} SELECT * FROM {table} WHERE version = 2",
    (
        "INSERT INTO {table} SELECT * FROM {table} WHERE true "
        "ON CONFLICT (stream, version) DO UPDATE SET version = 99"
    ),
)


@pytest.mark.parametrize("table", ["events", "event_secrets"])
async def test_the_log_refuses_every_change(filled: SqlStore, table: str) -> None:
    """To everyone, by whatever statement; on each engine those it does not know fail anyway."""
    before = await filled.read(STREAM), await filled.read(OTHER)
    for statement in CHANGES:
        with pytest.raises(exc.DBAPIError):
            await run(filled, *statement.format(table=table).split(";"))
        assert (await filled.read(STREAM), await filled.read(OTHER)) == before


async def test_a_second_row_of_a_request_cannot_push_out_the_first(filled: SqlStore) -> None:
    """Neither by its version nor by its request id does REPLACE remove a stored row."""
    forged = select(*(column if column.name != "version" else literal(9) for column in events.c))
    forging = insert(events).prefix_with("OR REPLACE", dialect="sqlite")
    with pytest.raises(exc.DBAPIError):
        async with as_owner(filled) as connection:
            await connection.execute(forging.from_select(events.c.keys(), forged))
    assert len(await filled.read(STREAM)) == 3


async def test_a_row_with_the_place_of_another_cannot_push_it_out(filled: SqlStore) -> None:
    """On SQLite a row has a number besides its key; REPLACE by that is refused as well. PostgreSQL
    has no such number, and knows no REPLACE."""
    before = await filled.read(STREAM)
    names = ", ".join(column.name for column in events.c if column.name != "version")
    forged = f"SELECT rowid, version + 99, {names} FROM events"  # noqa: S608 - a test's own words
    forging = f"REPLACE INTO events (rowid, version, {names}) {forged}"
    with pytest.raises(exc.DBAPIError, match=r"never replaced|syntax error"):
        await run(filled, forging)
    assert await filled.read(STREAM) == before


# -------------------------------------------------------------------------------------- tampering


def flipped(value: Any) -> Any:
    """The value with one of its bits turned over; nothing becomes something."""
    match value:
        case None:
            return b"\1" * 32
        case int():
            return value ^ 1
        case str():
            return value[:-1] + chr(ord(value[-1]) ^ 2)
        case UUID():
            return UUID(int=value.int ^ (1 << 64))
        case _:
            return value[:-1] + bytes([value[-1] ^ 1]) if value else b"\0"


async def test_a_changed_event_is_located(filled: SqlStore) -> None:
    """Whatever column of a stored event changes, the stream and the version are named."""
    await disarm(filled)
    place = (events.c.stream == STREAM) & (events.c.version == 2)
    async with as_owner(filled) as connection:
        row = (await connection.execute(events.select().where(place))).one()._asdict()
    for column, value in row.items():
        forged = 2 + 64 if column == "version" else flipped(value)
        async with as_owner(filled) as connection:
            await connection.execute(events.update().where(place).values({column: forged}))
        fault = await verify_stream(filled, STREAM)
        assert fault is not None, column
        assert (fault.stream, fault.version) == (STREAM, 2), column
        assert await verify_stream(filled, OTHER) is None
        async with as_owner(filled) as connection:
            there = events.c.hash == (flipped(value) if column == "hash" else row["hash"])
            await connection.execute(events.update().where(there).values(row))
        assert await verify_stream(filled, STREAM) is None


@pytest.mark.parametrize("table", [event_secrets, stream_keys], ids=str)
@pytest.mark.parametrize("column", ["sealed", "wrapped", "stream", "version"])
async def test_a_changed_secret_is_located(filled: SqlStore, table: Any, column: str) -> None:
    """Sealed bytes or a key that were changed, moved or removed do not open, and are named."""
    await disarm(filled)
    if column not in table.c:
        async with as_owner(filled) as connection:
            await connection.execute(table.delete().where(table.c.stream == STREAM))
    else:
        async with as_owner(filled) as connection:
            row = (await connection.execute(table.select().where(table.c.stream == STREAM))).one()
            forged = flipped(row._mapping[column])
            await connection.execute(
                table.update().where(table.c.stream == STREAM).values({column: forged})
            )
    reader = SqlStore(filled._engine, filled._keys._masters if filled._keys else None)
    fault = await verify_stream(reader, STREAM)
    assert fault is not None
    assert fault.stream == STREAM
    assert fault.version == 2 or table is stream_keys
    for reading in (reader.read(STREAM), reader.wholes([OTHER, STREAM])):
        with pytest.raises(Damaged):
            await reading
    assert await verify_stream(reader, OTHER) is None


@pytest.mark.parametrize(
    ("statement", "version"),
    [
        ("DELETE FROM events WHERE stream = :stream AND version = 3", 3),
        ("DELETE FROM events WHERE stream = :stream AND version = 1", 1),
        ("DELETE FROM events WHERE stream = :stream", 1),
        ("UPDATE heads SET version = 2 WHERE stream = :stream", 3),
        ("UPDATE heads SET version = 7 WHERE stream = :stream", 4),
        ("UPDATE heads SET hash = (SELECT h.hash FROM heads h WHERE h.stream <> heads.stream)", 3),
        ("DELETE FROM heads WHERE stream = :stream", 0),
    ],
)
async def test_a_cut_or_forged_end_is_located(
    filled: SqlStore, statement: str, version: int
) -> None:
    """Events that are missing at either end and a head that says otherwise are found."""
    await disarm(filled)
    stream = STREAM if filled._engine.dialect.name == "postgresql" else STREAM.hex
    if ":stream" in statement:
        await run(filled, statement, stream=stream)
    else:
        await run(filled, statement)
    fault = await verify_stream(filled, STREAM)
    assert fault is not None
    assert (fault.stream, fault.version) == (STREAM, version)


async def test_every_bit_of_an_event_is_in_its_hash(filled: SqlStore) -> None:
    """Turn over any single bit of any field of any event: the first wrong version is that one."""
    rows = await filled.read(STREAM)
    head = await filled.head(STREAM)
    assert head == Head(STREAM, 3, rows[2].hash, ended=False)
    turned = 0
    for place, row in enumerate(rows):
        for forged in forgeries(row):
            turned += 1
            fault = verify([*rows[:place], forged, *rows[place + 1 :]], head)
            assert fault is not None, forged
            assert fault.version == place + 1
    assert turned > 3_000


def forgeries(row: Recorded) -> list[Recorded]:
    """The row with each single bit of each of its fields turned over."""
    forged = []
    for name in Recorded.__dataclass_fields__:
        value = getattr(row, name)
        match value:
            case None:
                continue
            case UUID():
                variants: list[Any] = [UUID(int=value.int ^ 1 << bit) for bit in range(128)]
            case int():
                variants = [value ^ 1 << bit for bit in range(31)]
            case str():
                octets = value.encode()
                variants = [text.decode("utf-8", "surrogateescape") for text in turns(octets)]
            case _:
                variants = turns(value)
        forged += [replace(row, **{name: variant}) for variant in variants]
    return forged


def turns(octets: bytes) -> list[bytes]:
    """The octets with each single bit turned over."""
    number = int.from_bytes(octets, "big")
    return [(number ^ 1 << bit).to_bytes(len(octets), "big") for bit in range(8 * len(octets))]


async def test_absent_and_empty_are_different(filled: SqlStore) -> None:
    """A field that is empty does not hash as one that is not there, nor run into the next."""
    rows = await filled.read(STREAM)
    for forged in (
        replace(rows[2], request_id=""),
        replace(rows[2], body_hash=b""),
        replace(rows[2], secret_digest=b""),
        replace(rows[2], name="Bid", payload=b"Made" + rows[2].payload),
    ):
        fault = verify([*rows[:2], forged])
        assert fault is not None
        assert fault.version == 3


# ---------------------------------------------------------------------------------------- secrets


async def test_secrets_are_sealed_at_rest(filled: SqlStore) -> None:
    """Nothing stored contains a secret, its salt or a key; with salts in it, one could guess."""
    rows = await filled.read(STREAM)
    salt = rows[1].salt
    assert rows[1].secret == SECRET
    assert salt is not None
    assert filled._keys is not None
    key = filled._keys._opened[STREAM]
    stored = b""
    async with as_owner(filled) as connection:
        for table in metadata.sorted_tables:
            for row in await connection.execute(table.select()):
                stored += b"".join(v if isinstance(v, bytes) else str(v).encode() for v in row)
    for hidden in (SECRET, salt, key, filled._keys._masters.keys["first"]):
        assert hidden not in stored
        assert hidden.hex().encode() not in stored
    assert rows[1].secret_digest is not None
    assert rows[1].secret_digest in stored


async def test_the_same_secret_looks_different_every_time(filled: SqlStore) -> None:
    """Equal secrets in two games have different digests and different sealed bytes."""
    first, other = (await filled.read(STREAM))[1], (await filled.read(OTHER))[1]
    assert first.secret == other.secret
    assert first.secret_digest != other.secret_digest


async def test_a_lost_master_key_is_named(filled: SqlStore) -> None:
    """The error says which key is missing; what is not secret can still be read without keys."""
    other = SqlStore(filled._engine, MasterKeys("second", {"second": bytes(32)}))
    with pytest.raises(KeyUnknown, match="'first'") as raised:
        await other.read(STREAM)
    assert raised.value.key_id == "first"
    wrong = SqlStore(filled._engine, MasterKeys("first", {"first": bytes(32)}))
    with pytest.raises(Damaged):
        await wrong.read(STREAM)
    public = SqlStore(filled._engine, None)
    rows = await public.read(STREAM)
    assert [row.secret for row in rows] == [None, None, None]
    assert await verify_stream(public, STREAM) is None
    with pytest.raises(ValueError, match="master keys"):
        await public.append(append(3, secret=b"hidden"))
    assert (await public.append(append(3))).version == 4


async def test_master_keys_are_exchanged_without_touching_the_log(filled: SqlStore) -> None:
    """After wrapping anew the old key may go; events and sealed bytes are what they were."""
    async with as_owner(filled) as connection:
        before = (await connection.execute(event_secrets.select())).all()
    rows = await filled.read(STREAM)
    old = bytes(range(32))
    both = SqlStore(filled._engine, MasterKeys("second", {"first": old, "second": bytes(32)}))
    step = await both.rewrap(limit=1)
    assert (step.wrapped, step.broken) == (1, ())
    assert await both.read(STREAM) == rows
    assert (await both.rewrap(step.last)).wrapped == 1
    assert await both.rewrap() == Rewrapped(0, (), None)
    only = SqlStore(filled._engine, MasterKeys("second", {"second": bytes(32)}))
    assert await only.read(STREAM) == rows
    async with as_owner(filled) as connection:
        assert (await connection.execute(event_secrets.select())).all() == before


def test_master_keys_are_checked_and_never_shown() -> None:
    """A key of another length or an unknown current key is an error that shows no key."""
    with pytest.raises(KeyUnknown, match="'b'"):
        MasterKeys("b", {"a": bytes(32)})
    with pytest.raises(ValueError, match="32 bytes"):
        MasterKeys("a", {"a": b"short"})
    keys = MasterKeys("a", {"a": b"k" * 32})
    assert "kkk" not in repr(keys)
    with pytest.raises(SealBroken):
        unwrap(keys, STREAM, "a", b"")
