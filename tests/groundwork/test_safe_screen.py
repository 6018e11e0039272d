"""Tests what a recorded terminal may do to the one that shows it: it draws, and no more, however it is cut."""

from __future__ import annotations

import pytest

from groundwork.safe_screen import MOST_HELD, SafeScreen

DRAWN = [
    "plain\r\n", "grüße\t|\b", "\x1b[1;31mred\x1b[0m", "\x1b[38:5:1m", "\x1b[2J\x1b[H", "\x1b[10;20H", "\x1b[K",
    "\x1b[?25l\x1b[?25h", "\x1b[?1049h", "\x1b[4h", "\x1b[3;9r", "\x1b7\x1b8\x1bM", "\x1b(B", "\x1b(0", "\x1b=\x1b>",
]  # fmt: skip
LEFT_OUT = {
    "questions": [
        "\x1b[c",
        "\x1b[>c",
        "\x1b[6n",
        "\x1b[?6n",
        "\x1b[21t",
        "\x1b[14t",
        "\x05",
        "\x1bZ",
        "\x1b[?1$p",
        "\x1b[x",
    ],
    "clipboard, title, links": ["\x1b]52;c;YQ==\x07", "\x1b]0;title\x1b\\", "\x1b]8;;http://x\x1b\\", "\x1b]2;x\x9c"],
    "strings": ['\x1bP$q"p\x1b\\', "\x1b_x\x1b\\", "\x1b^x\x1b\\", "\x1bXx\x1b\\"],
    "reports of keys and of the mouse": [
        "\x1b[?1000h",
        "\x1b[?1004h",
        "\x1b[?2004h",
        "\x1b[?25;1000h",
        "\x1b[>1u",
        "\x1b[5i",
    ],
    "eight bits, bells, resets": [
        "\x9b6n",
        "\x90q",
        "\x07",
        "\x00",
        "\x0e",
        "\x7f",
        "\x1bc",
        "\x1b#8",
        "\x1b[!p",
        "\x1b%G",
    ],
}


@pytest.mark.parametrize("text", DRAWN)
def test_what_draws_stays(text: str) -> None:
    """A text that only draws is shown as it is, in one piece or letter by letter."""
    assert SafeScreen().feed(text) == text
    screen = SafeScreen()
    assert "".join(map(screen.feed, text)) == text


@pytest.mark.parametrize("text", [each for those in LEFT_OUT.values() for each in those])
def test_what_asks_or_sets_is_left_out(text: str) -> None:
    """A sequence that asks or sets is left out, in one piece or letter by letter, and the text around it stays."""
    for cut in (False, True):
        screen = SafeScreen()
        pieces = ["before", *(text if cut else [text]), "after"]
        shown = "".join(map(screen.feed, pieces))
        assert "\x1b" not in shown
        assert not any(ord(letter) < 32 or 126 < ord(letter) < 160 for letter in shown)
        assert shown.startswith("before")
        assert shown.endswith("after")


def test_a_string_without_an_end_hides_what_follows() -> None:
    """A string without an end hides the rest, as on the recorded terminal; nothing is kept, and its end may be in two
    pieces.
    """
    screen = SafeScreen()
    assert screen.feed("a\x1b]52;") == "a"
    for _ in range(100):
        assert screen.feed("x" * 10_000) == ""
    assert screen.feed("x\x1b") == ""
    assert screen.feed("\\b") == "b"


def test_a_sequence_that_does_not_end_is_given_up() -> None:
    """The screen holds no more than MOST_HELD letters of a sequence back, and shows what follows without its first
    letter.
    """
    screen = SafeScreen()
    shown = screen.feed("\x1b[" + "1" * (MOST_HELD * 2))
    assert "\x1b" not in shown
    assert screen.feed("m") == "m"
