"""A server's life over real loopback gRPC: health, reflection, draining, dying tasks."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import grpc
import jwt
import pytest
from google.rpc.error_details_pb2 import RequestInfo
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from services.cli.stack import free_ports
from services.kernel.errors import Kind, Refused
from services.runtime import interceptors
from services.runtime.drain import Drain
from services.runtime.health import LIVENESS
from services.runtime.server import CannotStart, TaskDied
from services.runtime.status import fault
from services.runtime.store.api import StoreUnavailable
from tests.runtime.echo import NAME, SECRET, Caller, Echo, refused, serving, settings, setup, token


async def test_draining_ends_streams_with_a_last_message(tmp_path: Path) -> None:
    """A stream that awaits the drain says how to resume and ends well."""
    echo, given = Echo(), settings(tmp_path)
    async with serving(echo, given) as server:
        caller = Caller(server, given)
        stream = caller.stream("Watch")
        assert (await anext(stream)).detail == "begin"
        await echo.entered.wait()
        rest = asyncio.create_task(_collect(stream))
    assert await rest == ["resume here"]
    assert echo.closed
    await caller.client.close()


async def test_draining_ends_stubborn_streams_and_refuses_new_calls(tmp_path: Path) -> None:
    """Running calls finish; a stream that ignores the drain is ended with UNAVAILABLE DRAINING.

    New streams are refused at once, new calls are served until the notice is over.
    """
    echo, given = Echo(), settings(tmp_path, drain_stream_ms=50, drain_notice_ms=1_000)
    async with serving(echo, given) as server:
        caller = Caller(server, given)
        await caller.client.close()
        # a channel that does not watch health keeps calling
        caller.client.channel = grpc.aio.insecure_channel(server.address)
        running = asyncio.create_task(caller.unary("Sleep"))
        await echo.entered.wait()
        echo.entered.clear()
        stream = caller.stream("Stubborn")
        await anext(stream)
        ended = asyncio.create_task(refused(anext(stream)))
        later = asyncio.create_task(_new_calls(caller, server.drain))
        finishing = asyncio.create_task(_finish_after_streams(ended, echo))
    assert (await ended).reason == "DRAINING"
    stream_refused, call_served = await later
    assert stream_refused.reason == "DRAINING"
    assert call_served.request_id == "r-1"
    assert (await running).request_id == "slept"
    await finishing
    await caller.client.close()


async def test_a_stream_that_is_left_while_draining_does_no_harm(tmp_path: Path) -> None:
    """A client that goes away in the middle of a drain; the drain ends all the same."""
    echo, given = Echo(), settings(tmp_path, drain_stream_ms=100, drain_grace_ms=5_000)
    async with serving(echo, given) as server:
        caller = Caller(server, given)
        stream: Any = caller.stream("Stubborn")
        await anext(stream)
        leaving = asyncio.create_task(_leave(stream, server.drain))
    await leaving
    assert echo.closed
    await caller.client.close()


async def test_a_stream_ends_with_its_callers_token(tmp_path: Path) -> None:
    """TOKEN_EXPIRED when the token's time and the skew are over, and the handler is let go.

    Not before: a stream under a token that lasts goes on beside it; nor where none is needed.
    """
    echo, given = Echo(), settings(tmp_path, clock_skew_ms=200)
    short, long = token(given, "players", "p-1", 1_000), token(given, "players", "p-2")
    async with (
        serving(echo, given) as server,
        Caller(server, given, short) as brief,
        Caller(server, given, long) as lasting,
    ):
        streams = [brief.stream("MyWatch"), brief.stream("MyStubborn")]
        others = [lasting.stream("MyStubborn"), brief.stream("Stubborn")]
        for stream in (*streams, *others):
            await anext(stream)
        ended = [await refused(anext(stream)) for stream in streams]
        assert {each.reason for each in ended} == {"TOKEN_EXPIRED"}
        assert {each.kind for each in ended} == {Kind.UNAUTHENTICATED}
        assert time.time() >= jwt.decode(short, options={"verify_signature": False})["exp"] + 0.2
        async with asyncio.timeout(5):
            await echo.cancelled.wait()
        again = await refused(anext(brief.stream("MyWatch")))
        assert again.reason == "TOKEN_EXPIRED"
        going_on = [asyncio.ensure_future(refused(anext(stream))) for stream in others]
        echo.go_on.set()
        assert [(await each).reason for each in going_on] == ["PEER_FAILED"] * 2


async def test_a_token_may_end_while_the_process_drains(tmp_path: Path) -> None:
    """A stream whose token ends while a drain waits for it is ended, and the drain goes on."""
    echo, given = Echo(), settings(tmp_path, clock_skew_ms=0, drain_stream_ms=3_000)
    held = token(given, "players", "p-1", 2_000)
    async with serving(echo, given) as server:
        caller = Caller(server, given, held)
        stream = caller.stream("MyStubborn")
        await anext(stream)
        ended = asyncio.create_task(refused(anext(stream)))
    assert (await ended).reason == "TOKEN_EXPIRED"
    assert echo.closed
    await caller.client.close()


async def _leave(stream: Any, drain: Drain) -> None:
    await drain.started.wait()
    await stream.aclose()


async def _new_calls(caller: Caller, drain: Drain) -> tuple[Refused, RequestInfo]:
    """A new stream and a new call in the notice period of a drain."""
    await drain.started.wait()
    return await refused(anext(caller.stream("Watch"))), await caller.unary("Echo")


async def _finish_after_streams(ended: asyncio.Task[Refused], echo: Echo) -> None:
    """Let the running unary call go on only when the stream has been ended."""
    await asyncio.wait((ended,))
    echo.go_on.set()


async def _collect(stream: AsyncIterator[Any]) -> list[str]:
    return [message.detail async for message in stream]


async def test_health_follows_its_checks(tmp_path: Path) -> None:
    """A failing check turns SERVING into NOT_SERVING and back; the store's text stays inside."""
    async with setup(tmp_path) as (echo, caller, _given):
        stub: Any = health_pb2_grpc.HealthStub(caller.client.channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest(service=""))
        stream = aiter(watch)
        assert (await anext(stream)).status == health_pb2.HealthCheckResponse.SERVING

        async def broken() -> None:
            raise StoreUnavailable(SECRET)

        echo.check = broken
        assert (await anext(stream)).status == health_pb2.HealthCheckResponse.NOT_SERVING
        echo.check = echo.healthy
        assert (await anext(stream)).status == health_pb2.HealthCheckResponse.SERVING
        watch.cancel()


