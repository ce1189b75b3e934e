"""What people say at a table, in words and in emotes."""

from collections.abc import Mapping

from kozyr.lobby.v1 import talk_pb2

from services.cli.play.scene import Told
from services.cli.play.session import Emote
from services.cli.play.spans import Role

EMOTES: Mapping[Emote, str] = {
    talk_pb2.EMOTE_HELLO: "Hello!",
    talk_pb2.EMOTE_GOOD_LUCK: "Good luck!",
    talk_pb2.EMOTE_WELL_PLAYED: "Well played!",
    talk_pb2.EMOTE_GOOD_GAME: "Good game!",
    talk_pb2.EMOTE_THANKS: "Thanks!",
    talk_pb2.EMOTE_SORRY: "Sorry.",
    talk_pb2.EMOTE_OOPS: "Oops!",
    talk_pb2.EMOTE_WOW: "Wow!",
    talk_pb2.EMOTE_LAUGH: "Ha ha!",
    talk_pb2.EMOTE_THINKING: "Let me think …",
    talk_pb2.EMOTE_GOODBYE: "Goodbye!",
}
"""Every emote in words."""
EMOTE_KEYS = "1234567890e"
MESSAGE_MAX = 200
MUTE, UNMUTE = "/mute ", "/unmute "


def told(line: talk_pb2.TalkLine) -> Told:
    """A line of talk, as it stands among what happened."""
    said = EMOTES.get(line.emote, "…") if line.WhichOneof("said") == "emote" else line.text
    return Told(f"{line.display_name}: {said}", Role.TALK)
