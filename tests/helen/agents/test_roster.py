"""Tests who is connected: two links of one name, in every order of events."""

import random
from typing import Any

import pytest
from helen_parts import FakeLink

from helen.agents import roster as roster_module
from helen.agents.roster import CONFLICT_SECONDS, MAX_SERIES, Agent, Latest, Roster, unclaimed


class Watched:
    """Holds a roster, and notes who came and went."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.roster = Roster(
            lambda agent: self.events.append(("up", agent.link)),
            lambda agent, link: self.events.append(("down", link)),
            lambda newer: self.events.append(("conflict", newer)),
        )


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_one_comes_and_goes(watched: Watched) -> None:
    """An agent is admitted at once; after its end it is known, and away."""
    link = FakeLink()
    watched.roster.arrive(link, 0.0)
    watched.roster.leave(link, 1.0)
    assert (link.said, watched.events) == (["admit"], [("up", link), ("down", link)])
    assert watched.roster.agents["web-1"].link is None


def test_an_older_version_1_link_stays(watched: Watched) -> None:
    """The newer link is refused, since an older one of version 1 can't be asked whether it lives."""
    older, newer = FakeLink(version=1), FakeLink()
    watched.roster.arrive(older, 0.0)
    watched.roster.arrive(newer, 1.0)
    assert (older.said, newer.said) == (["admit"], ["identity-in-use"])
    assert watched.events == [("up", older), ("conflict", newer)]


def test_an_older_link_that_answers_stays(watched: Watched) -> None:
    """An older link stays that sends any byte as an answer."""
    older, newer = FakeLink(), FakeLink()
    watched.roster.arrive(older, 0.0)
    watched.roster.arrive(newer, 1.0)
    assert (older.said, newer.said) == (["admit", "ping"], [])
    watched.roster.heard_from(older)
    watched.roster.sweep(1.0 + CONFLICT_SECONDS)
    assert (older.said, newer.said) == (["admit", "ping"], ["identity-in-use"])


def test_an_older_link_that_is_silent_gives_way(watched: Watched) -> None:
    """An older link gives way after CONFLICT_SECONDS, and not before; the later loss of its transport
    changes nothing.
    """
    older, newer = FakeLink(), FakeLink()
    watched.roster.arrive(older, 0.0)
    watched.roster.arrive(newer, 1.0)
    watched.roster.sweep(0.9 + CONFLICT_SECONDS)
    assert newer.said == []
    watched.roster.sweep(1.0 + CONFLICT_SECONDS)
    watched.roster.leave(older, 7.0)
    assert (older.said[-1], newer.said) == ("drop", ["admit"])
    assert watched.events == [("up", older), ("down", older), ("up", newer)]
    assert watched.roster.agents["web-1"].link is newer


def test_an_older_link_that_we_do_not_listen_to_may_have_answered(watched: Watched) -> None:
    """The silence of an older link means nothing as long as it is held."""
    older, newer = FakeLink(held=True), FakeLink()
    watched.roster.arrive(older, 0.0)
    watched.roster.arrive(newer, 1.0)
    watched.roster.sweep(100.0)
    assert (older.said, newer.said) == (["admit", "ping"], [])
    older.held = False
    watched.roster.sweep(100.0 + CONFLICT_SECONDS)
    assert (older.said[-1], newer.said) == ("drop", ["admit"])


def test_the_newer_one_hangs_up_while_it_waits(watched: Watched) -> None:
    """Nobody waits any more: the older one stays, and its end later admits nobody."""
    older, newer = FakeLink(), FakeLink()
    watched.roster.arrive(older, 0.0)
    watched.roster.arrive(newer, 1.0)
    watched.roster.leave(newer, 2.0)
    watched.roster.sweep(100.0)
    watched.roster.leave(older, 101.0)
    assert (older.said, newer.said) == (["admit", "ping"], [])
    assert watched.events == [("up", older), ("down", older)]


