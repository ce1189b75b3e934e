"""A line to a server that a test can cut, at any octet it likes, or freeze."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit


class Line:
    """Forwards connections to a server (`//host:port`, or the URL of a database) until cut."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._port = 0
        self.cut_after: bytes | None = None
        """Once the client has sent these octets, they are passed on and the line is cut."""
        self.was_cut = False
        self._stalled: set[asyncio.StreamWriter] = set()
        self._frozen = self._refusing = False
        self.connections = 0
        """How many were made."""

    @property
    def address(self) -> str:
        """Host and port of this line."""
        return f"127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        """The URL of the database by this line."""
        account = self._target.netloc.rpartition("@")[0]
        return urlunsplit(self._target._replace(netloc=f"{account}@127.0.0.1:{self._port}"))

    async def open(self) -> None:
        """Lets connections through, at the same port as before."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    def stall(self) -> None:
        """Passes nothing on any more on the connections there are; new ones are not affected."""
        self._stalled |= self._open

    def freeze(self) -> None:
        """As if the server's process were stopped: connections come about, and nothing is said."""
        self._frozen = True
        self.stall()

    def refuse(self) -> None:
        """Ends every connection there is, and new ones at once; the port stays ours."""
        self._refusing = True
        self.drop()

    def serve(self) -> None:
        """New connections are let through again."""
        self._frozen = self._refusing = False

    def drop(self) -> None:
        """Ends every connection there is; new ones are taken."""
        for writer in list(self._open):
            writer.transport.abort()

    async def cut(self) -> None:
        """Ends every connection and takes no more."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._open):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._refusing:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(
                self._target.hostname, self._target.port
            )
            self._open |= {writer, far_writer}
            self.connections += 1
            if self._frozen:
                self._stalled |= {writer, far_writer}
            there = asyncio.create_task(self._forward(reader, far_writer, watched=True))
            back = asyncio.create_task(self._forward(far_reader, writer, watched=False))
            try:
                await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for direction in (there, back):
                    direction.cancel()
                await asyncio.wait({there, back})
                for end in (writer, far_writer):
                    end.close()
                self._open -= {writer, far_writer}
        except (OSError, asyncio.CancelledError):
            writer.close()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, watched: bool
    ) -> None:
        while octets := await reader.read(65_536):
            if writer in self._stalled:
                continue
            writer.write(octets)
            await writer.drain()
            if watched and self.cut_after is not None and self.cut_after in octets:
                self.cut_after = None
                self.was_cut = True
                return


@asynccontextmanager
async def line_to(url: str) -> AsyncIterator[Line]:
    """An open line to the database at `url`."""
    line = Line(url)
    await line.open()
    yield line
    await line.cut()
