"""`kozyr wallet`: balances, statements, grants, the dispute reserve, the trial balance."""

import argparse
import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from kozyr.wallet.v1 import wallet_pb2, wallet_pb2_grpc

from services.cli import finding
from services.cli.addresses import add_flags, settings
from services.cli.outcome import FINE, WRONG
from services.cli.shown import when
from services.cli.terminal import command, emit, grid, show
from services.client.calls import Caller
from services.runtime.settings import Settings


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "wallet",
        "Look at chips. Without an account it is your own; with one you look as an operator.",
        "kozyr wallet statement",
    )
    doing = made.add_subparsers(
        dest="doing", required=True, metavar="show|statement|grant|void|fund-reserve|trial-balance"
    )
    showing = doing.add_parser("show", help="an account's balance")
    stating = doing.add_parser("statement", help="every change with the balance before and after")
    stating.add_argument("--game", default="", metavar="GAME", help="only lines of this game")
    stating.add_argument("--most", type=int, default=50, metavar="N", help="lines (50)")
    granting = doing.add_parser("grant", help="give chips from the house, as an operator")
    granting.add_argument("account", metavar="ACCOUNT", help="the player's id")
    granting.add_argument("chips", type=int, metavar="CHIPS", help="how many")
    granting.add_argument("reason", metavar="REASON", help="why")
    voiding = doing.add_parser(
        "void", help="give a game's chips back as they were brought, as an operator; it cannot end"
    )
    voiding.add_argument("game", metavar="GAME", help="the game's id")
    voiding.add_argument("reason", metavar="REASON", help="why, an UPPER_SNAKE word")
    funding = doing.add_parser(
        "fund-reserve", help="give chips from the house to the dispute reserve, as an operator"
    )
    funding.add_argument("chips", type=int, metavar="CHIPS", help="how many")
    funding.add_argument("reason", metavar="REASON", help="why")
    trial = doing.add_parser("trial-balance", help="all balances by kind; exits 1 if unsound")
    for each in (showing, stating):
        each.add_argument("account", nargs="?", default="", metavar="ACCOUNT", help="a player's id")
    for each in (showing, stating, granting, voiding, funding, trial):
        each.add_argument("--json", action="store_true", help="JSON, one object a line")
        add_flags(each)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Do what is asked."""
    return asyncio.run(_run(arguments))


async def trial_balance(caller: Caller) -> wallet_pb2.TrialBalanceResponse:
    """The ledger's own trial balance; raises Refused."""
    stub: Any = caller.stub("wallet", wallet_pb2_grpc.WalletServiceStub)
    reply: wallet_pb2.TrialBalanceResponse = await caller.call(
        "wallet", stub.TrialBalance, wallet_pb2.TrialBalanceRequest()
    )
    return reply


async def grant(caller: Caller, account: str, chips: int, reason: str) -> wallet_pb2.Account:
    """Give chips from the house; the account after it. Raises Refused."""
    stub: Any = caller.stub("wallet", wallet_pb2_grpc.WalletServiceStub)
    request = wallet_pb2.GrantRequest(account_id=account, chips=chips, reason=reason)
    reply: wallet_pb2.GrantResponse = await caller.call("wallet", stub.Grant, request)
    return reply.account


async def void(caller: Caller, game: str, reason: str) -> wallet_pb2.VoidResponse:
    """Give back what games' escrows hold for a game that cannot end. Raises Refused."""
    stub: Any = caller.stub("wallet", wallet_pb2_grpc.WalletServiceStub)
    request = wallet_pb2.VoidRequest(game_id=game, reason=reason)
    reply: wallet_pb2.VoidResponse = await caller.call("wallet", stub.Void, request)
    return reply


async def fund_reserve(caller: Caller, chips: int, reason: str) -> wallet_pb2.Account:
    """Give chips from the house to the dispute reserve; it after that. Raises Refused."""
    stub: Any = caller.stub("wallet", wallet_pb2_grpc.WalletServiceStub)
    request = wallet_pb2.FundReserveRequest(chips=chips, reason=reason)
    reply: wallet_pb2.FundReserveResponse = await caller.call("wallet", stub.FundReserve, request)
    return reply.account


