"""Makes the parts of one Helen and connects them: the only file that knows all of them.

`wire` opens the state directory and whatever can refuse to open; nothing is started and no port is taken yet.
"""

from __future__ import annotations

import functools
import secrets
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.logger import Logger

from groundwork import start_clock
from groundwork.clock_watch import STEP_SECONDS, ClockWatch, Jump
from groundwork.event import Event
from groundwork.start_clock import StartClock
from helen.agents.restore import drop_late, drop_retired, restore_latest
from helen.assignments.assignments_file import AssignmentsFile
from helen.assignments.known_exports import KnownExports
from helen.assignments.known_notes import KnownNotes
from helen.evaluation.commands import Commands
from helen.evaluation.evaluator import Evaluator
from helen.evaluation.event_log import EventLog
from helen.files import restored
from helen.forwards.forwarding import Forwarding
from helen.forwards.runtime import Runtime
from helen.identity.authority import Authority
from helen.identity.reserved_names import why_reserved
from helen.identity.tls import ServerTLS
from helen.jobs.pipeline_status import PipelineWatch
from helen.journal.journal import Journal
from helen.journal.limits import Limits
from helen.journal.retention import Retention
from helen.journal.values import Batch, Recovery, Trouble
from helen.library import check_folder, keyring, shipped_lint
from helen.library import linter as linting
from helen.library.check_folder import FolderWatch
from helen.library.draft_lint import DraftLint
from helen.library.key_rotation import KeyRotation
from helen.library.library import Library
from helen.library.linter import Linter
from helen.notify.notifier import Notifier
from helen.parts import Live, Parts
from helen.passive.intake import PassiveIntake
from helen.queries.one_off_code import OneOffCode
from helen.rollout.rings import Candidate
from helen.rollout.rollout import AT_ONCE, USUAL_PLAN, Plan
from helen.sessions.drain import Drain
from helen.sessions.quota_control import Level
from helen.sessions.rollout_control import RolloutControl
from helen.sessions.session_service import SessionService
from helen.settings.settings import Settings
from helen.states.alert_decisions import is_handled
from helen.states.events import Decision
from helen.states.fleet_timeline import Timeline
from helen.states.model import Rule
from helen.storage import agent_rows
from helen.storage.credential_rows import forgotten
from helen.storage.database import Loaded, Store
from helen.targets.mesh_control import MeshControl
from helen.targets.target_control import TargetControl
from helen.telemetry import Telemetry
from helen.turn_rotation import TurnRotation

EPOCH = "events.epoch"  # in kv: the first part of the ids of this state directory's events

log = Logger()


@frozen(eq=False)
class Opened:
    """Holds what the service needs beside the parts: what it starts and stops, and what a start goes on from."""

    parts: Parts
    linter: Linter
    watch: FolderWatch
    server_tls: ServerTLS
    stored: Loaded  # what the store held when it was opened
    recovered: Sequence[Any]  # records of the journal that are in no segment yet
    judged_at: int  # the record up to which states had been evaluated
    start: StartClock  # what is known of the clock


@frozen(eq=False)
class _Ground:
    """Holds what lies on the disk of one Helen, opened: all other parts stand on it."""

    reactor: Any
    rotation: TurnRotation
    chosen: Settings
    clock: ClockWatch
    now: float  # unix seconds of this start
    store: Store
    stored: Loaded
    authority: Authority
    keys: keyring.KeyRing
    journal: Journal
    recovery: Recovery
    durable: Event[[Batch]]  # records of the journal that are on the disk now

    @property
    def state(self) -> Path:
        return self.chosen.state


