"""Tests acknowledgements of all Helens: an agent that moves takes them along, and they end everywhere when they end."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from attrs import evolve

from equus_protocol.results import STATUS_WORDS
from helen.cluster.ack_entries import KEPT_MS, MOST, MOST_BYTES, MOST_TEXT, bounded, newest, prune, read_entries
from helen.cluster.shared_acks import AcksPart
from helen.states.agent_rules import AgentRules, rules_to_json
from helen.states.events import AckEnded, Decision
from helen.states.fleet_states import run
from helen.states.fleet_timeline import Timeline
from helen.states.inputs import Result
from helen.states.model import STALE, Condition, Rule

NOW = 1_800_000_000.0
ONE = Rule(attempts=1, flap_start=None)
OK, WARNING, CRITICAL, UNKNOWN = (STATUS_WORDS.index(word) for word in ("ok", "warning", "critical", "unknown"))
Document = dict[str, Any] | None


def done(coroutine: Any) -> None:
    with pytest.raises(StopIteration):
        coroutine.send(None)


class Network:
    """Holds the document, a clock, and who has which agent."""

    def __init__(self) -> None:
        self.now = NOW
        self.document: Document = None

    def pass_time(self, seconds: float = 1.0) -> None:
        self.now += seconds


class Helen:
    """Holds a timeline with its part. Evaluates each record at once, as with a journal that is quick."""

    def __init__(self, network: Network, name: str, ahead: float = 0.0) -> None:
        self.network, self.name, self.ahead = network, name, ahead
        self.here: set[str] = set()
        self.rules: dict[str, frozenset[str]] = {}  # as they are in the journal
        self.told: list[str] = []  # problems
        self.written: list[tuple[str, str]] = []  # action, agent/check
        self.is_cut = False  # from the network
        self._write_now = True
        self.begin()
        run(self.timeline.change("helen_start", self.now, None, None, {}))

    def begin(self) -> None:
        """Begin the part as after a start; the timeline is kept."""
        if not hasattr(self, "timeline"):
            self.timeline = Timeline()
        self.part = AcksPart(self.name, lambda: self.timeline, self, self.write, lambda: self.now, self.tell)

    @property
    def now(self) -> float:
        """Return the time of this Helen's clock."""
        return self.network.now + self.ahead

    def has(self, agent: str) -> bool:
        return agent in self.here and agent in self.rules

    def runs(self, agent: str, check_id: str) -> bool:
        return check_id in self.rules.get(agent, ())

    def write(self, document: dict[str, Any], agent: str, check: str) -> None:
        self.written.append((document["action"], f"{agent}/{check}"))
        self.change("ack", document, agent, check)

    def change(self, kind: str, document: dict[str, Any], agent: str, check: str | None = None) -> None:
        self.events(self.timeline.change(kind, self.now, agent, check, document))
        if kind == "ack" and check is not None:
            self.part.noticed(agent, check, document["action"] != "carry")

    def events(self, events: Any) -> None:
        for each in run(events):
            event = each.event
            if isinstance(event, Decision) and event.action == "notify":
                self.told.append(f"{each.agent}/{each.check_id} {event.what} {STATUS_WORDS[event.status]}")
            if isinstance(event, AckEnded) or getattr(getattr(event, "now", None), "reason", None) == "retired":
                self.part.noticed(each.agent, each.check_id)

    def comes(self, agent: str, *checks: str) -> None:
        self.attaches(agent)
        self.reports(agent, *checks)

    def attaches(self, agent: str) -> None:
        """Connect an agent that has not said yet what it runs."""
        self.here.add(agent)
        self.change("link", {"event": "up", "address": "a", "version": 2}, agent)

    def reports(self, agent: str, *checks: str) -> None:
        """Let an agent say what it runs, at first or anew."""
        self.rules[agent] = frozenset(checks or ("disk",))
        rules = AgentRules({}, dict.fromkeys(sorted(self.rules[agent]), ONE), ONE)
        self.change("rule", rules_to_json(rules), agent)
        self.part.came(agent)

    def goes(self, agent: str, is_forgotten: bool = True) -> None:
        """Let an agent go to another Helen, which is noticed here, or not."""
        self.here.discard(agent)
        self.change("link", {"event": "down", "address": "a"}, agent)
        if is_forgotten:
            self.rules.pop(agent, None)
            self.change("link", {"event": "forgotten"}, agent)

    def says(self, agent: str, status: int, check: str = "disk") -> None:
        self.network.pass_time()
        self.events(self.timeline.result(agent, check, Result(self.now, status)))

    def acks(self, agent: str, owner: str = "kim", check: str = "disk", **more: Any) -> None:
        self.network.pass_time()
        self.change("ack", {"action": "set", "owner": owner, "comment": "", "until": None, **more}, agent, check)

    def clears(self, agent: str, check: str = "disk") -> None:
        self.network.pass_time()
        self.change("ack", {"action": "clear", "owner": "kim"}, agent, check)

    def owner(self, agent: str, check: str = "disk") -> str | None:
        state = self.timeline.states.get((agent, check))
        return None if state is None or state.ack is None else state.ack.owner

    def tell(self) -> None:
        """Publish at once, unless this Helen is cut off."""
        if not self.is_cut:
            wanted = self.part.wanted("acks", self.network.document)
            self.network.document = wanted or self.network.document

    def hear(self) -> None:
        """Adopt what the network has, and tell it what it lacks."""
        if not self.is_cut and self.network.document is not None:
            done(self.part.adopt("acks", self.network.document))
        self.tell()


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def two(network: Network) -> tuple[Helen, Helen]:
    """Return a Helen that has web-1 with a critical disk, and one without agents."""
    one, other = Helen(network, "h1"), Helen(network, "h2")
    one.comes("web-1")
    one.says("web-1", CRITICAL)
    one.told.clear()
    return one, other


