"""The access table: every RPC there is has its row, and a row says what it says."""

import pytest

from services.kernel.errors import Kind, Refused
from services.runtime.access import ACCESS, PLATFORM
from services.runtime.auth import ANYONE, Caller, Role, allow
from services.runtime.settings import SERVICES
from tests.rpcs import path, rpcs


def test_every_rpc_has_a_row_and_every_row_an_rpc() -> None:
    """Neither an RPC nobody decided about nor a row that decides about nothing."""
    assert {path(method) for _, method in rpcs()} == ACCESS.keys() - PLATFORM.keys()


def test_every_rpc_is_served_by_one_of_the_four() -> None:
    """What is found of the contract names its service, and each of them serves something."""
    assert {service for service, _ in rpcs()} == set(SERVICES)


def test_rows_name_services_that_exist() -> None:
    """A row for a service that is misspelt would lock it out."""
    assert {name for row in ACCESS.values() for name in row.services} <= set(SERVICES)


def test_only_the_doors_are_public() -> None:
    """What needs no token is a short list, written here once more on purpose."""
    public = {name.rpartition("/")[2] for name, row in ACCESS.items() if row.public}
    doors = {"SignUp", "SignIn", "Refresh", "ListVariants", "GetKeys", "GetChallenge"}
    doors |= {f"SignIn{how}" for how in ("WithPassword", "WithKey", "External")}
    doors |= {"GetSharedGame", "ReplaySharedGame"}  # by a link's token
    assert public == doors | {"Check", "Watch", "ServerReflectionInfo"}


def test_players_move_no_chips() -> None:
    """No call that changes the ledger is open to players."""
    changing = (
        *("OpenAccount", "Reserve", "Pin", "Settle", "Void", "Grant"),
        *("FundReserve", "Compensate", "Collect", "Forfeit"),
    )
    for name in changing:
        assert Role.PLAYER not in ACCESS[f"/kozyr.wallet.v1.WalletService/{name}"].roles


def test_rulings_are_made_by_operators_and_carried_out_by_games() -> None:
    """Nobody else rules, approves, collects or sees evidence; only games ask for the chips."""
    for name in (
        *("ResolveDispute", "ApproveRuling", "WithdrawRuling", "CollectClaim", "ListClaims"),
        "GetEvidence",
    ):
        row = ACCESS[f"/kozyr.game.v1.AuditService/{name}"]
        assert set(row.roles) == {Role.OPERATOR}
        assert not row.services
    for name in ("Compensate", "Collect"):
        row = ACCESS[f"/kozyr.wallet.v1.WalletService/{name}"]
        assert set(row.services) == {"game"}
        assert not row.roles


@pytest.mark.parametrize(
    ("caller", "kind"),
    [
        (ANYONE, Kind.UNAUTHENTICATED),
        (Caller(Role.SERVICE, "ai", 0), Kind.DENIED),
        (Caller(Role.OPERATOR, "game", 0), Kind.DENIED),
    ],
)
def test_whoever_is_not_in_the_row_is_refused(caller: Caller, kind: Kind) -> None:
    """An operator who is called like a service is no service."""
    with pytest.raises(Refused) as caught:
        allow("player", "service:game").check(caller)
    assert caught.value.kind is kind


def test_a_row_must_name_its_services() -> None:
    """`service` alone would mean any, which no row may."""
    for who in ((), ("service",), ("nobody",)):
        with pytest.raises(ValueError, match=r"."):
            allow(*who)
