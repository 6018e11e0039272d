"""Tests tokens of many uses: how often, for which names, as what; and what becomes of the names of ephemeral agents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from helen.identity.authority import NotEnrolled
from helen.identity.join_tokens import MOST_USES
from helen.keys import certificates
from helen.keys.certificates import BadRequest
from helen.storage.token_rows import Terms, UnknownToken, token_id

DAY = 86_400.0
ROLE = {"role": "web", "env": "prod"}


def refusal(stage: Any, name: str, token: str, **more: Any) -> str:
    """Return the reason for which a token gives a name no certificate."""
    with pytest.raises(NotEnrolled) as refused:
        stage.enrol(name, token, **more)
    return str(refused.value.reason)


def test_a_token_of_three_uses(stage: Any) -> None:
    """A token of three uses makes three agents with its labels, and no fourth; the audit has its making
    and each use.
    """
    token = stage.token(uses=3, names="asg-*", labels=ROLE, ephemeral=DAY)
    for number in range(3):
        stage.enrol(f"asg-{number}", token)
    assert refusal(stage, "asg-3", token) == f"token {token_id(token)} was used 3 times, as often as it may be"
    given = stage.authority.given
    assert [given.of(f"asg-{number}") for number in range(4)] == [ROLE, ROLE, ROLE, {}]
    assert [given.ephemeral(f"asg-{number}") for number in (2, 3)] == [DAY, None]
    made = [detail for _, action, _, detail in stage.audit() if action == "token"]
    assert made == [
        f"token {token_id(token)} for 3600 s, good 3 times, for asg-*, labels env=prod,role=web, forgotten after 24 h"
    ]
    used = [subject for _, action, subject, detail in stage.audit() if f"by token {token_id(token)}" in detail]
    assert used == ["asg-0", "asg-1", "asg-2"]


@pytest.mark.parametrize(
    ("name", "after", "why"),
    [("web-1", 0.0, "is for names like asg-*"), ("xasg-1", 0.0, "is for names like asg-*"),
     ("asg-1", 3_600.0, "has expired"), ("asg-1", -1.0, "")],
)  # fmt: skip
def test_names_and_time(stage: Any, now: float, name: str, after: float, why: str) -> None:
    """A wrong name, or a token whose time is just over, gets a sentence, and no use of the token is gone."""
    token = stage.token(uses=1, names="asg-*")
    if not why:
        assert certificates.name_in(stage.enrol(name, token, now=now + after).certificate) == name
        return
    assert refusal(stage, name, token, now=now + after) == f"token {token_id(token)} {why}"
    stage.enrol("asg-9", token, now=now)


def test_an_answer_that_was_lost_is_no_second_use(stage: Any) -> None:
    """The same key and name get the same certificate while the token lives; other keys have the uses that are left."""
    token, key = stage.token(uses=2), ec.generate_private_key(ec.SECP256R1())
    first = stage.enrol("web-1", token, key)
    assert stage.enrol("web-1", token, key).certificate == first.certificate
    assert "asks with a key that has a certificate already" in refusal(stage, "web-2", token, key=key)
    stage.enrol("web-2", token)
    assert "was used 2 times" in refusal(stage, "web-3", token)


def test_many_uses_give_no_name_of_another(stage: Any, now: float) -> None:
    """One that is taken, was revoked, or was forgotten by an operator needs a token of its own, as ever."""
    token = stage.token(uses=9)
    for name in ("web-1", "web-2", "web-3"):
        stage.enrol(name, token)
    stage.wait(stage.authority.revoke("web-2", now))
    stage.wait(stage.authority.forget("web-3", now))
    for name in ("web-1", "web-2", "web-3"):
        assert f"{name} is taken or revoked: make a token for it" in refusal(stage, name, token)
    assert "admin is reserved" in refusal(stage, "admin", token)


def test_an_ephemeral_agent_comes_again_with_its_token(stage: Any) -> None:
    """A container that is started anew has its old name and a new key, but not while that name is connected."""
    token = stage.token(uses=3, ephemeral=DAY)
    stage.enrol("pod-0", token)
    stage.authority.enrolment.is_connected = lambda name: name == "pod-0"
    assert "pod-0 is connected" in refusal(stage, "pod-0", token)
    stage.authority.enrolment.is_connected = lambda name: False
    stage.enrol("pod-0", token)
    other = stage.token(uses=3, ephemeral=DAY)
    assert "pod-0 is taken or revoked" in refusal(stage, "pod-0", other)


def test_an_ephemeral_agent_that_was_revoked_does_not(stage: Any, now: float) -> None:
    """An ephemeral agent that an operator shut out stays so."""
    token = stage.token(uses=3, ephemeral=DAY)
    stage.enrol("pod-0", token)
    stage.wait(stage.authority.revoke("pod-0", now))
    assert "pod-0 is taken or revoked" in refusal(stage, "pod-0", token)


def test_the_name_of_a_forgotten_ephemeral_agent_is_free(stages: Callable[..., Any], now: float) -> None:
    """Any token takes such a name, over a restart; its old key is worth nothing, and its labels are gone."""
    stage = stages()
    held = stage.enrol("pod-0", stage.token(uses=3, ephemeral=DAY, labels=ROLE))
    stage.wait(stage.authority.forget("pod-0", now, "helen", True))
    assert (stage.authority.given.of("pod-0"), stage.authority.given.ephemeral("pod-0")) == ({}, None)
    stage.close()
    again = stages()
    with pytest.raises(NotEnrolled, match="revoked"):
        again.authority.identify(held.certificate, now)
    again.enrol("pod-0", again.token())
    assert [one.name for one in again.store_agents()] == ["pod-0"]
    assert "taken or revoked" in refusal(again, "pod-0", again.token())  # it is nobody's to take any more


def test_a_token_of_its_own_makes_it_one_that_is_expected_back(stages: Callable[..., Any], now: float) -> None:
    """Only a token of the agent's own ends its being ephemeral; changed labels and a restart do not."""
    stage = stages()
    stage.enrol("pod-0", stage.token(ephemeral=DAY, labels=ROLE))
    stage.wait(stage.authority.given.change("pod-0", {"role": "db"}, (), now + 1, "anna"))
    assert stage.authority.given.ephemeral("pod-0") == DAY
    stage.close()
    stage = stages()
    assert stage.authority.given.ephemeral("pod-0") == DAY
    stage.enrol("pod-0", stage.token("pod-0"))
    given = stage.authority.given
    assert (given.of("pod-0"), given.ephemeral("pod-0")) == ({"role": "db", "env": "prod"}, None)