def known(network: Network, name: str = "web-1/disk") -> Any:
    assert network.document is not None
    return network.document["acks"][name]["ack"]


def move(agent: str, one: Helen, other: Helen) -> None:
    other.hear()
    one.goes(agent)
    other.network.pass_time()
    other.comes(agent)


# ---------------------------------------------------------------------------------------------- an agent that moves


def test_what_was_acknowledged_is_told_nobody_at_the_other_helen(network: Network, two: tuple[Helen, Helen]) -> None:
    """Nobody is told of the first result there, which is the problem that one of the people has taken over."""
    one, other = two
    one.acks("web-1", comment="on my way")
    assert known(network) == {
        "owner": "kim", "comment": "on my way", "until": None, "sticky": False, "status": "critical"
    }  # fmt: skip
    move("web-1", one, other)
    assert other.written == [("carry", "web-1/disk")]
    other.says("web-1", CRITICAL)
    assert (other.told, other.owner("web-1")) == ([], "kim")
    other.says("web-1", OK)
    assert (other.told, other.owner("web-1"), known(network)) == ([], None, None)
    other.says("web-1", CRITICAL)
    assert other.told == ["web-1/disk problem critical"]


def test_without_an_acknowledgement_it_is_told_there(network: Network, two: tuple[Helen, Helen]) -> None:
    """An agent that moves without an acknowledgement is judged anew, which is the control of the other tests."""
    one, other = two
    move("web-1", one, other)
    other.says("web-1", CRITICAL)
    assert (other.told, network.document) == (["web-1/disk problem critical"], None)


@pytest.mark.parametrize(
    ("sticky", "status", "told"),
    [(False, WARNING, ["web-1/disk problem warning"]), (True, WARNING, []), (True, CRITICAL, []), (True, OK, []),
     (False, OK, [])],
)  # fmt: skip
def test_it_counts_for_the_status_that_it_was_given_for(
    network: Network, two: tuple[Helen, Helen], sticky: bool, status: int, told: list[str]
) -> None:
    """An acknowledgement counts for its own status, unless it is sticky; another problem is told, and recovery ends
    both.
    """
    one, other = two
    one.acks("web-1", sticky=sticky)
    move("web-1", one, other)
    other.says("web-1", status)
    assert other.told == told
    assert (known(network) is not None) is (sticky and status != OK)


def test_it_comes_after_the_first_result(network: Network, two: tuple[Helen, Helen]) -> None:
    """The problem is told before the slow document comes, and then it is acknowledged there too."""
    one, other = two
    one.acks("web-1")
    one.goes("web-1")
    other.comes("web-1")
    other.says("web-1", CRITICAL)
    assert other.told == ["web-1/disk problem critical"]
    other.hear()
    assert (other.owner("web-1"), known(network)["owner"]) == ("kim", "kim")


