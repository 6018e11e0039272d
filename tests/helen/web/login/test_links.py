"""Tests links that begin a session, and the count of wrong keys, on both sides of each limit."""

from __future__ import annotations

import pytest
from attrs import evolve

from helen.web.access import OWNER, Caller
from helen.web.login import links, wrong_tries
from helen.web.login.links import KIOSK_SECONDS, LINK_SECONDS, SESSION_SECONDS, Link, Links, checked
from helen.web.login.wrong_tries import (
    FREE_TOKENS,
    FREE_TRIES,
    TOKEN_SECONDS,
    TRY_SECONDS,
    WrongTries,
    origin_of,
)
from helen.web.problems import Problem

ANNA = Link("anna", "operator", None, ("operate",), 60.0, False)


def test_a_link_is_good_once() -> None:
    """A link can be used once, and its key is not kept."""
    kept = Links()
    key, link = kept.add(ANNA, 100.0)
    assert (link.expires, link.name) == (100.0 + LINK_SECONDS, "anna")
    assert key not in repr(vars(kept))
    assert kept.take(key + "x", 100.0) is None
    assert kept.take(key, 100.0) == link
    assert kept.take(key, 100.0) is None


@pytest.mark.parametrize(("later", "is_good"), [(LINK_SECONDS - 0.001, True), (LINK_SECONDS, False)])
def test_two_minutes(later: float, is_good: bool) -> None:
    """A link is over after two minutes, and a try uses it up."""
    kept = Links()
    key, _ = kept.add(ANNA, 100.0)
    assert (kept.take(key, 100.0 + later) is not None) is is_good
    assert kept.take(key, 100.0) is None


def test_a_link_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link above the limit is refused with 429, and an expired one makes room."""
    monkeypatch.setattr(links, "MOST_LINKS", 2)
    kept = Links()
    kept.add(ANNA, 100.0)
    kept.add(ANNA, 110.0)
    with pytest.raises(Problem, match="2 links were made") as refused:
        kept.add(ANNA, 100.0 + LINK_SECONDS - 0.1)
    assert (refused.value.status, refused.value.headers["retry-after"]) == (429, "120")
    kept.add(ANNA, 100.0 + LINK_SECONDS)


def test_a_token_has_a_share_of_the_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token has a share of the links, and another token and the operator have room still."""
    monkeypatch.setattr(links, "LINKS_OF_TOKEN", 2)
    kept, own, other = Links(), evolve(ANNA, parent_digest=b"1"), evolve(ANNA, parent_digest=b"2")
    kept.add(own, 100.0)
    kept.add(own, 100.0)
    with pytest.raises(Problem, match="2 links were made"):
        kept.add(own, 100.0)
    for _ in range(3):
        kept.add(ANNA, 100.0)
    kept.add(other, 100.0)
    kept.add(own, 100.0 + LINK_SECONDS)


READER = Caller("token:wall", ("read",), "wall", identity="ab12")


