"""Run commands that listen for programs of others and report what they say: `helen traps` and `helen zabbix`."""

from __future__ import annotations

import selectors
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from attrs import define, field

from groundwork.terminal import echo
from helen.cli.base.failures import Failed, Unusable

MAX_FILE = 1_048_576  # bytes
RESULTS = "/api/v1/passive/results"
# Statuses after which a result is sent again: Helen, or a proxy before it, takes none now.
AWAY = {502, 503, 504}
File = TypeVar("File")


class ListenerFileError(Exception):
    """Says that the file of a listener can't be used; the text lists every fault, each with its place."""


class Listens(Protocol):
    """Describes what listens: it opens sockets, and is busy until it is ended."""

    def bind(self) -> list[tuple[str, int]]: ...

    def run(self) -> None: ...

    def close(self) -> None: ...


@define
class Counts:
    """Counts what became of messages, and tells it from time to time with an example of each. Any thread."""

    tell: Callable[[str], None]
    _counts: Counter[str] = field(factory=Counter)
    _examples: dict[str, str] = field(factory=dict)
    _lock: threading.Lock = field(factory=threading.Lock)

    def add(self, what: str, example: str = "", number: int = 1) -> None:
        """Count one, or so many; the first example of each time is told."""
        with self._lock:
            self._counts[what] += number
            if example:
                self._examples.setdefault(what, example)

    def flush(self) -> None:
        """Tell what was counted since the last time, if that was anything."""
        with self._lock:
            counts, examples = self._counts, self._examples
            self._counts, self._examples = Counter(), {}
        if counts:
            shown = {what: f" ({example})" for what, example in examples.items()}
            self.tell("; ".join(f"{number} {what}{shown.get(what, '')}" for what, number in counts.items()))


@define
class Places:
    """Counts what addresses hold of a number of places, of which one holds a quarter at most. Any thread.

    So one permitted address that is slow, or noisy, leaves places to the others.
    """

    most: int
    _held: Counter[str] = field(factory=Counter)
    _lock: threading.Lock = field(factory=threading.Lock)

    @property
    def most_of_one(self) -> int:
        """Return how many places one address may hold."""
        return max(1, self.most // 4)

    @property
    def held(self) -> int:
        """Return how many places are held."""
        with self._lock:
            return self._held.total()

    def take(self, address: str) -> str:
        """Take a place, and return ""; or return why there is none: `it has 5`, the address, or `all have 20`."""
        with self._lock:
            if self._held[address] >= self.most_of_one:
                return f"it has {self._held[address]}"
            if self._held.total() >= self.most:
                return f"all have {self.most}"
            self._held[address] += 1
            return ""

    def give_back(self, address: str) -> None:
        """Give back a place that was taken."""
        with self._lock:
            self._held[address] -= 1
            if not self._held[address]:
                del self._held[address]  # addresses are many


def read_file(path: Path, read: Callable[[str], File]) -> File:
    """Read a listener's file. Raises Failed if that can't be done, Unusable with all faults of its text."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE + 1)
    except OSError as error:
        raise Failed(f"{path} can't be read: {error.strerror}") from error
    try:
        if len(raw) > MAX_FILE:
            raise ListenerFileError(f"more than {MAX_FILE} bytes")
        return read(raw.decode())
    except UnicodeDecodeError as error:
        raise Unusable(f"{path}: no UTF-8") from error
    except ListenerFileError as error:
        raise Unusable(f"{path}: {error}") from error


def close_all(selector: selectors.BaseSelector) -> None:
    """Close the sockets that a selector watches, and the selector."""
    for key in list(selector.get_map().values()):
        key.fileobj.close()  # type: ignore[union-attr]
    selector.close()


def handle_signals(ended: threading.Event, path: Path, read_anew: Callable[[], object]) -> None:
    """End on SIGINT and SIGTERM; on SIGHUP read the file anew, which changes nothing if it has a fault."""

    def end(*_: Any) -> None:
        ended.set()

    def again(*_: Any) -> None:
        try:
            read_anew()
        except (Failed, Unusable) as fault:
            echo(f"the file stays as it was: {fault.message}", err=True)
        else:
            echo(f"read {path} anew", err=True)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    signal.signal(signal.SIGHUP, again)


def listen(listener: Listens, wanted: tuple[tuple[str, int], ...]) -> None:
    """Listen until the end. Raises Failed if one of the wanted addresses can't be listened on."""
    try:
        addresses = listener.bind()
        echo("listening on " + ", ".join(f"{host}:{port}" for host, port in addresses), err=True)
        listener.run()
    except OSError as error:
        hint = ": a port below 1024 needs CAP_NET_BIND_SERVICE" if isinstance(error, PermissionError) else ""
        where = ", ".join(f"{host}:{port}" for host, port in wanted)
        raise Failed(f"can't listen on {where}: {error.strerror}{hint}") from error
    finally:
        listener.close()