def test_tokens_are_listed_and_revoked(stage: Any, now: float) -> None:
    """Tokens that are still good are listed; a revoked one lets nobody in, and agents that it has let in stay."""
    used, many, other = stage.token(), stage.token(uses=2, now=now + 1), stage.token("web-9", now=now + 2)
    stage.enrol("web-1", used)
    stage.enrol("web-2", many, now=now + 3)
    listed = stage.wait(stage.authority.tokens.usable(now + 3))
    assert [(each.id, each.used, each.terms.uses, each.created_by) for each in listed] == [
        (token_id(other), 0, 1, "operator"), (token_id(many), 1, 2, "operator"),
    ]  # fmt: skip
    was = stage.wait(stage.authority.tokens.revoke(token_id(many), now + 4, "anna"))
    assert (was.used, was.terms) == (1, Terms(uses=2))
    assert refusal(stage, "web-3", many, now=now + 5) == f"token {token_id(many)} has expired"
    assert [each.id for each in stage.wait(stage.authority.tokens.usable(now + 5))] == [token_id(other)]
    assert stage.audit()[-2] == ("anna", "token-revoke", "", f"token {token_id(many)}, used 1 time of 2")
    with pytest.raises(UnknownToken, match="no token has the id xyz"):
        stage.wait(stage.authority.tokens.revoke("xyz", now, "anna"))


def test_no_id_looks_like_an_option(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id begins with no dash, as `helen tokens revoke -x...` would be a fault of usage; one in 64 secrets is drawn
    again.
    """
    drawn = iter(("-" + "a" * 42, "-" + "b" * 42, "c-" + "c" * 41))
    monkeypatch.setattr("helen.identity.join_tokens.secrets.token_urlsafe", lambda size: next(drawn))
    assert stage.token().partition(".")[2] == "c-" + "c" * 41


@pytest.mark.parametrize(
    ("terms", "words"),
    [({"uses": 0}, "1 to 10,000 agents, not 0"), ({"uses": MOST_USES + 1}, "not 10,001"),
     ({"uses": 10**30}, "1 to 10,000 agents"), ({"names": "Web *"}, "fits no name"), ({"names": ""}, "fits no name"),
     ({"names": "x" * 256}, "fits no name"), ({"ephemeral": 9.9}, "10 s to 30 days, not 9.9 s"),
     ({"ephemeral": 31 * DAY}, "10 s to 30 days"), ({"ephemeral": float("nan")}, "10 s to 30 days"),
     ({"name": "web-1", "names": "web-*"}, "a pattern of names beside it says nothing")],
)  # fmt: skip
def test_terms_that_cannot_be(stage: Any, terms: dict[str, Any], words: str) -> None:
    """Terms that cannot be are refused with a sentence that has the limit, and no token is made."""
    with pytest.raises(BadRequest, match=words.replace("*", r"\*")):
        stage.token(**terms)
    assert stage.audit() == []