@pytest.mark.parametrize("first", ["result", "document"])
def test_it_comes_when_it_is_another_problem_already(network: Network, two: tuple[Helen, Helen], first: str) -> None:
    """Nothing is held back that nobody has seen."""
    one, other = two
    one.acks("web-1")
    one.goes("web-1")
    other.comes("web-1")
    if first == "document":
        other.hear()
    other.says("web-1", WARNING)
    other.hear()
    assert (other.told, other.owner("web-1")) == (["web-1/disk problem warning"], None)
    assert known(network) is None


def test_its_time_is_over_meanwhile(network: Network, two: tuple[Helen, Helen]) -> None:
    """An acknowledgement whose end has come is not carried over."""
    one, other = two
    one.acks("web-1", until=network.now + 100)
    other.hear()
    one.goes("web-1")
    network.pass_time(200)
    other.comes("web-1")
    other.says("web-1", CRITICAL)
    assert (other.written, other.told) == ([], ["web-1/disk problem critical"])


def test_its_end_moves_with_it(network: Network, two: tuple[Helen, Helen]) -> None:
    """The acknowledgement ends at the other Helen at its time, where the problem was told to nobody before."""
    one, other = two
    one.acks("web-1", until=network.now + 100)
    move("web-1", one, other)
    other.says("web-1", CRITICAL)
    network.pass_time(100)
    other.events(other.timeline.advance(network.now))
    assert other.told == ["web-1/disk problem critical"]
    assert known(network) is None


def test_there_and_back(network: Network, two: tuple[Helen, Helen]) -> None:
    """A change at the other Helen holds when the agent comes home, whatever was kept there."""
    one, other = two
    one.acks("web-1")
    other.hear()
    one.goes("web-1", is_forgotten=False)  # no broker was there to say so
    other.comes("web-1")
    other.says("web-1", CRITICAL)
    other.acks("web-1", "ann", until=network.now + 9_000)
    one.hear()
    other.goes("web-1")
    one.comes("web-1")
    assert one.owner("web-1") == "ann"
    one.goes("web-1", is_forgotten=False)
    other.comes("web-1")
    other.says("web-1", CRITICAL)
    other.clears("web-1")
    assert other.told == ["web-1/disk problem critical"]
    one.hear()
    one.comes("web-1")
    assert (one.owner("web-1"), one.written[-1]) == (None, ("clear", "web-1/disk"))


def test_one_of_the_problem_before(network: Network, two: tuple[Helen, Helen]) -> None:
    """A Helen that ended it without a network, and was restarted, doesn't take it for the problem of now."""
    one, other = two
    one.acks("web-1")
    other.hear()
    one.is_cut = True
    one.says("web-1", OK)
    one.says("web-1", CRITICAL)
    assert one.told[-1] == "web-1/disk problem critical"
    one.goes("web-1", is_forgotten=False)
    one.begin()
    one.is_cut = False
    one.hear()
    one.comes("web-1")
    assert (one.owner("web-1"), known(network)) == (None, None)


def test_a_check_that_is_assigned_no_more(network: Network, two: tuple[Helen, Helen]) -> None:
    """The acknowledgement of such a check ends, since years later it would hide another problem."""
    one, _ = two
    one.acks("web-1")
    one.comes("web-1", "load")
    assert known(network) is None


def test_an_agent_that_is_away_keeps_it(network: Network, two: tuple[Helen, Helen]) -> None:
    """The acknowledgement of an agent that is away stays, as the agent is judged elsewhere, or not at all."""
    one, other = two
    one.acks("web-1")
    other.hear()
    one.goes("web-1")
    assert known(network)["owner"] == "kim"
    assert other.owner("web-1") is None


def test_the_document_comes_while_its_agent_has_not_said_what_it_runs(
    network: Network, two: tuple[Helen, Helen]
) -> None:
    """A check without a state can't be acknowledged yet; that is no word against the acknowledgement (J16)."""
    one, other = two
    one.acks("web-1")
    one.goes("web-1")
    other.attaches("web-1")
    other.hear()
    other.reports("web-1")
    other.says("web-1", CRITICAL)
    assert (other.told, other.owner("web-1"), known(network)["owner"]) == ([], "kim", "kim")


