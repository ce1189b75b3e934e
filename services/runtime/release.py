"""Which release this is."""

from importlib.metadata import PackageNotFoundError, version


def release() -> str:
    """The version of the installed package; `unknown` where it runs without being installed."""
    try:
        return version("kozyr")
    except PackageNotFoundError:
        return "unknown"
