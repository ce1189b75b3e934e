"""A service whose clock can be stepped while it runs: `python -m tests.drill.stepped serve game`.

The file that `KOZYR_TEST_CLOCK_FILE` names holds how far the clock is off: nanoseconds, eight
octets, little-endian, signed. Every reading of the wall clock in Python adds it; the monotonic
clock and the clock of the gRPC transport, by which deadlines of calls run, are left alone.
"""

import mmap
import os
import struct
import sys
import time
from pathlib import Path
from types import ModuleType

VARIABLE = "KOZYR_TEST_CLOCK_FILE"
OFFSET = struct.Struct("<q")


def set_offset(file: Path, milliseconds: int) -> None:
    """Step the clock of the processes that look at this file."""
    with file.open("r+b" if file.exists() else "w+b") as written:
        written.write(OFFSET.pack(milliseconds * 1_000_000))


def follow(file: Path) -> None:
    """From here on this process's wall clock is off by what the file says."""
    import grpc.aio  # noqa: F401 - keeps the true clock, and so has to be there before

    true = ModuleType("time")
    true.__dict__.update(vars(time))
    for name, module in list(sys.modules.items()):
        if name.startswith("grpc") and vars(module).get("time") is time:
            vars(module)["time"] = true
    with file.open("rb") as opened:
        offset = mmap.mmap(opened.fileno(), OFFSET.size, access=mmap.ACCESS_READ)
    read_ns = time.time_ns

    def time_ns() -> int:
        (ahead,) = OFFSET.unpack_from(offset)
        return read_ns() + int(ahead)

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 1e9


if __name__ == "__main__":
    follow(Path(os.environ[VARIABLE]))
    from services.cli.main import main

    raise SystemExit(main())
