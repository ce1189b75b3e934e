"""What a receipt is refused with."""


class Wrong(Exception):
    """The first thing that is wrong: `where` is `version 12` or a field, `what` a sentence."""

    def __init__(self, where: str | int, what: str) -> None:
        self.where = f"version {where}" if isinstance(where, int) else where
        self.what = what
        super().__init__(f"{self.where}: {self.what}")
