"""What Helen knows, as Alertmanager's API (v2) has it: states as alerts, what holds them back as silences. Pure.

A downtime, a silence and an acknowledgement are all silences there; each has a UUID, as its tools demand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from uuid import UUID, uuid5

from attrs import frozen

from equus_protocol.results import OK, STATUS_WORDS
from helen.judged import AWAITING, DEPENDENCY, DOWNTIME, PENDING, SILENCE, State
from helen.matchers import ALERTNAME, Matcher, as_labels
from helen.notify.config import Config
from helen.notify.messages import labels_of
from helen.notify.routing import GLOB, Rule, route
from helen.notify.shapes import ENDS_SECONDS, fingerprint, rfc3339
from helen.timeline import Key
from helen.windows import Scope, Window, spans

VERSION = "0.25.0"  # of the API that is followed: amtool looks whether it is like its own
FOLLOWED = UUID("2b3f6a52-7c0e-5d6c-9d5f-5a5b1e0c8d11")  # from which the UUIDs of names of ours are made
_GLOB_PARTS = re.compile(r"\[!?\]?[^\]]*\]|.", re.DOTALL)
NOBODY = "nobody"  # the receiver of what no channel gets
NO_END = "9999-12-31T23:59:59.000Z"
ACK_END = 10 * 365 * 86_400.0  # seconds: of an acknowledgement without an end; their tools want one


@frozen
class Facts:
    """Of one check: its agent's labels, and what it said last."""

    labels: Mapping[str, str]
    summary: str


@frozen
class View:
    """What is asked about, all of one moment."""

    states: Mapping[Key, State]
    facts: Callable[[Key], Facts]
    config: Config | None
    now: float


def uuid_of(name: str) -> str:
    """The name itself if it is a UUID, else one that is always the same for it."""
    try:
        return str(UUID(name))
    except ValueError:
        return str(uuid5(FOLLOWED, name))


def ack_id(key: Key) -> str:
    return uuid_of(f"ack {key[0]}/{key[1]}")


def is_alert(state: State) -> bool:
    """Whether people would be told of it, were nothing in its way."""
    return state.flap.on or (state.hard.status != OK and state.hard.reason != PENDING)


# ------------------------------------------------------------------------------------------------ alerts


Alert = dict[str, Any]
Labels = Mapping[str, str]  # as our rules know them: Alertmanager's names have fewer characters


def alerts(view: View, keys: Iterable[Key]) -> list[tuple[Labels, Alert]]:
    """As GET /api/v2/alerts has them, each with the labels that it is routed by; the oldest first."""
    made = [_alert(view, key, view.states[key]) for key in keys if is_alert(view.states[key])]
    return sorted(made, key=lambda pair: (pair[1]["startsAt"], pair[1]["fingerprint"]))


def _alert(view: View, key: Key, state: State) -> tuple[Labels, Alert]:
    facts = view.facts(key)
    status = state.shown.status if state.flap.on else state.hard.status
    severity = "warning" if status == OK else STATUS_WORDS[status]
    raw = labels_of(*key, severity, facts.labels)
    labels = as_labels(raw)
    since, seen = state.hard.since, state.hard.since if state.seen is None else max(state.seen.at, state.hard.since)
    annotations = {"summary": facts.summary, "why": "it flaps" if state.flap.on else state.hard.reason or ""}
    return raw, {
        "labels": labels,
        "annotations": {name: text for name, text in annotations.items() if text},
        "startsAt": rfc3339(since),
        "endsAt": rfc3339(view.now + ENDS_SECONDS),
        "updatedAt": rfc3339(seen),
        "fingerprint": fingerprint(labels),
        "receivers": [{"name": name} for name in receivers_of(view.config, raw)],
        "status": _status(view, key, state),
    } | _link(view.config, key)


def _link(config: Config | None, key: Key) -> dict[str, str]:
    base = "" if config is None else config.external_url
    return {"generatorURL": f"{base}/api/v1/explain/{key[0]}/{key[1]}"} if base else {}


