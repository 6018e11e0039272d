"""Tests labels that operators give: by token, by command, for how long they stay, and which can't be given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from helen.identity.authority import NotEnrolled
from helen.identity.given_labels import MAX_GIVEN, checked
from helen.keys.certificates import BadRequest
from helen.storage.given_rows import Given, changed

DAY = 86_400.0
ROLE = {"role": "web", "env": "prod"}


def test_a_token_gives_labels(stage: Any) -> None:
    """A token's labels are in force before the agent has its certificate, and are in the audit of the token (F45)."""
    told: list[str] = []
    stage.authority.given.on_changed(told.append)
    stage.enrol("web-1", stage.token(labels=ROLE))
    assert (stage.authority.given.of("web-1"), told) == (ROLE, ["web-1"])
    assert stage.authority.given.of("web-2") == {}
    (made,) = [detail for _, action, _, detail in stage.audit() if action == "token"]
    assert made.endswith("for 3600 s, labels env=prod,role=web")


def test_a_token_without_labels_leaves_those_that_the_name_has(stage: Any, now: float) -> None:
    """A token without labels changes none, like one of `helen renewals --tokens`; one with labels
    replaces all of them.
    """
    held = stage.enrol("web-1", stage.token("web-1", labels=ROLE))
    stage.renew(held, "web-1", now=now + DAY)
    assert stage.authority.given.of("web-1") == ROLE
    stage.enrol("web-1", stage.token("web-1", now + DAY), now=now + DAY)
    assert stage.authority.given.of("web-1") == ROLE
    stage.enrol("web-1", stage.token("web-1", now + 2 * DAY, labels={"role": "db"}), now=now + 2 * DAY)
    assert stage.authority.given.of("web-1") == {"role": "db"}


def test_labels_stay_through_restart_and_revocation(stages: Callable[..., Any], now: float) -> None:
    """Labels are read by another start; a revoked name with a token of its own has them still, a
    forgotten one hasn't.
    """
    stage = stages()
    stage.enrol("web-1", stage.token(labels=ROLE))
    stage.enrol("web-2", stage.token(labels=ROLE))
    stage.wait(stage.authority.revoke("web-1", now))
    stage.wait(stage.authority.forget("web-2", now))
    stage.close()
    again = stages()
    assert (again.authority.given.of("web-1"), again.authority.given.of("web-2")) == (ROLE, {})
    for name in ("web-1", "web-2"):
        again.enrol(name, again.token(name, now + DAY), now=now + DAY)
    assert (again.authority.given.of("web-1"), again.authority.given.of("web-2")) == (ROLE, {})


def test_a_refused_token_gives_nothing(stage: Any) -> None:
    """A token gives no labels to a wrong name, or at a second use."""
    token = stage.token("web-1", labels=ROLE)
    with pytest.raises(NotEnrolled):
        stage.enrol("web-2", token)
    stage.enrol("web-1", token)
    with pytest.raises(NotEnrolled, match="was used before"):
        stage.enrol("web-1", token)
    assert (stage.authority.given.of("web-1"), stage.authority.given.of("web-2")) == (ROLE, {})


def test_an_operator_changes_labels(stage: Any, now: float) -> None:
    """Sets and takes in one step, tells of it, and has it in the audit; a clock that was set back changes nothing."""
    stage.enrol("web-1", stage.token(labels=ROLE))
    given = stage.authority.given
    assert stage.wait(given.change("web-1", {"role": "db"}, ["env", "no"], now, "anna")).labels == {"role": "db"}
    stage.wait(given.change("web-1", {"site": "north"}, [], now - DAY, "bert"))
    assert given.of("web-1") == {"role": "db", "site": "north"}
    assert stage.audit()[-2:] == [
        ("anna", "label", "web-1", "env=prod,role=web -> role=db"),
        ("bert", "label", "web-1", "role=db -> role=db,site=north"),
    ]


@pytest.mark.parametrize(
    ("labels", "words"),
    [({"": "x"}, "no key"), ({"a b": "x"}, "no key"), ({"a=b": "x"}, "no key"), ({"k" * 256: "x"}, "no key"),
     ({"a": ""}, "no label"), ({"a": "x,y"}, "no label"), ({"a": " x"}, "no label"), ({"a": "\x1b[2J"}, "no label"),
     ({"a": "x" * 256}, "no label"), ({"agent": "x"}, "Helen's own"), ({"severity": "ok"}, "Helen's own"),
     ({f"k{n}": "v" for n in range(MAX_GIVEN + 1)}, "64 of one agent are the most")],
)  # fmt: skip
def test_labels_that_cannot_be_given(stage: Any, labels: dict[str, str], words: str) -> None:
    """Labels beyond a limit are given neither by a token nor by command; the limit itself is good."""
    with pytest.raises(BadRequest, match=words):
        stage.token(labels=labels)
    with pytest.raises(BadRequest, match=words):
        stage.wait(stage.authority.given.change("web-1", labels, [], 1.0, "anna"))
    assert len(checked({f"k{n}": "v" * 255 for n in range(MAX_GIVEN)})) == MAX_GIVEN


def test_of_two_helens_the_newer_word_counts(stages: Callable[..., Any], now: float) -> None:
    """The newer word counts in whichever order it is heard, also of one moment; labels of a forgotten name make no
    agent.
    """
    one, other = Given({"role": "web"}, now), Given({"role": "db"}, now)
    assert one.is_newer(other) and not other.is_newer(one) and one.is_newer(None)
    for order in ([one, other], [other, one]):
        stage = stages(f"state-{order[0].labels['role']}")
        stage.enrol("web-1")
        for given in order:
            stage.wait(stage.authority.given.learn({"web-1": given, "web-9": Given({}, now)}))
        assert (stage.authority.given.of("web-1"), stage.authority.given.of("web-9")) == ({"role": "web"}, {})
        stage.close()
        assert [each.name for each in stages(f"state-{order[0].labels['role']}").store_agents()] == ["web-1"]


def test_a_change_drops_before_it_puts() -> None:
    """A change drops labels before it puts others, so that one command can do both."""
    assert changed({"a": "1", "b": "2"}, {"c": "3"}, ["a", "x"]) == {"b": "2", "c": "3"}
