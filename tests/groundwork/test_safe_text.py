"""Tests text that agents choose: a terminal's sequences show as escapes, in output, JSON and the log (F44)."""

from __future__ import annotations

import ast
import io
import json
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sources import nodes_of
from twisted.logger import Logger, LogPublisher, textFileLogObserver
from twisted.python import log as legacy_log
from twisted.python.failure import Failure

from groundwork import terminal
from groundwork.safe_log import guard_log
from groundwork.safe_text import json_text, safe_line, safe_text
from groundwork.terminal import echo, echo_json, styled

ROOT = Path(__file__).resolve().parents[2]
EVIL = {
    "\x1b]0;x\x07": "\\x1b]0;x\\x07",  # the title of the window
    "\x1b[2J": "\\x1b[2J",
    "equus/9\u009b31m": "equus/9\\x9b31m",  # CSI in one letter
    "a\u0085b": "a\\x85b",
    "a\u2028b\u2029c": "a\\u2028b\\u2029c",
    "a\rb\x0bc\x0cd": "a\\rb\\x0bc\\x0cd",
    "\u202egnp.exe": "\\u202egnp.exe",  # reads the other way round
    "\u2066a\u2069\u200f\u061c": "\\u2066a\\u2069\\u200f\\u061c",
    "\x7f\x00": "\\x7f\\x00",
    "\ud800": "\\ud800",
    "\U000e0041": "\\U000e0041",  # a tag: no shape, and yet there
}
FINE = ["", "plain", "Grüße, 世界 ½ 🙂", "C:\\x1b", "100 %"]
UNSAFE = {"Cc", "Cf", "Zl", "Zp", "Cs"}


@pytest.mark.parametrize(("text", "shown"), EVIL.items())
def test_what_a_terminal_obeys(text: str, shown: str) -> None:
    """A character that a terminal obeys shows as an escape, also within a line and in texts of several lines."""
    assert safe_line(f"x{text}y") == f"x{shown}y"
    assert safe_text(f"x\n\t{text}") == f"x\n\t{shown}"


@pytest.mark.parametrize("text", FINE)
def test_what_is_only_text(text: str) -> None:
    """Plain text stays unchanged; line ends and tabs stay if lines are kept."""
    assert safe_line(text) == safe_text(text) == text
    assert safe_text(f"{text}\n\t{text}") == f"{text}\n\t{text}"
    assert safe_line(f"{text}\n\t") == f"{text}\\n\\t"


@given(st.text(alphabet=st.characters(codec=None)))
def test_nothing_unsafe_is_left(text: str) -> None:
    """No text keeps anything unsafe; a safe one is not changed again; JSON means the same as before."""
    for made, keep in ((safe_line(text), ""), (safe_text(text), "\n\t"), (json_text([text]), "")):
        assert not [c for c in made if unicodedata.category(c) in UNSAFE and c not in keep]
    assert safe_line(safe_line(text)) == safe_line(text)
    assert json.loads(json_text([text])) == json.loads(json_text([text], only_ascii=True)) == [text]
    assert json_text([text], only_ascii=True).isascii()


def test_letters_stay_in_json() -> None:
    """Programs and people read UTF-8 in a file; a terminal gets ASCII."""
    document = {"Größe": "\u202e½"}
    assert json_text(document) == '{"Größe": "\\u202e½"}'
    assert json_text(document, only_ascii=True) == '{"Gr\\u00f6\\u00dfe": "\\u202e\\u00bd"}'
    assert json_text({"a": [1]}, indent=2) == json.dumps({"a": [1]}, indent=2)


