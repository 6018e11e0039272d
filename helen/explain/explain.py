"""Explains a check: why it is in its state, why there was no alert, why it did not run, what else happened then. Pure.

Every answer is a record that was written when it was decided, or a value that is there now. Nothing is worked out
afterwards, so that an answer about last week is what was true last week.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from attrs import asdict, evolve, field, frozen

from equus_protocol.ranges import Range
from equus_protocol.results import STATUS_WORDS
from groundwork.check_notes import NO_NOTES
from groundwork.counts import all_of
from groundwork.durations import words_of
from groundwork.figures import figure, limits
from groundwork.target_ids import source_of
from helen.assignments.schedule import ScheduleEntry
from helen.evaluation.replay import HistoryRecord
from helen.explain.change_history import what_changed
from helen.explain.missed_runs import missed_runs, moment_of, sentence_of, why_missed
from helen.states.model import LINK, PENDING, ROLLOUT, Rule, State

AROUND = 120.0  # seconds before and after a change in which others are worth a look
DAY = 86_400.0  # how far back changes of code, rules and link are listed
MOST = 20  # lines of one answer
MOST_MISSED = 5  # of these are about runs that did not happen
OFFSET_SHOWN = 5.0  # seconds that a clock must be off to be mentioned


@frozen
class Facts:
    """Holds the facts that an explanation is made of, at `at`, unix seconds; `state` is None for a moment in the past.

    `changes` reach from a day before that moment to two minutes after it.
    """

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
    changes: Sequence[HistoryRecord] = ()
    results: Sequence[HistoryRecord] = field(factory=tuple)  # the newest first
    runs: Sequence[HistoryRecord] = field(factory=tuple)  # of all checks of the agent, before and after the moment
    runs_until: float | None = None  # unix seconds up to which `runs` has all that there are
    runners: tuple[str, ...] = ()  # of a target: the agents that look at it
    others: tuple[tuple[str, str], ...] = ()  # of a mesh: the other agents that check the same one, and what they see

    @property
    def is_now(self) -> bool:
        return self.state is not None

    @property
    def is_known(self) -> bool:
        """Return True if memory or the history has anything about the check: of a retired one the history has."""
        return self.state is not None or bool(self.results) or any(_is_about(each, self) for each in self.changes)

    def with_history(
        self,
        changes: Sequence[HistoryRecord],
        results: Sequence[HistoryRecord],
        runs: Sequence[HistoryRecord] = (),
        runs_until: float | None = None,
    ) -> Facts:
        """Return the same facts with records of the history; `runs_until` is in unix seconds."""
        return evolve(self, changes=changes, results=results, runs=runs, runs_until=runs_until)


Line = dict[str, Any]


def explain(facts: Facts) -> dict[str, Any]:
    """Return the five answers, each a list of lines {"at", "text"}, and the state itself.

    The keys: agent, check, at, state, why_state, why_no_alert, why_not_run, what_else, what_changed, and
    runbook, owner and notes of a check that is scheduled.
    """
    own = [(record, json.loads(record.document)) for record in facts.changes if _is_about(record, facts)]
    transitions = [
        (record, said) for record, said in own if record.kind == "transition" and record.received <= facts.at
    ]
    return {
        "agent": facts.agent,
        "check": facts.check_id,
        "at": facts.at,
        "state": facts.state.shown.to_json()
        if facts.state is not None
        else (transitions[-1][1]["now"] if transitions else None),
        "why_state": _in_order(_why_state(facts, transitions)),
        "why_no_alert": _in_order(_why_no_alert(facts, own)),
        "why_not_run": _in_order(_why_not_run(facts)),
        "what_else": _in_order(_what_else(facts, transitions[-1][0].received if transitions else facts.at)),
        "what_changed": _in_order(_what_changed(facts)),
        **asdict(NO_NOTES if facts.entry is None else facts.entry.notes),
    }


def _in_order(lines: list[Line]) -> list[Line]:
    """Return the lines in order of time. Lines without a time say how things are, and keep their places."""
    timed = iter(sorted((line for line in lines if line["at"] is not None), key=lambda line: line["at"]))
    return [line if line["at"] is None else next(timed) for line in lines]


def _is_about(record: HistoryRecord, facts: Facts) -> bool:
    return (record.agent, record.check_id) == (facts.agent, facts.check_id)


def _line(at: float | None, text: str) -> Line:
    return {"at": at, "text": text}


# ------------------------------------------------------------------------------------------------ state


def _why_state(facts: Facts, transitions: list[tuple[HistoryRecord, Any]]) -> list[Line]:
    lines = [_line(said["at"], _transition_text(said)) for _, said in transitions[-3:]]
    if facts.state is not None:
        shown, rule = facts.state.shown, facts.rule
        sure = f"soft, attempt {shown.attempt} of {rule.recover if shown.status == 0 else rule.attempts}"
        reason = f" ({shown.reason})" if shown.reason else ""
        now = f"{STATUS_WORDS[shown.status]}{reason}, {sure if shown.attempt else 'confirmed'}"
        lasting = words_of(round(max(0.0, facts.at - shown.since)))
        lines += [*_result_lines(facts), _line(facts.at, f"now {now}, for {lasting}")]
        lines += [_line(None, _seen_by_others(facts.others))] if facts.others else []
        if facts.state.flap.on:
            lines.append(_line(None, "it flaps: one message stands for all changes until that ends"))
    elif not transitions:
        lines.append(_line(None, "no change of its state in the day before; look further back"))
    if facts.state is None:
        lines += _result_lines(facts)
    if facts.clock_offset is not None and abs(facts.clock_offset) > OFFSET_SHOWN:
        lines.append(_line(None, f"its clock is {facts.clock_offset:+.1f} s off; times here are Helen's"))
    return lines


def _transition_text(said: dict[str, Any]) -> str:
    was, now = said["was"], said["now"]
    if was.get("reason") == PENDING:
        return _first_result(said)
    kind = f" {now['kind']}" if now["kind"] == "soft" else ""
    summary = f" \N{EN DASH} {said['summary']}" if said.get("summary") else ""
    step = f"{was['status']} to {now['status']}{kind}" if was["status"] != now["status"] else f"still {now['status']}"
    return f"{step}: {said['why']}{summary}"


def _first_result(said: dict[str, Any]) -> str:
    """Tell what the first result of a check made of it: before that it had no state to change from."""
    now = said["now"]
    why = said["why"].removeprefix(f"{now['status']}, ")
    sure = f", {why}" if now["kind"] == "soft" else ""
    summary = f" \N{EN DASH} {said['summary']}" if said.get("summary") else ""
    return f"first result: {now['status']}{sure}{summary}"


def _result_lines(facts: Facts) -> list[Line]:
    if not facts.results:
        return [_line(None, "no result of it in the history around then")]
    record = facts.results[0]
    assert record.result is not None
    result = record.result
    summary = _said(result.summary)
    ran, _ = source_of(facts.agent, result.spool)
    by = f", by {ran}" if ran != facts.agent else ""
    lines = [*_views(facts), _line(record.received, f"the last result{by} says {STATUS_WORDS[result.status]}{summary}")]
    if result.reason:
        lines.append(_line(record.received, f"the status is not the check's own: {result.reason}"))
    lines += [_line(record.received, text) for metric in record.metrics if (text := _beyond(metric))]
    if result.code:
        lines.append(_line(record.received, f"by the code {result.code[:12]}"))
    return lines[:MOST]


def _seen_by_others(others: Sequence[tuple[str, str]]) -> str:
    """Return what the other agents of a mesh see of the same one: `others see it: ok from edge-1 and edge-3`."""
    by_status: dict[str, list[str]] = {}
    for name, status in others:
        by_status.setdefault(status, []).append(name)
    return "others see it: " + "; ".join(f"{word} from {all_of(names)}" for word, names in sorted(by_status.items()))


def _views(facts: Facts) -> list[Line]:
    """Return what each agent saw last, where several look at one target, but for the last result of all."""
    newest: dict[str, HistoryRecord] = {}
    for record in facts.results if facts.rule.runners else ():
        assert record.result is not None
        newest.setdefault(source_of(facts.agent, record.result.spool)[0], record)
    return [
        _line(record.received, f"{ran} saw {STATUS_WORDS[record.result.status]}{_said(record.result.summary)}")
        for ran, record in newest.items() if record.result is not None and record is not facts.results[0]
    ]  # fmt: skip


def _said(summary: str) -> str:
    return f" \N{EN DASH} {summary}" if summary else ""


def _beyond(metric: Any) -> str | None:
    """Return a sentence such as `used is 93.1 %, critical is 90`, if the metric is beyond one of its ranges."""
    if metric.value is None:
        return None
    for word, limit in (("critical", metric.crit), ("warning", metric.warn)):
        try:
            alerts = bool(limit) and Range.parse(limit).alerts(metric.value)
        except ValueError:
            alerts = False
        if alerts:
            labels = ", ".join(f"{key}={value}" for key, value in sorted(metric.labels.items()))
            where, unit = f" ({labels})" if labels else "", metric.unit
            return f"{metric.name}{where} is {figure(metric.value, unit)}, {word} is {limits(limit, unit)}"
    return None


# ------------------------------------------------------------------------------------------------ alerts


def _why_no_alert(facts: Facts, own: list[tuple[HistoryRecord, Any]]) -> list[Line]:
    """Tell the decisions from the last message on: all after it are about why there was no other."""
    decided = [
        {"at": record.received, **said}
        for record, said in own
        if record.kind in ("decision", "flap", "notice") and record.received <= facts.at
    ]
    sent = max((at for at, said in enumerate(decided) if said.get("action") == "notify"), default=0)
    lines = [_decision_line(said) for said in decided[sent:][-MOST:]]
    state = facts.state
    if state is not None:
        lines += [
            _held(None, f"held back now by {hold.kind}: {hold.detail or hold.ref}", [(hold.kind, hold.ref)])
            for hold in state.holds
        ]
        if state.trial is not None:
            lines.append(_held(None, f"held back now: {state.trial.detail}", [(ROLLOUT, state.trial.ref)]))
        if state.ack is not None:
            left = None if state.ack.until is None else state.ack.until - facts.at
            until = "" if left is None else f" for {words_of(max(0.0, left))} more"
            comment = f": {state.ack.comment}" if state.ack.comment else ""
            lines.append(_held(None, f"acknowledged by {state.ack.owner}{until}{comment}"))
        if state.shown.attempt:
            lines.append(_held(None, "not confirmed yet, so nobody is told"))
    for parent in facts.ignored:
        lines.append(_line(None, f"its parent {parent} is ignored: that would be a circle"))
    return lines or [_line(None, "nothing was to be told in the day before")]


def _held(at: float | None, text: str, refs: Sequence[tuple[str, str]] = ()) -> Line:
    """Return a line that says why a message was not sent; `refs` are (kind, ref) of what held it back."""
    return {"at": at, "text": text, "told": False, "refs": [{"kind": kind, "ref": ref} for kind, ref in refs]}


def _decision_line(said: dict[str, Any]) -> Line:
    """Return the line of a decision; `told` is true of what a channel has taken, and false of what was not sent."""
    text, action = _decision_text(said), said.get("action")
    if action == "sent":
        return _line(said["at"], text) | {"told": True, "refs": []}
    if action in ("hold", "drop", "nobody", "dead", "failed"):
        return _held(said["at"], text, [(each["kind"], each["ref"]) for each in said.get("reasons", ()) if each["ref"]])
    return _line(said["at"], text)


def _decision_text(said: dict[str, Any]) -> str:
    if "rule" in said or said.get("action") == "nobody":
        return _notice_text(said)
    if "percent" in said:
        return f"flapping has {'begun' if said['on'] else 'ended'}: {said['why']}"
    action, what = said["action"], said.get("what", "")
    if action == "ack-ended":
        return f"the acknowledgement by {said['owner']} has ended: {said['why']}"
    words = {"notify": "due", "hold": "held back", "drop": "dropped"}
    kinds = ", ".join(f"{each['kind']} {each['ref']}".strip() for each in said["reasons"])
    because = f" because of {kinds}" if kinds else ""
    return f"{words[action]}: {what}, {said['status']}{because} ({said['why']})"


def _notice_text(said: dict[str, Any]) -> str:
    """Tell what became of a decision to send a message, one channel at a time."""
    if said["action"] == "nobody":
        return f"nobody was told: {said['why']}"
    tries = f", try {said['tries']}" if said.get("tries", 1) > 1 else ""
    words = {"dead": "given up", "failed": "failed, it is tried again"}
    action = words.get(said["action"], said["action"])
    return f"{said['channel']} (rule {said['rule']}): {said['what']} {action}{tries}: {said['why']}"


# ------------------------------------------------------------------------------------------------ runs


def _why_not_run(facts: Facts) -> list[Line]:
    if facts.rule.passive and facts.entry is None:
        return _why_not_reported(facts)
    lines = [_line(None, _who_looks(facts))] if facts.rule.passive else []
    if facts.entry is None:
        lines.append(_line(None, "it is not scheduled there" if facts.check_id != LINK else "a link is not run"))
    else:
        every, longest = words_of(facts.entry.every), words_of(facts.entry.timeout)
        lines.append(_line(None, f"scheduled every {every}, at most {longest} long"))
        if facts.rule.stale is not None:
            lines.append(_line(None, f"unknown when there is no result for {words_of(facts.rule.stale)}"))
        lines += _missed_lines(facts, facts.entry.every)
    if facts.is_now and facts.connected_since is None:
        lines.append(_line(facts.last_seen, "the agent is not connected; its results wait in its spool"))
    elif facts.is_now:
        lines.append(_line(facts.connected_since, "the agent is connected since then"))
        if facts.next_run is not None:
            lines.append(_line(facts.next_run, "the next run"))
    for record in facts.results[:3]:
        late = "" if record.result is None or record.result.ended is None else _lateness(facts, record)
        lines.append(_line(record.received, f"a result came{late}"))
    return lines


def _who_looks(facts: Facts) -> str:
    if len(facts.runners) < 2:
        return f"{all_of(facts.runners) or 'no agent yet'} looks at it"
    return f"{all_of(facts.runners)} look at it; {facts.rule.quorum} of them must see it bad"


def _why_not_reported(facts: Facts) -> list[Line]:
    """Tell about passive results: they have no schedule, only a deadline."""
    lines = [_line(None, "its results come from outside: passive.toml declares it")]
    if facts.rule.stale is not None:
        word = STATUS_WORDS[facts.rule.missing]
        lines.append(_line(None, f"{word} when there is no result for {words_of(facts.rule.stale)}"))
    expected = None if facts.state is None else facts.state.expected
    if expected is not None:
        why = f" ({expected.why})" if expected.why else ""
        lines.append(_line(expected.at, f"the next result is expected within {words_of(expected.within)}{why}"))
    return lines + [_line(record.received, "a result came") for record in facts.results[:3]]


def _lateness(facts: Facts, record: HistoryRecord) -> str:
    assert record.result is not None and record.result.ended is not None
    took = record.received - (record.result.ended - (facts.clock_offset or 0.0))
    return f", {words_of(round(took))} after its run ended: it waited in the spool" if took > OFFSET_SHOWN else ""


def _missed_lines(facts: Facts, every: float) -> list[Line]:
    """Tell the runs that did not happen around the moment, those nearest to it if there are many."""
    offset = facts.clock_offset or 0.0
    own = [moment_of(each) - offset for each in facts.runs if each.check_id == facts.check_id]
    if not own or facts.runs_until is None:
        return []
    found = missed_runs(own, every, facts.runs_until)
    nearest = sorted(found, key=lambda missed: max(missed.begin - facts.at, facts.at - missed.end, 0.0))[:MOST_MISSED]
    return [
        _line(missed.begin, sentence_of(missed, why_missed(
            missed, facts.agent, facts.check_id, facts.changes, facts.runs)))
        for missed in nearest
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------ around it


def _what_else(facts: Facts, moment: float) -> list[Line]:
    lines = []
    for record in facts.changes:
        near = abs(record.received - moment) <= AROUND
        if record.kind != "transition" or not near or _is_about(record, facts):
            continue
        said = json.loads(record.document)
        if (said["was"]["status"], said["now"]["status"]) == ("unknown", "ok"):
            continue  # a new check that begins with ok has broken nothing
        why = "same agent, " if record.agent == facts.agent else ""
        why += "its parent, " if f"{record.agent}/{record.check_id}" in facts.rule.depends else ""
        lines.append(_line(said["at"], f"{why}{record.agent}/{record.check_id}: {_transition_text(said)}"))
    return lines[:MOST]


def _what_changed(facts: Facts) -> list[Line]:
    before = [record for record in facts.changes if record.received <= facts.at]
    return what_changed(facts.agent, facts.check_id, before, facts.results)
