"""Tests questions: every target is accounted for, in whatever order things happen."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from held_walks import HeldWalks
from helen_parts import FakeLink

from equus_protocol.results import parse
from helen.queries import live_queries as queries_module
from helen.queries.live_queries import AT_ONCE, NOT_ASKED, LiveQueries, QueryRefused, Target, answered

OK = parse(b'{"status": "ok", "summary": "fine"}')
DENIED = parse(b'{"status": "unknown", "reason": "denied", "summary": "not here"}')


def at_once(*links: tuple[str, FakeLink | None]) -> list[tuple[str, Callable[[], FakeLink | None]]]:
    """Return targets whose links stay what they are."""
    return [(name, lambda link=link: link) for name, link in links]  # type: ignore[misc]


class Asker:
    """Holds LiveQueries, the ids that it hands out, and what it was told to cancel."""

    def __init__(self) -> None:
        self.ids = iter(range(1, 1_000_000))
        self.cancelled: list[int] = []
        self.faults: list[str] = []
        self.queries = LiveQueries(self.ask, self.cancel, self.faults.append)
        self.targets: list[Target] = []
        self.ended = 0

    def ask(self, link: FakeLink, check: str, args: bytes) -> int:
        if link.name.startswith("full"):
            raise QueryRefused("64 checks are outstanding already")
        return next(self.ids)

    def cancel(self, link: FakeLink, message_id: int) -> None:
        self.cancelled.append(message_id)

    def start(self, *links: tuple[str, FakeLink | None], deadline: float = 10.0) -> Any:
        return self.queries.start("cpu", at_once(*links), b"{}", deadline, self.targets.append, self.end)

    def end(self) -> None:
        self.ended += 1

    @property
    def outcomes(self) -> dict[str, str]:
        return {target.agent: target.outcome for target in self.targets}


def give(asker: Asker, claim: Any, document: Any) -> None:
    """Give an answer to the query that waits for it."""
    asker.queries.settle(claim, answered(claim.agent, document, b""))


@pytest.fixture
def asker() -> Asker:
    return Asker()


def test_each_outcome(asker: Asker) -> None:
    """A target is answered, refused by the agent or by a full link, offline, failed, or expired."""
    links = {name: FakeLink(name) for name in ("good", "denied", "full", "gone", "slow")}
    asker.start(*links.items(), ("away", None), ("closing", FakeLink(closing=True)))
    assert asker.outcomes == {"full": "refused", "away": "offline", "closing": "offline"}
    claims = {name: asker.queries.take_answer(links[name], n) for n, name in enumerate(("good", "denied"), 1)}
    give(asker, claims["good"], OK)
    give(asker, claims["denied"], DENIED)
    asker.queries.gone(links["gone"], "it went away")
    assert asker.ended == 0
    asker.queries.sweep(10.0)
    assert asker.outcomes == {
        "full": "refused", "away": "offline", "closing": "offline", "good": "answered", "denied": "refused",
        "gone": "failed", "slow": "expired",
    }  # fmt: skip
    assert (asker.ended, asker.cancelled, len(asker.queries)) == (1, [4], 0)


def test_an_answer_on_its_way_outlives_its_link(asker: Asker) -> None:
    """An answer on its way to the journal counts although its link goes."""
    link = FakeLink()
    asker.start(("a", link))
    claim = asker.queries.take_answer(link, 1)
    asker.queries.gone(link, "it went away")
    assert asker.targets == []
    give(asker, claim, OK)
    assert asker.outcomes == {"a": "answered"}


def test_an_answer_that_becomes_durable_too_late(asker: Asker) -> None:
    """A target expires once; its agent isn't told to cancel what it has done."""
    link = FakeLink()
    asker.start(("a", link))
    claim = asker.queries.take_answer(link, 1)
    asker.queries.sweep(10.0)
    give(asker, claim, OK)
    assert (asker.outcomes, asker.ended, asker.cancelled) == ({"a": "expired"}, 1, [])


def test_a_late_answer_is_nobodys(asker: Asker) -> None:
    """An answer is claimed by nobody after its time."""
    link = FakeLink()
    asker.start(("a", link))
    asker.queries.sweep(10.0)
    assert asker.queries.take_answer(link, 1) is None


def test_nobody_is_asked(asker: Asker) -> None:
    """A question without targets, or with absent ones only, ends at once."""
    asker.start()
    asker.start(("a", None))
    assert (asker.ended, len(asker.queries)) == (2, 0)


def test_whoever_asked_hangs_up(asker: Asker) -> None:
    """Nobody is told anything, and the agents are told to give up."""
    query = asker.start(("a", FakeLink("a")), ("b", FakeLink("b")))
    asker.queries.abandon(query)
    assert (asker.targets, asker.ended, asker.cancelled, len(asker.queries)) == ([], 0, [1, 2], 0)


