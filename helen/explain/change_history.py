"""Turns records of the history into sentences about a check: its rules, labels, links, pushes, downtimes, code. Pure.

Records come in their order. A line that repeats the one before it is counted, and records that don't concern the check
are left out. The other questions of `helen explain` are answered by helen/explain/explain.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from attrs import define, field, fields

from equus_protocol.results import STATUS_WORDS
from groundwork.durations import words_of
from helen.evaluation.replay import HistoryRecord
from helen.states.agent_rules import AgentRules, rules_from_json
from helen.states.downtimes import WindowRefused, read_window
from helen.states.model import Rule
from helen.states.rollout_trials import BACK, OPEN, PASSED, UNDONE, TrialScope

MOST = 20  # lines
BLINK_SECONDS = 60.0  # a link that is back within that has only blinked: one line
# What is said of each field of a rule, for a value and for None.
_WORDS = {
    "attempts": ("{} bad results confirm a problem", ""),
    "recover": ("{} good results confirm a recovery", ""),
    "retry": ("tried again after {}", "no run out of turn"),
    "stale": ("unknown after {} without a result", "never unknown for want of a result"),
    "flap_start": ("flapping begins at {} % of changes", "flapping is not looked for"),
    "flap_stop": ("flapping ends at {} % of changes", "flapping has no end of its own"),
    "depends": ("depends on {}", ""),
    "away": ("its agent is away after {}", "its agent is never away"),
    "passive": ("results from outside: {}", ""),
    "missing": ("{} when none came in time", ""),
    "quorum": ("agents that must see it bad: {}", ""),
    "runners": ("looked at by {}", ""),
}
_SECONDS = frozenset(("retry", "stale", "away"))
Line = dict[str, Any]


def what_changed(
    agent: str, check_id: str, changes: Iterable[HistoryRecord], results: Sequence[HistoryRecord]
) -> list[Line]:
    """Return lines {"at": unix seconds, "text": sentence}, the oldest first. `results` are the newest first."""
    sentences = _Sentences(agent, check_id)
    lines = [line for record in changes for line in sentences.of(record)]
    lines += _codes(results)
    return _counted(_blinks(sorted(lines, key=lambda line: line["at"])))[-MOST:]


def _line(at: float, text: str) -> Line:
    return {"at": at, "text": text}


@define
class _Sentences:
    """Makes sentences of records in their order, and remembers the rules, trials and windows of those before."""

    agent: str
    check_id: str
    rules: AgentRules | None = None
    tried: set[int] = field(factory=set)  # versions that were tried on this check
    scope: TrialScope | None = None
    windows: dict[str, str] = field(factory=dict)  # id -> kind and id, for windows that cover the check

    def of(self, record: HistoryRecord) -> Iterator[Line]:
        """Give the lines of one record; none for kinds that are not told here."""
        make = _SENTENCES.get(record.kind)
        if make is not None:
            yield from (_line(record.received, text) for text in make(self, json.loads(record.document), record))

    def _is_own(self, said: dict[str, Any]) -> bool:
        return said.get("agent") == self.agent

    def rule(self, said: dict[str, Any], record: HistoryRecord) -> Iterator[str]:
        """Tell which labels and settings of the rule have changed, or those that are not the usual ones."""
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
                _said(each.name, getattr(now, each.name)) for each in fields(Rule)
                if getattr(now, each.name) != getattr(usual, each.name) and each.name != "passive"
            ]  # fmt: skip
            yield "; ".join([f"{_expected(now)} here", *other])

    def link(self, said: dict[str, Any], record: HistoryRecord) -> Iterator[str]:
        if self._is_own(said):
            yield {"up": UP, "down": DOWN, "forgotten": "the agent was taken out of service"}[said["event"]]

    def expect(self, said: dict[str, Any], record: HistoryRecord) -> Iterator[str]:
        if (record.agent, record.check_id) == (self.agent, self.check_id):
            why = f" ({said['why']})" if said.get("why") else ""
            yield f"the next result was expected within {words_of(said['within'])}{why}"

    def start(self, said: dict[str, Any], record: HistoryRecord) -> Iterator[str]:
        yield f"Helen started{_version(said)}"

    def stop(self, said: dict[str, Any], record: HistoryRecord) -> Iterator[str]:
        yield "Helen stopped"

    def window(self, kind: str, said: dict[str, Any], at: float) -> Iterator[str]:
        """Tell that a window that covers the check was opened, changed or cancelled at `at`, unix seconds."""
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

    def downtime(self, said: dict[str, Any], record: HistoryRecord) -> Iterator[str]:
        yield from self.window("downtime", said, record.received)

    def silence(self, said: dict[str, Any], record: HistoryRecord) -> Iterator[str]:
        yield from self.window("silence", said, record.received)

    def rollout(self, said: dict[str, Any], record: HistoryRecord) -> Iterator[str]:
        """Tell the steps of a rollout that concern the check: tried, passed, taken back, or sent to all at once."""
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
_SENTENCES: dict[str, Callable[[_Sentences, dict[str, Any], HistoryRecord], Iterator[str]]] = {
    "rule": _Sentences.rule, "link": _Sentences.link, "helen_start": _Sentences.start, "helen_stop": _Sentences.stop,
    "expect": _Sentences.expect,
    "downtime": _Sentences.downtime, "silence": _Sentences.silence, "rollout": _Sentences.rollout,
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
            yield f"{_said(name, is_now)}; before: {_value(name, was)}"


def _expected(rule: Rule) -> str:
    return "expected from outside" if rule.passive else "scheduled"


def _said(name: str, value: Any) -> str:
    """Return what a field of a rule says, such as `unknown after 160 s without a result`."""
    words, without = _WORDS[name]
    return without if value is None else words.format(_value(name, value))


def _value(name: str, value: Any) -> str:
    if name == "missing":
        return STATUS_WORDS[value]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(value) or "nothing"
    if value is None:
        return "none"
    return words_of(value) if name in _SECONDS else f"{value:g}"


def _codes(results: Sequence[HistoryRecord]) -> Iterator[Line]:
    """Give a line for each change of the code that made the results."""
    codes = [(record.received, record.result.code) for record in results if record.result is not None]
    for (at, code), (_, older) in pairwise(codes):
        if code != older:
            yield _line(at, f"from here on by the code {code and code[:12]}, before by {older and older[:12]}")


def _blinks(lines: list[Line]) -> list[Line]:
    """Merge the two lines of a link that was lost and back within BLINK_SECONDS."""
    told: list[Line] = []
    for line in lines:
        last = told[-1] if told else None
        if last is not None and (last["text"], line["text"]) == (DOWN, UP) and line["at"] - last["at"] <= BLINK_SECONDS:
            told[-1] = _line(last["at"], "the agent's connection ended, and it came back within a minute")
        else:
            told.append(line)
    return told


def _counted(lines: list[Line]) -> list[Line]:
    """Merge a sentence that comes several times in a row into one line, at its last time."""
    told: list[tuple[Line, int]] = []
    for line in lines:
        if told and told[-1][0]["text"] == line["text"]:
            told[-1] = line, told[-1][1] + 1
        else:
            told.append((line, 1))
    return [line if count == 1 else _line(line["at"], f"{line['text']} ({count} times)") for line, count in told]
