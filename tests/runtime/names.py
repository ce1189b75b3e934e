"""A name server as a cluster has one: a headless service's name stands for its ready replicas.

It answers over UDP what gRPC's resolver asks for: IPv4 addresses, by the first label of a name.
"""

import asyncio
import struct
from collections import defaultdict
from typing import Any

QUESTIONS_AT = 12
"""Where the first question of a message begins."""
ANSWER = 0x8580
"""Flags: an answer, of whoever knows, to be asked again in turn; nothing went wrong."""
UNKNOWN = 3
"""There is no such name."""
IPV4, INTERNET = 1, 1
LIFE_SECONDS = 5
"""How long an answer may be kept; what a cluster's name server says of services."""
FIRST_NAME = b"\xc0\x0c"
"""The name of the first question, referred to."""


class Names(asyncio.DatagramProtocol):
    """The names of headless services and the addresses that they stand for at present."""

    def __init__(self) -> None:
        self.hosts: dict[str, list[str]] = {}
        """The addresses of a name's first label, in the order in which they came."""
        self.asked: defaultdict[str, int] = defaultdict(int)
        """How often each was asked for."""
        self._transport: Any = None

    async def serve(self) -> str:
        """Listen on a loopback port; the address, as a gRPC target has it."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: self, local_addr=("127.0.0.1", 0)
        )
        host, port = self._transport.get_extra_info("sockname")
        return f"{host}:{port}"

    def close(self) -> None:
        """Answer nobody any more."""
        if self._transport is not None:
            self._transport.close()

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        """Answer one question."""
        self._transport.sendto(self.answer(data), addr)

    def answer(self, data: bytes) -> bytes:
        """What is said to a question; raises IndexError or struct.error for what is none."""
        end, label = QUESTIONS_AT, ""
        while length := data[end]:
            label = label or data[end + 1 : end + 1 + length].decode("ascii").lower()
            end += 1 + length
        kind, _ = struct.unpack_from("!HH", data, end + 1)
        known = label in self.hosts
        hosts = self.hosts.get(label, []) if kind == IPV4 else []
        self.asked[label] += kind == IPV4
        flags = ANSWER if known else ANSWER | UNKNOWN
        head = data[:2] + struct.pack("!HHHHH", flags, 1, len(hosts), 0, 0)
        return head + data[QUESTIONS_AT : end + 5] + b"".join(map(_record, hosts))


def _record(host: str) -> bytes:
    octets = bytes(map(int, host.split(".")))
    return FIRST_NAME + struct.pack("!HHIH", IPV4, INTERNET, LIFE_SECONDS, len(octets)) + octets
