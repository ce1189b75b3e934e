"""What a message may be: plain text that shows, composed, of bounded length."""

import random
import sys
import unicodedata

import pytest

from services.kernel.errors import Refused
from services.lobby.words import MARKS_MAX, TEXT_MAX, message_text

SEED = 5


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ("Olá!", "Olá!"),
        ("Ola\u0301", "Olá"),
        ("  გამარჯობა  ", "გამარჯობა"),
        ("🂡 10:0 <b>&amp;</b>", "🂡 10:0 <b>&amp;</b>"),
        ("a\u0301\u0302\u0303\u0304", "á\u0302\u0303\u0304"),
        ("x" * TEXT_MAX, "x" * TEXT_MAX),
        (" " * 500 + "x", "x"),
    ],
)
def test_plain_text_is_said_as_it_is(sent: str, said: str) -> None:
    """Composed, without blanks at its ends; nothing is read into it."""
    assert message_text(sent) == said


@pytest.mark.parametrize(
    "sent",
    [
        *("", " ", "x" * (TEXT_MAX + 1), "\u0344" * 101, "two\nlines", "a\tb", "\x00", "a\x1b[31m"),
        *("\u202eabc", "\u2066x\u2069", "a\u200fb", "a\u061cb", "a\u200bb", "a\u200db", "\ufeffx"),
        *("\u2028", "\u00ad", "\ue000", "\uffff", "\U000e0041x", "\u0301", " \u0301 \u0302"),
        "Z" + "\u0317" * (MARKS_MAX + 1),
    ],
)
def test_what_does_not_show_as_it_is_is_refused(sent: str) -> None:
    """Control characters, directions, joiners, heaps of marks, nothing at all: `text` is named."""
    with pytest.raises(Refused) as caught:
        message_text(sent)
    assert [each.field for each in caught.value.fields] == ["text"]
    assert sent not in str(caught.value) or not sent.strip()


def test_whatever_is_sent_what_is_said_is_printable_composed_and_bounded() -> None:
    """Random texts of all of Unicode; and what was said once can be said again as it is."""
    chance, said = random.Random(SEED), 0
    pools = [range(32, 127), range(0x300, 0x370), range(0x10D0, 0x1100), range(0x1F600, 0x1F650)]
    pools += [range(sys.maxunicode + 1), range(0x2000, 0x2070)]
    for _ in range(4_000):
        pool = chance.choice(pools)
        signs = [chr(each) for each in chance.choices(pool, k=chance.randrange(1, 8))]
        try:
            text = message_text("".join(signs))
        except Refused:
            continue
        said += 1
        assert text == message_text(text) == unicodedata.normalize("NFC", text)
        assert text.isprintable()
        assert 1 <= len(text) <= TEXT_MAX
        assert {unicodedata.category(sign)[0] for sign in text}.isdisjoint({"C"})
        assert {unicodedata.bidirectional(sign) for sign in text}.isdisjoint(
            {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
        )
    assert said > 500
