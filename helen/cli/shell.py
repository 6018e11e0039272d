"""Implement `helen shell`, which lists and plays the recordings of sessions that an agent's host keeps.

They come over SSH, from the host to the caller, whose key the host's policy has to name (`auditors`). So no Helen can
read them, and none can give anybody the right to.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import click

from groundwork.durations import words_of
from groundwork.terminal import Drawing, echo
from helen.cli.base.client import Failed, Missing
from helen.cli.base.options import output, plain, print_json, table, which_helen
from helen.cli.base.ssh_call import Which, ssh_options, ssh_words
from helen.cli.downtimes import moment

AUDITOR = "recordings"  # the user as whom an agent gives recordings
MOST_ROWS = 10_000  # of a list; an agent gives 1,000 at most
MOST_SAID = 4_096  # bytes of a line of ssh's errors, which are partly the host's
SAID_SECONDS = 5.0  # that the errors may take behind the end of ssh
MOST_LINE = 4 * 1_048_576  # bytes of an event; an agent writes some 400,000 at most
MOST_TIME = 1e9  # seconds from the beginning of a recording to an event: 31 years
NAME = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}")
NO_RECORDING = 3  # exit status of the agent's side


@click.group()
def shell() -> None:
    """List and play the recordings of sessions on an agent's machine. docs/shell.rst says who may."""


@shell.command("log", context_settings={"ignore_unknown_options": True})
@ssh_options
@click.argument("agent")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@output
@which_helen
def log(agent: str, words: tuple[str, ...], as_json: bool, **which: Any) -> None:
    """List the recordings on the machine of AGENT, the newest first. WORDS are options of ssh, such as -i KEY.

    Exit status 1: the machine's policy gives them to other keys only; 3: no agent has that name.
    """
    with asked(Which(**which), agent, words, "list") as lines:
        found = [read_row(agent, line) for line in not_more_than(MOST_ROWS, lines)]
    if as_json:
        print_json({"recordings": found})
        return
    rows = [
        [row["id"], moment(row["began"]), lasted(row), row["user"], row["who"], row["caller"],
         row["command"] or "a shell", row["end"] or "no end yet, or cut off"]
        for row in found
    ]  # fmt: skip
    table(["ID", "BEGAN", "LASTED", "USER", "KEY", "ASKED BY", "RAN", "END"], rows)


@shell.command("play", context_settings={"ignore_unknown_options": True})
@ssh_options
@click.option("--save", type=click.Path(path_type=Path), help="Write the asciicast into this new file instead.")
@click.option("--speed", type=click.FloatRange(0.1, 1_000), default=1.0, show_default=True, help="Times as fast.")
@click.option("--pause", type=click.FloatRange(0), default=2.0, show_default=True, help="Most seconds without output.")
@click.option("--input", "with_input", is_flag=True, help="Show also what a command without a terminal was given.")
@click.argument("recording", metavar="ID")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@which_helen
def play(
    recording: str,
    words: tuple[str, ...],
    save: Path | None,
    speed: float,
    pause: float,
    with_input: bool,
    **which: Any,
) -> None:
    """Play the recording ID of `helen shell log`. WORDS are options of ssh, such as -i KEY.

    Sequences that would make your terminal do more than draw are left out. Without a terminal all is written at once.

    Exit status 1: the machine's policy gives it to other keys only; 3: there is no such recording.
    """
    agent, _, name = recording.partition("/")
    if not NAME.fullmatch(name):
        raise click.UsageError(f"{recording!r} is no ID: `helen shell log AGENT` lists them, AGENT/TIME-NUMBER")
    with asked(Which(**which), agent, words, f"show {name}") as lines:
        if save is not None:
            keep(lines, save)
            return
        codes = ("o", "i") if with_input else ("o",)
        show(lines, codes, speed if sys.stdout.isatty() else None, pause)


