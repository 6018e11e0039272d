"""Tests who is told: matchers, and the walk through the rules with what each decided."""

from __future__ import annotations

import pytest

from helen.notify.config import read
from helen.notify.routing import read_matcher, route

MATCHERS = [
    ("role=web", {"role": "web"}, True), ("role=web", {"role": "web2"}, False),
    ("role=web*", {"role": "web2"}, True),
    ("role!=web*", {"role": "web2"}, False), ("role!=web*", {"role": "db"}, True),
    ("role!=web", {}, True),
    ("role=", {}, True), ("role=", {"role": ""}, True), ("role=", {"role": "x"}, False),
    ("role!=", {"role": "x"}, True),
    ("role=?b", {"role": "db"}, True), ("role=[dx]b", {"role": "db"}, True), ("role = a b ", {"role": "a b"}, True),
    ("role=a.c", {"role": "abc"}, False), ("role=a=b", {"role": "a=b"}, True), ("role=web", {"role": "web\n"}, False),
]  # fmt: skip


@pytest.mark.parametrize(("text", "labels", "holds"), MATCHERS)
def test_matchers(text: str, labels: dict[str, str], holds: bool) -> None:
    """A label that isn't there is an empty one; a value is a pattern only where it has *, ? or [."""
    assert read_matcher(text).matches(labels) is holds


@pytest.mark.parametrize("text", ["", "role", "=x", "1role=x", "ro le=x", "role~=x", "!=x"])
def test_what_is_no_matcher(text: str) -> None:
    """A text that is no matcher is refused with a sentence that says how to write one."""
    with pytest.raises(ValueError, match="is no matcher: write"):
        read_matcher(text)


CONFIG = """
[channels]
mail = { type = "command", argv = ["/bin/true"] }
page = { type = "command", argv = ["/bin/true"] }
audit = { type = "command", argv = ["/bin/true"] }
db = { type = "command", argv = ["/bin/true"] }
[route]
channels = "mail"
group_by = ["agent"]
[[route.routes]]
name = "audit"
match = "severity=critical"
channels = "audit"
continue = true
[[route.routes]]
name = "databases"
match = "role=db*"
channels = "db"
group_by = ["site"]
[[route.routes.routes]]
name = "night"
match = ["severity=critical", "site!=test"]
channels = ["page", "db"]
group_wait = "0s"
[[route.routes]]
name = "rest"
match = "role=*"
channels = []
"""
ROUTES = [
    ({"severity": "warning"}, ["route", "audit no", "databases no", "rest"], []),
    ({"severity": "critical", "role": "db1"}, ["route", "audit", "databases", "night", "rest no"],
     ["audit audit", "page night", "db night"]),
    ({"severity": "warning", "role": "db1"}, ["route", "audit no", "databases", "night no", "rest no"],
     ["db databases"]),
    ({"severity": "critical", "role": "db1", "site": "test"},
     ["route", "audit", "databases", "night no", "rest no"], ["audit audit", "db databases"]),
]  # fmt: skip


@pytest.mark.parametrize(("labels", "visited", "channels"), ROUTES)
def test_the_walk(labels: dict[str, str], visited: list[str], channels: list[str]) -> None:
    """The first rule that matches takes it, `continue` lets the next look too, the deepest match has the say."""
    routed = route(read(CONFIG).route, labels)
    assert [each.rule + ("" if each.matched else " no") for each in routed.visited] == visited
    assert [f"{each.channel} {each.route}" for each in routed.destinations] == channels


def test_why_is_said_of_each_rule() -> None:
    """A rule's reason is the matcher that failed and the label, an earlier rule that took it, or that it names no
    channel.
    """
    routed = route(read(CONFIG).route, {"severity": "critical", "role": "db1", "site": "test"})
    assert [each.why for each in routed.visited] == [
        "it has no matchers; a rule below took it", "severity=critical", "role=db*",
        "site!=test does not hold: site is 'test'", "not looked at: databases took it",
    ]  # fmt: skip
    assert route(read(CONFIG).route, {}).visited[-1].why == "role=*; it names no channel"


def test_a_channel_is_told_once() -> None:
    """A channel has the groups and times of the first rule that named it; a rule takes missing ones from above."""
    routed = route(read(CONFIG).route, {"severity": "critical", "role": "db1", "site": "x"})
    by_channel = {each.channel: each for each in routed.destinations}
    assert by_channel["page"].by == (("site", "x"),)
    assert (by_channel["page"].timing.wait, by_channel["page"].timing.interval) == (0.0, 60.0)
    assert by_channel["audit"].by == (("agent", ""),)
