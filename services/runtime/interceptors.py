"""The one server interceptor: everything every RPC needs, in one place and in this order.

Request id → drain → token, certificate, access row → rate limit → size, decoding and field checks →
deadline → the handler → errors to `google.rpc.Status` → one log line and the metrics. A stream ends
with the token it was asked for with; its client goes on under a fresh one. Requests are decoded
here and not by the transport: its own errors would carry the text of exceptions to the client.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, aclosing, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError, Message

from services.kernel.errors import Kind, Refused, unavailable
from services.runtime import call as calls
from services.runtime import headers, identity, log, metrics, origin, traces
from services.runtime.auth import ANYONE, Access, Caller, Role
from services.runtime.call import Call
from services.runtime.drain import Drain
from services.runtime.limits import RateLimit, StreamLimit
from services.runtime.settings import Settings
from services.runtime.status import Answer, fault, refusal, to_answer
from services.runtime.tokens import Verifier, expired
from services.runtime.validate import check_message

if TYPE_CHECKING:
    from services.runtime.spans import Tracing

STREAM_RETRY_MS = 500
"""When a client of a drained process should come back (to another replica), milliseconds."""
OPERATOR_RATE = 10
"""How many times as often as a player an operator may call (audits of many games), and how many
times as many streams he may have."""
SERVICE_ITEMS_MAX = 20_000
"""Most items of a repeated field that a service of ours may send."""
_NO_DEADLINE_S = 1e8

Context = grpc.aio.ServicerContext[Any, Any]
# in the stubs only, the handler has type arguments
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]"


class Gate(grpc.aio.ServerInterceptor):
    """Stands before every handler of a server. `access` maps full method names to their rows."""

    def __init__(
        self,
        settings: Settings,
        verifier: Verifier,
        access: Mapping[str, Access],
        drain: Drain,
        tracing: "Tracing | None" = None,
    ) -> None:
        self._settings = settings
        self._verifier = verifier
        self._access = access
        self._drain = drain
        self._certified = settings.tls_cert_file is not None
        self._tracing = tracing
        self._proxies = origin.networks(settings.trusted_proxies)
        callers_max = settings.rate_callers_max
        self._callers = RateLimit(
            "caller", settings.rate_per_second, settings.rate_burst, callers_max
        )
        self._peers = RateLimit(
            "address", settings.peer_rate_per_second, settings.peer_rate_burst, callers_max
        )
        self._addresses = RateLimit(
            "players_address",
            settings.address_rate_per_second,
            settings.address_rate_burst,
            callers_max,
        )
        most = settings.streams_per_caller_max
        self._streams = {
            Role.PLAYER: StreamLimit("streams", most),
            Role.OPERATOR: StreamLimit("streams", most * OPERATOR_RATE),
        }
        self._address_streams = StreamLimit("address_streams", settings.streams_per_address_max)
        self._handlers: dict[str, Handler] = {}
        self._streaming: set[str] = set()
        self._unknown: Handler = grpc.unary_unary_rpc_method_handler(self._answer_unknown)
        self._log = log.get()

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler:
        """The handler of this method behind the gate; what it does is the call that begins here."""
        method = handler_call_details.method
        handler = self._handlers.get(method)
        if handler is None:
            handler = await self._find(continuation, handler_call_details)
        given = headers.read(handler_call_details.invocation_metadata)
        name = metrics.UNKNOWN_METHOD if handler is self._unknown else method
        calls.begin(Call(name, headers.request_id(given), headers=given))
        return handler

    async def _find(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler:
        method = handler_call_details.method
        handler = await continuation(handler_call_details)
        row = self._access.get(method)
        if handler is None or row is None:
            return self._unknown
        wrapped = self._handlers[method] = self._wrap(method, row, handler)
        return wrapped

    def _wrap(self, method: str, row: Access, handler: Handler) -> Handler:
        if handler.response_streaming:
            self._streaming.add(method)
        if handler.request_streaming and handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(
                self._stream(method, row, handler, handler.stream_stream),
                response_serializer=partial(_octets, handler.response_serializer),
            )
        if handler.request_streaming:
            raise ValueError(f"{method}: requests in a stream are not served")
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(
                self._stream(method, row, handler, handler.unary_stream),
                response_serializer=partial(_octets, handler.response_serializer),
            )
        return grpc.unary_unary_rpc_method_handler(self._unary(method, row, handler))

    def _unary(self, method: str, row: Access, handler: Handler) -> Any:
        behaviour: Any = handler.unary_unary
        decode: Any = handler.request_deserializer
        encode: Any = handler.response_serializer

        async def serve(raw: bytes, context: Context) -> bytes:
            call = calls.running()
            answer: Answer | None = None
            try:
                self._admit(call, row, context, stream=False)
                request = self._decode(call, row, decode, raw)
                if row.dear:
                    self._spend(call.caller, call.address, row.more(request))
                seconds = self._limit(call, context)
                reply = behaviour(request, context)
                return _octets(
                    encode, await (reply if seconds is None else _within(seconds, reply))
                )
            except grpc.aio.AbortError:
                raise
            except asyncio.CancelledError:
                call.cancelled = True
                if call.remaining_ms() == 0:  # gRPC ends it then, as its caller asked
                    call.reason = "DEADLINE_EXCEEDED"
                raise
            except Exception as error:
                answer = self._to_answer(call, error)
                await _abort(context, answer)
                raise
            finally:
                self._record(call, row, context, answer)

        return serve

    def _stream(self, method: str, row: Access, handler: Handler, behaviour: Any) -> Any:
        decode: Any = handler.request_deserializer
        streams = metrics.STREAMS.of(method)

        async def serve(raw: Any, context: Context) -> None:
            call = calls.running()
            streams.inc()
            answer: Answer | None = None
            task = asyncio.current_task()
            assert task is not None  # noqa: S101 - a coroutine runs in a task
            try:
                self._admit(call, row, context, stream=True)
                if handler.request_streaming:
                    request: Any = self._decode_each(call, row, decode, raw)
                else:
                    request = self._decode(call, row, decode, raw)
                    if row.dear:
                        self._spend(call.caller, call.address, row.more(request))
                seconds = _asked_seconds(context)
                if seconds is not None:
                    call.deadline = time.monotonic() + seconds
                self._drain.enter(task)
                limit = asyncio.timeout(self._stream_seconds(call, row))
                try:
                    with self._counted(call, row):
                        async with limit:
                            await _send(behaviour(request, context), context)
                except TimeoutError:
                    if limit.expired():
                        raise expired() from None
                    raise
            except grpc.aio.AbortError:
                raise
            except asyncio.CancelledError:
                if not self._drain.closed or context.cancelled():
                    call.cancelled = True
                    raise
                task.uncancel()
                answer = self._to_answer(call, _draining())
                await _abort(context, answer)
                raise
            except Exception as error:
                answer = self._to_answer(call, error)
                await _abort(context, answer)
                raise
            finally:
                streams.dec()
                self._drain.leave(task)
                self._record(call, row, context, answer)

        return serve

    def _admit(self, call: Call, row: Access, context: Context, *, stream: bool) -> None:
        """Let the call in, knowing who makes it, or raise Refused."""
        if row.limited and self._drain.refuses(stream=stream):
            raise _draining()
        call.address = origin.address(
            context.peer(), call.headers.get(origin.FORWARDED, ""), self._proxies
        )
        call.caller = self._identify(row, call)
        if self._certified and call.caller.role is not Role.PUBLIC:
            identity.agree(call.caller, identity.shown(context))
        if self._tracing is not None and row.limited:
            call.span = self._tracing.serving(call, call.headers.get(traces.HEADER))
        row.check(call.caller)
        if row.limited:
            self._spend(call.caller, call.address, row.cost)

    def _spend(self, caller: Caller, address: str, cost: float) -> None:
        match caller.role:
            case Role.PUBLIC:
                self._peers.spend(address, cost)
            case Role.PLAYER:
                self._callers.spend(caller.key, cost)
                self._addresses.spend(address, cost)
            case Role.OPERATOR:
                self._callers.spend(caller.key, cost / OPERATOR_RATE)
            case _:
                pass

    def _identify(self, row: Access, call: Call) -> Caller:
        token = headers.token(call.headers)
        if token is None:
            return ANYONE
        try:
            if not self._verifier.knows(token):
                self._peers.spend(call.address)  # checking a signature is dear
            return self._verifier.verify(token)
        except Refused as refused:
            # whoever renews a token may show the old one
            if row.public and refused.kind is Kind.UNAUTHENTICATED:
                return ANYONE
            raise

    def _decode(
        self, call: Call, row: Access, decode: Callable[[bytes], Message], raw: bytes
    ) -> Message:
        trusted = call.caller.role is Role.SERVICE
        settings = self._settings
        largest = settings.message_max_bytes if trusted else settings.request_max_bytes
        if len(raw) > largest:
            raise Refused(
                Kind.INVALID,
                "REQUEST_TOO_LARGE",
                f"the request is larger than {largest} bytes",
                facts={"limit_bytes": str(largest)},
            )
        try:
            request = decode(raw)
        except (DecodeError, UnicodeDecodeError):
            raise Refused(
                Kind.INVALID, "MALFORMED_REQUEST", "the request is not a message of this call"
            ) from None
        check_message(request, SERVICE_ITEMS_MAX if trusted else row.items)
        return request

    async def _decode_each(
        self,
        call: Call,
        row: Access,
        decode: Callable[[bytes], Message],
        raws: AsyncIterator[bytes],
    ) -> AsyncIterator[Message]:
        async for raw in raws:
            yield self._decode(call, row, decode, raw)

    def _limit(self, call: Call, context: Context) -> float | None:
        """Give the call its deadline; the seconds until it where it is ours to end the call: what
        its caller asked for gRPC holds to by itself, by cancelling the handler."""
        asked = _asked_seconds(context)
        most = self._settings.deadline_max_ms / 1000
        if asked is not None and asked <= most:
            call.deadline = time.monotonic() + asked
            return None
        seconds = most if asked is not None else self._settings.deadline_default_ms / 1000
        call.deadline = time.monotonic() + seconds
        return seconds

    def _stream_seconds(self, call: Call, row: Access) -> float | None:
        """How long a stream may last: as long as its caller's token, None where none is needed."""
        if row.public or call.caller.role is Role.PUBLIC:
            return None
        return self._verifier.seconds_left(call.caller)

    def _counted(self, call: Call, row: Access) -> AbstractContextManager[None]:
        """A stream of this caller is open meanwhile; raises Refused where he has too many. Our own
        services watch for many, and probes of health are always answered."""
        caller = call.caller
        if caller.role is Role.PUBLIC and row.limited:
            return self._address_streams.open(call.address)
        streams = self._streams.get(caller.role)
        return nullcontext() if streams is None else streams.open(caller.key)

    def _to_answer(self, call: Call, error: Exception) -> Answer:
        answer = to_answer(error, call.request_id)
        call.reason = answer.reason
        if refusal(error) is None:
            self._log.error(
                "call_failed",
                method=call.method,
                request_id=call.request_id,
                **log.failure(error),
            )
        return answer

    async def _answer_unknown(self, _raw: bytes, context: Context) -> None:
        call = calls.running()
        answer = fault(
            grpc.StatusCode.UNIMPLEMENTED, "METHOD_UNKNOWN", "no such method", call.request_id
        )
        self._record(call, None, context, answer)
        await _abort(context, answer)

    def _record(
        self, call: Call, row: Access | None, context: Context, answer: Answer | None
    ) -> None:
        quiet = row is not None and not row.limited
        code = answer.code.name if answer is not None else _code(call, context)
        seconds = time.monotonic() - call.started
        metrics.CALLS.of(call.method, code).inc()
        if call.method not in self._streaming:
            metrics.CALL_SECONDS.of(call.method).observe(seconds)
        log.rpc(call, code, seconds, quiet=quiet)
        if call.span is not None:
            call.span.served(call, code)