def test_the_check_is_assigned_there_later(network: Network, two: tuple[Helen, Helen]) -> None:
    """The assignments were slower than the agent: what is known of the check waits for it."""
    one, other = two
    one.acks("web-1")
    other.hear()
    one.goes("web-1")
    other.comes("web-1", "load")
    other.reports("web-1", "load", "disk")
    other.says("web-1", CRITICAL)
    assert (other.told, other.owner("web-1"), known(network)["owner"]) == ([], "kim", "kim")


def test_one_of_a_check_that_no_agent_has(network: Network, two: tuple[Helen, Helen]) -> None:
    """An acknowledgement of such a check waits for a week, and ends then."""
    one, other = two
    one.acks("web-1")
    other.hear()
    one.goes("web-1")
    for days, owner in ((6.9, "kim"), (0.2, None)):
        network.pass_time(days * 86_400)
        other.comes("web-1", "load")
        assert (known(network) or {"owner": None})["owner"] == owner


@pytest.mark.parametrize("is_down", [True, False])
def test_a_helen_that_was_away_while_one_was_set_and_cleared(
    network: Network, two: tuple[Helen, Helen], is_down: bool
) -> None:
    """A Helen that was down or cut off learns of both at once, and the agent that comes back to it is told of."""
    one, other = two
    one.acks("web-1", "ann")
    other.hear()
    one.is_cut = True
    one.goes("web-1", is_forgotten=False)
    other.comes("web-1")
    other.says("web-1", CRITICAL)
    other.acks("web-1", "kim")
    other.clears("web-1")
    if is_down:
        one.begin()
    one.is_cut = False
    one.hear()
    other.goes("web-1")
    one.comes("web-1")
    one.says("web-1", CRITICAL)
    assert (one.owner("web-1"), known(network), one.told) == (None, None, ["web-1/disk still critical"])


@pytest.mark.parametrize("what", ["acks", "clears", "changes"])
def test_a_crash_before_it_is_published(network: Network, two: tuple[Helen, Helen], what: str) -> None:
    """The journal has the order, and the network learns of it after the start, whatever it said before."""
    one, other = two
    if what != "acks":
        one.acks("web-1", "ann")
    one.is_cut = True
    if what == "clears":
        one.clears("web-1")
    else:
        one.acks("web-1", "kim")
    one.begin()
    one.is_cut = False
    one.hear()
    if what == "clears":
        one.goes("web-1", is_forgotten=False)
        one.comes("web-1")
    other.hear()
    owner = None if what == "clears" else "kim"
    assert (one.owner("web-1"), (known(network) or {"owner": None})["owner"]) == (owner, owner)


def test_one_that_is_older_than_what_happened_here(network: Network, two: tuple[Helen, Helen]) -> None:
    """The later one of two acknowledgements that were made apart counts, in whatever order they are heard."""
    one, other = two
    one.is_cut = other.is_cut = True
    one.acks("web-1", "ann")
    one.goes("web-1")
    other.comes("web-1")
    other.says("web-1", CRITICAL)
    other.acks("web-1", "kim")
    one.is_cut = False
    one.tell()
    other.is_cut = False
    other.hear()
    one.hear()
    assert (other.owner("web-1"), known(network)["owner"], other.written) == ("kim", "kim", [])


def test_two_of_one_millisecond(network: Network) -> None:
    """The acknowledgement of the greater identity counts, in whatever order the two are heard."""
    said: list[Any] = []
    for order in ((0, 1), (1, 0)):
        network.document = None
        helens = [Helen(network, name) for name in ("h1", "h2")]
        for number in order:
            entry = {"owner": f"o{number}", "comment": "", "until": None, "sticky": False, "status": "critical"}
            document = {"acks": {"a/b": {"at": 1_000 * int(NOW), "by": f"h{number}", "ack": entry}}}
            for helen in helens:
                done(helen.part.adopt("acks", document))
        network.document = helens[0].part.wanted("acks", None)
        said.append(network.document)
    assert said[0] == said[1] and said[0]["acks"]["a/b"]["ack"]["owner"] == "o1"


def test_one_that_is_carried_to_a_check_that_is_stale(network: Network, two: tuple[Helen, Helen]) -> None:
    """Nothing is known of the check, so it waits for the first result there as well."""
    one, other = two
    key = "web-1", "disk"
    other.comes("web-1")
    other.says("web-1", OK)
    other.goes("web-1", is_forgotten=False)
    stale = Condition(UNKNOWN, network.now, STALE)
    other.timeline.states[key] = evolve(other.timeline.states[key], shown=stale, hard=stale)
    one.acks("web-1")
    move("web-1", one, other)
    other.says("web-1", CRITICAL)
    assert (other.told, other.owner("web-1")) == ([], "kim")


