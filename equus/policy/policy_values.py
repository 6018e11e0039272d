"""Read single values of a policy file. Pure.

Each reader returns the value as the policy has it. It raises ValueError with the rest of a sentence if it is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

from equus.policy.host_names import read_pattern
from equus.policy.networks import Network
from groundwork.durations import parse_duration
from groundwork.figures import is_double

# A list in a policy is written by hand.
MOST_ENTRIES = 1000


def one_of(*words: str) -> Callable[[Any], str]:
    """Return a reader of one of these words."""

    def _read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return str(value)

    return _read


def whole(low: int, high: int) -> Callable[[Any], int]:
    """Return a reader of whole numbers in this range."""

    def _read(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return value

    return _read


def number(value: Any) -> float:
    """Return a number; raises ValueError for anything else."""
    if not is_double(value):
        raise ValueError("must be a number")
    return float(value)


def duration(low: float, high: float) -> Callable[[Any], float]:
    """Return a reader of durations in this range, in seconds."""

    def _read(value: Any) -> float:
        seconds = parse_duration(value)
        if not low <= seconds <= high:
            raise ValueError(f"must be from {low:g}s to {high:g}s")
        return seconds

    return _read


def boolean(value: Any) -> bool:
    """Return a truth value; raises ValueError for anything else."""
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def text(value: Any) -> str:
    """Return a text without control characters; raises ValueError for anything else."""
    if isinstance(value, int | float):
        raise ValueError(f'must be a text in quotes: write "{str(value).lower()}"')
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError("must be a text without control characters")
    return value


def list_of(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a reader of lists, each entry of which `read` accepts."""

    def _read_all(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) > MOST_ENTRIES:
            raise ValueError(f"must be a list of at most {MOST_ENTRIES} entries")
        return tuple(read(entry) for entry in value)

    return _read_all


def path_of(value: Any) -> str:
    """Return an absolute path without `.`, `..` and doubled slashes; raises ValueError for anything else."""
    path = text(value)
    if not path.startswith("/") or any(part in (".", "..") for part in path.split("/")):
        raise ValueError(f"has {path!r}, which is not an absolute path without . and ..")
    return "/" + "/".join(filter(None, path.split("/")))


def network(value: Any) -> Network:
    """Return a network with its ports; raises ValueError for anything else."""
    if not isinstance(value, dict) or not {"cidr"} <= value.keys() <= {"cidr", "ports"}:
        raise ValueError('is a list of { cidr = "10.0.0.0/8", ports = [443, "8000-8100"] }; ports may be left out')
    try:
        cidr = ip_network(value["cidr"]) if isinstance(value["cidr"], str) else None
    except ValueError as fault:
        raise ValueError(f"has a cidr that is not a network: {fault}") from None
    if cidr is None:
        raise ValueError("has a cidr that is not a text")
    return Network(cidr, list_of(ports)(value.get("ports", [])))


def host_names(value: Any) -> tuple[str, ...]:
    """Return patterns of host names; raises ValueError for anything else."""
    found: tuple[str, ...] = list_of(read_pattern)(value)
    if not found:
        raise ValueError('is empty: leave it out, or name "localhost", which is never asked of a name server')
    return found


def ports(value: Any) -> tuple[int, int]:
    """Return the first and the last port of a range; raises ValueError for anything else."""
    low, dash, high = str(value).partition("-")
    if isinstance(value, bool) or not low.isascii() or not low.isdigit() or (dash and not high.isdigit()):
        raise ValueError(f'has the port {value!r}; a port is 443 or "8000-8100"')
    first, last = int(low), int(high if dash else low)
    if not 1 <= first <= last <= 65_535:
        raise ValueError(f"has the port {value!r}; ports are 1 to 65535, the lower one first")
    return first, last
