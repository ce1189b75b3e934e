"""What a message at a table may be: plain text that shows as what it is."""

import unicodedata

from services.kernel.errors import invalid

TEXT_MAX = 200
"""Longest message, in characters."""
MARKS_MAX = 4
"""Most combining marks in a row: no language needs more, and a heap of them covers other lines."""
MARKS = {"Mn", "Mc", "Me"}


def message_text(text: str) -> str:
    """A message in NFC without blanks at its ends; raises Refused naming `text`.

    Refused is what cannot be printed: control characters, line ends, directions and their
    overrides, joiners, characters that are not assigned.
    """
    said = unicodedata.normalize("NFC", text).strip()
    if not 1 <= len(said) <= TEXT_MAX:
        raise invalid("text", f"must have 1 to {TEXT_MAX} characters")
    if not said.isprintable():
        raise invalid("text", "printable characters and blanks only")
    run = 0
    for sign in said:
        run = run + 1 if unicodedata.category(sign) in MARKS else 0
        if run > MARKS_MAX:
            raise invalid("text", f"at most {MARKS_MAX} marks on a character")
    if all(unicodedata.category(sign) in MARKS | {"Zs"} for sign in said):
        raise invalid("text", "must show something")
    return said