def test_the_newer_one_was_refused_while_it_waited(watched: Watched) -> None:
    """The name is free when the older one goes, if the newer one was revoked meanwhile."""
    older, newer = FakeLink(), FakeLink(closing=False)
    watched.roster.arrive(older, 0.0)
    watched.roster.arrive(newer, 1.0)
    newer.closing = True
    watched.roster.leave(older, 2.0)
    assert (newer.said, watched.roster.agents["web-1"].link) == ([], None)


def test_the_older_one_goes_by_itself(watched: Watched) -> None:
    """The newer one is admitted at once when the older one goes."""
    older, newer = FakeLink(), FakeLink()
    watched.roster.arrive(older, 0.0)
    watched.roster.arrive(newer, 1.0)
    watched.roster.leave(older, 2.0)
    assert newer.said == ["admit"]
    assert watched.events == [("up", older), ("down", older), ("up", newer)]


def test_a_third_one_while_two_are_at_it(watched: Watched) -> None:
    """A third link is refused while two are compared; these go on."""
    older, newer, third = FakeLink(), FakeLink(), FakeLink()
    watched.roster.arrive(older, 0.0)
    watched.roster.arrive(newer, 1.0)
    watched.roster.arrive(third, 2.0)
    watched.roster.sweep(1.0 + CONFLICT_SECONDS)
    assert (newer.said, third.said) == (["admit"], ["identity-in-use"])


def test_an_older_one_that_is_closing_is_no_hindrance(watched: Watched) -> None:
    """An older link that is closing is on its way out, so the newer one is admitted at once."""
    older, newer = FakeLink(), FakeLink()
    watched.roster.arrive(older, 0.0)
    older.closing = True
    watched.roster.arrive(newer, 1.0)
    watched.roster.leave(older, 2.0)
    assert watched.events == [("up", older), ("down", older), ("up", newer)]
    assert watched.roster.agents["web-1"].link is newer


@pytest.mark.adversary(27)
@pytest.mark.parametrize("seed", range(200))
def test_whatever_the_order(watched: Watched, seed: int) -> None:
    """At most one link has the name, every up has its down, and nobody waits for ever."""
    dice = random.Random(seed)
    links = [FakeLink(version=dice.choice((1, 2))) for _ in range(6)]
    live: list[FakeLink] = []
    now = 0.0
    for link in [*links, *links, *links, *links]:
        now += dice.choice((0.1, 1.0, 6.0))
        deed = dice.randrange(4)
        if deed == 0 and link not in live and not link.closing:
            live.append(link)
            watched.roster.arrive(link, now)
        elif deed == 1 and link in live:
            live.remove(link)
            link.closing = True
            watched.roster.leave(link, now)
        elif deed == 2 and link in live:
            watched.roster.heard_from(link)
        watched.roster.sweep(now)
    for link in live:
        link.closing = True
        watched.roster.leave(link, now)
    watched.roster.sweep(now + 100.0)
    ups = [link for word, link in watched.events if word == "up"]
    downs = [link for word, link in watched.events if word == "down"]
    assert ups == downs
    assert watched.roster.waiting == {}


