"""What people wrote in disputes, kept beside the log so that it can be removed.

The log holds SHA-256(salt ‖ words) with 32 random octets of salt: as long as the words are here
they are those that were written, and once they and the salt are gone the digest tells nothing.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

from sqlalchemy import Column, LargeBinary, MetaData, Table, Text, Uuid, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime.database import read, write
from services.runtime.streams import refusals

dispute_texts = Table(
    "dispute_texts",
    MetaData(),
    Column("digest", LargeBinary, primary_key=True),
    Column("stream", Uuid, nullable=False),
    Column("player", Text, nullable=False),
    Column("salt", LargeBinary, nullable=False),
    Column("words", Text, nullable=False),
)
"""`player` is who opened the dispute, whoever wrote: both texts are about what he said."""

SALT_BYTES = 32


def digest_of(salt: bytes, words: str) -> bytes:
    """What the log says of a text, 32 octets."""
    return sha256(salt + words.encode()).digest()


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts in the game's database. Methods raise Refused STORE_UNAVAILABLE."""

    engine: AsyncEngine

    async def keep(self, dispute: UUID, player: str, words: str) -> bytes:
        """Keep a text under a fresh salt; its digest."""
        salt = secrets.token_bytes(SALT_BYTES)
        digest = digest_of(salt, words)
        row = {"digest": digest, "stream": dispute, "player": player, "salt": salt, "words": words}
        with refusals():
            async with write(self.engine) as connection:
                await connection.execute(insert(dispute_texts).values(row))
        return digest

    async def drop(self, digest: bytes) -> None:
        """Remove a text."""
        with refusals():
            async with write(self.engine) as connection:
                await connection.execute(
                    delete(dispute_texts).where(dispute_texts.c.digest == digest)
                )

    async def find(self, digests: Iterable[bytes]) -> dict[bytes, str]:
        """Those of the texts that are there and are what was written."""
        query = select(dispute_texts).where(dispute_texts.c.digest.in_(list(digests)))
        with refusals():
            async with read(self.engine) as connection:
                rows = (await connection.execute(query)).all()
        return {r.digest: r.words for r in rows if digest_of(r.salt, r.words) == r.digest}

    async def erase(self, player: str) -> int:
        """Remove the texts of all disputes that a player opened; how many there were."""
        with refusals():
            async with write(self.engine) as connection:
                gone = await connection.execute(
                    delete(dispute_texts).where(dispute_texts.c.player == player)
                )
        return int(gone.rowcount)