async def _within(seconds: float, reply: Awaitable[Any]) -> Any:
    """What a handler answers within its time; raises Refused DEADLINE_EXCEEDED."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await reply
    except TimeoutError:
        if limit.expired():
            raise _too_late() from None
        raise


async def _send(replies: Any, context: Context) -> None:
    """Write what a handler yields; a handler may also be a coroutine that writes by itself."""
    if not isinstance(replies, AsyncIterator):
        await replies
        return
    async with aclosing(replies) as stream:  # type: ignore[type-var] # a generator has aclose
        async for reply in stream:
            await context.write(reply)


def _octets(encode: Any, reply: Any) -> bytes:
    """A handler's answer as it is sent: a message, or octets that stand for one already."""
    return reply if type(reply) is bytes else bytes(encode(reply))


def _asked_seconds(context: Context) -> float | None:
    """How long the client will wait; None if for ever."""
    seconds: Any = context.time_remaining()
    return seconds if seconds is not None and seconds < _NO_DEADLINE_S else None


def _code(call: Call, context: Context) -> str:
    """How a call ended that was not refused here."""
    if call.cancelled:
        return call.reason or "CANCELLED"
    code: Any = context.code()
    if not code:
        return "OK"
    return code.name if isinstance(code, grpc.StatusCode) else str(code)


async def _abort(context: Context, answer: Answer) -> None:
    try:
        await context.abort(answer.code, answer.message, answer.metadata)
    except grpc.aio.InternalError:  # the caller is gone, and so is whom to tell
        raise asyncio.CancelledError from None


def _draining() -> Refused:
    return unavailable("DRAINING", "this process is shutting down; call again", STREAM_RETRY_MS)


def _too_late() -> Refused:
    return Refused(Kind.EXPIRED, "DEADLINE_EXCEEDED", "the call took too long")