def wire(
    reactor: Any, chosen: Settings, on_trouble: Callable[[Trouble], None], report_failure: Callable[[Any], None]
) -> Opened:
    """Make all parts from the state directory. Blocking.

    `on_trouble` hears of the journal's troubles, `report_failure` of failures in the background. Raises StateError,
    JournalError or OSError if something refuses to open; the sentence is for the operator.
    """
    ground = _open(reactor, chosen, on_trouble)
    clock = ground.clock
    published: Event[[]] = Event()
    library, linter = _library(ground, published, lambda: rollout_control.fleet())
    sessions = _sessions(ground, library)
    evaluator = _evaluator(
        ground, sessions, lambda agent: parts.passive.rules_of(agent) | parts.targets.rules_of(agent)
    )
    start = _compare_clocks(ground, evaluator.timeline)
    events = _events(ground, evaluator, report_failure)
    notes, exports = KnownNotes(), KnownExports()
    sessions.delivery.scheduled.subscribe(notes.take)
    sessions.delivery.scheduled.subscribe(exports.take)
    notifier = Notifier(
        reactor, ground.state, ground.store, ground.journal, sessions.facts_of, clock.wall, clock.settled,
        lambda: evaluator.timeline.open_problems(), chosen.mute, notes.of,
        lambda agent, check: is_handled(evaluator.timeline.states.get((agent, check))),
    )  # fmt: skip
    evaluator.observers.append(notifier.decided)
    evaluator.observers.append(lambda event: drop_retired(sessions.roster, event.change))
    rollout_control = RolloutControl(
        sessions, library, evaluator, ground.state / "history", wall=clock.wall, steady=clock.steady
    )
    library.releases.stepped.subscribe(rollout_control.on_rollout)
    library.releases.set_aside.subscribe(rollout_control.on_set_aside)
    sessions.loaded.subscribe(rollout_control.loaded)
    parts = Parts(
        reactor=reactor,
        state=ground.state,
        version=version("helen-equus"),
        started_at=ground.now,
        live=Live(chosen),
        clock=clock,
        telemetry=Telemetry(),
        store=ground.store,
        authority=ground.authority,
        keys=ground.keys,
        key_rotation=KeyRotation(ground.keys, library),
        journal=ground.journal,
        sessions=sessions,
        evaluator=evaluator,
        commands=Commands(reactor, ground.journal, evaluator.when_evaluated),
        events=events,
        notifier=notifier,
        passive=PassiveIntake(sessions, evaluator, ground.state, clock.wall, clock.steady, reactor),
        targets=TargetControl(
            sessions,
            ground.state,
            clock.steady,
            reactor,
            lambda: library.tables,
            lambda name: parts.passive.restate(name),
        ),
        meshes=MeshControl(sessions),
        forwarding=Forwarding(
            Runtime(reactor, clock.wall),
            ground.state,
            ground.store,
            ground.journal,
            lambda: labels_of_agents(sessions),
            lambda: events.newest,
        ),
        one_off=OneOffCode(ground.keys, ground.store, time.time),
        library=library,
        drafts=DraftLint(linter.report, library.folder),
        published=published,
        assignments=AssignmentsFile(
            reactor, ground.state / "assignments.toml", ground.store, time.time, sessions.delivery.assign
        ),
        notes=notes,
        exports=exports,
        rollout_control=rollout_control,
        drain=Drain(reactor, ground.state, sessions),
        pipeline=PipelineWatch(ground.state / "history"),
    )
    ground.authority.enrolment.is_connected = sessions.roster.is_connected
    ground.authority.enrolment.reserved = lambda name: (
        why_reserved(name) or parts.passive.why_kept(name) or parts.targets.why_kept(name)
    )
    parts.passive.labels_of_target = parts.targets.labels_of
    parts.published.subscribe(parts.targets.look_again)
    parts.assignments.observers += [parts.targets.look_again, parts.meshes.look_again]
    _subscribe(ground, parts)
    library.load(ground.stored)
    parts.sessions.quotas.levels += [
        Level("states", lambda: evaluator.timeline.left_out, "the results of further checks are kept as history only"),
        Level("series", lambda: ground.journal.without_series, "in the history, further checks share one series"),
    ]
    for told in (parts.sessions.troubles.told, parts.sessions.shells.told):
        told.subscribe(functools.partial(_tell, evaluator, clock.wall))
    authority = ground.authority
    server_tls = ServerTLS(authority.material, lambda certificate: authority.is_excused(certificate, time.time()))
    authority.on_changed(lambda: server_tls.swap(authority.material))
    watch = FolderWatch(reactor, library.folder, library.look)
    return Opened(parts, linter, watch, server_tls, ground.stored, ground.recovery.records, evaluator.at, start)


def _tell(
    evaluator: Evaluator, wall: Callable[[], float], agent: str, check: str, what: str, status: int, why: str
) -> None:
    """Notify people of something with an agent that no check has, so that no state decides."""
    now = wall()
    evaluator.write_decision(agent, check, Decision(int(now * 1_000), now, "notify", what, status, why))


