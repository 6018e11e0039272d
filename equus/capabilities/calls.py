"""What every host call is made of: the call itself, how it fails, what it knows of its run, and how it reads
arguments.

A call takes plain JSON arguments, the host's policy and a context; it answers plain JSON or raises CallFailed, which
Lua sees as `nil, code, text`. Nothing here counts budgets or checks `needs`: the broker does both before it performs
a call.
"""

import os
import time
from collections.abc import Callable
from typing import Any, Protocol

from attrs import define, field, frozen

from equus.capabilities.sampler import SHARED_SAMPLER, Sampler

CODES = frozenset(
    "denied bad-arguments not-found timeout refused unreachable tls protocol too-large"
    " unsupported failed budget".split()
)
# The largest /proc file we take: /proc/mounts and /proc/net/dev of hosts with thousands of containers are about 1 MiB.
SYSTEM_FILE_BYTES = 4 * 1024 * 1024
# A check speaks to one server, or compares a few; each connection is a descriptor of the broker, which has 1024 for the
# runs of a whole agent.
MOST_KEPT = 4


class CallFailed(Exception):
    """A host call that has no answer; `code` is one of CODES and `text` a sentence fit for a summary."""

    def __init__(self, code: str, text: str) -> None:
        assert code in CODES, code
        super().__init__(text)
        self.code = code
        self.text = text


class Closable(Protocol):
    """What a run can keep open between two of its calls."""

    def close(self) -> None: ...


@define
class Kept:
    """What one run keeps open between its calls, by numbers that mean nothing to any other run."""

    _things: dict[int, Any] = field(factory=dict)
    _last: int = 0

    def put(self, thing: Closable, number: int | None = None) -> int:
        """Keep it under a new number, or under the one that it had."""
        if number is None:
            if len(self._things) >= MOST_KEPT:
                raise CallFailed("budget", f"this run keeps {MOST_KEPT} connections open, and that is the most")
            self._last += 1
            number = self._last
        self._things[number] = thing
        return number

    def take(self, number: Any) -> Any:
        """The thing, which is the caller's from now on; None if there is none of this number."""
        return self._things.pop(number, None) if isinstance(number, int) else None

    def close(self) -> None:
        """The run is over."""
        while self._things:
            self._things.popitem()[1].close()


@frozen
class Context:
    """What one run hands to its calls. `root` stands before /proc, /sys, /etc and /run: tests feed recorded trees."""

    check: str
    deadline: float  # on time.monotonic(): when the run ends, whatever a call still wants
    bytes_left: int = 8 * 1024 * 1024
    root: str = "/"
    private: tuple[str, ...] = ()  # folders and files that no grant opens: the agent's keys, state and policy
    certificates: tuple[str, ...] = ()  # files of which the newest is the agent's own
    kept: Kept = field(factory=Kept, repr=False)
    sampler: Sampler = field(default=SHARED_SAMPLER, repr=False)

    def path(self, absolute: str) -> str:
        """Where a system path lies below the root of this context."""
        return absolute if self.root == "/" else os.path.join(self.root, absolute.lstrip("/"))

    def read(self, absolute: str) -> str:
        """The text of a small system file; a missing one means that this host has no such facility."""
        try:
            with open(self.path(absolute), "rb") as file:
                return file.read(SYSTEM_FILE_BYTES).decode("utf-8", "replace")
        except FileNotFoundError:
            raise CallFailed("unsupported", f"{absolute} does not exist on this host") from None
        except OSError as fault:
            raise CallFailed("failed", f"{absolute} cannot be read: {fault.strerror}") from None

    def read_line(self, absolute: str) -> str | None:
        """One stripped line of /sys, or None: many of its files come and go, or answer EINVAL."""
        try:
            with open(self.path(absolute), "rb") as file:
                return file.read(4096).decode("utf-8", "replace").strip()
        except OSError:
            return None

    def seconds_left(self, wanted: float) -> float:
        """The time a call may take: what it wants, and never more than the run still has."""
        left = min(wanted, self.deadline - time.monotonic())
        if left <= 0:
            raise CallFailed("timeout", "the run has no time left for this call")
        return left


# What every module of calls lists: performs one call. The registry adds the capability that grants it.
Perform = Callable[[list[Any], Any, Context], Any]


@frozen
class Call:
    """One host call: the capability that the policy and `needs` must grant, and the function that performs it."""

    capability: str
    perform: Perform


def bad(text: str) -> CallFailed:
    """The failure of a call whose arguments are wrong."""
    return CallFailed("bad-arguments", text)


def positional(call: str, args: list[Any], *names: str) -> list[Any]:
    """The arguments padded with None up to `names`; more than that is a fault that lists them."""
    if len(args) > len(names):
        raise bad(f"{call} takes {len(names)} arguments ({', '.join(names)}), not {len(args)}")
    return [*args, *[None] * (len(names) - len(args))]


def text_argument(call: str, name: str, value: Any, default: str | None = None, limit: int = 4096) -> str:
    """A non-empty text without NUL."""
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or not value:
        raise bad(f"{call}: {name} must be a text that is not empty")
    if "\0" in value or len(value) > limit:
        raise bad(f"{call}: {name} must have no NUL and at most {limit} characters")
    return value


def number_argument(call: str, name: str, value: Any, default: float, low: float, high: float) -> float:
    """A finite number within [low, high]."""
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise bad(f"{call}: {name} must be a number from {low:g} to {high:g}")
    return value


def whole_argument(call: str, name: str, value: Any, default: int | None, low: int, high: int) -> int:
    """A whole number within [low, high]; with no default it must be there."""
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high or value != int(value):
        raise bad(f"{call}: {name} must be a whole number from {low} to {high}")
    return int(value)


class Fields:
    """The one table of a call with named arguments; `done` refuses what nobody asked for."""

    def __init__(self, call: str, args: list[Any]) -> None:
        (table,) = positional(call, args, "a table")
        # An empty Lua table may arrive as an empty JSON list.
        if table is None or table == []:
            table = {}
        if not isinstance(table, dict):
            raise bad(f"{call} takes one table of named arguments")
        self.call = call
        self._left = dict(table)

    def take(self, name: str) -> Any:
        """The raw value, or None."""
        return self._left.pop(name, None)

    def text(self, name: str, default: str | None = None, limit: int = 4096) -> str:
        return text_argument(self.call, name, self.take(name), default, limit)

    def optional_text(self, name: str, limit: int = 4096) -> str | None:
        value = self.take(name)
        return None if value is None else text_argument(self.call, name, value, limit=limit)

    def number(self, name: str, default: float, low: float, high: float) -> float:
        return number_argument(self.call, name, self.take(name), default, low, high)

    def whole(self, name: str, default: int | None, low: int, high: int) -> int:
        return whole_argument(self.call, name, self.take(name), default, low, high)

    def flag(self, name: str, default: bool) -> bool:
        value = self.take(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise bad(f"{self.call}: {name} must be true or false")
        return value

    def choice(self, name: str, default: str | None, choices: tuple[str, ...]) -> str | None:
        value = self.take(name)
        if value is None:
            return default
        if value not in choices:
            raise bad(f"{self.call}: {name} must be one of {', '.join(choices)}")
        return str(value)

    def done(self) -> None:
        """No argument may be left over: a misspelt one would silently change what is looked at."""
        if self._left:
            raise bad(f"{self.call} has no argument named {', '.join(sorted(map(str, self._left)))}")