@pytest.mark.parametrize(
    ("caller", "asked", "wanted"),
    [
        (OWNER, {}, Link("anna", "operator", None, ("operate",), SESSION_SECONDS, False)),
        (OWNER, {"scopes": ["push", "operate", "push"]},
         Link("anna", "operator", None, ("push", "operate"), SESSION_SECONDS, False)),
        (OWNER, {"kiosk": True, "seconds": KIOSK_SECONDS},
         Link("anna", "operator", None, ("read",), KIOSK_SECONDS, True)),
        (READER, {"scopes": ["metrics"], "seconds": SESSION_SECONDS},
         Link("anna", "token:wall", None, ("metrics",), SESSION_SECONDS, False)),
        (OWNER, {"scopes": ["root"]}, (400, "'root' is no scope")),
        (READER, {}, (403, "lacks the scope `operate`")),
        (READER, {"scopes": ["admin"]}, (403, "token:wall lacks the scope `admin`")),
        (OWNER, {"kiosk": True, "scopes": ["operate"]}, (400, "a kiosk looks and does nothing")),
        (OWNER, {"seconds": SESSION_SECONDS + 1.0}, (400, "at most 7 days")),
        (OWNER, {"seconds": 0.0}, (400, "more than 0")),
        (OWNER, {"kiosk": True, "seconds": KIOSK_SECONDS + 1.0}, (400, "at most 366 days")),
        (OWNER, {"name": "a/b"}, (400, "no slash")),
        (OWNER, {"name": "a\x1b[31m"}, (400, "no control characters")),
        (OWNER, {"name": "a\u202eb"}, (400, "no control characters")),
        (OWNER, {"name": "x" * 61}, (400, "up to 60 letters")),
    ],
)  # fmt: skip
def test_what_may_be_asked_for(caller: Caller, asked: dict[str, object], wanted: Link | tuple[int, str]) -> None:
    """A link for a session has no scope that its parent lacks, and an end; another request is refused."""
    given: dict[str, object] = {"name": "anna", "scopes": [], "seconds": None, "kiosk": False, **asked}
    if isinstance(wanted, Link):
        assert checked(caller, None, **given) == wanted  # type: ignore[arg-type]
        return
    with pytest.raises(Problem, match=wanted[1]) as refused:
        checked(caller, None, **given)  # type: ignore[arg-type]
    assert refused.value.status == wanted[0]


# ---------------------------------------------------------------------------------------------- wrong tries


def test_wrong_tries_of_one_address() -> None:
    """Ten wrong tries of an address are free, each further one waits six seconds, and other addresses are not
    affected."""
    tries = WrongTries()
    for _ in range(FREE_TRIES):
        tries.count("192.0.2.7", 50.0)
    with pytest.raises(Problem, match=r"192\.0\.2\.7") as refused:
        tries.count("192.0.2.7", 50.0)
    assert (refused.value.status, refused.value.headers["retry-after"]) == (429, "6")
    with pytest.raises(Problem):
        tries.count("192.0.2.7", 50.0 + TRY_SECONDS - 0.1)
    tries.count("192.0.2.8", 50.0)
    tries.count("192.0.2.7", 50.0 + TRY_SECONDS)
    with pytest.raises(Problem):
        tries.count("192.0.2.7", 50.0 + TRY_SECONDS)


def test_ten_thousand_wrong_keys() -> None:
    """Only ten of ten thousand wrong keys, and one for each six seconds, are answered."""
    tries, answered = WrongTries(), 0
    for number in range(10_000):
        try:
            tries.count("192.0.2.7", number * 0.06)
            answered += 1
        except Problem:
            pass
    assert answered == FREE_TRIES + 99  # of 600 seconds


def test_wrong_tokens_have_another_measure() -> None:
    """Thirty wrong tokens of a network are free and one in two seconds, since many programs may share an address."""
    tries = WrongTries(FREE_TOKENS, TOKEN_SECONDS)
    for _ in range(FREE_TOKENS):
        tries.count("2001:db8::1", 50.0)
    with pytest.raises(Problem) as refused:
        tries.count("2001:db8::2", 50.0)
    assert (refused.value.status, refused.value.headers["retry-after"]) == (429, "2")
    tries.count("2001:db8::1", 50.0 + TOKEN_SECONDS)


def test_addresses_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of remembered addresses is bounded, and those that tried last are kept."""
    monkeypatch.setattr(wrong_tries, "MOST_ADDRESSES", 3)
    tries = WrongTries()
    for number in range(20):
        tries.count(f"192.0.2.{number}", 0.0)
    assert len(tries) == 3
    for _ in range(FREE_TRIES - 1):
        tries.count("192.0.2.19", 0.0)
    with pytest.raises(Problem):
        tries.count("192.0.2.19", 0.0)


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("192.0.2.7", "192.0.2.7"), ("::ffff:192.0.2.7", "192.0.2.7"), ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"), ("control.sock", "control.sock"),
    ],
)  # fmt: skip
def test_where_a_try_comes_from(address: str, origin: str) -> None:
    """The origin of a try is its IPv4 address or its /64 network of IPv6, since one client has all of that."""
    assert origin_of(address) == origin
