"""The clock of a process that a drill steps."""

import subprocess
import sys
from pathlib import Path

from services.cli.stack import own_environment
from tests.drill.stepped import set_offset

HOUR_MS = 3_600_000
PROGRAM = """
import sys, time
from pathlib import Path
from tests.drill.stepped import follow, set_offset
file = Path(sys.argv[1])
follow(file)
from services.runtime.tokens import Signer
from services.runtime.streams import wall_clock
import grpc
read = lambda: [
    round(now - time.clock_gettime(time.CLOCK_REALTIME))
    for now in (time.time(), time.time_ns() / 1e9, wall_clock() / 1e6, grpc._common.time.time())
]
print(read())
set_offset(file, -3_600_000)
print(read())
"""


def test_a_clock_is_stepped_while_the_process_runs(tmp_path: Path) -> None:
    """All that reads the wall clock follows, but for the transport's deadlines."""
    file = tmp_path / "clock"
    set_offset(file, HOUR_MS)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file)],
        env=own_environment(),
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split("\n")[:2] == ["[3600, 3600, 3600, 0]", "[-3600, -3600, -3600, 0]"]