def test_names_are_bounded(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """New names are bounded, since without TLS strangers make them up; those that are known still come in."""
    monkeypatch.setattr(roster_module, "MAX_AGENTS", 2)
    links = [FakeLink(name) for name in ("a", "b", "c", "a")]
    for link in links[:3]:
        watched.roster.arrive(link, 0.0)
    links[0].closing = True
    watched.roster.arrive(links[3], 1.0)
    assert [link.said for link in links] == [["admit"], ["admit"], ["overloaded"], ["admit"]]


def test_matching() -> None:
    """An agent is matched by name, pattern or label."""
    roster = Roster(lambda agent: None, lambda agent, link: None)
    for name, labels in (("web-1", {"role": "web"}), ("web-2", {}), ("db-1", {"role": "db"})):
        roster.know(name).labels = labels
    cases = {
        "web-1": ["web-1"],
        "web-*": ["web-1", "web-2"],
        "role=w*": ["web-1"],
        "role=*": ["web-1", "db-1"],
        "x": [],
    }
    assert {p: [agent.name for agent in roster.matching([p])] for p in cases} == cases


def test_latest_results() -> None:
    """The newest result of each check is kept; `since` is when the status began."""
    agent = Agent("a")
    for received, status in ((1.0, 0), (2.0, 0), (3.0, 2), (2.5, 2)):
        agent.take(Latest("cpu", status, "s", received))
    assert agent.latest["cpu"] == Latest("cpu", 2, "s", 2.5, since=3.0)
    assert list(agent.latest) == ["cpu"]


@pytest.mark.parametrize(("number", "kept"), [(MAX_SERIES, MAX_SERIES), (MAX_SERIES + 1, MAX_SERIES)])
def test_series_are_bounded(number: int, kept: int) -> None:
    """An agent that makes up check ids fills no more than the bounded number of series."""
    agent = Agent("a")
    for n in range(number):
        agent.take(Latest(f"c{n}", 0, "", 1.0))
    assert len(agent.latest) == kept


def test_what_is_given_steers_and_what_is_claimed_does_not() -> None:
    """A claimed label steers only under keys that are trusted, and never against a given one (F45)."""
    given = {"web-1": {"role": "web"}}
    roster = Roster(lambda agent: None, lambda agent, link: None, given=lambda name: given.get(name, {}))
    agent = roster.know("web-1")
    roster.claim(agent, {"role": "db", "site": "north", "rack": "7"})
    assert agent.labels == {"role": "web"}
    assert (roster.matching(["role=db"]), roster.matching(["site=*"])) == ([], [])
    roster.trusted = frozenset({"role", "site"})
    roster.settle_labels(agent)
    assert agent.labels == {"role": "web", "site": "north"}
    assert (agent.given, agent.claimed["role"], roster.matching(["site=north"])) == ({"role": "web"}, "db", [agent])


def test_labels_of_a_host_are_given_until_it_is_an_agent() -> None:
    """The labels in passive.toml are the operator's word about a name without an agent."""
    roster = Roster(lambda agent: None, lambda agent, link: None, given=lambda name: {"role": "db"})
    host = roster.host("bk")
    host.given = {"site": "north"}
    roster.settle_labels(host)
    assert host.labels == {"site": "north"}
    roster.enrol("bk")
    assert (host.labels, host.given) == ({"role": "db"}, {"role": "db"})


def test_those_who_would_not_find_themselves_in_patterns() -> None:
    """Agents that fit patterns by given labels alone are named, since an agent reads the patterns without these."""
    agents: list[tuple[str, dict[str, str]]] = [("db-3", {"role": "web"}), ("db-1", {}), ("db-2", {"role": "db"})]
    assert unclaimed(["role=d*"], agents) == ("db-1", "db-3")
    assert unclaimed(["role=d*", "db-*"], agents) == ()
    assert unclaimed(["role=web"], agents) == ("db-1", "db-2")


def seen(status: int, received: float, summary: str = "") -> Latest:
    return Latest("ping", status, summary, received)


def test_what_several_agents_see_of_a_target() -> None:
    """The latest is the newest of those that saw what they agree on; without that it stays what it was."""
    target = Agent("switch-1", enrolled=False)
    target.take_view("a", seen(2, 1.0))
    assert target.latest["ping"].status == 2  # nobody has to agree
    target.quorum = (2, ("a", "b", "c"))
    target.take_view("a", seen(2, 2.0, "down"))
    target.take_view("x", seen(0, 2.0))
    assert target.views == {"ping": {"a": seen(2, 2.0, "down")}} and target.latest["ping"].received == 1.0
    target.take_view("b", seen(2, 3.0, "gone"))
    target.take_view("c", seen(0, 4.0))
    assert (target.latest["ping"].summary, target.latest["ping"].since) == ("gone", 1.0)
    target.take_view("a", seen(0, 5.0, "up"))
    assert (target.latest["ping"].summary, target.latest["ping"].since) == ("up", 5.0)
    target.quorum = (2, ("b", "d"))
    target.take_view("d", seen(2, 6.0, "off"))
    assert target.views["ping"].keys() == {"b", "d"} and target.latest["ping"].summary == "off"
    target.move(-5.0, 100.0)
    assert [each.received for each in target.views["ping"].values()] == [-2.0, 1.0]
    target.drop("ping")
    assert (target.views, target.latest) == ({}, {})
