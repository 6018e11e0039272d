"""Reads what a job is asked for: a check, the agents, and how long they are waited for. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from attrs import frozen

from equus_protocol import one_off
from equus_protocol.codec import MAX_BLOB, Role, encode
from equus_protocol.errors import LocalProtocolError
from equus_protocol.messages import Check
from helen.queries.live_queries import MAX_ASKED_SECONDS

DEFAULT_TIMEOUT = 30.0  # seconds that an agent has for its answer
LATEST = 253_402_300_800  # the year 10000, in unix seconds: JSON has integers that no float holds
LONGEST_WAIT = 30 * 86_400.0  # seconds for which agents may be waited for
MOST_PATTERNS = 64  # beside plain names: each is held against every agent's name and labels
NAMES = ("agents", "check", "args", "deadline", "timeout")  # of the parameters, in order
_WILD = frozenset("*?[=")


@frozen
class JobRequest:
    """Holds the parameters of the ZeroTask method `equus.check`. `deadline`: unix seconds; None: no agent is waited
    for. `timeout`: seconds.
    """

    agents: tuple[str, ...]
    check: str
    args: bytes
    deadline: float | None
    timeout: float


def read_params(params: Any, now: float) -> JobRequest:
    """Read the parameters by name or by position. `now`: unix seconds.

    Raises ValueError with a sentence if it can't be asked for.
    """
    given = dict(zip(NAMES, params, strict=False)) if isinstance(params, list) else dict(params)
    if unknown := sorted(given.keys() - set(NAMES)):
        raise ValueError(f"{unknown[0]!r} is no parameter; there are {', '.join(NAMES)}")
    agents = given.get("agents")
    agents = [agents] if isinstance(agents, str) else agents
    if not isinstance(agents, list) or not agents or not all(isinstance(name, str) and name for name in agents):
        raise ValueError("`agents` is an array of names, patterns such as web*, or KEY=PATTERN")
    if len(agents) - len(plain_names(agents)) > MOST_PATTERNS:
        raise ValueError(f"`agents` has more than {MOST_PATTERNS} patterns: name the agents, or ask in parts")
    timeout = _number(given, "timeout", DEFAULT_TIMEOUT)
    if not 0 < timeout <= MAX_ASKED_SECONDS:
        raise ValueError(f"`timeout` is more than 0 and at most {MAX_ASKED_SECONDS:g} s")
    deadline = _number(given, "deadline", None)
    if deadline is not None and deadline > now + LONGEST_WAIT:
        raise ValueError(f"`deadline` is unix time, at most {LONGEST_WAIT / 86_400:g} days from now")
    return JobRequest(tuple(agents), _check(given.get("check")), _args(given.get("args")), deadline, timeout)


def _number(given: dict[str, Any], name: str, default: float | None) -> Any:
    value = given.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LATEST:
        raise ValueError(f"`{name}` is a number of seconds")
    return float(value)


def _check(name: Any) -> str:
    if not isinstance(name, str):
        raise ValueError("`check` is the name of a check")
    try:
        encode(Check(name, 1, b""), Role.HELEN)
    except LocalProtocolError as error:
        raise ValueError(f"no check can be called {name[:80]!r}: {error}") from error
    return name


def _args(args: Any) -> bytes:
    if args is not None and not isinstance(args, dict):
        raise ValueError("`args` is a JSON object")
    blob = json.dumps(args or {}, ensure_ascii=False, separators=(",", ":")).encode()
    if len(blob) > MAX_BLOB:
        raise ValueError(f"`args` has more than {MAX_BLOB} bytes")
    return blob


def order_life(wait: float, timeout: float) -> float:
    """Return the seconds for which an order of one-off code has to be good, if agents are waited for `wait` seconds.

    An agent that comes at the last moment may still run it, and clocks may differ. Raises ValueError if no order may be
    good for so long.
    """
    life = wait + timeout + one_off.LIFE
    if life > one_off.MAX_LIFE:
        most = (one_off.MAX_LIFE - one_off.LIFE - timeout) / 3_600
        raise ValueError(f"code that is in no set is signed for a day at most: agents are waited for {most:.1f} h then")
    return life


def plain_names(patterns: Iterable[str]) -> list[str]:
    """Return the patterns that name one agent: it is a target even if no agent of that name is known yet."""
    return [pattern for pattern in patterns if _WILD.isdisjoint(pattern)]
