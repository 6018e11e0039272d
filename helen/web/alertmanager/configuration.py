"""Writes the tree of routes as an alertmanager.yml, so that `amtool config routes` shows and tests it. Pure."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from groundwork.durations import write_duration
from helen.notify import routing
from helen.notify.config import Config
from helen.notify.routing import GLOB, Rule
from helen.states.matchers import Matcher
from helen.web.alertmanager.alerts import NO_RECEIVER
from helen.web.alertmanager.globs import expression_of, label_name

VERSION = "0.25.0"  # of the API that is followed: amtool looks whether it is like its own


def configuration(config: Config | None) -> str:
    """Return routes and receivers as YAML.

    A rule of ours may name several channels: then the receiver is called by all of their names.
    """
    if config is None:
        return f"route:\n  receiver: {NO_RECEIVER}\nreceivers:\n- name: {NO_RECEIVER}\n"
    names: dict[str, None] = {}
    lines = ["route:", *_rule_lines(config.route, "  ", names)]
    for name in (*config.channels, NO_RECEIVER):
        names.setdefault(name)
    return "\n".join([*lines, "receivers:", *(f"- name: {_quoted(name)}" for name in names), ""])


def started(at: float) -> str:
    """Return unix seconds in RFC 3339, as `uptime` has them."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _rule_lines(rule: Rule, indent: str, names: dict[str, None]) -> list[str]:
    receiver = ", ".join(rule.channels) or NO_RECEIVER
    names.setdefault(receiver)
    lines = [f"receiver: {_quoted(receiver)}", f"group_by: {json.dumps([label_name(name) for name in rule.group_by])}"]
    if rule.matchers:
        lines.append(f"matchers: {json.dumps([str(_matcher(each)) for each in rule.matchers])}")
    lines += [f"continue: {json.dumps(rule.go_on)}"]
    lines += [f"{name}: {write_duration(value)}" for name, value in (
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


def _matcher(given: routing.Matcher) -> Matcher:
    is_pattern = bool(set(given.pattern) & GLOB)
    value = expression_of(given.pattern) if is_pattern else given.pattern
    return Matcher(label_name(given.label), value, is_pattern, not given.negative)


def _quoted(text: str) -> str:
    """Return a text in quotes; JSON's strings are YAML's."""
    return json.dumps(text)
