"""Questions: every target is accounted for, in whatever order things happen."""

import random
from typing import Any

import pytest
from helen_parts import FakeLink

from equus_protocol.results import parse
from helen import runs as runs_module
from helen.runs import ASKED_AT_ONCE, RunRefused, Runs, Target

OK = parse(b'{"status": "ok", "summary": "fine"}')
DENIED = parse(b'{"status": "unknown", "reason": "denied", "summary": "not here"}')


class Asker:
    """Runs, the ids that it hands out, and what it was told to cancel."""

    def __init__(self) -> None:
        self.ids = iter(range(1, 1_000_000))
        self.cancelled: list[int] = []
        self.runs = Runs(self.ask, lambda link, message_id: self.cancelled.append(message_id))
        self.targets: list[Target] = []
        self.ended = 0

    def ask(self, link: FakeLink, check: str, args: bytes) -> int:
        if link.name.startswith("full"):
            raise RunRefused("64 checks are outstanding already")
        return next(self.ids)

    def start(self, *links: tuple[str, FakeLink | None], deadline: float = 10.0) -> Any:
        return self.runs.start("cpu", links, b"{}", deadline, self.targets.append, self.end)

    def end(self) -> None:
        self.ended += 1

    @property
    def outcomes(self) -> dict[str, str]:
        return {target.agent: target.outcome for target in self.targets}


@pytest.fixture
def asker() -> Asker:
    return Asker()


def test_each_outcome(asker: Asker) -> None:
    """answered, refused (by the agent, by a full link), offline, failed, expired."""
    links = {name: FakeLink(name) for name in ("good", "denied", "full", "gone", "slow")}
    asker.start(*links.items(), ("away", None), ("closing", FakeLink(closing=True)))
    assert asker.outcomes == {"full": "refused", "away": "offline", "closing": "offline"}
    claims = {name: asker.runs.claim(links[name], n) for n, name in enumerate(("good", "denied"), 1)}
    asker.runs.settle(claims["good"], OK)
    asker.runs.settle(claims["denied"], DENIED)
    asker.runs.gone(links["gone"], "it went away")
    assert asker.ended == 0
    asker.runs.sweep(10.0)
    assert asker.outcomes == {
        "full": "refused", "away": "offline", "closing": "offline", "good": "answered", "denied": "refused",
        "gone": "failed", "slow": "expired",
    }  # fmt: skip
    assert (asker.ended, asker.cancelled, len(asker.runs)) == (1, [4], 0)


def test_an_answer_on_its_way_outlives_its_link(asker: Asker) -> None:
    """It is in the journal's hands: the link may go."""
    link = FakeLink()
    asker.start(("a", link))
    claim = asker.runs.claim(link, 1)
    asker.runs.gone(link, "it went away")
    assert asker.targets == []
    asker.runs.settle(claim, OK)
    assert asker.outcomes == {"a": "answered"}


def test_an_answer_that_becomes_durable_too_late(asker: Asker) -> None:
    """The target has expired, once; the agent isn't told to cancel what it has done."""
    link = FakeLink()
    asker.start(("a", link))
    claim = asker.runs.claim(link, 1)
    asker.runs.sweep(10.0)
    asker.runs.settle(claim, OK)
    assert (asker.outcomes, asker.ended, asker.cancelled) == ({"a": "expired"}, 1, [])


def test_a_late_answer_is_nobodys(asker: Asker) -> None:
    """After its time nobody waits for it."""
    link = FakeLink()
    asker.start(("a", link))
    asker.runs.sweep(10.0)
    assert asker.runs.claim(link, 1) is None


def test_nobody_is_asked(asker: Asker) -> None:
    """No targets, or only absent ones: it ends at once."""
    asker.start()
    asker.start(("a", None))
    assert (asker.ended, len(asker.runs)) == (2, 0)


def test_whoever_asked_hangs_up(asker: Asker) -> None:
    """Nobody is told anything, and the agents are told to give up."""
    run = asker.start(("a", FakeLink("a")), ("b", FakeLink("b")))
    asker.runs.abandon(run)
    assert (asker.targets, asker.ended, asker.cancelled, len(asker.runs)) == ([], 0, [1, 2], 0)


def test_a_great_fleet_is_asked_in_steps(asker: Asker) -> None:
    """ASKED_AT_ONCE a step; who went before its turn is offline, who is left at the deadline has expired."""
    links = [FakeLink(f"a{n}") for n in range(2 * ASKED_AT_ONCE + 5)]
    run = asker.start(*((link.name, link) for link in links))
    assert len(run.open) == ASKED_AT_ONCE
    links[ASKED_AT_ONCE].closing = True
    assert asker.runs.advance(run) is False
    assert asker.outcomes == {f"a{ASKED_AT_ONCE}": "offline"}
    asker.runs.sweep(10.0)
    assert len(asker.targets) == len(links) == len(asker.outcomes)
    assert (asker.ended, asker.runs.advance(run), len(asker.cancelled)) == (1, True, 2 * ASKED_AT_ONCE - 1)


def test_questions_are_bounded(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    """One too many is refused with a sentence."""
    monkeypatch.setattr(runs_module, "MAX_RUNS", 1)
    asker.start(("a", FakeLink()))
    with pytest.raises(RunRefused, match="1 questions are open already"):
        asker.start(("a", FakeLink()))


@pytest.mark.parametrize("seed", range(300))
def test_every_target_is_accounted_for(asker: Asker, seed: int) -> None:
    """answered + failed + refused + offline + expired = targets, each once, under random orders of events."""
    dice = random.Random(seed)
    names = ["full-1", *(f"a{n}" for n in range(8))]
    links = {name: FakeLink(name, closing=dice.random() < 0.1) for name in names}
    told: list[list[Target]] = []
    ends = []
    for number in range(3):
        told.append([])
        targets = [(name, links[name] if dice.random() < 0.8 else None) for name in names]
        asker.runs.start("c", targets, b"", dice.uniform(5, 20), told[number].append, lambda n=number: ends.append(n))
    claims: list[Any] = []
    for step in range(60):
        link = links[dice.choice(names)]
        deed = dice.randrange(5)
        if deed == 0:
            asker.runs.gone(link, "gone")
        elif deed < 3:
            claim = asker.runs.claim(link, dice.randrange(1, 28))
            claims += [claim] if claim is not None else []
        elif deed == 3 and claims:
            asker.runs.settle(claims.pop(dice.randrange(len(claims))), dice.choice((OK, DENIED)))
        else:
            asker.runs.sweep(step / 3)
    asker.runs.sweep(100.0)
    assert [sorted(target.agent for target in each) for each in told] == [sorted(names)] * 3
    assert sorted(ends) == [0, 1, 2]
    assert (len(asker.runs), asker.runs._by_link) == (0, {})