def _open(reactor: Any, chosen: Settings, on_trouble: Callable[[Trouble], None]) -> _Ground:
    clock, now, state = ClockWatch(), time.time(), chosen.state
    store = Store(state, reactor.callFromThread)
    stored = store.open(now)
    authority = Authority.open(state, store, stored, chosen.names, now, host_of(chosen))
    keys = keyring.load(state, chosen.signing_keys, time.time)
    durable: Event[[Batch]] = Event()
    rotation = TurnRotation(reactor, reactor.seconds)
    journal = Journal(
        state / "journal", state / "history", reactor.callFromThread, durable, on_trouble, clock.wall,
        retention=retention(chosen), limits=Limits(series_per_agent=chosen.quotas["series"].most),
        settled=clock.settled_for_thread, later=rotation.soon, slice_seconds=rotation.slice_seconds,
        is_pressed=rotation.is_pressed,
    )  # fmt: skip
    recovery = journal.open()
    for sentence in recovery.sentences:
        tell = log.info if sentence in recovery.harmless else log.warn
        tell("{sentence}", sentence=sentence)
    return _Ground(reactor, rotation, chosen, clock, now, store, stored, authority, keys, journal, recovery, durable)


def _sessions(ground: _Ground, library: Library) -> SessionService:
    keys = ground.keys
    sessions = SessionService(
        ground.reactor, ground.authority, ground.journal, ground.store, library, add_statements=keys.add_statements,
        pinned=lambda: keys.for_enrolment(library.published), minimum=ground.chosen.minimum_equus,
        quotas=ground.chosen.quotas, wall=ground.clock.wall, steady=ground.clock.steady, settled=ground.clock.settled,
        rotation=ground.rotation,
    )  # fmt: skip
    sessions.trust_labels(ground.chosen.trust_labels)
    for known in ground.stored.agents:
        _recall(sessions, known)
    sessions.results.recall(ground.recovery.records)
    return sessions


def _evaluator(ground: _Ground, sessions: SessionService, passive_rules: Callable[[str], dict[str, Rule]]) -> Evaluator:
    evaluator = Evaluator(
        ground.rotation, ground.state, ground.journal, sessions.delivery.run_now, passive_rules=passive_rules,
        wall=ground.clock.wall, boot=ground.clock.boot,
    )  # fmt: skip
    for sentence in evaluator.open(ground.recovery.records):
        log.info("{sentence}", sentence=sentence)
    restore_latest(sessions.roster.agents, evaluator.timeline.states, forgotten(ground.stored.kv))
    sessions.delivery.scheduled.subscribe(
        lambda agent, entries: evaluator.write_rules(agent, entries, sessions.delivery.assignments.rule_defaults)
    )
    return evaluator


def _compare_clocks(ground: _Ground, timeline: Timeline) -> StartClock:
    """Say so if the clock was set since the last record, is behind it, or may be ahead; return what is known of it."""
    found = start_clock.judge(timeline.clock, timeline.boot, ground.now, ground.clock.boot())
    ahead = timeline.clock - ground.now
    if ahead >= STEP_SECONDS:
        ground.keys.date_from(timeline.clock)
        log.warn(
            "the newest time in {state} is {ahead:,.0f} s ahead of this machine's clock: it was wrong then, or it is"
            " now. Helen goes on by the time of now", state=str(ground.state), ahead=ahead,
        )  # fmt: skip
    if found.stepped or ahead >= STEP_SECONDS:
        ground.clock.recall(Jump(ground.now, found.stepped or -ahead, 0.0))
    if found.stepped > 0.0:
        log.warn(
            "the clock was set ahead by {seconds:,.0f} s while Helen was not running. Helen goes on by the new time;"
            " planned downtimes and what expires follow in an hour, if it stands", seconds=found.stepped,
        )  # fmt: skip
    elif found.doubt:
        log.warn(
            "the newest time in {state} is {seconds:,.0f} s before this machine booted: it was off, or its clock is"
            " ahead. Nothing expires for an hour, or until the clocks of most agents agree", state=str(ground.state),
            seconds=found.doubt,
        )  # fmt: skip
    return found


