"""A line that a person types: what is asked, what stands there so far."""

from dataclasses import dataclass, replace

from services.cli.play.spans import Line, Role, Span


@dataclass(frozen=True, slots=True)
class Entry:
    """A question and the text typed so far; `most` is how many characters it may have."""

    asks: str
    text: str = ""
    most: int = 200

    def pressed(self, key: str, character: str | None) -> "Entry":
        """The line after a key."""
        if key == "backspace":
            return replace(self, text=self.text[:-1])
        if key == "ctrl+u":
            return replace(self, text="")
        return self.pasted(character) if character and character.isprintable() else self

    def pasted(self, text: str) -> "Entry":
        """The line after a text was put in at its end."""
        kept = "".join(sign for sign in text if sign.isprintable())
        return replace(self, text=(self.text + kept)[: self.most])

    def shown(self, columns: int) -> Line:
        """The line with a cursor at its end; of a long text the end is shown."""
        room = max(1, columns - len(self.asks) - 5)
        return (
            Span(f" {self.asks}: ", Role.TURN),
            Span(self.text[-room:], Role.STRONG),
            Span(" ", Role.CHOSEN),
        )