def test_its_end_that_a_step_of_the_clock_has_moved(network: Network, two: tuple[Helen, Helen]) -> None:
    """A length of time lasts as long as it was given for, though the agent comes anew."""
    one, _ = two
    one.acks("web-1", until=network.now + 100)
    one.events(one.timeline.change("clock", network.now, None, None, {"stepped": 50.0, "slept": 0.0}))
    until = network.now + 149
    one.comes("web-1")
    state = one.timeline.states["web-1", "disk"].ack
    assert (one.written, None if state is None else round(state.until or 0.0)) == ([], round(until))


# ---------------------------------------------------------------------------------------------- the document


def test_what_another_helen_knows_already_is_not_told(network: Network, two: tuple[Helen, Helen]) -> None:
    one, other = two
    one.acks("web-1")
    other.hear()
    for helen in two:
        assert helen.part.wanted("acks", network.document) is None
    assert one.part.wanted("acks", None) == network.document  # a broker that lost it gets it again


def test_old_ones_are_left_out() -> None:
    """An acknowledgement that ended a week ago, by an operator or by its date, is left out; those that count stay."""

    def entry(days: float, **ack: Any) -> dict[str, Any]:
        return {"at": int(1_000 * (NOW - days * 86_400)), "ack": ack or None}

    week = KEPT_MS / 86_400_000
    entries = {
        "ended": entry(week + 0.01), "just ended": entry(week - 0.01), "for ever": entry(400, until=None),
        "over": entry(20, until=NOW), "on": entry(20, until=NOW + 1), "just over": entry(1, until=NOW - 1),
    }  # fmt: skip
    assert list(prune(entries, NOW)) == ["just ended", "for ever", "on", "just over"]


def test_no_more_than_a_document_holds() -> None:
    """The oldest acknowledgements are left out."""
    said = {f"a/{number}": {"at": number, "ack": None} for number in range(MOST)}
    merged = bounded(newest(said, {"a/5": {"at": MOST + 5, "ack": None}, "b/1": {"at": MOST + 1, "ack": None}}))
    assert len(merged) == MOST
    assert "a/0" not in merged and merged["a/5"]["at"] == MOST + 5 and "b/1" in merged
    ack = {"owner": "kim", "comment": "\u20ac" * MOST_TEXT, "until": None, "sticky": False, "status": "critical"}
    large = bounded({f"a/{number}": {"at": number, "by": "h1", "ack": ack} for number in range(1, 1_000)})
    assert MOST_BYTES * 0.9 < len(json.dumps(large, ensure_ascii=False).encode()) < MOST_BYTES
    assert "a/999" in large and "a/1" not in large


ACK = {"owner": "kim", "comment": "", "until": None, "sticky": False, "status": "critical"}
AT = int(1_000 * NOW)


@pytest.mark.parametrize(
    "name, entry",
    [("web-1", {"at": AT, "ack": ACK}), ("/disk", {"at": AT, "ack": ACK}), ("web-1/", {"at": AT, "ack": ACK}),
     ("a/" + "b" * 600, {"at": AT, "ack": None}), ("a/b", None), ("a/b", []), ("a/b", {}), ("a/b", {"at": AT}),
     ("a/b", {"at": "1", "ack": None}), ("a/b", {"at": True, "ack": None}), ("a/b", {"at": 1.5, "ack": None}),
     ("a/b", {"at": 0, "ack": None}), ("a/b", {"at": 10**400, "ack": None}),
     ("a/b", {"at": AT + 2 * 86_400_000, "ack": None}), ("a/b", {"at": AT, "by": 1, "ack": None}),
     ("a/b", {"at": AT, "by": "h" * 300, "ack": None}), ("a/b", {"at": AT, "ack": "kim"}),
     ("a/b", {"at": AT, "ack": {"owner": "kim"}}), ("a/b", {"at": AT, "ack": ACK | {"owner": None}}),
     ("a/b", {"at": AT, "ack": ACK | {"comment": "x" * (MOST_TEXT + 1)}}),
     ("a/b", {"at": AT, "ack": ACK | {"until": "soon"}}), ("a/b", {"at": AT, "ack": ACK | {"until": True}}),
     ("a/b", {"at": AT, "ack": ACK | {"until": float("nan")}}), ("a/b", {"at": AT, "ack": ACK | {"until": 10**400}}),
     ("a/b", {"at": AT, "ack": ACK | {"sticky": 1}}), ("a/b", {"at": AT, "ack": ACK | {"status": "ok"}}),
     ("a/b", {"at": AT, "ack": ACK | {"status": []}}), ("a/b", {"at": AT, "ack": ACK | {"status": "worse"}})],
)  # fmt: skip
def test_what_another_helen_says_is_judged(network: Network, name: str, entry: Any) -> None:
    """An entry that can't be used is left out alone, at a Helen that has the agent; the others are taken."""
    helen = Helen(network, "h1")
    helen.comes("a", "b", "c")
    done(helen.part.adopt("acks", {"acks": {name: entry, "a/c": {"at": AT, "ack": ACK, "new": 1}}}))
    assert helen.written == [("carry", "a/c")]
    helen.says("a", CRITICAL, "c")
    assert helen.owner("a", "c") == "kim"
    wanted = helen.part.wanted("acks", {"acks": {name: entry}})
    assert list(wanted["acks"]) == ["a/c"]


