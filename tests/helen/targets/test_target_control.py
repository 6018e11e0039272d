"""Tests leases as agents come and go: who is sent what, whose results count; a clock that is set moves nothing."""

from __future__ import annotations

import random
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from held_walks import HeldWalks

from groundwork.event import Event
from groundwork.target_ids import wire_id
from helen.agents.roster import Agent
from helen.assignments.assignments_text import read as read_assignments
from helen.assignments.schedule import CheckTable
from helen.targets.declarations import MAX_TARGETS, read
from helen.targets.leases import HOLD_SECONDS, SETTLE_SECONDS, START_SECONDS, Presence, rank
from helen.targets.sources import Source
from helen.targets.target_control import TargetControl
from helen.targets.target_fields import Target
from helen.targets.target_groups import MOST_AGENTS, NAMES_A_STEP, Group

TARGETS = '[[target]]\nname = "switch-1"\naddress = "10.0.3.1"\nvia = ["probe-*"]\n'
MANY = "".join(TARGETS.replace("switch-1", f"switch-{number}") for number in range(300))
PING = '[[assign]]\ncheck = "ping"\ntargets = "switch-*"\nevery = "1m"\n'
TABLES = {"ping": CheckTable("ping", None, 5.0, args={"host": {"type": "string"}})}
FIRST, SECOND, THIRD = sorted(("probe-1", "probe-2", "probe-3"), key=lambda name: rank("switch-1", name), reverse=True)
WIRE = wire_id("switch-1", "ping")


class Stage:
    """Holds a TargetControl with a roster, and keeps all that it does to others."""

    def __init__(self, *known: str) -> None:
        self.now, self.restated, self.sent = 1_000.0, [], dict[str, list[str]]()
        self.agents = {name: Agent(name) for name in known}
        roster = SimpleNamespace(agents=self.agents, host=self._host)
        self.left_out: dict[str, tuple[str, ...]] = {}
        delivery = SimpleNamespace(
            scheduled=Event(), send_again=self._send, assignments=read_assignments(PING), left_out=lambda: self.left_out
        )
        self.sessions: Any = SimpleNamespace(
            roster=roster, delivery=delivery, attached=Event(), detached=Event(), store=None, results=SimpleNamespace(),
            fair_turns=SimpleNamespace(walk=lambda things, each: [each(thing) for thing in list(things)]),
        )  # fmt: skip
        self.control = TargetControl(
            self.sessions, Path("/nowhere"), lambda: self.now, None, lambda: TABLES,
            self._restate,
        )  # fmt: skip
        self.write(TARGETS)
        self.control.begin()
        self.pass_time(0.0)

    def write(self, text: str) -> None:
        self.control.config_file.config = read(text)
        self.control.in_force._on_config()

    def _host(self, name: str) -> Agent:
        return self.agents.setdefault(name, Agent(name, enrolled=False))

    def _restate(self, name: str) -> None:
        self.restated.append(name)
        if self.control.find(name) is not None:
            self._host(name)

    def _send(self, agent: Agent) -> None:
        self.sent[agent.name] = [entry.id for entry in self.control.share_of(agent.name)]

    def come(self, name: str, version: int = 2) -> None:
        agent = self.agents.setdefault(name, Agent(name))
        agent.link = SimpleNamespace(version=version)  # type: ignore[assignment]
        self.sessions.attached(agent)
        self.sessions.delivery.scheduled(agent, ())

    def go(self, name: str) -> None:
        self.agents[name].link = None
        self.sessions.detached(self.agents[name])

    def pass_time(self, seconds: float) -> None:
        """Let so many seconds pass, with a look each second and one at the end."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + 1.0, end)
            self.control.tick()
        self.control.tick()

    @property
    def runner(self) -> str | None:
        return next(iter(self.control.runners("switch-1")), None)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_one_agent_at_a_time(stage: Stage) -> None:
    """One agent alone is sent the checks, and its results alone count; a claim of another gives it no lease."""
    for name in (FIRST, SECOND, "web-1"):
        stage.come(name)
    stage.pass_time(1.0)
    assert (stage.runner, stage.sent) == (FIRST, {FIRST: [WIRE]})
    assert [stage.control.counts(name, WIRE) for name in (FIRST, SECOND, "web-1")] == [True, False, False]
    assert not stage.control.counts(FIRST, wire_id("switch-2", "ping"))
    assert stage.control.share_of(FIRST)[0].args == {"host": "10.0.3.1"}
    assert stage.control.rules_of("switch-1")["ping"].depends == (f"{FIRST}/equus:link",)


def test_it_hands_over_and_gets_it_back(stage: Stage) -> None:
    """A lease moves after ten seconds of absence and back a minute after the return; late results don't count."""
    for name in (FIRST, SECOND):
        stage.come(name)
    stage.pass_time(1.0)
    stage.go(FIRST)
    stage.pass_time(HOLD_SECONDS - 1.0)
    assert stage.runner == FIRST
    stage.pass_time(1.0)
    assert (stage.runner, stage.sent[SECOND]) == (SECOND, [WIRE])
    assert [stage.control.counts(name, WIRE) for name in (FIRST, SECOND)] == [False, True]
    stage.come(FIRST)
    stage.pass_time(SETTLE_SECONDS - 1.0)
    assert stage.runner == SECOND
    stage.pass_time(1.0)
    assert (stage.runner, stage.sent) == (FIRST, {FIRST: [WIRE], SECOND: []})