class Screen(io.StringIO):
    """Stands in for a terminal, or for a file."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.mark.parametrize("is_terminal", [True, False])
def test_what_is_printed(monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> None:
    """Our own colours reach a terminal; those of others never do, not even in the form that ours have in between."""
    screen = Screen(is_terminal)
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.delenv("NO_COLOR", raising=False)
    echo(styled("bad", fg="red") + " \x1b[31mweb-1\x1b[0m " + styled("x\x1b[5m", bold=True))
    echo("\ufdd0;\ufdd0 \ufdd1")
    echo(b"a\xff\x1b")
    echo_json({"ü": "\x9b"})
    red, bold, end = ("\x1b[31m", "\x1b[1m", "\x1b[0m") if is_terminal else ("", "", "")
    name = "\\u00fc" if is_terminal else "ü"
    assert screen.getvalue() == (
        f"{red}bad{end} \\x1b[31mweb-1\\x1b[0m {bold}x\\x1b[5m{end}\n"
        "\\ufdd0;\\ufdd0 \\ufdd1\na\ufffd\\x1b\n"
        f'{{"{name}": "\\u009b"}}\n'
    )


def test_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable NO_COLOR turns colours off, as no-color.org has it."""
    monkeypatch.setenv("NO_COLOR", "1")
    assert styled("a\x1b", fg="red") == "a\\x1b"


# Who prints without it, and why nothing of others is in it.
BESIDE = {
    "groundwork/terminal.py": "it is the edge",
    "helen/service.py": "its own addresses and sentences",
    "helen/exit_in_time.py": "its own sentence, without a name from outside",
    "helen/notify/channels/apprise_child.py": "a child, whose output is read by its parent",
    "helen/journal/verify.py": "a tool for segments, which prints through safe_line",
    "helen/journal/verify_many.py": "a tool for segments, which prints through safe_line",
    "helen/journal/together.py": "one sentence of its own",
    "equus/sandbox/broker.py": "the standard error of a child, which the agent's log takes",
    "equus/sandbox/audit.py": "its own path and the system's error",
    "equus/shell/server.py": "the standard error of a child, which the agent's log takes, by safe_line",
    "equus/code/launcher.py": "its own sentences",
    "equus/tap.py": "its own sentences",
    "scale0/plain_usage.py": "words of its own command line",
}


def test_every_command_prints_by_one_function() -> None:
    """No module calls print, click.echo or click.secho by itself but those that say why (F44)."""
    found = set()
    for package in ("helen", "equus", "scale0", "zerotask", "groundwork"):
        for path in (ROOT / package).rglob("*.py"):
            for node in nodes_of(path.read_text()):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "click.echo", "click.secho"):
                    found.add(str(path.relative_to(ROOT)))
    assert found == set(BESIDE)


# ---------------------------------------------------------------------------------------------- the log


class Log:
    """Holds the two kinds of observers that twistd writes with, behind the guard."""

    def __init__(self) -> None:
        self.publisher = LogPublisher()
        guard_log(self.publisher)
        self.new, self.old = io.StringIO(), io.StringIO()
        self.publisher.addObserver(textFileLogObserver(self.new))
        legacy = legacy_log.LogPublisher(publishPublisher=self.publisher, observerPublisher=self.publisher)  # type: ignore[no-untyped-call]
        legacy.addObserver(legacy_log.FileLogObserver(self.old).emit)  # type: ignore[no-untyped-call]
        self.logger = Logger(observer=self.publisher)


@pytest.mark.parametrize(("text", "shown"), EVIL.items())
def test_the_log(text: str, shown: str) -> None:
    """The log escapes messages, what they are formatted with, and tracebacks of errors that quote a peer."""
    log = Log()
    log.logger.info("{agent} says {why}", agent="web-1", why=text)
    log.logger.warn(f"said {text}".replace("{", "{{"))
    try:
        raise ValueError(f"not {text}")
    except ValueError:
        log.logger.failure("an agent", Failure())
    for written in (log.new.getvalue(), log.old.getvalue()):
        assert f"web-1 says {shown}" in written
        assert f"said {shown}" in written
        assert f"ValueError: not {shown}" in written
        assert not [c for c in written if unicodedata.category(c) in UNSAFE and c not in "\n\t"]


def test_a_log_without_anything_unsafe() -> None:
    """Events stay as they are: other observers find fields and failures."""
    log, seen = Log(), []
    log.publisher.addObserver(seen.append)
    failure = Failure(ValueError("x"))
    log.logger.failure("{what}", failure, what="ü")
    assert (seen[0]["log_format"], seen[0]["what"], seen[0]["log_failure"]) == ("{what}", "ü", failure)


def test_complaints(capsys: Any) -> None:
    """A complaint is one line, whatever the error says."""
    terminal.complain("helen", ValueError("a\nb\x1b"))
    assert capsys.readouterr().err == "helen: a\\nb\\x1b\n"
