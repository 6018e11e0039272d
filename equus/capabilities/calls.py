"""Define what all host calls share: Call, its failure, the Context of its run, and readers of its arguments.

A call takes plain JSON arguments, the host's policy and a Context. It returns plain JSON (docs/checks.rst lists the
fields) or raises CallFailed, which Lua sees as `nil, code, text`. The broker checks `needs` and budgets before it
performs a call.
"""

import json
import os
import time
from collections.abc import Callable
from typing import Any, Protocol

from attrs import Factory, define, field, frozen

from equus.capabilities.sampler import SHARED_SAMPLER, Sampler
from equus.policy.destinations import Bound
from groundwork.disk_faults import NO_DESCRIPTOR

CODES = frozenset(
    "denied bad-arguments not-found timeout refused unreachable tls protocol too-large"
    " unsupported failed budget".split()
)
# Bytes read of a /proc file: /proc/mounts and /proc/net/dev of hosts with thousands of containers are about 1 MiB.
SYSTEM_FILE_BYTES = 4 * 1024 * 1024
# A check uses one server, or compares a few. Each connection is a descriptor of the broker, which has 1024 for all
# runs of an agent.
MOST_KEPT = 4


class CallFailed(Exception):
    """Reports a host call without an answer; `code` is one of CODES and `text` a sentence fit for a summary."""

    def __init__(self, code: str, text: str) -> None:
        assert code in CODES, code
        super().__init__(text)
        self.code = code
        self.text = text


def demand_descriptor(path: str, fault: OSError) -> None:
    """Raise CallFailed if a path could not be opened for want of a descriptor: that says nothing of the host."""
    if fault.errno in NO_DESCRIPTOR:
        raise CallFailed("failed", f"{path} cannot be opened: {fault.strerror}") from None


class Closable(Protocol):
    """Declares a connection that a run keeps open between two of its calls."""

    def close(self) -> None: ...


@define
class KeptConnections:
    """Holds the connections that one run keeps open between its calls, by numbers that are valid in this run only."""

    _connections: dict[int, Any] = field(factory=dict)
    _last: int = 0

    def put(self, thing: Closable, number: int | None = None) -> int:
        """Keep a connection under a new number, or its old one. Raises CallFailed if the run keeps too many."""
        if number is None:
            if len(self._connections) >= MOST_KEPT:
                raise CallFailed("budget", f"this run keeps {MOST_KEPT} connections open, and that is the most")
            self._last += 1
            number = self._last
        self._connections[number] = thing
        return number

    def take(self, number: Any) -> Any:
        """Remove and return the connection of a number, or None. The caller closes it or puts it back."""
        return self._connections.pop(number, None) if isinstance(number, int) else None

    def close(self) -> None:
        """Close all connections: the run is over."""
        while self._connections:
            self._connections.popitem()[1].close()


@frozen
class Context:
    """Holds what calls need of their run. `root` stands before /proc, /sys, /etc and /run: tests use recorded trees."""

    check: str
    deadline: float  # monotonic seconds: when the run ends, and each call with it
    bytes_left: int = 8 * 1024 * 1024
    root: str = "/"
    private: tuple[str, ...] = ()  # folders and files that no grant opens: the agent's keys, state and policy
    certificates: tuple[str, ...] = ()  # files of which the newest is the agent's own
    entry: str = field(
        default=Factory(lambda self: self.check, takes_self=True)
    )  # the schedule's, for its share of pools
    bound: Bound = field(default=(), repr=False)  # destinations of the secrets that the run holds
    secrets: tuple[str, ...] = field(default=(), repr=False)
    kept: KeptConnections = field(factory=KeptConnections, repr=False)
    sampler: Sampler = field(default=SHARED_SAMPLER, repr=False)

    def is_secret(self, host: str) -> bool:
        """Return True if a host's name, or one of its labels, is the value of a secret: looking it up would tell it."""
        name = host.lower().removesuffix(".")
        parts = {name, *name.split(".")}
        return any(value.lower().removesuffix(".") in parts for value in self.secrets)

    def path(self, absolute: str) -> str:
        """Return a system path below the root of this context."""
        return absolute if self.root == "/" else os.path.join(self.root, absolute.lstrip("/"))

    def read(self, absolute: str) -> str:
        """Read a small system file. Raises CallFailed: "unsupported" if there is none, "failed" if it is unreadable."""
        try:
            with open(self.path(absolute), "rb") as file:
                return file.read(SYSTEM_FILE_BYTES).decode("utf-8", "replace")
        except FileNotFoundError:
            raise CallFailed("unsupported", f"{absolute} does not exist on this host") from None
        except OSError as fault:
            raise CallFailed("failed", f"{absolute} cannot be read: {fault.strerror}") from None

    def read_some(self, absolute: str) -> str:
        """Read a system file, but return an empty text for one that many hosts don't have, or don't show.

        Raises CallFailed if no descriptor is left to read it with.
        """
        try:
            with open(self.path(absolute), "rb") as file:
                return file.read(SYSTEM_FILE_BYTES).decode("utf-8", "replace")
        except OSError as fault:
            demand_descriptor(absolute, fault)
            return ""

    def read_line(self, absolute: str) -> str | None:
        """Read one line of /sys, stripped, or return None: many of its files come and go, or answer EINVAL.

        Raises CallFailed if no descriptor is left to read it with.
        """
        try:
            with open(self.path(absolute), "rb") as file:
                return file.read(4096).decode("utf-8", "replace").strip()
        except OSError as fault:
            demand_descriptor(absolute, fault)
            return None

    def seconds_left(self, wanted: float) -> float:
        """Return the seconds that a call may take: `wanted`, but no more than the run has left. Raises CallFailed."""
        left = min(wanted, self.deadline - time.monotonic())
        if left <= 0:
            raise CallFailed("timeout", "the run has no time left for this call")
        return left