class Held(Asker):
    """Is an asker whose walks go on step by step, when they are told to."""

    def __init__(self) -> None:
        super().__init__()
        self.walks = HeldWalks()
        self.queries = LiveQueries(self.ask, self.cancel, self.faults.append, self.walks.walk)


def test_a_great_fleet_is_asked_in_steps() -> None:
    """AT_ONCE agents are asked in a step; one that goes before its turn is offline."""
    asker, links = Held(), [FakeLink(f"a{n}") for n in range(2 * AT_ONCE + 5)]
    query = asker.start(*((link.name, link) for link in links))
    assert len(query.open) == AT_ONCE
    links[AT_ONCE].closing = True
    asker.walks.step()
    assert (asker.outcomes, len(query.open)) == ({f"a{AT_ONCE}": "offline"}, 2 * AT_ONCE - 1)
    asker.walks.step()
    assert (len(query.open), len(query.unasked), asker.walks.left) == (2 * AT_ONCE + 4, 0, 0)


def test_a_great_fleet_is_given_up_in_steps() -> None:
    """AT_ONCE agents are given up in a step, each once; one that answers meanwhile has answered, and the
    end is last.
    """
    asker, links = Held(), [FakeLink(f"a{n}") for n in range(4 * AT_ONCE)]
    query = asker.start(*((link.name, link) for link in links))
    asker.walks.step()
    asker.queries.sweep(9.0)
    asker.queries.sweep(10.0)
    asker.queries.sweep(11.0)  # it is being given up already
    claim = asker.queries.take_answer(links[2 * AT_ONCE - 1], 2 * AT_ONCE)
    assert claim is not None and asker.targets == []
    give(asker, claim, OK)
    sizes, last = [], len(asker.targets)
    while asker.walks.left:
        assert asker.ended == 0 or len(asker.targets) == len(links)
        asker.walks.step()
        sizes.append(len(asker.targets) - last)
        last = len(asker.targets)
    assert max(sizes) == AT_ONCE and len(asker.targets) == len(asker.outcomes) == len(links)
    assert list(asker.outcomes.values()).count("answered") == 1
    assert (asker.ended, len(asker.cancelled), len(asker.queries), query.open) == (1, 2 * AT_ONCE - 1, 0, {})
    assert asker.queries._by_link == {}


def test_a_great_fleet_is_abandoned_in_steps() -> None:
    """The agents are told to give up while their question expires, and nobody else is told any more."""
    asker, links = Held(), [FakeLink(f"a{n}") for n in range(3 * AT_ONCE)]
    query = asker.start(*((link.name, link) for link in links))
    while asker.walks.left:
        asker.walks.step()
    asker.queries.sweep(10.0)
    asker.walks.step()
    assert (len(asker.targets), len(asker.cancelled)) == (AT_ONCE, AT_ONCE)
    asker.queries.abandon(query)
    while asker.walks.left:
        asker.walks.step()
    assert (len(asker.targets), len(asker.cancelled), len(asker.queries)) == (AT_ONCE, 3 * AT_ONCE, 0)


