"""Reads labels of this machine from a file or from a program: what a cloud or a cluster knows of it.

    /etc/podinfo/labels      KEY=VALUE on each line, with quotes or without (the downward API of Kubernetes), or JSON
    /usr/local/bin/facts     a file that may be executed is, and prints the same; words behind it are its arguments

They are claims like those of `--label`, which come before them. A source with a fault leaves what was read before.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from twisted.logger import Logger

from equus.settings import MAX_LABELS, SettingsError, parse_labels

MAX_BYTES = 65_536  # of a file, or of what a program prints: 64 labels of the greatest length take half of it
RUN_SECONDS = 10.0  # that a program has
PRIVATE = ("EQUUS_JOIN", "CREDENTIALS_DIRECTORY")  # of the environment: a program is told neither


class LabelSourceError(Exception):
    """Says that labels can't be read; the text says from where and why."""


class LabelSource:
    """Has the labels of this machine: `fixed` ones, and those of `place`, a file or a command line; None for none."""

    log = Logger()

    def __init__(self, fixed: Mapping[str, str], place: str | None) -> None:
        self._fixed, self._place = dict(fixed), place
        self.labels = dict(fixed)
        self.fault: str | None = None  # why those of `place` were not read the last time

    def read(self) -> bool:
        """Read the labels again; return True if there are other ones, or another fault. Blocking: RUN_SECONDS."""
        if self._place is None:
            return False
        before = self.labels, self.fault
        try:
            found = parse(_content(self._place), self._place)
            if len(self._fixed.keys() | found.keys()) > MAX_LABELS:
                raise LabelSourceError(
                    f"--labels-from {self._place}: with --label these are more than {MAX_LABELS} labels"
                )
            self.labels, self.fault = found | self._fixed, None
        except LabelSourceError as error:
            self.fault = str(error)
            self.log.error("{error}; the labels stay as they were", error=error)
        return (self.labels, self.fault) != before


def _content(place: str) -> str:
    """Return the text of a file, or what a program prints. Raises LabelSourceError."""
    path = Path(place)
    try:
        if path.is_file() and not os.access(path, os.X_OK):
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        else:
            content = _output(shlex.split(place))
        if len(content) > MAX_BYTES:
            raise LabelSourceError(f"--labels-from {place}: more than {MAX_BYTES:,} bytes")
        return content.decode()
    except FileNotFoundError as error:
        raise LabelSourceError(f"--labels-from {place}: there is no such file, and no such program") from error
    except OSError as error:
        raise LabelSourceError(f"--labels-from {place}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, ValueError) as error:
        raise LabelSourceError(f"--labels-from {place}: {error}") from error


def _output(words: list[str]) -> bytes:
    """Return what a program prints, MAX_BYTES and some more at most. Raises LabelSourceError, OSError or ValueError."""
    if not words:
        raise ValueError("it is empty")
    environment = {name: value for name, value in os.environ.items() if name not in PRIVATE}
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
        start_new_session=True,
    ) as program:  # fmt: skip
        try:
            content = _read_until(program, time.monotonic() + RUN_SECONDS)
            if len(content) <= MAX_BYTES and program.wait(RUN_SECONDS) != 0:
                raise LabelSourceError(f"--labels-from {shlex.join(words)}: it ended with status {program.returncode}")
            return content
        except (TimeoutError, subprocess.TimeoutExpired):
            raise LabelSourceError(
                f"--labels-from {shlex.join(words)}: it has not ended within {RUN_SECONDS:g} s"
            ) from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)  # with all that it has started


def _read_until(program: subprocess.Popen[bytes], until: float) -> bytes:
    """Return the output of a program up to its end; `until`: monotonic seconds. Raises TimeoutError."""
    assert program.stdout is not None
    number, content = program.stdout.fileno(), b""
    while len(content) <= MAX_BYTES:
        ready, _, _ = select.select([number], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise TimeoutError
        piece = os.read(number, MAX_BYTES)
        if not piece:
            break
        content += piece
    return content


def parse(text: str, place: str) -> dict[str, str]:
    """Return the labels of a text: a JSON object of texts, or lines KEY=VALUE. Raises LabelSourceError."""
    try:
        return parse_labels(_of_json(text) if text.lstrip().startswith("{") else _of_lines(text))
    except (SettingsError, ValueError, RecursionError) as error:
        said = str(error).removeprefix("--label ")
        raise LabelSourceError(f"--labels-from {place}: {said}") from error


def _of_json(text: str) -> list[str]:
    document = json.loads(text)
    wrong = [key for key, value in document.items() if not isinstance(value, str)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is no text: write an object of texts")
    return [f"{key}={value}" for key, value in document.items()]


def _of_lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        key, equals, value = line.partition("=")
        is_quoted = len(value) >= 2 and value[0] == value[-1] == '"'
        yield f"{key}{equals}{json.loads(value) if is_quoted else value}"
