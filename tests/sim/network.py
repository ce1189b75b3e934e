"""The network between players and services: calls of the servicers' own methods, and every mishap.

A message is copied, delayed, lost, or delivered twice; an answer may be lost after the effect; a
stream may be cut; a process may not be reached. Refusals cross it as they cross gRPC: what is not
a refusal is a fault of ours and ends the simulation.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from contextvars import Context
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

import grpc
from google.protobuf.descriptor_pool import Default
from google.protobuf.message_factory import GetMessageClass

from services.kernel.errors import Kind, Refused, unavailable
from services.runtime import call as calls
from services.runtime.access import ACCESS
from services.runtime.auth import Caller
from services.runtime.interceptors import SERVICE_ITEMS_MAX
from services.runtime.status import refusal
from services.runtime.validate import check_message
from tests.sim.clockwork import Clockwork, Node

M = TypeVar("M")

ATTEMPTS = 4
"""How often a channel sends a call that comes back UNAVAILABLE."""
SERVER_S = 10.0
"""How long a server lets a call run."""
NEVER = 1e9


@dataclass(slots=True)
class Weather:
    """How often what goes wrong, from 0 to 1; all calm by default."""

    lost: float = 0.0
    unanswered: float = 0.0
    twice: float = 0.0
    slow: float = 0.0
    cut_s: float = NEVER
    """How long a stream lives on average."""
    unreached: set[str] = field(default_factory=set)
    """Names of services nobody reaches now."""


@dataclass(frozen=True, slots=True)
class Method:
    """An RPC as a generated stub makes it."""

    path: str

    @property
    def service(self) -> str:
        """`lobby`, `game`, `ai` or `wallet`."""
        return self.path.split(".")[1]


class Channel:
    """What generated stubs are made on."""

    def unary_unary(self, path: str, *_args: Any, **_named: Any) -> Method:
        """A call with one answer."""
        return Method(path)

    def unary_stream(self, path: str, *_args: Any, **_named: Any) -> Method:
        """A call with a stream of answers."""
        return Method(path)


class Handlers:
    """What servicers are added to: the methods of one node by path."""

    def __init__(self) -> None:
        self.of: dict[str, Callable[..., Any]] = {}

    def add_generic_rpc_handlers(self, _handlers: Any) -> None:
        """Servicers register in this way as well."""

    def add_registered_method_handlers(
        self, service: str, handlers: "dict[str, grpc.RpcMethodHandler[Any, Any]]"
    ) -> None:
        """Take a servicer's methods."""
        for name, handler in handlers.items():
            act = (handler.response_streaming and handler.unary_stream) or handler.unary_unary
            assert act is not None
            self.of[f"/{service}/{name}"] = act


def copied(message: M) -> M:
    """The message as it arrives."""
    made: Any = message
    again: M = type(made).FromString(made.SerializeToString())
    return again


def answered(method: Method, reply: Any) -> Any:
    """An answer as it arrives, which a servicer gives as a message or as its octets."""
    name = method.path.strip("/").replace("/", ".")
    shape = Default().FindMethodByName(name).output_type
    octets = reply if isinstance(reply, bytes) else reply.SerializeToString()
    return GetMessageClass(shape).FromString(octets)


