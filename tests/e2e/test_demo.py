"""`kozyr demo`: everything it checks holds."""

import json
from pathlib import Path

from services.cli.outcome import FINE
from tests.cli.talking import run

GAMES = ("Azi", "Durak", "Rami")


def test_the_demo_holds(tmp_path: Path) -> None:
    """All three games are played, one service is killed, and every check holds."""
    done = run("demo", "--json", given={"KOZYR_HOME": str(tmp_path)}, seconds=120.0)
    checks = [json.loads(line) for line in done.stdout.splitlines()]
    assert [check for check in checks if not check["held"]] == [], done.stderr
    names = [check["check"] for check in checks]
    assert [game for game in GAMES if not any(name.startswith(game) for name in names)] == []
    for word in ("killed", "illegal", "audit", "replays", "trial balance", "ledger"):
        assert any(word in name for name in names), word
    assert done.returncode == FINE
