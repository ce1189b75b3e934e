"""The restore drill in its short form, and what deploy/README.md shows of it."""

import re
from pathlib import Path

from tests.deploy.moments import Files
from tests.deploy.objects import ROOT
from tests.deploy.restore import drill, wallet_later

GUIDE = (ROOT / "deploy" / "README.md").read_text("utf-8")
ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def shape(line: str) -> str:
    """A line without what differs from run to run."""
    return re.sub(r"[-\d]+", "0", re.sub(ID, "ID", " ".join(line.split())))


async def test_a_wallet_that_is_newer_than_the_games_is_brought_into_line(tmp_path: Path) -> None:
    """Everything that must hold does, and the guide shows what the commands say."""
    told: list[str] = []
    site = Files(tmp_path)
    try:
        assert await drill(site, tmp_path, told.append, (wallet_later,)) == []
    finally:
        site.close()
    section = GUIDE.partition("\n**Restoring.**")[2].partition("\n**ai down.**")[0]
    transcript = section.partition("\n    make ")[0]
    shown = [line for line in transcript.splitlines() if line.startswith("    ")]
    assert sum(line.startswith("    $ kozyr") for line in shown) > 3
    said = {shape(line) for line in told}
    assert [line for line in shown if shape(line) not in said] == []
