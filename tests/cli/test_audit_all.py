"""An audit of all that is disturbed: it counts every log once and says how it goes on."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kozyr.game.v1 import audit_pb2, checkpoint_pb2

from services.cli import audit, finding
from services.cli.outcome import WRONG, Failure
from services.client import calls
from services.kernel.errors import Kind, Refused

IDS = [str(UUID(int=0x01890A5D_AC96_774B_BCCE_000000000000 + n)) for n in range(9)]
DISPUTE = "01890a5d-ac96-874b-bcce-ffffffffffff"
AWAY = Refused(Kind.UNAVAILABLE, "STORE_UNAVAILABLE", "away")


class Scripted:
    """A game service with some logs; before each page of them comes what its script says."""

    patience_ms = 10_000

    def __init__(self, *script: BaseException | None) -> None:
        self.script: Iterator[BaseException | None] = iter(script)
        self.asked: list[str] = []

    def stub(self, _service: str, _make: Any) -> "Scripted":
        """Its own stub: methods are called by name."""
        return self

    def __getattr__(self, name: str) -> str:
        return name

    async def call(self, _service: str, method: str, _request: Any) -> Any:
        """How many logs there are."""
        assert method == "GetCoverage"
        return checkpoint_pb2.GetCoverageResponse(logs=len(IDS) + 1)

    async def stream(self, _service: str, method: str, request: Any) -> AsyncIterator[Any]:
        """The tree, or two logs a page; a disturbance comes after the first of them."""
        if method == "VerifyTree":
            yield checkpoint_pb2.VerifyTreeResponse(leaves=20, of=20, checkpoints=3)
            return
        self.asked.append(request.after_game_id)
        disturbance = next(self.script, None)
        left = [each for each in sorted([*IDS, DISPUTE]) if each > request.after_game_id]
        for number, each in enumerate(left[:2]):
            if number and disturbance is not None:
                raise disturbance
            faults = [audit_pb2.Fault(kind="CHAIN_BROKEN")] if each == IDS[4] else []
            yield audit_pb2.VerifyGamesResponse(
                verdicts=[
                    audit_pb2.Verdict(
                        game_id=each, events=10, version=10, covered_version=8, faults=faults
                    )
                ]
            )


def run(service: Scripted, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The command against a service."""

    @asynccontextmanager
    async def as_operator(_: Any) -> AsyncIterator[Scripted]:
        yield service

    monkeypatch.setattr(finding, "as_operator", as_operator)
    monkeypatch.setattr(calls, "BACKOFF_FIRST_MS", 1)
    return audit.run(audit.parser().parse_args(["--all", *arguments]))


def reported(out: str) -> dict[str, Any]:
    """The report of an audit for machines."""
    report: dict[str, Any] = json.loads(out.splitlines()[-1])["report"]
    return report


EXPECTED = {
    "games": 9,
    "disputes": 1,
    "events": 100,
    "wrong": 1,
    "faults": {"CHAIN_BROKEN": 1},
    "uncovered_logs": 10,
    "uncovered_events": 20,
}


def test_every_log_is_counted_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether the service stays, or is away in the middle of a page now and then."""
    for script in ((), (None, AWAY, AWAY, None, AWAY)):
        service = Scripted(*script)
        assert run(service, monkeypatch, "--json") == WRONG
        report = reported(capsys.readouterr().out)
        assert {name: report[name] for name in EXPECTED} == EXPECTED
        assert service.asked[-1] == DISPUTE


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), Refused(Kind.DENIED, "NO", "no")])
def test_one_that_is_broken_off_goes_on(
    stop: BaseException,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It says how; with a state file the counts go on too, and the file is gone at the end."""
    with pytest.raises(type(stop)):
        run(Scripted(None, stop), monkeypatch)
    said = capsys.readouterr().err
    assert "3 logs are done, 0 of them wrong" in said
    assert f"`kozyr audit --all --after {IDS[2]}` goes on" in said
    service = Scripted()
    assert run(service, monkeypatch, "--after", IDS[2], "--json") == WRONG
    assert service.asked[0] == IDS[2]
    assert reported(capsys.readouterr().out)["games"] == 6

    state = tmp_path / "state.json"
    with pytest.raises(type(stop)):
        run(Scripted(None, None, stop), monkeypatch, "--state", str(state))
    assert f"`kozyr audit --all --state {state}` goes on" in capsys.readouterr().err
    assert run(Scripted(), monkeypatch, "--state", str(state), "--json") == WRONG
    report = reported(capsys.readouterr().out)
    assert {name: report[name] for name in EXPECTED} == EXPECTED
    assert not state.exists()


def test_a_state_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than begun anew unseen; so is what goes with one game or with all alone."""
    state = tmp_path / "state.json"
    for text in ("", "{}", '{"format": "kozyr audit 2"}', '{"format": "kozyr audit 1"}', "[1]"):
        state.write_text(text, "utf-8")
        with pytest.raises(Failure, match="not where an audit was broken off"):
            run(Scripted(), monkeypatch, "--state", str(state))
    for wrong in (["--after", "last"], ["--held", "x"]):
        with pytest.raises(Failure):
            run(Scripted(), monkeypatch, *wrong)
    for given in (["GAME", "--after", IDS[0]], ["GAME", "--against", "x"], []):
        with pytest.raises(Failure):
            audit.run(audit.parser().parse_args(given))


def test_the_report_for_people(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only what is wrong, then the counts."""
    assert run(Scripted(), monkeypatch) == WRONG
    assert capsys.readouterr().out.splitlines() == [
        f"WRONG {IDS[4]} as a whole: CHAIN_BROKEN: ",
        "10 logs (1 of disputes), 100 events: 1 wrong",
        "tree: 20 leaves, 3 checkpoints; not covered: 20 events of 10 logs",
        "  CHAIN_BROKEN: 1",
    ]