def test_a_start_waits_for_agents_that_were_there() -> None:
    """A restart of Helen moves no lease if they come back; without them the next one looks after half a minute."""
    stage = Stage(FIRST, SECOND)
    assert stage.runner is None
    stage.pass_time(START_SECONDS - 1.0)
    stage.come(FIRST)
    stage.pass_time(0.0)
    assert stage.runner == FIRST
    late = Stage(FIRST, SECOND)
    late.come(SECOND)
    late.pass_time(0.0)
    assert late.runner == SECOND
    late.pass_time(START_SECONDS)
    assert late.runner == SECOND


def test_who_may_not_look(stage: Stage) -> None:
    """Agents of version 1, outside of `via`, and revoked ones may not look; an agent's name is no target."""
    stage.come(FIRST, version=1)
    stage.pass_time(START_SECONDS)
    assert stage.runner is None
    assert stage.control.faults() == ["switch-1: no agent fits its via, probe-*"]
    stage.come(SECOND)
    stage.pass_time(0.0)
    assert (stage.runner, stage.control.faults()) == (SECOND, [])
    stage.agents["switch-1"] = Agent("switch-1")
    stage.control.look_again()
    stage.pass_time(0.0)
    assert (stage.runner, stage.control.rules_of("switch-1"), stage.control.share_of(SECOND)) == (None, {}, ())
    assert stage.control.faults() == ["switch-1 is an agent: a target needs a name of its own"]


def test_files_that_change(stage: Stage) -> None:
    """Another `via` moves a lease at once; a target that is taken out is looked at no more, and is restated."""
    for name in (FIRST, SECOND):
        stage.come(name)
    stage.pass_time(0.0)
    stage.write(TARGETS.replace("probe-*", SECOND))
    stage.pass_time(0.0)
    assert (stage.runner, stage.sent) == (SECOND, {FIRST: [], SECOND: [WIRE]})
    stage.restated.clear()
    stage.write("")
    stage.pass_time(0.0)
    assert (stage.runner, stage.sent[SECOND], stage.restated) == (None, [], ["switch-1"])
    assert not stage.control.counts(SECOND, WIRE)


def test_other_assignments(stage: Stage) -> None:
    """Other assignments reach the agent that looks in one message; without any it has nothing to do."""
    stage.come(FIRST)
    stage.pass_time(0.0)
    stage.sessions.delivery.assignments = read_assignments("")
    stage.control.look_again()
    stage.pass_time(0.0)
    assert (stage.runner, stage.sent[FIRST], stage.control.rules_of("switch-1")) == (FIRST, [], {})
    assert stage.control.runs_of("switch-1", "ping") == []
    stage.sessions.delivery.assignments = read_assignments(PING)
    stage.control.look_again()
    stage.pass_time(0.0)
    ((runner, entry),) = stage.control.runs_of("switch-1", "ping")
    assert (runner, entry.id) == (FIRST, WIRE)