class Network:
    """Everybody's way to everybody. `broken(text)` is told of faults of ours."""

    def __init__(self, clockwork: Clockwork, random: Random, broken: Callable[[str], None]) -> None:
        self.clockwork = clockwork
        self.random = random
        self.weather = Weather()
        self.nodes: defaultdict[str, dict[Node, Handlers]] = defaultdict(dict)
        self.under_way: Counter[tuple[str, str]] = Counter()
        """Deliveries that may still have an effect, by caller and request id."""
        self.served: list[Callable[[], Any]] = []
        self.counts: Counter[str] = Counter()
        self._broken = broken
        self._loose: list[asyncio.Task[Any]] = []

    async def call(self, caller: Caller, method: Method, request: Any, timeout_s: float) -> Any:
        """A unary call as a channel makes it; raises Refused."""
        try:
            async with asyncio.timeout(timeout_s):
                for attempt in range(1, ATTEMPTS + 1):
                    try:
                        return await self._attempt(caller, method, request)
                    except Refused as refused:
                        if refused.kind is not Kind.UNAVAILABLE or attempt == ATTEMPTS:
                            raise
                    await asyncio.sleep(0.1 * 2 ** (attempt - 1) * self.random.random())
        except TimeoutError:
            pass
        raise Refused(Kind.EXPIRED, "DEADLINE_EXCEEDED", "no answer in time")

    async def stream(
        self, caller: Caller, method: Method, request: Any
    ) -> AsyncGenerator[Any, None]:
        """The messages of a server's stream, until it ends or is cut; raises Refused."""
        await asyncio.sleep(self._delay())
        node = self._target(method)
        replies: asyncio.Queue[Any] = asyncio.Queue()
        pump = self._run(node, self._pump(node, caller, method, copied(request), replies))
        cut_at = self.clockwork.time() + self.random.expovariate(1 / self.weather.cut_s)
        try:
            while True:
                try:
                    async with asyncio.timeout_at(cut_at):
                        reply = await replies.get()
                except TimeoutError:
                    self.counts["cut"] += 1
                    raise unavailable("PEER_UNAVAILABLE", "the stream was cut") from None
                if reply is None:
                    return
                if isinstance(reply, Exception):
                    raise reply
                await asyncio.sleep(self._delay())
                yield reply
        finally:
            pump.cancel()

    async def _attempt(self, caller: Caller, method: Method, request: Any) -> Any:
        weather, chance = self.weather, self.random.random
        await asyncio.sleep(self._delay())
        if chance() < weather.lost:
            self.counts["lost"] += 1
            await self._silence()
        node = self._target(method)
        if chance() < weather.twice:
            self.counts["twice"] += 1
            again = self._deliver(self._target(method), caller, method, request, late=True)
            self._loose.append(self.clockwork.create_task(again, context=Context()))
        delivery = self._deliver(node, caller, method, request)
        done = self.clockwork.create_task(delivery, context=Context())
        try:
            answer = await asyncio.shield(done)
        except asyncio.CancelledError:
            if chance() < 0.5:
                done.cancel()  # the server is told that nobody waits any more
            raise
        if chance() < weather.unanswered:
            self.counts["unanswered"] += 1
            await self._silence()
        await asyncio.sleep(self._delay())
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _silence(self) -> None:
        """The caller learns that the connection broke, or learns nothing until it gives up."""
        await asyncio.sleep(self._delay() if self.random.random() < 0.5 else NEVER)
        raise unavailable("PEER_UNAVAILABLE", "the connection broke")

    async def _deliver(
        self, node: Node, caller: Caller, method: Method, request: Any, *, late: bool = False
    ) -> Any:
        """Have the node serve it; the answer, or the refusal as a value."""
        key = (caller.key, getattr(request, "request_id", ""))
        self.under_way[key] += 1
        try:
            await asyncio.sleep(self._delay() + (self.random.random() ** 4 * 60 if late else 0))
            if not node.alive:
                return unavailable("PEER_UNAVAILABLE", "nobody is there")
            serving = self._run(node, self._serve(node, caller, method, copied(request)))
            try:
                await asyncio.wait([serving])
            except asyncio.CancelledError:
                serving.cancel()
                await asyncio.wait([serving])
                raise
            if serving.cancelled():
                return unavailable("PEER_UNAVAILABLE", "the process died")
            answer = serving.result()
        finally:
            self.under_way[key] -= 1
        for look in self.served:
            look()
        return answer if isinstance(answer, Exception) else answered(method, answer)

    async def _serve(self, node: Node, caller: Caller, method: Method, request: Any) -> Any:
        handlers = self.nodes[method.service].get(node)
        if handlers is None:
            return unavailable("DRAINING", "this process is going away")
        handler = handlers.of[method.path]
        deadline = self.clockwork.time() + SERVER_S
        calls.begin(calls.Call(method.path, "simulated", caller, deadline))
        try:
            self._check(caller, method, request)
            async with asyncio.timeout(SERVER_S):
                return await handler(request, None)
        except TimeoutError:
            return Refused(Kind.EXPIRED, "DEADLINE_EXCEEDED", "no answer in time")
        except Exception as error:  # noqa: BLE001 - whatever a handler raises
            return self._answer(method, error)

    async def _pump(
        self,
        node: Node,
        caller: Caller,
        method: Method,
        request: Any,
        replies: "asyncio.Queue[Any]",
    ) -> None:
        calls.begin(calls.Call(method.path, "simulated", caller))
        end: Exception | None = unavailable("PEER_UNAVAILABLE", "the process died")
        try:
            self._check(caller, method, request)
            handlers = self.nodes[method.service].get(node)
            if handlers is None:
                raise unavailable("DRAINING", "this process is going away")
            async with aclosing(handlers.of[method.path](request, None)) as made:
                async for reply in made:
                    replies.put_nowait(answered(method, reply))
            end = None
        except Exception as error:  # noqa: BLE001 - whatever a handler raises
            end = self._answer(method, error)
        finally:
            replies.put_nowait(end)

    def _check(self, caller: Caller, method: Method, request: Any) -> None:
        row = ACCESS[method.path]
        row.check(caller)
        check_message(request, SERVICE_ITEMS_MAX if caller.role == "service" else row.items)

    def _answer(self, method: Method, error: Exception) -> Refused:
        refused = refusal(error)
        if refused is None:
            self._broken(f"{method.path} failed: {error!r}")
            return unavailable("PEER_FAILED", "the service failed")
        if refused.reason == "LOG_DAMAGED":
            self._broken(f"{method.path}: {refused.message} {refused.facts}")
        return refused

    def _run(self, node: Node, work: Any) -> "asyncio.Task[Any]":
        return self.clockwork.create_task(work, context=node.context())

    def _target(self, method: Method) -> Node:
        alive = [node for node in self.nodes[method.service] if node.alive]
        if method.service in self.weather.unreached or not alive:
            raise unavailable("PEER_UNAVAILABLE", "the service cannot be reached")
        return self.random.choice(alive)

    def _delay(self) -> float:
        slow = self.random.random() < self.weather.slow
        return self.random.random() * (8.0 if slow else 0.01)


