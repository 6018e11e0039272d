"""What happened to a check besides its results, as sentences: rules, labels, links, pushes, downtimes, code. Pure.

From records of the history, in their order. What says the same as the line before it is counted, not repeated, and what
doesn't concern the check is left out. The other questions of `helen explain` are helen/explaining.py's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from attrs import define, field, fields

from equus_protocol.results import STATUS_WORDS
from helen.judged import Rule
from helen.replaying import Past
from helen.timeline import AgentRules, rules_from_json
from helen.trials import BACK, OPEN, PASSED, UNDONE, TrialScope
from helen.windows import WindowRefused, read_window

MOST = 20  # lines
BLINK_SECONDS = 60.0  # a link that is back within that has only blinked: one line
_WORDS = {
    "attempts": "bad results that confirm a problem", "recover": "good results that confirm a recovery",
    "retry": "seconds until a retry", "stale": "seconds without a result until it is unknown",
    "flap_start": "per cent of changes at which flapping begins", "flap_stop": "per cent at which flapping ends",
    "depends": "what it depends on", "away": "seconds until its agent is away",
    "passive": "its results come from outside", "missing": "what it is when none came in time",
}  # fmt: skip
Line = dict[str, Any]


def what_changed(agent: str, check_id: str, changes: Iterable[Past], results: Sequence[Past]) -> list[Line]:
    """Lines {"at", "text"}, the oldest first. `results` are the newest first."""
    teller = _Teller(agent, check_id)
    lines = [line for past in changes for line in teller.tell(past)]
    lines += _codes(results)
    return _counted(_blinks(sorted(lines, key=lambda line: line["at"])))[-MOST:]


def _line(at: float, text: str) -> Line:
    return {"at": at, "text": text}


@define
class _Teller:
    """Goes through the records and knows what was before."""

    agent: str
    check_id: str
    rules: AgentRules | None = None
    tried: set[int] = field(factory=set)  # versions that were tried on this check
    scope: TrialScope | None = None
    windows: dict[str, str] = field(factory=dict)  # id -> what it is, of those that cover it

    def tell(self, past: Past) -> Iterator[Line]:
        teller = _TELLERS.get(past.kind)
        if teller is not None:
            yield from (_line(past.received, text) for text in teller(self, json.loads(past.document), past))

    def _is_own(self, said: dict[str, Any]) -> bool:
        return said.get("agent") == self.agent

    def rule(self, said: dict[str, Any], past: Past) -> Iterator[str]:
        if not self._is_own(said):
            return
        before, self.rules = self.rules, rules_from_json(said)
        was = None if before is None else before.checks.get(self.check_id)
        now = self.rules.checks.get(self.check_id)
        if before is not None:
            yield from _labels(before.labels, self.rules.labels)
            if was is None and now is not None:
                yield f"it is {_expected(now)} from here on"
            elif was is not None and now is None:
                yield f"it is not {_expected(was)} any more"
            elif was is not None and now is not None:
                yield from _rule(was, now)
        elif now is not None:
            usual = Rule()
            other = [
                f"{_WORDS[each.name]}: {_value(each.name, getattr(now, each.name))}" for each in fields(Rule)
                if getattr(now, each.name) != getattr(usual, each.name) and each.name != "passive"
            ]  # fmt: skip
            yield f"it is {_expected(now)}, and judged as usual{' but for ' if other else ''}{'; '.join(other)}"

    def link(self, said: dict[str, Any], past: Past) -> Iterator[str]:
        if self._is_own(said):
            yield {"up": UP, "down": DOWN, "forgotten": "the agent was taken out of service"}[said["event"]]

    def expect(self, said: dict[str, Any], past: Past) -> Iterator[str]:
        if (past.agent, past.check_id) == (self.agent, self.check_id):
            why = f" ({said['why']})" if said.get("why") else ""
            yield f"the next result was expected within {said['within']:g} s{why}"

    def start(self, said: dict[str, Any], past: Past) -> Iterator[str]:
        yield f"Helen started{_version(said)}"

    def stop(self, said: dict[str, Any], past: Past) -> Iterator[str]:
        yield "Helen stopped"

    def window(self, kind: str, said: dict[str, Any], at: float) -> Iterator[str]:
        if said.get("action") == "cancel":
            if said["id"] in self.windows:
                by = f" by {said['author']}" if said.get("author") else ""
                yield f"{self.windows.pop(said['id'])} was cancelled{by}"
            return
        named = {name: value for name, value in said.items() if name not in ("action", "agent")}
        try:
            window = read_window({"kind": kind, **named}, at)
        except WindowRefused:
            return
        labels = {} if self.rules is None else self.rules.labels
        if window.scope.covers(self.agent, self.check_id, labels):
            is_known, self.windows[window.id] = window.id in self.windows, f"{kind} {window.id}"
            yield f"{window.sentence}: {'changed' if is_known else 'opened'}"

    def downtime(self, said: dict[str, Any], past: Past) -> Iterator[str]:
        yield from self.window("downtime", said, past.received)

    def silence(self, said: dict[str, Any], past: Past) -> Iterator[str]:
        yield from self.window("silence", said, past.received)

    def rollout(self, said: dict[str, Any], past: Past) -> Iterator[str]:
        action, version = said["action"], said["version"]
        if action == OPEN:
            self.scope = TrialScope.from_json(said)
            if self.scope.covers(self.agent, self.check_id):
                self.tried.add(version)
                by, place = said.get("author", "somebody"), said.get("place", f"ring {self.scope.ring}")
                yield f"version {version} is being tried here, {place}, pushed by {by}; {said.get('files', '')}"
        elif action == PASSED:
            if self.scope is not None and self.scope.covers(self.agent, self.check_id):
                yield said["why"]
            self.scope = None
        elif action == UNDONE and version in self.tried:
            yield f"version {version} was taken back: {said['why']}"
        elif action == BACK and version in self.tried and self.agent in said["agents"]:
            yield f"the agent runs what it ran before version {version}; its state is as it was then"
        elif action == "at-once" and self.check_id in said["checks"]:
            yield f"version {version} went to all agents at once, pushed by {said['author']}; {said['files']}"


UP, DOWN = "the agent connected", "the agent's connection ended"
_TELLERS: dict[str, Callable[[_Teller, dict[str, Any], Past], Iterator[str]]] = {
    "rule": _Teller.rule, "link": _Teller.link, "helen_start": _Teller.start, "helen_stop": _Teller.stop,
    "expect": _Teller.expect,
    "downtime": _Teller.downtime, "silence": _Teller.silence, "rollout": _Teller.rollout,
}  # fmt: skip


def _version(said: dict[str, Any]) -> str:
    return f", version {said['version']}" if said.get("version") else ""


def _labels(before: dict[str, str], now: dict[str, str]) -> Iterator[str]:
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) == now.get(key):
            continue
        if key not in before:
            yield f"the agent has a new label, {key}={now[key]}"
        elif key not in now:
            yield f"the agent has lost the label {key}={before[key]}"
        else:
            yield f"the agent's label {key} is {now[key]}, it was {before[key]}"


def _rule(before: Rule, now: Rule) -> Iterator[str]:
    for name in (each.name for each in fields(Rule)):
        was, is_now = getattr(before, name), getattr(now, name)
        if was != is_now:
            yield f"{_WORDS[name]}: {_value(name, is_now)}, {_value(name, was)} before"


def _expected(rule: Rule) -> str:
    return "expected from outside" if rule.passive else "scheduled"


def _value(name: str, value: Any) -> str:
    if name == "missing":
        return STATUS_WORDS[value]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(value) or "nothing"
    return "none" if value is None else f"{value:g}"


def _codes(results: Sequence[Past]) -> Iterator[Line]:
    """Where the code of the results changes."""
    codes = [(past.received, past.result.code) for past in results if past.result is not None]
    for (at, code), (_, older) in pairwise(codes):
        if code != older:
            yield _line(at, f"from here on by the code {code and code[:12]}, before by {older and older[:12]}")


def _blinks(lines: list[Line]) -> list[Line]:
    """A link that went and was back at once is one line."""
    told: list[Line] = []
    for line in lines:
        last = told[-1] if told else None
        if last is not None and (last["text"], line["text"]) == (DOWN, UP) and line["at"] - last["at"] <= BLINK_SECONDS:
            told[-1] = _line(last["at"], "the agent's connection ended, and it came back within a minute")
        else:
            told.append(line)
    return told


def _counted(lines: list[Line]) -> list[Line]:
    """The same sentence several times in a row is one line, at its last time."""
    told: list[tuple[Line, int]] = []
    for line in lines:
        if told and told[-1][0]["text"] == line["text"]:
            told[-1] = line, told[-1][1] + 1
        else:
            told.append((line, 1))
    return [line if count == 1 else _line(line["at"], f"{line['text']} ({count} times)") for line, count in told]