def test_more_than_an_agent_can_run(stage: Stage) -> None:
    """Entries that an agent's schedule has no room for are named, with what to do."""
    stage.come(FIRST)
    stage.left_out = {FIRST: (WIRE, wire_id("switch-2", "ping"))}
    assert stage.control.faults() == [
        f"{FIRST} has no room in its schedule for 2 checks of targets and meshes, switch-1/ping"
        " first: let more agents fit the targets' via, or fewer the meshes"
    ]


def test_more_agents_than_are_considered() -> None:
    """Agents that are away take no place of one that is connected, however early their names are."""
    away = [f"probe-{number:03}" for number in range(MOST_AGENTS + 1)]
    stage = Stage(*away)
    for name in away:
        stage.sessions.delivery.scheduled(stage.agents[name], ())
    stage.come("probe-late")
    stage.pass_time(START_SECONDS)
    assert (stage.runner, stage.sent) == ("probe-late", {"probe-late": [WIRE]})
    for name in away:
        stage.come(name)
    stage.pass_time(SETTLE_SECONDS)
    considered = stage.control._groups[("probe-*",)].considered()
    assert considered == away[:MOST_AGENTS]
    assert stage.runner == max(considered, key=lambda name: rank("switch-1", name))


def test_a_quorum(stage: Stage) -> None:
    """All three are sent the checks, at the same moments; their results count, and rule and roster name them."""
    stage.write(TARGETS + 'quorum = "2 of 3"\n')
    for name in (FIRST, SECOND):
        stage.come(name)
    stage.pass_time(0.0)
    assert stage.control.faults() == ["switch-1: its quorum is 2 of 3, and 2 agents fit its via"]
    rule = stage.control.rules_of("switch-1")["ping"]
    runners = tuple(sorted((FIRST, SECOND)))
    assert (rule.quorum, rule.runners, rule.depends) == (2, runners, tuple(f"{name}/equus:link" for name in runners))
    stage.come(THIRD)
    stage.pass_time(0.0)
    everybody = tuple(sorted((FIRST, SECOND, THIRD)))
    assert stage.control.runners("switch-1") == everybody
    assert stage.sent == {name: [WIRE] for name in everybody}
    assert len({stage.control.share_of(name)[0].offset for name in everybody}) == 1
    assert all(stage.control.counts(name, WIRE) for name in everybody)
    assert not stage.control.counts("probe-4", WIRE)
    rule = stage.control.rules_of("switch-1")["ping"]
    assert (rule.quorum, rule.runners, rule.depends, rule.passive) == (2, everybody, (), True)
    assert stage.agents["switch-1"].quorum == (2, everybody)
    assert [name for name, _ in stage.control.runs_of("switch-1", "ping")] == list(everybody)
    for name in (FIRST, SECOND):
        stage.go(name)
    stage.pass_time(HOLD_SECONDS)
    assert stage.control.faults() == [
        "switch-1: 2 agents must see it bad, and 1 of the 3 that fit its via are connected"
    ]


def test_targets_that_are_found(stage: Stage) -> None:
    """Found targets are leased as declared ones are; the declared one of a name counts, and one that is gone is
    dropped.
    """
    source = Source(("probe-*",), ("/nowhere/x.json",))
    declared = Target("switch-1", "10.0.3.1", ("probe-*",))
    stage.write(f'{TARGETS}[[source]]\nfile_sd = "/nowhere/x.json"\nvia = "probe-*"\n')
    watched = stage.control.sources._watched[source.key]
    both = Target("switch-1", "x", ("probe-*",)), Target("switch-2", "10.0.3.2", ("probe-*",))
    watched.found = {"/nowhere/x.json": both}
    stage.control.in_force._on_found()
    stage.come(FIRST)
    stage.pass_time(0.0)
    assert (stage.control.config["switch-1"], stage.control.runners("switch-2")) == (declared, (FIRST,))
    assert stage.control.found == {"switch-2": "/nowhere/x.json"}
    stage.restated.clear()
    watched.found = {"/nowhere/x.json": both[:1]}
    stage.control.in_force._on_found()
    stage.pass_time(0.0)
    assert (stage.restated, stage.control.runners("switch-2"), list(stage.sent[FIRST])) == (["switch-2"], (), [WIRE])
    watched.found = {"": tuple(Target(f"t{number}", "x", ("probe-*",)) for number in range(MAX_TARGETS))}
    stage.control.in_force.merge()
    assert len(stage.control.config) == MAX_TARGETS
    assert "1 target too many were found: 10,000 are the most" in stage.control.faults()


