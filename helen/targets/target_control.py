"""Has agents look at targets: it grants leases, gives each agent its share, and says whose results count.

A target is a host without an agent in roster and states. One of the agents that may look at it (`via`) has its lease at
a time, or as many as its quorum says, by Helen's word alone (helen/targets/leases.py): their schedules hold the
target's checks, and their results alone are the target's. A result of any other agent, late or made up, is in the
history and changes no state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from twisted.logger import Logger

from equus_protocol.one_off import fits
from groundwork.counts import all_of, count
from groundwork.target_ids import parsed
from helen.agents.roster import Agent
from helen.assignments.schedule import CheckTable, ScheduleEntry
from helen.assignments.target_schedule import of_runner, rule_of, schedule_of_target
from helen.sessions.session_service import SessionService
from helen.states.model import Rule
from helen.targets.declarations import MAX_TARGETS
from helen.targets.lease_holders import LeaseHolders
from helen.targets.leases import SETTLE_SECONDS, START_SECONDS, Presence, choose
from helen.targets.target_entries import TargetEntries
from helen.targets.target_fields import Target
from helen.targets.target_groups import Group, said_left_out, said_of_groups, slices
from helen.targets.targets_in_force import TargetsInForce


class TargetControl:
    """Keeps leases, schedules and rules of targets in step. `steady`: monotonic seconds.

    `tables()` returns those of the published checks, `restate(name)` brings roster and rules of a host up to date.
    """

    log = Logger()

    def __init__(
        self, sessions: SessionService, state: Path, steady: Callable[[], float], reactor: Any,
        tables: Callable[[], Mapping[str, CheckTable]], restate: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._sessions, self._steady, self._tables, self._restate = sessions, steady, tables, restate
        self.in_force = TargetsInForce(sessions, state, steady, reactor, self._changed)
        self.config_file, self.sources = self.in_force.config_file, self.in_force.sources
        self.entries, self.holders = TargetEntries(), LeaseHolders()
        self._presence = Presence()
        self._groups: dict[tuple[str, ...], Group] = {}
        self._unsent: set[str] = set()  # agents with another share than they were sent
        self._dirty: set[tuple[str, ...]] = set()  # groups to decide about anew
        self._settling: dict[str, float] = {}  # agents that have just come -> when they may take leases over
        self._has_begun = False
        sessions.delivery.further = self.share_of
        sessions.delivery.runs_of = self.runs_of
        sessions.results.is_of_target = self.counts

    @property
    def config(self) -> Mapping[str, Target]:
        """Return the targets that are in force, declared ones and those that are found, by name."""
        return self.in_force.targets

    @property
    def found(self) -> Mapping[str, str]:
        """Return the place where each target is found, by name, of those that are not declared."""
        return self.in_force.found

    # ---------------------------------------------------------------------------------------------- declarations

    async def start(self, kept: Mapping[str, str]) -> None:
        """Read the declarations; nothing follows from them before `begin`. `kept`: the store's small values."""
        await self.in_force.start(kept)

    def begin(self) -> None:
        """Put the declarations into force, now and at each change; called once schedules are known."""
        self._has_begun = True
        gone = self.in_force.begin()
        self._sessions.results.is_target = lambda name: self.find(name) is not None
        now, roster = self._steady(), self._sessions.roster
        for agent in roster.agents.values():
            if agent.link is None and agent.enrolled and agent.revoked_at is None:
                self._presence.went(agent.name, now, START_SECONDS)
        self._sessions.delivery.scheduled.subscribe(lambda agent, entries: self._consider(agent))
        self._sessions.attached.subscribe(self._attached)
        self._sessions.detached.subscribe(self._detached)
        self._regroup(gone, self.config)

    def stop(self) -> None:
        """Watch the file no longer."""
        self.config_file.stop()

    def find(self, name: str) -> Target | None:
        """Return the target of this name; None if there is none, or if an agent has the name."""
        target = self.config.get(name)
        agent = None if target is None else self._sessions.roster.agents.get(name)
        return None if agent is not None and not agent.is_host and agent.revoked_at is None else target

    def labels_of(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a target; None if there is none of this name."""
        target = self.find(name)
        return None if target is None else target.labels

    def why_kept(self, name: str) -> str:
        """Return why no agent gets this name by a token without one: it is a target's; else an empty text."""
        return "a target" if name in self.config else ""

    def faults(self) -> list[str]:
        """Return a sentence for each target, and each agent with too many of them, where a declaration is at fault."""
        said = list[str]()
        for _ in self.fault_steps(said):
            pass
        return said

    def fault_steps(self, said: list[str]) -> Iterator[None]:
        """Append to `said` what `faults` returns, in steps: 10,000 targets take longer than others may wait."""
        said += self.sources.faults()
        if self.in_force.left_out:
            said.append(f"{count(self.in_force.left_out, 'target')} too many were found: {MAX_TARGETS:,} are the most")
        for names in slices(sorted(self.config)):
            taken = (name for name in names if name in self.config and self.find(name) is None)
            said += [f"{name} is an agent: a target needs a name of its own" for name in taken]
            yield
        yield from said_of_groups(said, list(self._groups.values()), self.config)
        said += [said_left_out(agent, ids) for agent, ids in sorted(self._sessions.delivery.left_out().items())]

    def _changed(self, fresh: Sequence[str]) -> None:
        """Drop the targets that are no more in force, and plan `fresh` ones."""
        self._regroup(self.entries.names() - self.config.keys(), fresh)

    def look_again(self) -> None:
        """Make all schedules of targets anew: other assignments are in force, or other checks are published."""
        if self._has_begun:
            self._regroup((), self.config)

    def _regroup(self, gone: Iterable[str], fresh: Iterable[str]) -> None:
        """Sort the targets by `via`, find out who fits, then make schedules of `fresh` ones and decide, in turns."""
        before, self._groups = self._groups, {}
        for target in self.config.values():
            group = self._groups.get(target.via)
            if group is None:  # `setdefault` would make one for each target
                group = self._groups[target.via] = Group(target.via)
            group.targets.append(target.name)
        for via, group in self._groups.items():
            if via in before:
                group.agents, group.usable = before[via].agents, before[via].usable
        walk = self._sessions.fair_turns.walk
        if self._groups.keys() - before.keys():
            walk(list(self._sessions.roster.agents.values()), self._consider)
        walk(sorted(gone), self._drop)
        walk(sorted(fresh), self._plan)
        walk([0], lambda _: self._dirty.update(self._groups))

    def _drop(self, name: str) -> None:
        if name not in self.config:
            self.entries.drop(name)
            self._give(name, ())
            self._sessions.roster.host(name)  # so that its states are closed, too, if it was taken out meanwhile
            self._restate(name)

    def _plan(self, name: str) -> None:
        """Find out what is to be looked at of a target, and tell the agent that does so."""
        target = self.find(name)
        assignments = self._sessions.delivery.assignments
        made = () if target is None else schedule_of_target(assignments, self._tables(), target)
        if self.entries.put(name, made):
            self._unsent.update(self.runners(name))
        self._restate(name)
        self._agree(name)

    # ---------------------------------------------------------------------------------------------- agents

    def _consider(self, agent: Agent) -> None:
        """Find out for which targets an agent may be asked."""
        may = agent.enrolled and agent.revoked_at is None and (agent.link is None or agent.link.version == 2)
        for group in self._groups.values():
            fitting = may and any(fits(pattern, agent.name, agent.labels) for pattern in group.via)
            if fitting != (agent.name in group.agents):
                group.agents ^= {agent.name}
                group.note(agent.name, self._presence.is_usable(agent.name))
                self._dirty.add(group.via)

    def _attached(self, agent: Agent) -> None:
        if agent.version == 2:
            now = self._steady()
            self._presence.came(agent.name, now)
            self._settling[agent.name] = now + SETTLE_SECONDS
        self._touch(agent.name)

    def _detached(self, agent: Agent) -> None:
        self._settling.pop(agent.name, None)
        self._presence.went(agent.name, self._steady())

    def _touch(self, name: str) -> None:
        is_usable = self._presence.is_usable(name)
        for group in self._groups.values():
            if name in group.agents:
                group.note(name, is_usable)
                self._dirty.add(group.via)

    def tick(self) -> None:
        """Decide about leases where something has changed, and send agents their shares. Called once a second."""
        self.sources.tick()
        now = self._steady()
        settled = [name for name, at in self._settling.items() if at <= now]
        for name in settled:
            del self._settling[name]
        walk = self._sessions.fair_turns.walk
        walk((*settled, *self._presence.expire(now)), self._touch)  # all of a network that was cut off, at once
        walk([0], lambda _: self._decide_dirty())
        if self._unsent:
            unsent, self._unsent = self._unsent, set()
            self._sessions.fair_turns.walk(sorted(unsent), self._send)

    # ---------------------------------------------------------------------------------------------- leases

    def _decide_dirty(self) -> None:
        """Decide about each `via` whose agents have changed."""
        groups = [self._groups[via] for via in self._dirty if via in self._groups]
        self._dirty.clear()
        self._sessions.fair_turns.walk(groups, self._decide)

    def _decide(self, group: Group) -> None:
        """Decide about the targets of one `via`, in turns; to find its agents takes some milliseconds of 10,000."""
        self._sessions.fair_turns.walk(list(group.targets), partial(self._settle, agents=group.considered()))

    def _settle(self, name: str, agents: list[str]) -> None:
        target = self.find(name)
        if target is None:
            self._give(name, ())
            return
        held = self.runners(name)
        chosen = choose(name, held, agents, self._presence, self._steady(), target.quorum)
        if chosen and chosen != held:
            self._give(name, chosen)
            self._restate(name)
            self._agree(name)
            gone = [each for each in held if each not in chosen]
            text = "{agents} looks at {name} now" if len(chosen) == 1 else "{agents} look at {name} now"
            text += ", and {gone} no more" if gone else ""
            self.log.info(text, agents=all_of(chosen), name=name, gone=all_of(gone))

    def _agree(self, name: str) -> None:
        """Give the roster the agents that have to agree about a target; where one agent looks at it, none has to."""
        host, target = self._sessions.roster.agents.get(name), self.find(name)
        if host is not None and target is not None:
            is_one = target.quorum.runners == 1
            host.quorum = None if is_one else (target.quorum.needed, self.runners(name))
            if is_one:
                host.views.clear()

    def _give(self, name: str, agents: tuple[str, ...]) -> None:
        """Grant the lease of a target to these agents, and take note of those that have another share than before."""
        self._unsent.update(self.holders.give(name, agents))

    def _send(self, name: str) -> None:
        agent = self._sessions.roster.agents.get(name)
        if agent is not None and agent.link is not None:
            self._sessions.delivery.send_again(agent)

    # ---------------------------------------------------------------------------------------------- for others

    def runners(self, name: str) -> tuple[str, ...]:
        """Return the agents that have the lease of a target, by name; none yet, or of another name, is empty."""
        return self.holders.agents_of(name)

    def entries_of(self, name: str) -> tuple[ScheduleEntry, ...]:
        """Return what is to be looked at of a target, as its own."""
        return self.entries.own(name)

    def share_of(self, agent: str) -> tuple[ScheduleEntry, ...]:
        """Return what an agent is to run for targets, with the ids under which it reports."""
        return tuple(entry for name in self.holders.targets_of(agent) for entry in self.entries.sent(name))

    def runs_of(self, name: str, check_id: str) -> list[tuple[str, ScheduleEntry]]:
        """Return the agents that look at a target, each with the entry of a check as it runs it."""
        found = [of_runner(name, entry) for entry in self.entries.own(name) if entry.id == check_id]
        return [(agent, entry) for agent in self.runners(name) for entry in found]

    def counts(self, agent: str, check_id: str) -> bool:
        """Return True for a result of a target by the agent with its lease, and False by another."""
        found = parsed(check_id)
        return found is not None and agent in self.runners(found[0]) and self.entries.has(found[0], found[1])

    def rules_of(self, name: str) -> dict[str, Rule]:
        """Return the rules by which results of a target's checks are judged, by their ids."""
        target = self.find(name)
        if target is None:
            return {}
        needed = 0 if target.quorum.runners == 1 else target.quorum.needed
        return {entry.id: rule_of(entry, self.runners(name), needed) for entry in self.entries.own(name)}