async def test_health_says_not_serving_while_draining(tmp_path: Path) -> None:
    """Whoever watches health hears of the drain before the connection goes."""
    echo, given = Echo(), settings(tmp_path, drain_stream_ms=50)
    async with serving(echo, given) as server:
        channel = grpc.aio.insecure_channel(server.address)
        stub: Any = health_pb2_grpc.HealthStub(channel)
        stream = aiter(stub.Watch(health_pb2.HealthCheckRequest()))
        await anext(stream)
    assert (await anext(stream)).status == health_pb2.HealthCheckResponse.NOT_SERVING
    await channel.close()


async def test_a_process_lives_whatever_its_checks_say(tmp_path: Path) -> None:
    """`liveness` is SERVING while a check fails and while the process drains, so that nobody
    restarts it for a database that is away."""
    echo, given = Echo(), settings(tmp_path, drain_stream_ms=50)
    async with serving(echo, given) as server:
        channel = grpc.aio.insecure_channel(server.address)
        stub: Any = health_pb2_grpc.HealthStub(channel)
        process = aiter(stub.Watch(health_pb2.HealthCheckRequest()))
        life = aiter(stub.Watch(health_pb2.HealthCheckRequest(service=LIVENESS)))
        assert (await anext(life)).status == health_pb2.HealthCheckResponse.SERVING

        async def broken() -> None:
            raise StoreUnavailable(SECRET)

        assert (await anext(process)).status == health_pb2.HealthCheckResponse.SERVING
        echo.check = broken
        assert (await anext(process)).status == health_pb2.HealthCheckResponse.NOT_SERVING
        reply = await stub.Check(health_pb2.HealthCheckRequest(service=LIVENESS))
        assert reply.status == health_pb2.HealthCheckResponse.SERVING
    assert [reply async for reply in life] == []
    await channel.close()


