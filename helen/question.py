"""A question to the fleet that may last for days: what is asked, and what became of each target. Pure.

Every target has one outcome in the end, the first that is told: answered, failed, refused, offline or expired.
helen/fleet_tasks.py asks, helen/answers.py keeps.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from attrs import define, field, frozen

from equus_protocol import once
from equus_protocol.codec import MAX_BLOB, Role, encode
from equus_protocol.errors import LocalProtocolError
from equus_protocol.messages import Check
from helen.runs import MAX_ASKED_SECONDS, OUTCOMES

DEFAULT_TIMEOUT = 30.0  # seconds that an agent has for its answer
LONGEST_WAIT = 30 * 86_400.0  # seconds for which agents may be waited for
ANSWER_MOST = 16 * 1024  # bytes of one outcome in its file; the journal has the whole of every answer
RESULT_MOST = 1024 * 1024  # bytes of all outcomes together, in memory and in ZeroTask: JSON of some milliseconds
LEAST = 80  # bytes of the shortest outcome, besides the agent's name
MOST_PATTERNS = 64  # beside plain names: each is held against every agent's name and labels
RECENT = 20  # outcomes in a partial status, which has to fit into 64 KiB
BRIEF = 200  # characters of a summary or a reason that has to be short
NAMES = ("agents", "check", "args", "deadline", "timeout")  # of the parameters, in order
_WILD = frozenset("*?[=")

Outcome = dict[str, Any]  # agent, outcome, result, and why where there is something to say


@frozen
class Asked:
    """The parameters of `equus.check`. `deadline` is unix time; without one no agent is waited for."""

    agents: tuple[str, ...]
    check: str
    args: bytes
    deadline: float | None
    timeout: float


def read_params(params: Any, now: float) -> Asked:
    """By name or by position; ValueError with a sentence for what can't be asked."""
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
    return Asked(tuple(agents), _check(given.get("check")), _args(given.get("args")), deadline, timeout)


def _number(given: dict[str, Any], name: str, default: float | None) -> Any:
    value = given.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
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
    """Seconds that an order to run code once has to be good for, so that whoever comes at the last moment may still run
    it, and clocks may differ; ValueError if no order can be."""
    life = wait + timeout + once.LIFE
    if life > once.MAX_LIFE:
        most = (once.MAX_LIFE - once.LIFE - timeout) / 3_600
        raise ValueError(f"code that is in no set is signed for a day at most: agents are waited for {most:.1f} h then")
    return life


def plain_names(patterns: Iterable[str]) -> list[str]:
    """Those that name one agent: it is a target even if nobody has heard of it yet."""
    return [pattern for pattern in patterns if _WILD.isdisjoint(pattern)]


def judge_targets(targets: Iterable[str]) -> None:
    """ValueError if their outcomes, as short as can be, would not fit."""
    names = list(targets)
    if sum(len(name) + LEAST for name in names) > RESULT_MOST:
        raise ValueError(f"{len(names)} agents are too many for one question: ask them in parts")


def share(targets: int) -> int:
    """Bytes of one outcome, where so many have to fit."""
    return RESULT_MOST // max(1, targets)


@define(eq=False)
class Question:
    """Targets, and what is known of them, as far as it fits into RESULT_MOST."""

    targets: tuple[str, ...]
    outcomes: dict[str, Outcome] = field(factory=dict)
    _known: frozenset[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._known = frozenset(self.targets)

    def settle(self, outcome: Outcome) -> bool:
        """The first word about a target counts. False for a later one, and for whoever was not asked."""
        agent = outcome["agent"]
        if agent in self.outcomes or agent not in self._known:
            return False
        self.outcomes[agent] = fit(outcome, share(len(self._known)))
        return True

    @property
    def open(self) -> list[str]:
        return [agent for agent in self.targets if agent not in self.outcomes]

    @property
    def is_over(self) -> bool:
        return len(self.outcomes) == len(self._known)

    def give_up(self, why: str) -> list[Outcome]:
        """What is still open has expired; the outcomes that this makes."""
        made = [{"agent": agent, "outcome": "expired", "result": None, "why": why} for agent in self.open]
        return [outcome for outcome in made if self.settle(outcome)]

    def counts(self) -> dict[str, int]:
        """Of each outcome; with `open` they add up to the targets."""
        counted = Counter(outcome["outcome"] for outcome in self.outcomes.values())
        return {word: counted[word] for word in OUTCOMES} | {"open": len(self._known) - len(self.outcomes)}

    def status(self) -> dict[str, Any]:
        """A partial status: counts, and the last few outcomes in brief."""
        recent = list(self.outcomes.values())[-RECENT:]
        return {"targets": len(self._known), "counts": self.counts(), "recent": [brief(each) for each in recent]}

    def result(self) -> dict[str, Any]:
        """All of it, in the order of names."""
        counts = self.counts()
        del counts["open"]
        return {"targets": [self.outcomes[agent] for agent in sorted(self.outcomes)], "counts": counts}


def fit(outcome: Outcome, most: int) -> Outcome:
    """The same within so many bytes: less of its output, then in brief, then its status alone."""
    for shorter in (_whole, _without_output, brief, _status_only):
        fitting = shorter(outcome)
        if len(line(fitting)) <= most:
            return fitting
    return fitting


def line(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def _whole(outcome: Outcome) -> Outcome:
    return outcome


def _without_output(outcome: Outcome) -> Outcome:
    result = outcome.get("result")
    if not result:
        return outcome
    return outcome | {"result": {k: v for k, v in result.items() if k != "output"} | {"shortened": True}}


def brief(outcome: Outcome) -> Outcome:
    """What a list shows."""
    made = {"agent": outcome["agent"], "outcome": outcome["outcome"], "result": None}
    if result := outcome.get("result"):
        kept = {key: str(result[key])[:BRIEF] for key in ("status", "summary", "reason") if result.get(key)}
        made["result"] = kept | {"shortened": True}
    if outcome.get("why"):
        made["why"] = str(outcome["why"])[:BRIEF]
    return made


def _status_only(outcome: Outcome) -> Outcome:
    result = outcome.get("result")
    status = None if not result else {"status": result.get("status")}
    return {"agent": outcome["agent"], "outcome": outcome["outcome"], "result": status}