@contextmanager
def asked(which: Which, agent: str, words: tuple[str, ...], what: str) -> Iterator[Iterator[bytes]]:
    """Ask an agent's host for its recordings, and give the lines of its answer.

    Raises Failed if it refuses or breaks off, and Missing if there is no such recording.
    """
    call = [*ssh_words(which, AUDITOR, agent), "-T", *words, what]
    try:
        process = subprocess.Popen(call, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError as error:
        raise Failed("there is no ssh here: install OpenSSH's client") from error
    with process:
        assert process.stdout is not None
        saying = threading.Thread(target=say_errors, args=(process.stderr,), daemon=True)
        saying.start()
        try:
            yield lines_of(process.stdout)
        except BaseException:
            process.kill()
            raise
        finally:
            status = process.wait()
            saying.join(SAID_SECONDS)
    if status == NO_RECORDING:
        raise Missing(f"{agent} has no such recording: `helen shell log {agent}` lists them")
    if status != 0:
        raise Failed(f"{agent} has not given its recordings: its policy names the keys that may read them (`auditors`)")


def say_errors(file: IO[bytes]) -> None:
    """Show what ssh says of its errors, among it what the host sends so, as plain lines."""
    with suppress(ValueError):  # it was closed meanwhile
        while said := file.readline(MOST_SAID):
            echo(plain(said.decode("utf-8", "replace").rstrip()), err=True)


def not_more_than(most: int, lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines. Raises Failed if there are more than so many."""
    for number, line in enumerate(lines):
        if number == most:
            raise Failed(f"the agent sends a list of more than {most} recordings, which is none of Equus")
        yield line


def lines_of(file: IO[bytes]) -> Iterator[bytes]:
    """Yield lines. Raises Failed if one is too long."""
    while line := file.readline(MOST_LINE):
        if len(line) == MOST_LINE:
            raise Failed("the agent sends a line that is too long for a recording")
        yield line


def read_row(agent: str, line: bytes) -> dict[str, Any]:
    """Return a row of the list, with the ID of the recording. Raises Failed if it can't be read."""
    row = as_json_value(line)
    texts = ("name", "who", "user", "caller", "kind", "end")
    is_good = isinstance(row, dict) and all(isinstance(row.get(key), str) for key in texts)
    if not is_good or not _is_moment(row.get("began")) or not NAME.fullmatch(row["name"]):
        raise Failed(f"{agent} sends a list that can't be read: {line[:100]!r}")
    return {"id": f"{agent}/{row.pop('name')}", "command": None, **row}


def _is_moment(began: Any) -> bool:
    return type(began) is int and 0 <= began < 2**32


def as_json_value(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def lasted(row: dict[str, Any]) -> str:
    seconds = row.get("seconds")
    return words_of(round(seconds)) if isinstance(seconds, int | float) and 0 <= seconds < 1e9 else ""


def keep(lines: Iterator[bytes], file: Path) -> None:
    """Write a recording into a new file. Raises Failed if that can't be done."""
    try:
        with open(file, "xb") as opened:
            opened.writelines(lines)
    except OSError as error:
        raise Failed(f"{file} can't be written: {error.strerror}") from error


def show(lines: Iterator[bytes], codes: tuple[str, ...], speed: float | None, pause: float) -> None:
    """Write the output of a recording, in its own time, or at once without a `speed`.

    `pause`: the most seconds between two outputs. Raises Failed if a line can't be read.
    """
    told = as_json_value(next(lines, b""))
    if isinstance(told, dict):
        about = told.get("equus") if isinstance(told.get("equus"), dict) else {}
        echo(f"helen: {plain(told.get('command') or 'a shell')}, as {plain(about.get('user'))},", err=True)
        echo(f"helen: by {plain(about.get('who'))}, asked for by {plain(about.get('caller'))}", err=True)
    drawing, before = Drawing(), 0.0
    try:
        for line in lines:
            at, code, text = event_of(line)
            if code in codes:
                if speed is not None:
                    time.sleep(min(max(0.0, at - before) / speed, pause))
                before = at
                drawing.draw(text)
            elif code == "m":
                echo(f"\nhelen: {plain(text)}", err=True)
    finally:
        drawing.end()


def event_of(line: bytes) -> tuple[float, str, str]:
    """Return time, code and text of an event. Raises Failed if the line is none."""
    event = as_json_value(line)
    if isinstance(event, list) and len(event) == 3:
        at, code, text = event
        is_time = type(at) in (int, float) and 0 <= at < MOST_TIME  # some whole numbers are too large for a float
        if is_time and isinstance(code, str) and isinstance(text, str):
            return at, code, text
    raise Failed(f"the recording can't be read from here on: {line[:100]!r}")