async def account_of(caller: Caller, account: str = "") -> wallet_pb2.Account:
    """An account, the caller's own if none is named; raises Refused."""
    stub: Any = caller.stub("wallet", wallet_pb2_grpc.WalletServiceStub)
    request = wallet_pb2.GetAccountRequest(account_id=account)
    reply: wallet_pb2.GetAccountResponse = await caller.call("wallet", stub.GetAccount, request)
    return reply.account


async def statement(
    caller: Caller, account: str = "", game: str = "", most: int = 50
) -> list[wallet_pb2.StatementLine]:
    """An account's lines, newest first; raises Refused."""
    stub: Any = caller.stub("wallet", wallet_pb2_grpc.WalletServiceStub)
    lines: list[wallet_pb2.StatementLine] = []
    request = wallet_pb2.ListTransfersRequest(account_id=account, game_id=game)
    while len(lines) < most:
        request.page_size = min(200, most - len(lines))
        page: wallet_pb2.ListTransfersResponse = await caller.call(
            "wallet", stub.ListTransfers, request
        )
        lines += page.lines
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    return lines


async def _run(arguments: argparse.Namespace) -> int:
    async with _opened(settings(arguments), arguments) as caller:
        match arguments.doing:
            case "show":
                return _account(await account_of(caller, arguments.account), arguments)
            case "grant":
                granted = await grant(caller, arguments.account, arguments.chips, arguments.reason)
                return _account(granted, arguments)
            case "fund-reserve":
                reserve = await fund_reserve(caller, arguments.chips, arguments.reason)
                return _account(reserve, arguments)
            case "void":
                voided = await void(caller, arguments.game, arguments.reason)
                return _voided(arguments.game, voided, as_json=arguments.json)
            case "statement":
                lines = await statement(caller, arguments.account, arguments.game, arguments.most)
                return _statement(lines, as_json=arguments.json)
            case _:
                return _trial(await trial_balance(caller), as_json=arguments.json)


def _opened(where: Settings, arguments: argparse.Namespace) -> AbstractAsyncContextManager[Caller]:
    own = arguments.doing in ("show", "statement") and not arguments.account
    return finding.as_player(where) if own else finding.as_operator(where)


def _account(account: wallet_pb2.Account, arguments: argparse.Namespace) -> int:
    if arguments.json:
        emit(_plain(account))
        return FINE
    held = f", {account.reserved} held in games" if account.reserved else ""
    show([f"{account.account_id}: {account.balance} chips{held}"])
    return FINE


def _voided(game: str, reply: wallet_pb2.VoidResponse, *, as_json: bool) -> int:
    if as_json:
        emit(_plain(reply))
    else:
        show([f"{game}: {reply.voided} reservations went back"])
    return FINE


def _statement(lines: list[wallet_pb2.StatementLine], *, as_json: bool) -> int:
    if as_json:
        for line in lines:
            emit(_plain(line))
        return FINE
    rows = [
        (
            when(line.recorded_time),
            _word(wallet_pb2.TransferKind, line.kind),
            f"{line.chips:+d}",
            line.balance_before,
            line.balance_after,
            line.reason or (f"dispute {line.dispute_id}" if line.dispute_id else line.game_id),
        )
        for line in lines
    ]
    show(grid(("when (UTC)", "what", "chips", "before", "after", "about"), rows))
    return FINE


def trial_lines(trial: wallet_pb2.TrialBalanceResponse) -> list[str]:
    """The trial balance as a table."""
    rows = [
        (_word(wallet_pb2.AccountKind, line.kind), line.accounts, line.balance, line.postings)
        for line in trial.lines
    ]
    verdict = "sound" if trial.sound else "NOT SOUND"
    return [
        *grid(("kind", "accounts", "balance", "postings"), rows),
        f"total {trial.total}, open reservations {trial.open_reservations}: {verdict}",
    ]


def _trial(trial: wallet_pb2.TrialBalanceResponse, *, as_json: bool) -> int:
    if as_json:
        emit(_plain(trial))
    else:
        show(trial_lines(trial))
    return FINE if trial.sound else WRONG


def _word(kinds: Any, value: int) -> str:
    """An enum's value as a word without its prefix: `settle` of `TRANSFER_KIND_SETTLE`."""
    name: str = kinds.Name(value)
    return name.rsplit("_KIND_", maxsplit=1)[-1].lower()


def _plain(message: Message) -> dict[str, Any]:
    return MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
