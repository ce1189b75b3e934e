"""A peer that is there and says nothing, as a frozen process or a cut line: it is left in time."""

import asyncio
import io
import json
from pathlib import Path
from urllib.parse import urlsplit

import grpc
from google.rpc.error_details_pb2 import RequestInfo

from services.runtime.connection import open_channel
from tests.logs import logged
from tests.runtime.echo import NAME, Echo, serving, settings
from tests.runtime.line import line_to

QUICK = {"keepalive_ms": 1_000, "keepalive_timeout_ms": 300, "rate_burst": 100_000}
IN_A_ROW = 30
"""So many answers in a row show that nothing is sent to the silent one any more: by turns it would
be asked every second time."""


async def test_a_handler_ends_with_its_callers_deadline(tmp_path: Path) -> None:
    """Though nothing is heard of the caller any more: the server knows by itself when."""
    given, echo = settings(tmp_path), Echo()
    with logged(io.StringIO(), "wallet") as lines:
        async with (
            serving(echo, given) as server,
            line_to(f"tcp://{server.address}") as line,
        ):
            channel = open_channel(f"127.0.0.1:{urlsplit(line.url).port}", given)
            sleep = channel.unary_unary(
                f"/{NAME}/Sleep", RequestInfo.SerializeToString, RequestInfo.FromString
            )
            call = sleep(RequestInfo(request_id="r-1"), timeout=0.5)
            await echo.entered.wait()
            line.stall()
            assert await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            async with asyncio.timeout(20):
                await echo.cancelled.wait()
            line.drop()
            await channel.close()
        (said,) = [each for each in map(json.loads, lines.getvalue().splitlines()) if "ms" in each]
    assert said["code"] == said["reason"] == "DEADLINE_EXCEEDED"


async def test_a_silent_replica_is_asked_no_more(tmp_path: Path) -> None:
    """Calls go on all the while: what is under way on the connection does not keep it alive."""
    given = settings(tmp_path, **QUICK)
    async with (
        serving(Echo(), given) as one,
        serving(Echo(), given) as other,
        line_to(f"tcp://{one.address}") as line,
    ):
        both = f"ipv4:127.0.0.1:{urlsplit(line.url).port},{other.address}"
        channel = open_channel(both, given)
        echo = channel.unary_unary(
            f"/{NAME}/Echo", RequestInfo.SerializeToString, RequestInfo.FromString
        )

        async def answered() -> bool:
            return (
                await echo(RequestInfo(request_id="r-1"), timeout=0.3).code() is grpc.StatusCode.OK
            )

        for _ in range(IN_A_ROW):
            await echo(RequestInfo(request_id="r-1"), timeout=10)
        line.stall()
        silences, answers = 0, 0
        async with asyncio.timeout(30):
            while answers < IN_A_ROW:
                heard = await answered()
                silences, answers = silences + (not heard), answers + 1 if heard else 0
        assert silences, "the silent one was never asked"
        await channel.close()
