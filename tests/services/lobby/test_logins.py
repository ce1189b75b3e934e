"""Login names, passwords and lock-outs, over the database; what races, on both databases."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from services.kernel.errors import Kind, Refused
from services.lobby.lockout import FIRST_WAIT_US, FORGET_US
from services.lobby.logins import LOGIN_MAX, login_name, wanted
from services.lobby.passwords import PASSWORD_MAX, Passwords
from services.lobby.schema import failures, logins
from services.lobby.sessions import FRESH_US
from services.runtime.database import read
from services.runtime.settings import Settings
from services.runtime.store.api import RequestReused
from tests.services.lobby.ways import CHEAP, HERE, PASSWORD, Clock, Ways

BOTH = pytest.mark.parametrize("engine", ["sqlite", "postgresql"], indirect=True)
WRONG = "certainly not this one"


async def tried(ways: Ways, login: str, password: str, address: str = HERE) -> str:
    """How signing in by a password ends."""
    try:
        await ways.logins.sign_in(login, password, address)
    except Refused as refused:
        return refused.reason
    return ""


async def test_a_guest_becomes_somebody_who_can_come_back(ways: Ways) -> None:
    """By his login name in any spelling of it; nobody else can have it; his secret goes on."""
    made = await ways.named("Nino.Ⅳ")
    player, _ = await ways.logins.sign_in(login_name("NINO.iv"), PASSWORD, HERE, "Phone")
    assert player == made.player
    login = await ways.logins.of_player(player.player)
    assert login is not None
    assert login.name == "nino.iv"
    other = await ways.guest("Dato")
    with pytest.raises(Refused, match="LOGIN_NAME_TAKEN"):
        await ways.choose(other, "nino.IV", PASSWORD)
    assert await ways.logins.of_player(other.player.player) is None
    assert (await ways.players.sign_in(player.player, made.secret))[0] == player


@BOTH
async def test_of_many_who_want_a_name_at_once_one_has_it(ways: Ways) -> None:
    """The others are told that it is taken."""
    guests = [await ways.guest(f"Nino {n}") for n in range(4)]
    tries = (ways.choose(guest, "nino", PASSWORD) for guest in guests)
    done = await asyncio.gather(*tries, return_exceptions=True)
    assert sorted(map(type, done), key=str) == [Refused, Refused, Refused, str]


async def test_a_new_password_ends_all_other_sessions(ways: Ways) -> None:
    """And the old password; the session that changed it goes on."""
    made = await ways.named()
    player = made.player.player
    _, other = await ways.logins.sign_in("nino", PASSWORD, HERE)
    await ways.choose(made, "", "another long password", PASSWORD)
    (kept,) = await ways.players.sessions.of_player(player)
    assert kept.session == made.refresh.session != other.session
    assert await tried(ways, "nino", PASSWORD) == "SIGN_IN_REFUSED"
    assert await tried(ways, "nino", "another long password") == ""


async def test_a_password_is_changed_by_the_old_one_or_a_fresh_sign_in(
    ways: Ways, clock: Clock
) -> None:
    """An older session needs the old password, and a stolen access token alone is not enough."""
    made = await ways.named()
    clock.now += FRESH_US
    with pytest.raises(Refused, match="SIGN_IN_NOT_FRESH"):
        await ways.choose(made, "", WRONG)
    with pytest.raises(Refused, match="SIGN_IN_REFUSED"):
        await ways.choose(made, "", WRONG, WRONG)
    await ways.choose(made, "zaza", "another long password", PASSWORD)
    assert await tried(ways, "nino", "another long password") == "SIGN_IN_REFUSED"
    assert await tried(ways, "zaza", "another long password") == ""
    other = await ways.guest("Dato")
    clock.now += FRESH_US
    for old in ("", WRONG):
        with pytest.raises(Refused, match="SIGN_IN_NOT_FRESH" if not old else "SIGN_IN_REFUSED"):
            await ways.choose(other, "dato", PASSWORD, old)


async def test_choosing_a_login_twice_by_one_request_is_once(ways: Ways) -> None:
    """Also when the old password is the old one no more; another login under it is refused."""
    made, request = await ways.named(), "a-request-of-its-own"
    for _ in range(2):
        assert await ways.choose(made, "zaza", "a new long password", PASSWORD, request) == "zaza"
    for login, password in (("nino", "a new long password"), ("zaza", WRONG)):
        with pytest.raises(RequestReused):
            await ways.choose(made, login, password, PASSWORD, request)


async def test_after_a_login_was_chosen_the_sign_up_cannot_be_repeated(ways: Ways) -> None:
    """Whoever knows the request of the sign-up would else have the account."""
    request = ways.request()
    made = await ways.players.sign_up("Nino", request)
    await ways.choose(made, "nino", PASSWORD)
    with pytest.raises(Refused, match="ALREADY_SIGNED_UP"):
        await ways.players.sign_up("Nino", request)


@BOTH
async def test_failures_are_waited_for_longer_and_longer(ways: Ways, clock: Clock) -> None:
    """After five; nothing is looked at meanwhile, by no replica; the right one ends it."""
    made = await ways.named()
    other = Ways(ways.engine, clock)
    waits = []
    for number in range(9):
        assert await tried((ways, other)[number % 2], "nino", WRONG, f"h{number}") == (
            "SIGN_IN_REFUSED"
        )
        if number < 4:
            continue
        with pytest.raises(Refused, match="SIGN_IN_LOCKED") as caught:
            await ways.logins.sign_in("nino", PASSWORD, "elsewhere")
        assert (caught.value.kind, caught.value.facts) == (
            Kind.EXHAUSTED,
            {"limit": "account_failures"},
        )
        waits.append(caught.value.retry_after_ms or 0)
        clock.now += waits[-1] * 1_000
    assert waits == [FIRST_WAIT_US // 1_000 * 2**n + 1 for n in range(5)]
    assert await tried(ways, "nino", PASSWORD) == ""
    assert await tried(ways, "nino", WRONG) == "SIGN_IN_REFUSED"
    assert await tried(ways, "nino", PASSWORD) == ""
    assert (await ways.players.sign_in(made.player.player, made.secret))[0] == made.player
    other.close()


async def test_a_locked_name_locks_out_neither_secret_nor_key_and_not_for_good(
    ways: Ways, clock: Clock
) -> None:
    """However many failures, the wait is bounded; and it is not drawn out by asking."""
    made, most = await ways.named(), ways.settings.sign_in_wait_max_ms
    for number in range(30):
        clock.now += most * 1_000
        assert await tried(ways, "nino", WRONG, f"h{number}") == "SIGN_IN_REFUSED"
        assert await tried(ways, "nino", WRONG, f"h{number}") in (
            "SIGN_IN_LOCKED",
            "SIGN_IN_REFUSED",
        )
    assert await tried(ways, "nino", PASSWORD) == "SIGN_IN_LOCKED"
    assert (await ways.players.sign_in(made.player.player, made.secret))[0] == made.player
    clock.now += most * 1_000
    assert await tried(ways, "nino", PASSWORD) == ""


@BOTH
async def test_many_tries_at_once_are_as_many_tries(ways: Ways) -> None:
    """Guessing at the same moment looks at no more passwords than guessing one by one."""
    await ways.named()
    tries = (tried(ways, "nino", WRONG, f"h{n}") for n in range(12))
    reasons = await asyncio.gather(*tries)
    assert reasons.count("SIGN_IN_REFUSED") == ways.settings.sign_in_failures_max
    assert reasons.count("SIGN_IN_LOCKED") == 12 - ways.settings.sign_in_failures_max


async def test_an_address_that_fails_on_many_names_waits(ways: Ways, clock: Clock) -> None:
    """Its own right sign-ins in between help it nothing; others' addresses are not concerned."""
    await ways.named("mallory")
    most = ways.settings.sign_in_address_failures_max
    for number in range(most):
        assert await tried(ways, f"name{number}", WRONG) == "SIGN_IN_REFUSED"
        if number % 10 == 0:
            assert await tried(ways, "mallory", PASSWORD) == ""
    with pytest.raises(Refused) as caught:
        await ways.logins.sign_in("another", WRONG, HERE)
    assert caught.value.facts == {"limit": "address_failures"}
    assert await tried(ways, "mallory", PASSWORD) == "SIGN_IN_LOCKED"
    assert await tried(ways, "mallory", PASSWORD, "elsewhere") == ""
    clock.now += FORGET_US
    assert await tried(ways, "another", WRONG) == "SIGN_IN_REFUSED"
    assert await tried(ways, "another", WRONG) == "SIGN_IN_REFUSED"