def test_a_clock_that_is_set_moves_no_lease(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """No decision about a lease reads the clock that people see."""
    for name in (FIRST, SECOND):
        stage.come(name)
    stage.pass_time(1.0)
    for year in (86_400.0 * 365, -86_400.0 * 365):
        real = time.time()
        monkeypatch.setattr(time, "time", lambda real=real, year=year: real + year)
        stage.pass_time(5.0)
        assert (stage.runner, stage.control.counts(SECOND, WIRE)) == (FIRST, False)


class Counting(dict[str, Any]):
    """Holds entries of targets, and counts how often they are asked for."""

    asked = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.asked += 1
        return super().get(key, default)


def test_many_targets_of_one_agent(stage: Stage) -> None:
    """Each lease that it gets costs the same, however many it has; so does each result."""
    stage.write(MANY)
    stage.come(FIRST)
    entries = stage.control.entries._own = Counting(stage.control.entries._own)
    stage.pass_time(0.0)
    assert len(stage.sent[FIRST]) == 300
    assert entries.asked <= 5 * 300
    entries.asked = 0
    assert all(stage.control.counts(FIRST, wire_id(f"switch-{number}", "ping")) for number in range(300))
    assert entries.asked == 0


def test_ids_that_count_for_nothing(stage: Stage) -> None:
    """A result counts for none of these ids: the agent's own check, one that the target lacks, and half an id."""
    stage.come(FIRST)
    stage.pass_time(0.0)
    refused = ["ping", "switch-1/ping", wire_id("switch-1", "disk"), wire_id("switch-1", ""), wire_id("", "ping"), ""]
    assert [stage.control.counts(FIRST, each) for each in (*refused, WIRE)] == [False] * len(refused) + [True]
    stage.go(FIRST)
    stage.write("")
    stage.pass_time(0.0)
    assert not stage.control.counts(FIRST, WIRE)
    assert (stage.control.entries._ids, len(stage.control.holders)) == ({}, 0)


# ---------------------------------------------------------------------------------------------- work of great fleets

VIAS = "".join(TARGETS.replace("switch-1", f"s-{n}").replace('"]', f'", "x-{n}"]') for n in range(30))


def test_those_that_can_be_chosen_are_kept_in_step() -> None:
    """The usable agents of a `via` are known at once as agents come, go, change labels and are revoked."""
    stage, chance = Stage(*(f"probe-{n}" for n in range(8))), random.Random(3)
    several = TARGETS + TARGETS.replace("switch-1", "switch-2").replace("probe-*", "role=edge")
    stage.write(several)
    for turn in range(300):
        name = f"probe-{chance.randrange(12)}"
        if name in stage.agents and stage.agents[name].link is not None and chance.random() < 0.5:
            stage.go(name)
        else:
            stage.agents.setdefault(name, Agent(name)).labels = {"role": chance.choice(("edge", "core"))}
            stage.come(name, version=chance.choice((1, 2, 2, 2)))
        stage.pass_time(chance.choice((0.0, 1.0, HOLD_SECONDS + 1.0)))
        if turn % 50 == 0:
            stage.write(several if turn % 100 else several + TARGETS.replace("switch-1", "switch-3"))
        presence = stage.control._presence
        for group in stage.control._groups.values():
            assert group.usable == {name for name in group.agents if presence.is_usable(name)}, turn


def test_each_via_is_decided_in_a_step_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty different `via` are decided one a step; a fault is told without asking agent by agent."""
    stage, walks, looks = Stage(), HeldWalks(), list[str]()
    stage.write(VIAS)
    for number in range(20):
        stage.come(f"probe-{number}")
    stage.sessions.fair_turns = walks
    considered, is_usable = Group.considered, Presence.is_usable
    monkeypatch.setattr(Group, "considered", lambda group: looks.append("group") or considered(group))
    stage.control.tick()
    assert looks == []
    assert max(walks.take_all(lambda: len(looks))) == 1 and len(looks) == 30
    assert stage.control.runners("s-7") != ()
    monkeypatch.setattr(Presence, "is_usable", lambda presence, name: looks.append(name) or is_usable(presence, name))
    looks.clear()
    assert (stage.control.faults(), looks) == ([], [])


def test_faults_are_told_in_steps(stage: Stage) -> None:
    """Faults of 450 targets that no agent may look at are found in steps, with some targets in each."""
    stage.agents["t7"] = Agent("t7")
    stage.write("".join(TARGETS.replace("switch-1", f"t{number}") for number in range(450)))
    found, said, sizes = stage.control.find, list[str](), list[int]()
    looked = list[str]()
    stage.control.find = lambda name: looked.append(name) or found(name)  # type: ignore[method-assign]
    for _ in stage.control.fault_steps(said):
        sizes.append(len(looked))
        looked.clear()
    assert sizes == [NAMES_A_STEP, NAMES_A_STEP, 50, 0, 0, 0]
    assert said[0] == "t7 is an agent: a target needs a name of its own"
    assert len(said) == 451 and said[1] == "t0: no agent fits its via, probe-*"
    assert said == stage.control.faults()


def test_what_a_source_finds_is_compared_in_steps() -> None:
    """One target of 1,000 that is another one than before is planned anew, and no step compares all."""
    stage, walks, compared = Stage(), HeldWalks(), list[str]()

    class Counted(Target):
        def __ne__(self, other: object) -> bool:
            compared.append(self.name)
            return not self == other

    source = Source(("probe-*",), files=("/nowhere/x.json",))
    stage.write(f'{TARGETS}[[source]]\nfile_sd = "/nowhere/x.json"\nvia = "probe-*"\n')
    watched = stage.control.sources._watched[source.key]
    watched.found = {"": tuple(Counted(f"t{number}", "x", ("probe-*",)) for number in range(1_000))}
    stage.control.in_force._on_found()
    stage.sessions.fair_turns = walks
    stage.restated.clear()
    compared.clear()
    watched.found = {"": tuple(Counted(f"t{n}", "y" if n == 7 else "x", ("probe-*",)) for n in range(1_000))}
    stage.control.in_force._on_found()
    assert compared == []
    sizes = walks.take_all(lambda: len(compared))
    assert (max(sizes), sum(sizes), stage.restated) == (NAMES_A_STEP, 1_000, ["t7"])
    watched.found = {"": watched.found[""][:400]}
    stage.control.in_force._on_found()
    watched.found = {"": (Counted("t7", "z", ("probe-*",)),)}  # before the first change was looked at
    stage.control.in_force._on_found()
    walks.take_all(lambda: 0)
    assert set(stage.control.entries.names()) == {"switch-1", "t7"} and stage.control.config["t7"].address == "z"


def test_a_declared_target_counts_at_once(stage: Stage) -> None:
    """A declared target is found at once; those of sources are merged in turns, and stay until then."""
    source, walks = Source(("probe-*",), files=("/nowhere/x.json",)), HeldWalks()
    stage.write(f'{TARGETS}[[source]]\nfile_sd = "/nowhere/x.json"\nvia = "probe-*"\n')
    watched = stage.control.sources._watched[source.key]
    watched.found = {"": (Target("found-1", "x", ("probe-*",)), Target("new-1", "x", ("probe-*",)))}
    stage.control.in_force._on_found()
    stage.sessions.fair_turns = walks
    more = '[[target]]\nname = "new-1"\naddress = "10.0.3.9"\nvia = "probe-*"\n'
    stage.write(f'{TARGETS}{more}[[source]]\nfile_sd = "/nowhere/x.json"\nvia = "probe-*"\n')
    assert set(stage.control.config) == {"switch-1", "new-1", "found-1"}
    assert stage.control.config["new-1"].address == "10.0.3.9"
    stage.write(TARGETS)
    walks.take_all(lambda: 0)
    assert (set(stage.control.config), set(stage.control.entries.names())) == ({"switch-1"}, {"switch-1"})
    assert stage.control.found == {}


def found_by(stage: Stage, number: int) -> None:
    source = Source(("probe-*",), files=("/nowhere/x.json",))
    found = tuple(Target(f"found-{each}", "x", ("probe-*",)) for each in range(number))
    stage.control.sources._watched[source.key].found = {"": found}


def test_a_source_that_finds_more_while_targets_are_merged(stage: Stage) -> None:
    """No target that counts is out of force meanwhile: its lease would be taken away and its states closed."""
    walks, looked = HeldWalks(), list[bool]()
    stage.write(f'{TARGETS}[[source]]\nfile_sd = "/nowhere/x.json"\nvia = "probe-*"\n')
    found_by(stage, 1)
    stage.control.in_force._on_found()
    stage.sessions.fair_turns = walks
    stage.control.in_force._on_found()
    found_by(stage, 1_000)
    walks.take_all(lambda: looked.append({"switch-1", "found-0"} <= stage.control.config.keys()) or 0)
    assert all(looked) and len(stage.control.config) == 1_001
    assert len(stage.control.entries.names()) == 1_001


def test_targets_that_cannot_be_merged_drop_none(stage: Stage) -> None:
    stage.write(f'{TARGETS}[[source]]\nfile_sd = "/nowhere/x.json"\nvia = "probe-*"\n')
    found_by(stage, 2)
    stage.control.in_force._on_found()
    merged = stage.control.in_force.merged()
    stage.control.in_force.take(merged, iter(()), stage.control.config)
    assert set(stage.control.config) == set(stage.control.entries.names()) == {"switch-1", "found-0", "found-1"}


def test_a_declaration_that_is_taken_back_while_targets_are_merged(stage: Stage) -> None:
    """The newest file's targets are in force from its coming on, and those of an older one never again."""
    walks, looked = HeldWalks(), list[set[str]]()
    stage.sessions.fair_turns = walks
    for name in ("new-1", "new-2"):
        stage.write(f'{TARGETS}[[target]]\nname = "{name}"\naddress = "10.0.3.9"\nvia = "probe-*"\n')
    walks.take_all(lambda: looked.append(set(stage.control.config)) or 0)
    assert all(each == {"switch-1", "new-2"} for each in looked) and len(looked) > 2
    assert set(stage.control.entries.names()) == {"switch-1", "new-2"}


def test_a_network_that_was_cut_off_is_looked_at_one_agent_a_step(stage: Stage) -> None:
    """All leases of 200 agents end in one second; each of them is held against every `via`."""
    names = [f"probe-{number + 10}" for number in range(200)]
    for name in names:
        stage.come(name)
    stage.pass_time(60.0)
    for name in names:
        stage.go(name)
    touched, walks = list[str](), HeldWalks()
    touch = stage.control._touch
    stage.control._touch = lambda name: touched.append(name) or touch(name)  # type: ignore[func-returns-value, method-assign]
    stage.sessions.fair_turns = walks
    stage.now += 300.0
    stage.control.tick()
    assert touched == []
    sizes = walks.take_all(lambda: len(touched))
    assert (max(sizes), sorted(touched)) == (1, sorted(names))


def test_what_an_agent_runs_for_targets_is_written_once(stage: Stage) -> None:
    """The entries are the same objects in each schedule that is sent again with a new lease."""
    stage.write(MANY)
    stage.come(FIRST)
    stage.pass_time(0.0)
    share = stage.control.share_of(FIRST)
    texts = [entry.sent for entry in share]
    again = stage.control.share_of(FIRST)
    assert len(share) == 300
    assert all(one is other for one, other in zip(share, again, strict=True))
    assert all(text is entry.sent for text, entry in zip(texts, again, strict=True))