def _subscribe(ground: _Ground, parts: Parts) -> None:
    """Connect parts to what other parts announce: the order is the order in which they are called."""
    take_rings(parts.library, ground.chosen)
    ground.clock.jumped.subscribe(parts.evaluator.jumped)  # first: its record is in front of all that follow
    ground.clock.jumped.subscribe(parts.sessions.results.jumped)
    ground.clock.jumped.subscribe(parts.rollout_control.jumped)
    ground.clock.jumped.subscribe(parts.notifier.jumped)
    parts.published.subscribe(parts.telemetry.count_push)
    parts.published.subscribe(parts.sessions.delivery.on_published)
    ground.durable.subscribe(lambda batch: parts.telemetry.durable(batch.results))
    ground.durable.subscribe(parts.sessions.results.on_durable)
    parts.sessions.results.unevaluated = parts.evaluator.waiting
    parts.evaluator.on_caught_up = parts.sessions.results.release_held
    parts.sessions.results.judged = parts.evaluator
    ground.durable.subscribe(lambda batch: parts.evaluator.durable(batch.records))
    ground.durable.subscribe(
        lambda batch: drop_late(parts.sessions.roster, parts.evaluator.timeline.retired, batch.results)
    )
    ground.durable.subscribe(parts.events.take)
    ground.durable.subscribe(lambda batch: parts.commands.durable(batch.changes))
    ground.durable.subscribe(lambda batch: parts.rollout_control.durable(batch.results))


def _library(ground: _Ground, published: Event[[]], fleet: Callable[[], list[Candidate]]) -> tuple[Library, Linter]:
    chosen, keys = ground.chosen, ground.keys
    folder = chosen.checks or chosen.state / "checks"
    if chosen.checks is None and check_folder.fill(folder):
        log.info("{folder} has been filled with the shipped checks", folder=folder)
    held = restored.read(chosen.state)
    if held is not None:
        log.warn("{sentence}", sentence=held.sentence)
    linting.clear(chosen.state / "lint")
    linter = Linter(ground.reactor, chosen.state / "lint")
    library = Library(
        folder, ground.store, linter, time.time, time.monotonic, keys.private, keys.root.keys, published,
        threshold=keys.root.threshold, typed=keys.root.typed, fleet=fleet, aside=chosen.state / "replaced",
        shipped=shipped_lint.load(), restored=held,
    )  # fmt: skip
    return library, linter


def _events(ground: _Ground, evaluator: Evaluator, report_failure: Callable[[Any], None]) -> EventLog:
    """Return the log that readers of events go on from. A new state directory gets an epoch of its own for its ids."""
    journal, recovered = ground.journal, ground.recovery.records
    epoch = ground.stored.kv.get(EPOCH)
    if epoch is None:
        epoch = secrets.token_hex(4)
        ground.store.call(agent_rows.put, EPOCH, epoch).addErrback(report_failure)
    newest = max(evaluator.at, journal.sealed_at, *(record.at for record in recovered[-1:]))
    events = EventLog(epoch, ground.state / "history", lambda: journal.sealed_at, newest)
    events.recall(recovered)
    return events


def _recall(sessions: SessionService, known: agent_rows.Agent) -> None:
    """Put an agent that has been here before this start into the roster; its address expects it back."""
    roster = sessions.roster
    sessions.connections.came_from(known.name, "" if known.revoked_at else known.address)
    agent = roster.know(known.name)
    agent.last_seen, agent.address, agent.facts = known.last_seen, known.address, known.facts
    agent.revoked_at = known.revoked_at
    labels, host = known.facts.get("labels"), known.facts.get("host")
    agent.host = host if isinstance(host, dict) else {}
    roster.claim(agent, labels if isinstance(labels, dict) else {})
    agent.isolation, agent.equus_version = known.facts.get("isolation"), known.facts.get("equus") or ""


def labels_of_agents(sessions: SessionService) -> dict[str, dict[str, str]]:
    """Return the labels that steer, of each agent and host; they are replaced as a whole, so a thread may read them."""
    return {agent.name: agent.labels for agent in sessions.roster.agents.values()}


def host_of(chosen: Settings) -> str:
    """Return the host of --listen for the server's certificate; empty if that is every address."""
    host, _ = chosen.listen
    return "" if host == "*" else host


def retention(chosen: Settings) -> Retention:
    """Return how long the journal keeps segments of the history."""
    return Retention(keep_days=chosen.retention / 86_400)


def take_rings(library: Library, chosen: Settings) -> None:
    """Give the library the rings of --rings for pushes and changes of the folder that name none."""
    library.plan = USUAL_PLAN if chosen.rings is None else Plan(chosen.rings)
    library.folder_plan = AT_ONCE if chosen.rings is None else Plan(chosen.rings)