async def test_an_unknown_name_is_answered_and_worked_on_like_a_known_one(
    ways: Ways, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same answers, locks, waits and hashes; of a hash with other parameters as well, for an
    unknown name's is the next one's in order."""
    for login in ("anna", "nino"):
        await ways.named(login)
    looked: list[str] = []
    matches = Passwords.matches

    async def look(self: Passwords, encoded: str, password: str) -> bool:
        looked.append(encoded)
        return await matches(self, encoded, password)

    monkeypatch.setattr(Passwords, "matches", look)
    told: dict[str, list[Any]] = {}
    for login in ("nino", "marta", "zaza"):
        for number in range(7):
            try:
                await ways.logins.sign_in(login, WRONG, f"{login}{number}")
            except Refused as refused:
                seen = (refused.kind, refused.reason, refused.message, refused.facts)
                told.setdefault(login, []).append((*seen, refused.retry_after_ms))
    assert told["nino"] == told["marta"] == told["zaza"]
    assert len(looked) == 15
    assert looked[:5] == looked[5:10]
    assert looked[10] == ways.passwords.decoy


async def test_a_hash_with_other_parameters_is_made_anew_by_whoever_signs_in(
    ways: Ways, engine: AsyncEngine, clock: Clock
) -> None:
    """Not by a wrong password; the new one is as the settings say."""
    await ways.named()
    changed: Any = {**CHEAP, "password_passes": 3}
    dearer = Ways(engine, clock, Settings(**changed))

    async def stored() -> str:
        async with read(engine) as connection:
            return str((await connection.execute(select(logins.c.password))).scalar_one())

    assert "m=8,t=1,p=1" in await stored()
    assert await tried(dearer, "nino", WRONG) == "SIGN_IN_REFUSED"
    assert "m=8,t=1,p=1" in await stored()
    assert await tried(dearer, "nino", PASSWORD) == ""
    assert "m=8,t=3,p=1" in await stored()
    assert await tried(ways, "nino", PASSWORD) == ""
    dearer.close()


async def test_passwords_are_looked_at_few_at_a_time(engine: AsyncEngine, clock: Clock) -> None:
    """Beyond those that may wait the answer is at once, is no failure, and names the limit."""
    few: Any = {"password_hashes_at_once": 1, "password_hashes_waiting_max": 1}
    few["password_memory_kib"] = 32_768
    ways = Ways(engine, clock, Settings(**few, sign_in_failures_max=1_000))
    await ways.named()
    tries = (ways.logins.sign_in("nino", WRONG, HERE) for _ in range(40))
    done = await asyncio.gather(*tries, return_exceptions=True)
    busy = [r for r in done if isinstance(r, Refused) and r.reason == "SIGN_IN_BUSY"]
    assert busy
    assert {r.facts["limit"] for r in busy} == {"password_hashes"}
    assert all(r.retry_after_ms for r in busy)
    async with read(engine) as connection:
        counts = set((await connection.execute(select(failures.c.count))).scalars())
    assert counts == {40 - len(busy)}
    assert await tried(ways, "nino", PASSWORD) == ""
    ways.close()


async def test_whoever_gives_up_leaves_no_room_for_more(engine: AsyncEngine, clock: Clock) -> None:
    """A call that is cancelled counts for as long as its thread works."""
    one: Any = {"password_memory_kib": 65_536, "password_passes": 4}
    settings = Settings(**one, password_hashes_at_once=1, password_hashes_waiting_max=0)
    passwords = Passwords(settings)
    working = asyncio.create_task(passwords.hash(PASSWORD))
    await asyncio.sleep(0)
    working.cancel()
    await asyncio.sleep(0)
    with pytest.raises(Refused, match="SIGN_IN_BUSY"):
        await passwords.hash(PASSWORD)
    passwords.close()


async def test_a_repeated_request_is_no_way_to_guess_a_password(ways: Ways) -> None:
    """It is answered with its outcome, and another password under its id is counted as any."""
    made, request = await ways.guest(), ways.request()
    for _ in range(2 * ways.settings.sign_in_failures_max):
        assert await ways.choose(made, "nino", PASSWORD, request=request) == "nino"
    for number in range(ways.settings.sign_in_failures_max):
        with pytest.raises(RequestReused):
            await ways.choose(made, "nino", f"{WRONG} {number}", request=request)
    with pytest.raises(Refused, match="SIGN_IN_LOCKED"):
        await ways.choose(made, "nino", PASSWORD, request=request)


async def test_nothing_that_lets_one_in_is_stored(ways: Ways, engine: AsyncEngine) -> None:
    """No password; and of failures neither the name nor the address."""
    await ways.named()
    await tried(ways, "nobody-here", WRONG)
    async with read(engine) as connection:
        rows = [*(await connection.execute(select(logins))).all()]
        counted = (await connection.execute(select(failures))).all()
    assert len(counted) == 2
    stored = repr([tuple(row) for row in [*rows, *counted]])
    for text in (PASSWORD, WRONG, HERE, "nobody-here"):
        assert text not in stored
        assert text.encode().hex() not in stored
    assert PASSWORD not in repr(wanted("nino", PASSWORD, PASSWORD))


async def test_forgotten_failures_and_old_challenges_are_removed(
    ways: Ways, engine: AsyncEngine, clock: Clock
) -> None:
    """An hour later nothing says that anybody tried."""
    await tried(ways, "nino", WRONG)
    clock.now += FORGET_US + 1
    await ways.lockout.sweep()
    async with read(engine) as connection:
        assert (await connection.execute(select(failures))).all() == []


async def test_a_wait_longer_than_failures_are_remembered_lasts(
    engine: AsyncEngine, clock: Clock
) -> None:
    """Where an operator allows such waits no sweep ends one; after it, nothing is left."""
    given: Any = {**CHEAP, "sign_in_wait_max_ms": 86_400_000, "sign_in_failures_max": 1}
    settings = Settings(**given)
    ways = Ways(engine, clock, settings)
    until = clock.now
    while until - clock.now <= FORGET_US:
        await tried(ways, "nobody-here", WRONG)
        with pytest.raises(Refused, match="SIGN_IN_LOCKED") as caught:
            await ways.lockout.attempt("nobody-here", "elsewhere")
        until = clock.now + (caught.value.retry_after_ms or 0) * 1_000
        if until - clock.now <= FORGET_US:
            clock.now = until
    clock.now += FORGET_US + 1
    await ways.lockout.sweep()
    assert await tried(ways, "nobody-here", WRONG, "elsewhere") == "SIGN_IN_LOCKED"
    clock.now = until + 1
    await ways.lockout.sweep()
    async with read(engine) as connection:
        assert (await connection.execute(select(failures))).all() == []


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("Nino", "nino"),
        ("ＮＩＮＯ", "nino"),
        ("Straße", "strasse"),
        ("ᲜᲘᲜᲝ", "ნინო"),
        ("Ze\u0301.1", "z\u00e9.1"),
        ("a-b_c", "a-b_c"),
    ],
)
def test_login_names_are_kept_in_one_form(given: str, kept: str) -> None:
    """NFKC and case folded, twice alike."""
    assert login_name(given) == kept
    assert login_name(kept) == kept


@pytest.mark.parametrize(
    "given",
    [
        "",
        "ab",
        "a b c",
        "a@b.c",
        "x" * (LOGIN_MAX + 1),
        "...",
        "a\u200bbc",
        "a\u202ebc",
        "ab😀",
        "﷽",
    ],
)
def test_login_names_hold_letters_digits_and_few_signs(given: str) -> None:
    """Nothing invisible, nothing that grows beyond the bound when it is folded."""
    with pytest.raises(Refused) as caught:
        login_name(given)
    assert caught.value.fields[0].field == "login_name"


@pytest.mark.parametrize(
    ("login", "password"),
    [
        ("nino", "short"),
        ("", "x" * (PASSWORD_MAX + 1)),
        ("", "aaaaaaaaaaaa"),
        ("nino-nino-nino",) * 2,
    ],
)
def test_passwords_have_bounds(login: str, password: str) -> None:
    """The field is named, its content is not repeated."""
    with pytest.raises(Refused) as caught:
        wanted(login, password, "")
    assert caught.value.fields[0].field == "new_password"
    assert password not in str(caught.value)


async def test_whoever_is_erased_leaves_his_name_to_others(ways: Ways) -> None:
    """And cannot choose another while a token of his still serves."""
    made = await ways.named()
    await ways.erase(made)
    assert await tried(ways, "nino", PASSWORD) == "SIGN_IN_REFUSED"
    with pytest.raises(Refused, match=r"BEING_ERASED"):
        await ways.choose(made, "nino", PASSWORD)
    other = await ways.guest("Dato")
    assert await ways.choose(other, "nino", PASSWORD) == "nino"
    assert await ways.logins.of_player(UUID(int=1)) is None