def test_questions_are_bounded(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    """One too many is refused with a sentence."""
    monkeypatch.setattr(queries_module, "MAX_QUERIES", 1)
    asker.start(("a", FakeLink()))
    with pytest.raises(QueryRefused, match="1 questions are open already"):
        asker.start(("a", FakeLink()))


@pytest.mark.parametrize("seed", range(300))
def test_every_target_is_accounted_for(asker: Asker, seed: int) -> None:
    """Each target is answered, failed, refused, offline or expired exactly once, under random orders of events."""
    dice = random.Random(seed)
    names = ["full-1", *(f"a{n}" for n in range(8))]
    links = {name: FakeLink(name, closing=dice.random() < 0.1) for name in names}
    told: list[list[Target]] = []
    ends = []
    for number in range(3):
        told.append([])
        targets = [(name, links[name] if dice.random() < 0.8 else None) for name in names]
        end = lambda n=number: ends.append(n)  # noqa: E731
        asker.queries.start("c", at_once(*targets), b"", dice.uniform(5, 20), told[number].append, end)
    claims: list[Any] = []
    for step in range(60):
        link = links[dice.choice(names)]
        deed = dice.randrange(5)
        if deed == 0:
            asker.queries.gone(link, "gone")
        elif deed < 3:
            claim = asker.queries.take_answer(link, dice.randrange(1, 28))
            claims += [claim] if claim is not None else []
        elif deed == 3 and claims:
            give(asker, claims.pop(dice.randrange(len(claims))), dice.choice((OK, DENIED)))
        else:
            asker.queries.sweep(step / 3)
    asker.queries.sweep(100.0)
    assert [sorted(target.agent for target in each) for each in told] == [sorted(names)] * 3
    assert sorted(ends) == [0, 1, 2]
    assert (len(asker.queries), asker.queries._by_link) == (0, {})


@pytest.mark.parametrize("faulty", ["on_target", "on_end", "cancel", "ask"])
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_fault_with_one_agent_takes_no_others_outcome(faulty: str, is_gone: bool) -> None:
    """A fault with one agent leaves every other target its outcome, the end is told, and later queries go on."""
    asker, shared, calls = Held(), FakeLink("shared"), [0]

    def sometimes(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any) -> Any:
            calls[0] += 1
            if calls[0] == 1 or calls[0] % 7 == 0:
                raise RuntimeError("no room")
            return call(*given)

        return called

    ask: Callable[..., int] = sometimes(asker.ask) if faulty == "ask" else asker.ask
    cancel: Callable[..., None] = sometimes(asker.cancel) if faulty == "cancel" else asker.cancel
    queries = LiveQueries(ask, cancel, asker.faults.append, asker.walks.walk)
    names = [f"a{n}" for n in range(3 * AT_ONCE + 1)]
    told: list[Target] = []
    on_target = sometimes(told.append) if faulty == "on_target" else told.append
    on_end = sometimes(asker.end) if faulty == "on_end" else asker.end
    first = queries.start("c", at_once(*((name, shared) for name in names)), b"", 10.0, on_target, on_end)
    second = queries.start("c", at_once(("b", shared)), b"", 20.0, asker.targets.append, asker.end)
    asker.walks.take_all(lambda: 0)
    if is_gone:
        queries.gone(shared, "it went away")
    else:
        queries.sweep(10.0)
        queries.sweep(20.0)
        asker.walks.take_all(lambda: 0)
    raised = len(asker.faults)
    assert raised == (calls[0] > 0) + calls[0] // 7
    assert len({target.agent for target in told}) == len(told) == len(names) - (raised if faulty == "on_target" else 0)
    assert [target.agent for target in asker.targets] == ["b"]
    failed = [target for target in told if target.outcome == "failed"]
    assert is_gone or len(failed) == (raised if faulty == "ask" else 0)
    assert first.ended and second.ended and asker.ended == (1 if faulty == "on_end" else 2)
    assert (len(queries), queries._by_link, first.open, len(first.unasked)) == (0, {}, {}, 0)


@pytest.mark.parametrize("late", [1, AT_ONCE, 2 * AT_ONCE + 3])
def test_agents_that_are_asked_while_their_query_is_given_up(late: int) -> None:
    """Agents that are asked while their query is given up expire, however many there are, and the end is told once."""
    asker, links = Held(), [FakeLink(f"a{n}") for n in range(AT_ONCE)]
    query = asker.start(*((link.name, link) for link in links))
    asker.queries.sweep(10.0)
    query.unasked.extend(at_once(*((f"late{n}", FakeLink()) for n in range(late))))
    assert max(asker.walks.take_all(lambda: len(asker.targets))) <= AT_ONCE
    assert len(asker.targets) == len(asker.outcomes) == AT_ONCE + late
    assert set(asker.outcomes.values()) == {"expired"} and (asker.ended, len(asker.queries)) == (1, 0)


def test_agents_that_were_never_asked() -> None:
    """Agents that were never asked expire with a reason of their own: none of them has kept an answer back."""
    asker, links = Held(), [FakeLink(f"a{n}") for n in range(3 * AT_ONCE)]
    asker.start(*((link.name, link) for link in links))
    asker.walks.step()
    asker.queries.sweep(10.0)
    asker.walks.take_all(lambda: 0)
    why = {target.agent: target.why for target in asker.targets}
    assert why == {f"a{n}": "no answer in time" if n < 2 * AT_ONCE else NOT_ASKED for n in range(3 * AT_ONCE)}
    assert {target.outcome for target in asker.targets} == {"expired"} and len(asker.cancelled) == 2 * AT_ONCE


def test_an_agent_that_reconnects_before_its_turn() -> None:
    """An agent is asked on the connection of its turn; one that comes late is asked, and one that goes is offline."""
    asker, names = Held(), [f"a{n}" for n in range(AT_ONCE + 3)]
    links: dict[str, FakeLink | None] = {name: FakeLink(name) for name in names}
    links[names[-1]] = None
    targets = [(name, lambda name=name: links[name]) for name in names]
    query = asker.queries.start("c", targets, b"", 10.0, asker.targets.append, asker.end)
    back, late = FakeLink("back"), FakeLink("late")
    links[names[-3]], links[names[-2]], links[names[-1]] = back, None, late
    asker.walks.take_all(lambda: 0)
    assert asker.outcomes == {names[-2]: "offline"}
    assert (query.open[names[-3]][0], query.open[names[-1]][0]) == (back, late)
