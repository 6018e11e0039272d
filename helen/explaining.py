"""Why a check is in its state, why nobody was told, why it did not run, and what else happened then. Pure.

Every answer is a record that was written when it was decided, or a value that is there now. Nothing is worked out
afterwards, so that an answer about last week is what was true last week.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from attrs import evolve, field, frozen

from equus_protocol.ranges import Range
from equus_protocol.results import STATUS_WORDS
from helen.changes import what_changed
from helen.judged import LINK, Rule, State
from helen.policy import ScheduleEntry
from helen.replaying import Past

AROUND = 120.0  # seconds before and after a change in which others are worth a look
DAY = 86_400.0  # how far back changes of code, rules and link are listed
MOST = 20  # lines of one answer
OFFSET_SHOWN = 5.0  # seconds that a clock must be off to be mentioned


@frozen
class Facts:
    """`state` is None for a moment in the past; `changes` reach from a day before it to two minutes after it."""

    agent: str
    check_id: str
    at: float
    state: State | None
    rule: Rule
    entry: ScheduleEntry | None = None
    connected_since: float | None = None
    last_seen: float | None = None
    clock_offset: float | None = None
    ignored: tuple[str, ...] = ()
    next_run: float | None = None
    changes: Sequence[Past] = ()
    results: Sequence[Past] = field(factory=tuple)  # the newest first

    @property
    def is_now(self) -> bool:
        return self.state is not None

    def with_history(self, changes: Sequence[Past], results: Sequence[Past]) -> Facts:
        """The same, with what the history has."""
        return evolve(self, changes=changes, results=results)


Line = dict[str, Any]


def explain(facts: Facts) -> dict[str, Any]:
    """The five answers, each a list of lines {"at", "text"}, and the state itself."""
    own = [(past, json.loads(past.document)) for past in facts.changes if _is_about(past, facts)]
    turns = [(past, said) for past, said in own if past.kind == "transition" and past.received <= facts.at]
    return {
        "agent": facts.agent,
        "check": facts.check_id,
        "at": facts.at,
        "state": facts.state.shown.to_json() if facts.state is not None else (turns[-1][1]["now"] if turns else None),
        "why_state": _why_state(facts, turns),
        "why_no_alert": _why_no_alert(facts, own),
        "why_not_run": _why_not_run(facts),
        "what_else": _what_else(facts, turns[-1][0].received if turns else facts.at),
        "what_changed": _what_changed(facts),
    }


def _is_about(past: Past, facts: Facts) -> bool:
    return (past.agent, past.check_id) == (facts.agent, facts.check_id)


def _line(at: float | None, text: str) -> Line:
    return {"at": at, "text": text}


# ------------------------------------------------------------------------------------------------ state


def _why_state(facts: Facts, turns: list[tuple[Past, Any]]) -> list[Line]:
    lines = [_line(said["at"], _turn_text(said)) for _, said in turns[-3:]]
    if facts.state is not None:
        shown, rule = facts.state.shown, facts.rule
        sure = f"soft, attempt {shown.attempt} of {rule.recover if shown.status == 0 else rule.attempts}"
        reason = f" ({shown.reason})" if shown.reason else ""
        now = f"{STATUS_WORDS[shown.status]}{reason}, {sure if shown.attempt else 'confirmed'}"
        lines.append(_line(shown.since, f"now {now}"))
        if facts.state.flap.on:
            lines.append(_line(None, "it flaps: one message stands for all changes until that ends"))
    elif not turns:
        lines.append(_line(None, "no change of its state in the day before; look further back"))
    lines += _result_lines(facts)
    if facts.clock_offset is not None and abs(facts.clock_offset) > OFFSET_SHOWN:
        lines.append(_line(None, f"its clock is {facts.clock_offset:+.1f} s off; times here are Helen's"))
    return lines


def _turn_text(said: dict[str, Any]) -> str:
    was, now = said["was"], said["now"]
    kind = f" {now['kind']}" if now["kind"] == "soft" else ""
    summary = f" \N{EN DASH} {said['summary']}" if said.get("summary") else ""
    step = f"{was['status']} to {now['status']}{kind}" if was["status"] != now["status"] else f"still {now['status']}"
    return f"{step}: {said['why']}{summary}"


def _result_lines(facts: Facts) -> list[Line]:
    if not facts.results:
        return [_line(None, "no result of it in the history around then")]
    past = facts.results[0]
    assert past.result is not None
    result = past.result
    summary = f" \N{EN DASH} {result.summary}" if result.summary else ""
    lines = [_line(past.received, f"the last result says {STATUS_WORDS[result.status]}{summary}")]
    if result.reason:
        lines.append(_line(past.received, f"the status is not the check's own: {result.reason}"))
    lines += [_line(past.received, text) for metric in past.metrics if (text := _beyond(metric))]
    if result.code:
        lines.append(_line(past.received, f"by the code {result.code[:12]}"))
    return lines[:MOST]


def _beyond(metric: Any) -> str | None:
    """`used is 93.1 %, which alerts critical: 90`, if it does."""
    if metric.value is None:
        return None
    for word, limit in (("critical", metric.crit), ("warning", metric.warn)):
        try:
            alerts = bool(limit) and Range.parse(limit).alerts(metric.value)
        except ValueError:
            alerts = False
        if alerts:
            labels = ", ".join(f"{key}={value}" for key, value in sorted(metric.labels.items()))
            where = f" ({labels})" if labels else ""
            return f"{metric.name}{where} is {metric.value:g} {metric.unit}".rstrip() + f", {word} is {limit}"
    return None


# ------------------------------------------------------------------------------------------------ alerts


def _why_no_alert(facts: Facts, own: list[tuple[Past, Any]]) -> list[Line]:
    """What was decided, from the last message on: after it everything is about why there was no other."""
    decided = [
        {"at": past.received, **said}
        for past, said in own
        if past.kind in ("decision", "flap", "notice") and past.received <= facts.at
    ]
    sent = max((at for at, said in enumerate(decided) if said.get("action") == "notify"), default=0)
    lines = [_line(said["at"], _decision_text(said)) for said in decided[sent:][-MOST:]]
    state = facts.state
    if state is not None:
        lines += [_line(None, f"held back now by {hold.kind}: {hold.detail or hold.ref}") for hold in state.holds]
        if state.trial is not None:
            lines.append(_line(None, f"held back now: {state.trial.detail}"))
        if state.ack is not None:
            until = "" if state.ack.until is None else f" until {state.ack.until:.0f}"
            lines.append(_line(None, f"acknowledged by {state.ack.owner}{until}: {state.ack.comment}"))
        if state.shown.attempt:
            lines.append(_line(None, "not confirmed yet, so nobody is told"))
    for parent in facts.ignored:
        lines.append(_line(None, f"its parent {parent} is ignored: that would be a circle"))
    return lines or [_line(None, "nothing was to be told in the day before")]


def _decision_text(said: dict[str, Any]) -> str:
    if "rule" in said or said.get("action") == "nobody":
        return _notice_text(said)
    if "percent" in said:
        return f"flapping has {'begun' if said['on'] else 'ended'}: {said['why']}"
    action, what = said["action"], said.get("what", "")
    if action == "ack-ended":
        return f"the acknowledgement by {said['owner']} has ended: {said['why']}"
    words = {"notify": "told", "hold": "held back", "drop": "dropped"}
    kinds = ", ".join(f"{each['kind']} {each['ref']}".strip() for each in said["reasons"])
    because = f" because of {kinds}" if kinds else ""
    return f"{words[action]}: {what}, {said['status']}{because} ({said['why']})"


def _notice_text(said: dict[str, Any]) -> str:
    """What became of a decision to tell people, one channel at a time."""
    if said["action"] == "nobody":
        return f"nobody was told: {said['why']}"
    tries = f", try {said['tries']}" if said.get("tries", 1) > 1 else ""
    words = {"dead": "given up", "failed": "failed, it is tried again"}
    action = words.get(said["action"], said["action"])
    return f"{said['channel']} (rule {said['rule']}): {said['what']} {action}{tries}: {said['why']}"


# ------------------------------------------------------------------------------------------------ runs


def _why_not_run(facts: Facts) -> list[Line]:
    if facts.rule.passive:
        return _why_not_reported(facts)
    lines = []
    if facts.entry is None:
        lines.append(_line(None, "it is not scheduled there" if facts.check_id != LINK else "a link is not run"))
    else:
        lines.append(_line(None, f"scheduled every {facts.entry.every:g} s, at most {facts.entry.timeout:g} s long"))
        if facts.rule.stale is not None:
            lines.append(_line(None, f"unknown when there is no result for {facts.rule.stale:g} s"))
    if facts.is_now and facts.connected_since is None:
        lines.append(_line(facts.last_seen, "the agent is not connected; its results wait in its spool"))
    elif facts.is_now:
        lines.append(_line(facts.connected_since, "the agent is connected since then"))
        if facts.next_run is not None:
            lines.append(_line(facts.next_run, "the next run"))
    for past in facts.results[:3]:
        late = "" if past.result is None or past.result.ended is None else _lateness(facts, past)
        lines.append(_line(past.received, f"a result came{late}"))
    return lines


def _why_not_reported(facts: Facts) -> list[Line]:
    """Of what comes from outside nobody knows when it will."""
    lines = [_line(None, "its results come from outside: passive.toml declares it")]
    if facts.rule.stale is not None:
        word = STATUS_WORDS[facts.rule.missing]
        lines.append(_line(None, f"{word} when there is no result for {facts.rule.stale:g} s"))
    expected = None if facts.state is None else facts.state.expected
    if expected is not None:
        why = f" ({expected.why})" if expected.why else ""
        lines.append(_line(expected.at, f"the next result is expected within {expected.within:g} s{why}"))
    return lines + [_line(past.received, "a result came") for past in facts.results[:3]]


def _lateness(facts: Facts, past: Past) -> str:
    assert past.result is not None and past.result.ended is not None
    took = past.received - (past.result.ended - (facts.clock_offset or 0.0))
    return f", {took:.0f} s after its run ended: it waited in the spool" if took > OFFSET_SHOWN else ""


# ------------------------------------------------------------------------------------------------ around it


def _what_else(facts: Facts, moment: float) -> list[Line]:
    lines = []
    for past in facts.changes:
        near = abs(past.received - moment) <= AROUND
        if past.kind != "transition" or not near or _is_about(past, facts):
            continue
        said = json.loads(past.document)
        if (said["was"]["status"], said["now"]["status"]) == ("unknown", "ok"):
            continue  # the first good word of something new breaks nothing
        why = "same agent, " if past.agent == facts.agent else ""
        why += "its parent, " if f"{past.agent}/{past.check_id}" in facts.rule.depends else ""
        lines.append(_line(said["at"], f"{why}{past.agent}/{past.check_id}: {_turn_text(said)}"))
    return lines[:MOST]


def _what_changed(facts: Facts) -> list[Line]:
    before = [past for past in facts.changes if past.received <= facts.at]
    return what_changed(facts.agent, facts.check_id, before, facts.results)