async def test_probes_have_a_port_of_their_own(tmp_path: Path) -> None:
    """`KOZYR_HEALTH_LISTEN` serves health and nothing else; a taken address is an error."""
    (port,) = [port for name, port in free_ports().items() if name == "wallet"]
    echo, given = Echo(), settings(tmp_path, health_listen=f"127.0.0.1:{port}")
    async with serving(echo, given):
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        stub: Any = health_pb2_grpc.HealthStub(channel)
        for name in ("", LIVENESS):
            reply = await stub.Check(health_pb2.HealthCheckRequest(service=name))
            assert reply.status == health_pb2.HealthCheckResponse.SERVING
        call: Any = channel.unary_unary(f"/{NAME}/Echo")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        await channel.close()
        with pytest.raises(CannotStart, match=str(port)):
            async with serving(Echo(), given.model_copy(update={"wallet_listen": "127.0.0.1:0"})):
                pass


async def test_reflection_lists_services(tmp_path: Path) -> None:
    """Tools find out what is served; garbage to reflection is refused like everywhere."""
    async with setup(tmp_path) as (_, caller, _given):
        channel: Any = caller.client.channel
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        answers = [a async for a in stub.ServerReflectionInfo(iter([asked]))]
        names = [s.name for s in answers[0].list_services_response.service]
        assert "grpc.health.v1.Health" in names
        raw: Any = caller.client.channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        )
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for _ in raw(iter([b"\xff\xff"])):
                pass
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_two_servers_cannot_share_a_port(tmp_path: Path) -> None:
    """A taken address is an error at start-up, not half of the calls; what was opened is closed."""
    first, second, given = Echo(), Echo(), settings(tmp_path)
    async with serving(first, given) as server:
        taken = given.model_copy(update={"wallet_listen": server.address})
        with pytest.raises(CannotStart, match=server.address):
            async with serving(second, taken):
                pass
    assert second.closed


async def test_a_server_without_keys_does_not_start(tmp_path: Path) -> None:
    """The missing file is named."""
    given = settings(tmp_path)
    (given.keys() / "wallet.seal").unlink()
    with pytest.raises(CannotStart, match=r"wallet\.seal"):
        async with serving(Echo(), given):
            pass


@pytest.mark.parametrize("raises", [True, False])
async def test_a_dead_task_is_reported(tmp_path: Path, raises: bool) -> None:
    """A background task that ends, with or without an error, ends the service."""
    echo, given = Echo(), settings(tmp_path)

    async def task() -> None:
        if raises:
            raise ValueError(SECRET)

    echo.tasks["worker"] = task
    async with serving(echo, given) as server:
        with pytest.raises(TaskDied, match="worker"):
            await asyncio.wait_for(asyncio.shield(server.died), 5)


async def test_whom_a_refusal_no_longer_reaches_is_gone_and_no_fault() -> None:
    """A call ended while its caller disappears counts as given up, without an error in the log."""

    class Gone:
        async def abort(self, *_: object) -> None:
            raise grpc.aio.InternalError

    answer = fault(grpc.StatusCode.UNAVAILABLE, "DRAINING", "the process stops", "r-1")
    with pytest.raises(asyncio.CancelledError):
        await interceptors._abort(cast(Any, Gone()), answer)