# Performs one call. Each module lists its own in CALLS, and the registry adds the capability that grants them.
Perform = Callable[[list[Any], Any, Context], Any]


@frozen
class Call:
    """Describes a host call: the capability that policy and `needs` must grant, and the function that performs it."""

    capability: str
    perform: Perform


def bad(text: str) -> CallFailed:
    """Return the failure of a call with wrong arguments."""
    return CallFailed("bad-arguments", text)


def positional(call: str, args: list[Any], *names: str) -> list[Any]:
    """Return the arguments, padded with None to the number of `names`. Raises CallFailed if there are more."""
    if len(args) > len(names):
        raise bad(f"{call} takes {len(names)} arguments ({', '.join(names)}), not {len(args)}")
    return [*args, *[None] * (len(names) - len(args))]


def text_argument(call: str, name: str, value: Any, default: str | None = None, limit: int = 4096) -> str:
    """Return a non-empty text without NUL. Raises CallFailed if it is none, or longer than `limit`."""
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or not value:
        raise bad(f"{call}: {name} must be a text that is not empty")
    if "\0" in value or len(value) > limit:
        raise bad(f"{call}: {name} must have no NUL and at most {limit} characters")
    return value


def number_argument(call: str, name: str, value: Any, default: float, low: float, high: float) -> float:
    """Return a number within [low, high]. Raises CallFailed if it is none."""
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise bad(f"{call}: {name} must be a number from {low:g} to {high:g}")
    return value


def whole_argument(call: str, name: str, value: Any, default: int | None, low: int, high: int) -> int:
    """Return a whole number within [low, high]. Raises CallFailed if it is none, or missing without a default."""
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high or value != int(value):
        raise bad(f"{call}: {name} must be a whole number from {low} to {high}")
    return int(value)


def json_value(text: str, what: str) -> Any:
    """Return the value of a JSON text, which errors call `what`. Raises CallFailed("protocol") if it is no JSON."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise CallFailed("protocol", f"{what} is not JSON") from None


def _no_number(text: str) -> None:
    raise ValueError(text)  # NaN and Infinity are no JSON


class Fields:
    """Reads the one table of a call with named arguments. Its readers raise CallFailed if an argument is wrong."""

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
        """Remove and return the raw value, or None."""
        return self._left.pop(name, None)

    def text(self, name: str, default: str | None = None, limit: int = 4096) -> str:
        return text_argument(self.call, name, self.take(name), default, limit)

    def optional_text(self, name: str, limit: int = 4096) -> str | None:
        """Return a text as text_argument does, or None if it is missing."""
        value = self.take(name)
        return None if value is None else text_argument(self.call, name, value, limit=limit)

    def number(self, name: str, default: float, low: float, high: float) -> float:
        return number_argument(self.call, name, self.take(name), default, low, high)

    def whole(self, name: str, default: int | None, low: int, high: int) -> int:
        return whole_argument(self.call, name, self.take(name), default, low, high)

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean. Raises CallFailed if it is none."""
        value = self.take(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise bad(f"{self.call}: {name} must be true or false")
        return value

    def choice(self, name: str, default: str | None, choices: tuple[str, ...]) -> str | None:
        """Return one of the choices, or the default. Raises CallFailed if it is neither."""
        value = self.take(name)
        if value is None:
            return default
        if value not in choices:
            raise bad(f"{self.call}: {name} must be one of {', '.join(choices)}")
        return str(value)

    def done(self) -> None:
        """Raise CallFailed if an argument is left over: a misspelt one would silently change what is measured."""
        if self._left:
            raise bad(f"{self.call} has no argument named {', '.join(sorted(map(str, self._left)))}")
