"""How a command ends: its exit code, and the one line that says why it cannot go on."""

FINE = 0
WRONG = 1
"""Something was refused, or was found to be wrong."""
USAGE = 2
UNREACHABLE = 3
"""A service does not answer."""


class Failure(Exception):
    """The command cannot go on: one line for a person, and the exit code."""

    def __init__(self, line: str, code: int = WRONG) -> None:
        super().__init__(line)
        self.line = line
        self.code = code