def _status(view: View, key: Key, state: State) -> dict[str, Any]:
    """A silence and a downtime silence, a broken parent inhibits."""
    silenced = [uuid_of(hold.ref) for hold in state.holds if hold.kind in (DOWNTIME, SILENCE)]
    silenced += [ack_id(key)] if state.ack is not None else []
    inhibited = [_parent(view, hold.ref) for hold in state.holds if hold.kind in (DEPENDENCY, AWAITING)]
    word = "suppressed" if silenced or inhibited else "active"
    return {"state": word, "silencedBy": silenced, "inhibitedBy": inhibited}


def _parent(view: View, ref: str) -> str:
    """The fingerprint of the alert of a parent."""
    agent, _, check_id = ref.partition("/")
    parent = view.states.get((agent, check_id))
    severity = "critical" if parent is None or parent.hard.status == OK else STATUS_WORDS[parent.hard.status]
    return fingerprint(as_labels(labels_of(agent, check_id, severity, view.facts((agent, check_id)).labels)))


def receivers_of(config: Config | None, labels: Mapping[str, str]) -> list[str]:
    """The channels that would be told."""
    found = [] if config is None else [each.channel for each in route(config.route, labels).destinations]
    return found or [NOBODY]


def receivers(config: Config | None) -> list[dict[str, str]]:
    return [{"name": name} for name in (*(config.channels if config is not None else ()), NOBODY)]


@frozen
class Wanted:
    """Which alerts are asked for."""

    active: bool = True
    silenced: bool = True
    inhibited: bool = True
    matchers: tuple[Matcher, ...] = ()
    receiver: Callable[[str], bool] = lambda name: True

    def takes(self, alert: Mapping[str, Any]) -> bool:
        status = alert["status"]
        return (
            (self.active or status["state"] != "active")
            and (self.silenced or not status["silencedBy"])
            and (self.inhibited or not status["inhibitedBy"])
            and any(self.receiver(each["name"]) for each in alert["receivers"])
            and all(matcher.matches(alert["labels"]) for matcher in self.matchers)
        )


def groups(config: Config | None, listed: Iterable[tuple[Labels, Alert]]) -> list[dict[str, Any]]:
    """The same alerts by receiver, and by the labels that its rule groups them by."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], list[Alert]] = {}
    for labels, alert in listed:
        routed = () if config is None else route(config.route, labels).destinations
        for name, by in [(each.channel, each.by) for each in routed] or [(NOBODY, ())]:
            found.setdefault((name, tuple(as_labels(dict(by)).items())), []).append(alert)
    return [
        {"receiver": {"name": name}, "labels": dict(by), "alerts": grouped}
        for (name, by), grouped in sorted(found.items(), key=lambda pair: pair[0])
    ]


# ------------------------------------------------------------------------------------------------ silences


def silence_of_window(window: Window, now: float, ended: float | None = None) -> dict[str, Any]:
    """A downtime or a silence; one that recurs is shown as its present or its next time."""
    begin, end = next(islice(spans(window, now), 1), (window.begin, window.until or now))
    if ended is not None:
        begin, end = min(window.begin, ended), ended
    state = "expired" if ended is not None else "active" if begin <= now else "pending"
    what = "" if window.kind == SILENCE else f"{window.kind}: "
    again = " (it recurs)" if window.recurrence is not None and ended is None else ""
    return _silence(
        uuid_of(window.id), state, matchers_of(window.scope), (begin, end, window.created or window.begin),
        window.author, f"{what}{window.comment or window.id}{again}",
    )  # fmt: skip


def silence_of_ack(key: Key, state: State, now: float) -> dict[str, Any]:
    assert state.ack is not None
    matchers = (Matcher("agent", key[0]), Matcher("check", key[1]))
    until = state.ack.until or now + ACK_END
    return _silence(
        ack_id(key), "active", matchers, (state.hard.since, until, state.hard.since), state.ack.owner,
        f"acknowledged: {state.ack.comment}" if state.ack.comment else "acknowledged",
    )  # fmt: skip


def _silence(
    name: str, state: str, matchers: Iterable[Matcher], times: tuple[float, float, float], author: str, comment: str
) -> dict[str, Any]:
    begin, end, updated = times
    return {
        "id": name, "status": {"state": state}, "updatedAt": rfc3339(updated), "startsAt": rfc3339(begin),
        "endsAt": NO_END if end >= 253_370_764_800 else rfc3339(end), "createdBy": author or "helen",
        "comment": comment, "matchers": [matcher.to_json() for matcher in matchers],
    }  # fmt: skip


def matchers_of(scope: Scope) -> tuple[Matcher, ...]:
    """The same scope in their words."""
    found = list(scope.matchers)
    for name, globs in (("agent", scope.agents), ("check", scope.checks)):
        if "*" not in globs:
            found.append(_of_globs(name, globs))
    for label, glob in scope.labels:
        found.append(_of_globs(next(iter(as_labels({label: "x"}))), (glob,)))
    return tuple(found) or (Matcher("alertname", ALERTNAME),)


def _of_globs(name: str, globs: tuple[str, ...]) -> Matcher:
    if len(globs) == 1 and not set(globs[0]) & GLOB:
        return Matcher(name, globs[0])
    return Matcher(name, "|".join(_expression(glob) for glob in globs), True)


def _expression(glob: str) -> str:
    """A name pattern as an expression, in words that RE2 reads as well."""
    parts = []
    for part in _GLOB_PARTS.findall(glob):
        if part in ("*", "?"):
            parts.append(".*" if part == "*" else ".")
        elif len(part) > 1 and part[0] == "[":
            parts.append("[" + part[1:-1].replace("\\", "\\\\").replace("!", "^", part[1] == "!") + "]")
        else:
            parts.append(re.escape(part))
    return "".join(parts)


def read_time(text: Any, name: str) -> float:
    """RFC 3339 to unix seconds; ValueError with a sentence."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is no time such as 2026-11-28T14:00:00Z") from error
    if moment.tzinfo is None:
        raise ValueError(f"{name} has no zone: end it with Z")
    return moment.timestamp()


