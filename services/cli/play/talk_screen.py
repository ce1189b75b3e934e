"""A table's screen as far as people talk there: what they say, saying something, emotes, mutes."""

from contextlib import suppress
from functools import partial

from kozyr.lobby.v1 import lobby_pb2

from services.cli.play import talking, waiting
from services.cli.play.canvas_screen import CanvasScreen
from services.cli.play.entry import Entry
from services.cli.play.keys import Do
from services.cli.play.scene import Told
from services.cli.play.session import Session
from services.cli.play.spans import Role
from services.kernel.errors import Refused


class TalkScreen(CanvasScreen):
    """The screen of a table at which people talk."""

    def __init__(self, session: Session, table_id: str) -> None:
        super().__init__()
        self.session = session
        self.table_id = table_id
        self.table = lobby_pb2.Table()
        self.said: list[Told] = []

    @property
    def talks(self) -> bool:
        """Whether one can talk here: people do, and one sits among them."""
        if self.session.alone or self.table.rules.no_chat:
            return False
        return waiting.own_seat(self.table, self.session.player_id) is not None

    async def follow_talk(self) -> None:
        """Put what is said among what happens. Whoever may not hear it, plays without."""
        with suppress(Refused):
            async for line in self.session.talk(self.table_id):
                self.said.append(talking.told(line))
                self.heard(self.said[-1])
                self.redraw()

    def heard(self, said: Told) -> None:
        """Take in what was said."""

    def talk(self, do: Do) -> None:
        """Have something said, or an emote chosen."""
        if not self.talks:
            return
        if do is Do.SAY:
            self.type_in(Entry("Say", most=talking.MESSAGE_MAX), self._say)
            return

        emotes = zip(talking.EMOTE_KEYS, talking.EMOTES.items(), strict=True)
        show = self.session.show
        self.offer(
            "To the table",
            [(key, said, partial(show, self.table_id, emote)) for key, (emote, said) in emotes],
        )

    async def _say(self, text: str) -> None:
        for command, muted in ((talking.MUTE, True), (talking.UNMUTE, False)):
            if text.startswith(command):
                self.act(self._mute(text.removeprefix(command).strip(), muted=muted))
                return
        self.act(self.session.say(self.table_id, text))

    async def _mute(self, name: str, *, muted: bool) -> None:
        people = waiting.others(self.table, self.session.player_id)
        named = [seat for seat in people if seat.display_name.casefold() == name.casefold()]
        if not named:
            self.say(f"Nobody here is called {name}.", Role.BAD)
            return
        await self.session.mute(named[0].player_id, muted=muted)
        self.say(f"You hear {named[0].display_name} {'no more' if muted else 'again'}.")