@pytest.mark.parametrize("value", [None, [], 1, "acks", {}, {"acks": None}, {"acks": []}, {"acks": 1}])
def test_a_document_of_another_form(value: Any) -> None:
    assert read_entries(value, NOW) == {}


def test_what_the_network_forgot_is_not_brought_back(network: Network, two: tuple[Helen, Helen]) -> None:
    """An end that is forgotten after a week brings nothing back; what this Helen has in force itself stays."""
    one, other = two
    one.acks("web-1")
    other.hear()
    one.clears("web-1")
    other.is_cut = True
    network.pass_time(KEPT_MS / 1_000 + 10)
    one.comes("web-1", "disk", "load")
    one.says("web-1", CRITICAL, "load")
    one.acks("web-1", check="load")
    assert list((network.document or {})["acks"]) == ["web-1/load"]
    other.is_cut = False
    other.hear()
    network.pass_time(KEPT_MS / 1_000 + 10)
    for helen in two:
        helen.hear()
        helen.tell()
    assert list((network.document or {})["acks"]) == ["web-1/load"]


@pytest.mark.parametrize("seed", range(25))
def test_whatever_happens_all_come_to_agree(seed: int) -> None:
    """Three Helens that are cut off now and then agree in the end, the document and the Helen with the agent."""
    random_ = random.Random(seed)
    network = Network()
    helens = [Helen(network, name, ahead) for name, ahead in (("h1", 0.0), ("h2", -240.0), ("h3", 180.0))]
    at = helens[0]
    at.comes("web-1")
    for _ in range(60):
        network.pass_time(random_.choice((1, 30, 4_000)))
        what = random_.choice(("says", "says", "acks", "clears", "moves", "cut", "hear", "restart"))
        if what == "says":
            at.says("web-1", random_.choice((OK, WARNING, CRITICAL, CRITICAL)))
        elif what == "acks":
            at.acks("web-1", random_.choice("abc"), sticky=random_.random() < 0.3)
        elif what == "clears":
            at.clears("web-1")
        elif what == "moves":
            at.goes("web-1", is_forgotten=random_.random() < 0.5)
            at = random_.choice(helens)
            at.attaches("web-1")
            if random_.random() < 0.5:
                at.hear()
            if random_.random() < 0.3:
                at.reports("web-1", "load")
            at.reports("web-1")
        elif what == "restart":
            helen = random_.choice(helens)
            helen.here.clear()
            helen.begin()
            helen.hear()
            if helen is at:
                helen.comes("web-1")
        else:
            helen = random_.choice(helens)
            helen.is_cut = what == "cut"
            helen.hear()
    for helen in helens * 2:
        helen.is_cut = False
        network.pass_time()
        helen.hear()
    at.says("web-1", CRITICAL)
    for helen in helens * 2:
        helen.hear()
    acks = {} if network.document is None else network.document["acks"]
    said = acks.get("web-1/disk", {"ack": None})["ack"]
    assert at.owner("web-1") == (None if said is None else said["owner"])
    assert [helen.part.wanted("acks", network.document) for helen in helens] == [None] * 3