# ------------------------------------------------------------------------------------------------ configuration


def configuration(config: Config | None) -> str:
    """Routes and receivers as an alertmanager.yml, so that `amtool config routes` shows and tests them.

    A rule of ours may name several channels: then the receiver is called by all of their names.
    """
    if config is None:
        return f"route:\n  receiver: {NOBODY}\nreceivers:\n- name: {NOBODY}\n"
    names: dict[str, None] = {}
    lines = ["route:", *_rule_lines(config.route, "  ", names)]
    for name in (*config.channels, NOBODY):
        names.setdefault(name)
    return "\n".join([*lines, "receivers:", *(f"- name: {_quoted(name)}" for name in names), ""])


def _rule_lines(rule: Rule, indent: str, names: dict[str, None]) -> list[str]:
    receiver = ", ".join(rule.channels) or NOBODY
    names.setdefault(receiver)
    lines = [f"receiver: {_quoted(receiver)}", f"group_by: {json.dumps([as_label(name) for name in rule.group_by])}"]
    if rule.matchers:
        lines.append(f"matchers: {json.dumps([str(_matcher(each)) for each in rule.matchers])}")
    lines += [f"continue: {json.dumps(rule.go_on)}"]
    lines += [f"{name}: {value:g}s" for name, value in (
        ("group_wait", rule.timing.wait), ("group_interval", rule.timing.interval),
        ("repeat_interval", rule.timing.repeat),
    )]  # fmt: skip
    made = [indent + line for line in lines]
    if rule.below:
        made.append(f"{indent}routes:")
    for each in rule.below:
        first, *rest = _rule_lines(each, f"{indent}  ", names)
        made += [f"{indent}- {first.lstrip()}", *rest]
    return made


def _matcher(given: Any) -> Matcher:
    is_pattern = bool(set(given.pattern) & GLOB)
    value = _expression(given.pattern) if is_pattern else given.pattern
    return Matcher(as_label(given.label), value, is_pattern, not given.negative)


def as_label(name: str) -> str:
    return next(iter(as_labels({name: "x"})))


def _quoted(text: str) -> str:
    """JSON's strings are YAML's."""
    return json.dumps(text)


def started(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
