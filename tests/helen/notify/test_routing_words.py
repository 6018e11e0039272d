"""Tests the tree of rules in words: the usual times, how a matcher is read and written, and each verdict."""

from __future__ import annotations

import pytest

from helen.notify.routing import Destination, Rule, Timing, Visit, read_matcher, route

DAY, NIGHT = Timing(1.0, 2.0, 3.0), Timing(4.0, 5.0, 6.0)


def test_the_usual_times() -> None:
    """The usual wait is 10 s from the first change, a minute between two messages, and four hours for a repeat."""
    assert Timing() == Timing(wait=10.0, interval=60.0, repeat=14_400.0)
    assert Rule("route").group_by == ("agent",)


@pytest.mark.parametrize(("text", "written", "holds", "fails"), [
    (" role = web* ", "role=web*", {"role": "web-1"}, {"role": "db"}),
    ("role!=web", "role!=web", {}, {"role": "web"}),
    ("role=", "role=", {}, {"role": "x"}),
    ("a.b-c=x.y", "a.b-c=x.y", {"a.b-c": "x.y"}, {"a.b-c": "xzy"}),
    ("role=[ab]?", "role=[ab]?", {"role": "a1"}, {"role": "c1"}),
    ("role=web", "role=web", {"role": "web"}, {"role": "web2"}),
])  # fmt: skip
def test_a_matcher(text: str, written: str, holds: dict[str, str], fails: dict[str, str]) -> None:
    """A label that isn't there is an empty one; without wildcards the whole value has to be the same."""
    matcher = read_matcher(text)
    assert (str(matcher), matcher.matches(holds), matcher.matches(fails)) == (written, True, False)


@pytest.mark.parametrize("text", ["", "role", "=x", "1a=x", "role~x"])
def test_no_matcher(text: str) -> None:
    """A text that is no matcher is refused with a sentence that shows how one is written."""
    with pytest.raises(ValueError, match='is no matcher: write "label=value", "label!=value"'):
        read_matcher(text)


def test_verdicts() -> None:
    """A verdict names each rule that was looked at or passed over, with its depth, in the order of the file."""
    tree = Rule("route", (), ("mail",), below=(
        Rule("route.1", (read_matcher("role=db"),), ("dba",)),
        Rule("route.2", (read_matcher("role=web"),), ("web",), ("site",), DAY, True, (
            Rule("route.2.1", (read_matcher("site=x"), read_matcher("role=web")), ("x",), ("site", "none"), NIGHT),
            Rule("route.2.2", (), ("y",)),
        )),
        Rule("route.3", (), ()),
        Rule("route.4", (), ("never",)),
    ))  # fmt: skip
    routed = route(tree, {"role": "web", "site": "x"})
    assert list(routed.visited) == [
        Visit("route", 0, True, "it has no matchers; a rule below took it"),
        Visit("route.1", 1, False, "role=db does not hold: role is 'web'"),
        Visit("route.2", 1, True, "role=web; a rule below took it"),
        Visit("route.2.1", 2, True, "site=x and role=web", ("x",)),
        Visit("route.2.2", 2, False, "not looked at: route.2.1 took it"),
        Visit("route.3", 1, True, "it has no matchers; it names no channel"),
        Visit("route.4", 1, False, "not looked at: route.3 took it"),
    ]
    assert routed.destinations == (Destination("x", "route.2.1", (("site", "x"), ("none", "")), NIGHT),)


def test_what_no_rule_below_takes() -> None:
    """Goes to the channels of the one above; a channel that two rules name is told once, by the first."""
    below = (
        Rule("route.1", (), ("mail", "sms"), timing=DAY, go_on=True),
        Rule("route.2", (), ("mail",), timing=NIGHT),
    )
    routed = route(Rule("route", (), ("all",), below=below), {"agent": "web-1"})
    assert [(each.channel, each.route, each.by, each.timing) for each in routed.destinations] == [
        ("mail", "route.1", (("agent", "web-1"),), DAY), ("sms", "route.1", (("agent", "web-1"),), DAY),
    ]  # fmt: skip
    routed = route(Rule("route", (), ("all",), below=(Rule("route.1", (read_matcher("a=b"),), ("x",)),)), {})
    assert [each.channel for each in routed.destinations] == ["all"]
    assert routed.visited[1] == Visit("route.1", 1, False, "a=b does not hold: a is ''")
