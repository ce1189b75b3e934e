"""The rules of a game, told to the person in his language."""

from services.cli.play.canvas_screen import CanvasScreen
from services.cli.play.pages import rules_page
from services.cli.play.reader_screen import ReaderScreen
from services.cli.play.session import Session
from services.runtime.wire import games as wire


async def read_rules(screen: CanvasScreen, session: Session, game: str) -> None:
    """Show a game's rules in the person's language."""
    told = await session.variants(screen.play.wishes.language)
    info = next(each for each in told.variants if wire.NAMES[each.variant] == game)
    if screen.in_front:
        reader = ReaderScreen(info.title, lambda columns: rules_page(info, columns))
        screen.app.push_screen(reader)
