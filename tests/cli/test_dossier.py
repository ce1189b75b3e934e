"""The document about a player as a file: whole or not at all, patient, JSON however it is cut."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.cli.dossier import patiently, write
from services.cli.outcome import Failure
from services.client.calls import Caller
from services.kernel.errors import Kind, Refused, denied
from services.runtime.settings import Settings


async def pieces(*texts: str, fails: Exception | None = None) -> AsyncIterator[str]:
    """A document in pieces, which may break off."""
    for text in texts:
        yield text
    if fails is not None:
        raise fails


def contents(folder: Path) -> dict[str, str]:
    """What lies in a folder."""
    return {each.name: each.read_text("utf-8") for each in folder.iterdir()}


async def test_a_document_is_for_its_owners_eyes(tmp_path: Path) -> None:
    """Mode 0600, also where a file of that name was there before."""
    file = tmp_path / "me.json"
    file.write_text("before", "utf-8")
    assert await write(file, pieces('{"a":', '"é"}')) == len('{"a":"é"}'.encode())
    assert json.loads(file.read_text("utf-8")) == {"a": "é"}
    assert file.stat().st_mode & 0o777 == 0o600


async def test_a_document_that_breaks_off_leaves_no_trace(tmp_path: Path) -> None:
    """What was there before stays, and no draft lies about."""
    file = tmp_path / "me.json"
    file.write_text("before", "utf-8")
    with pytest.raises(Refused):
        await write(file, pieces("{", fails=denied("NO", "no")))
    assert contents(tmp_path) == {"me.json": "before"}
    with pytest.raises(Failure, match="No such file"):
        await write(tmp_path / "nowhere" / "me.json", pieces("{}"))


async def test_who_calls_too_often_waits(tmp_path: Path) -> None:
    """A stream that is refused for its rate is asked for again; any other refusal is handed on."""
    caller = Caller(Settings(data_folder=tmp_path), patience_ms=5_000)
    busy = Refused(Kind.EXHAUSTED, "TOO_MANY_CALLS", "slower", retry_after_ms=1)
    answers: list[Refused | str] = [busy, busy, "here", denied("NO", "no")]

    async def ask() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Refused):
            raise answer
        return answer

    assert await patiently(caller, ask) == "here"
    with pytest.raises(Refused, match="NO"):
        await patiently(caller, ask)
    await caller.close()