class Line:
    """A caller's client to one service: what services and players hold of the network."""

    def __init__(self, network: Network, caller: Caller, timeout_s: float = 5.0) -> None:
        self.channel: Any = Channel()
        self._network = network
        self._caller = caller
        self._timeout_s = timeout_s

    async def call(self, method: Method, request: Any, timeout_ms: int | None = None) -> Any:
        """Call; raises Refused. Within an RPC the time its caller has left bounds it too."""
        seconds = self._timeout_s if timeout_ms is None else timeout_ms / 1_000
        running = calls.current()
        left = None if running is None else running.remaining_ms()
        seconds = seconds if left is None else min(seconds, left / 1_000)
        return await self._network.call(self._caller, method, copied(request), seconds)

    def stream(self, method: Method, request: Any) -> AsyncGenerator[Any, None]:
        """The messages of a stream; raises Refused."""
        return self._network.stream(self._caller, method, copied(request))

    async def close(self) -> None:
        """Nothing has to be let go."""


class Lines:
    """A service's clients to the others."""

    def __init__(self, network: Network, caller: Caller) -> None:
        self._line = Line(network, caller)

    def client(self, _service: str) -> Line:
        """The client to a service."""
        return self._line

    async def close(self) -> None:
        """Nothing has to be let go."""
