"""The URL of a database as a setting: judged before anything opens it, whose error might tell parts
of its password."""

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, SecretStr

DRIVERS = ("sqlite+aiosqlite", "postgresql+asyncpg")


def sound(given: SecretStr) -> SecretStr:
    """The same; raises ValueError, which repeats nothing of it."""
    from sqlalchemy import exc, make_url  # who has no database need not wait for it

    try:
        driver = make_url(given.get_secret_value()).drivername
    except (exc.ArgumentError, ValueError):
        driver = ""
    if driver not in DRIVERS:
        raise ValueError(
            "must be sqlite+aiosqlite:///file or postgresql+asyncpg://user:password@host/name"
        )
    return given


DatabaseUrl: TypeAlias = Annotated[SecretStr, AfterValidator(sound)]
