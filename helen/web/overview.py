"""Shows all of one Helen in a few words: GET /api/v1/status, and what the other Helens of a network see of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import TypedDict

from equus_protocol.results import STATUS_WORDS
from groundwork.clock_watch import NEWS_SECONDS, ClockWatch
from helen.agents.roster import Agent
from helen.agents.sight import Sight
from helen.notify.notifier import Notifier
from helen.parts import Parts
from helen.sessions.session_service import SessionService
from helen.states.fleet_timeline import Timeline
from helen.web.agent_views import count_checks
from helen.web.connections.short_turns import take_turns
from helen.web.json_types import Counts, Object
from helen.web.label_warnings import all_warnings
from helen.web.sight.agents_in_turns import agents_in_sight, steps_of

SAID_FAULT = "the file is not used: a caller without a limit sees why"


class AgentCounts(TypedDict):
    """Counts agents that are known and connected, and hosts that report from outside."""

    known: int
    connected: int
    hosts: int


class ManifestJson(TypedDict):
    """Names the published set of checks."""

    version: int
    digest: str


class AssignmentsState(TypedDict):
    """Names the revision of the assignments in force, and the fault of the file if it is not used."""

    revision: int
    fault: str | None


class JournalJson(TypedDict):
    """Names the newest segment of the history, bytes that wait for the disk, and why the disk does not take them."""

    segment: int
    backlog: int
    trouble: str | None


class StoreJson(TypedDict):
    """Says in `trouble` why the database can't be written; None: it can."""

    trouble: str | None


class NotificationsState(TypedDict):
    """Says if people are told of problems, and counts messages that wait or could not be delivered."""

    configured: bool
    fault: str | None
    waiting: int
    dead: int
    last_error: str | None
    groups: int
    channels: dict[str, Counts]
    decisions: int
    unrouted: int
    muted: bool


class ForwardsState(TypedDict):
    """Has the fault of forwards.toml, and a sentence for each forward that an operator should look at."""

    fault: str | None
    troubles: list[str]


class JumpJson(TypedDict):
    """Describes a step of Helen's clock, or a sleep: `at` in unix seconds, the others in seconds (back: negative)."""

    at: float
    stepped: float
    slept: float


class ClockState(TypedDict):
    """Describes the steps of Helen's clock since the start: their number each way, seconds slept, and the last of them.

    `held`: seconds by which it is ahead, or may be, by which nothing expires yet.
    """

    steps: Counts
    slept: float
    last: JumpJson | None
    held: float


class StatusJson(TypedDict):
    """Describes all of Helen in a few words. `started` is in unix seconds."""

    version: str
    started: float
    clock: ClockState
    agents: AgentCounts
    checks: Counts
    manifest: ManifestJson | None
    assignments: AssignmentsState
    journal: JournalJson
    store: StoreJson
    questions: int
    counts: Counts
    notifications: NotificationsState
    forwards: ForwardsState
    network: Object | None
    pipeline: Object | None
    drain: Object
    restored: str | None
    label_warnings: list[str]
    set_aside: dict[str, list[int]]


class FleetCounts:
    """Counts agents, and their checks by status: some at a time, since there may be 10,000."""

    def __init__(self, timeline: Timeline) -> None:
        self.agents: AgentCounts = {"known": 0, "connected": 0, "hosts": 0}
        self.checks: Counter[str] = Counter()
        self._timeline = timeline

    def take(self, agents: Sequence[Agent]) -> None:
        """Count some agents."""
        for agent in agents:
            self.agents["known"] += not agent.is_host and agent.revoked_at is None
            self.agents["connected"] += agent.link is not None
            self.agents["hosts"] += agent.is_host
        self.checks.update(count_checks(self._timeline, agents))


async def overview_for(parts: Parts, sight: Sight | None) -> StatusJson:
    """Return versions, counts and troubles of every part, by the part's name (StatusJson has the keys).

    Agents are counted in short turns; all else is of the moment after the last of them. With `sight` agents and checks
    are those that are in it, and what counts or names others is left empty.
    """
    counts = FleetCounts(parts.evaluator.timeline)
    agents = await agents_in_sight(parts.sessions.roster.agents.values(), sight)
    await take_turns(steps_of(agents, counts.take))
    warnings = [] if sight is not None else await all_warnings(parts)
    shown = _overview(parts, counts, warnings)
    return shown if sight is None else _narrowed(shown, sight)


def _narrowed(shown: StatusJson, sight: Sight) -> StatusJson:
    """Return the overview without what counts or names agents out of sight."""
    shown["assignments"]["fault"] = None if shown["assignments"]["fault"] is None else SAID_FAULT
    shown["set_aside"] = {name: versions for name, versions in shown["set_aside"].items() if sight(name)}
    shown["drain"] = shown["drain"] | {"agents": shown["agents"]["connected"], "by": None}
    shown["notifications"] = _few_notifications(shown["notifications"])
    shown["network"], shown["counts"], shown["questions"] = None, {}, 0
    shown["pipeline"], shown["forwards"] = None, {"fault": None, "troubles": []}
    return shown


def _few_notifications(shown: NotificationsState) -> NotificationsState:
    """Return the state of notifications without counts and errors, which are of all agents."""
    none = {"waiting": 0, "dead": 0, "groups": 0, "decisions": 0, "unrouted": 0}
    fault = None if shown["fault"] is None else SAID_FAULT
    return {**shown, **none, "fault": fault, "last_error": None, "channels": {}}  # type: ignore[typeddict-item]


def _overview(parts: Parts, counts: FleetCounts, warnings: list[str]) -> StatusJson:
    """Return the overview, with these counts of agents and warnings about labels."""
    sessions, published, journal = parts.sessions, parts.library.published, parts.journal
    return {
        "version": parts.version,
        "started": parts.started_at,
        "clock": show_clock(parts.clock),
        "agents": counts.agents,
        "checks": {word: counts.checks[word] for word in STATUS_WORDS},
        "manifest": None if published is None else {"version": published.version, "digest": published.digest},
        "assignments": {"revision": parts.assignments.revision, "fault": parts.assignments.fault},
        "journal": {"segment": journal.segment, "backlog": journal.backlog_bytes, "trouble": parts.live.trouble},
        "store": {"trouble": parts.store.trouble},
        "questions": len(sessions.queries),
        "counts": _counts(sessions),
        "notifications": show_notifications(parts.notifier),
        "forwards": {"fault": parts.forwarding.config_file.fault, "troubles": parts.forwarding.troubles()},
        "network": None if parts.network is None else parts.network.overview(),
        "pipeline": parts.pipeline.overview(time.time()),
        "drain": parts.drain.overview(),
        "restored": parts.library.restored.sentence if parts.library.restored is not None else None,
        "label_warnings": warnings,
        "set_aside": parts.library.releases.aside.shown(),
    }


def show_clock(clock: ClockWatch) -> ClockState:
    """Return steps of the clock by direction (`back`, `ahead`), seconds slept, and the last of both worth a word."""
    last = next((jump for jump in reversed(clock.jumps) if jump.stepped or jump.slept >= NEWS_SECONDS), None)
    shown: JumpJson | None = None
    if last is not None:
        shown = {"at": last.at, "stepped": round(last.stepped, 3), "slept": round(last.slept, 3)}
    return {
        "steps": dict(clock.steps),
        "slept": round(clock.slept, 3),
        "last": shown,
        "held": round(clock.unsettled(), 3),
    }


def _counts(sessions: SessionService) -> Counts:
    scheduler = sessions.delivery.v1_scheduler
    of_schedule = {"asked": scheduler.asked, "skipped": scheduler.skipped}
    return sessions.counts | of_schedule | {"turned_away": sessions.connections.turned_away}


def show_notifications(notifier: Notifier) -> NotificationsState:
    """Return the state of notifications in a few words."""
    file, outbox = notifier.config_file, notifier.outbox
    channels = {name: _outcomes(notifier, name) for name in (file.config.channels if file.config else ())}
    return {
        "configured": file.config is not None,
        "fault": file.fault,
        "waiting": len(outbox),
        "dead": outbox.dead,
        "last_error": outbox.last_error,
        "groups": len(notifier.groups.groups),
        "channels": channels,
        "decisions": notifier.counts["decisions"],
        "unrouted": notifier.counts["unrouted"],
        "muted": notifier.is_muted,
    }


def _outcomes(notifier: Notifier, name: str) -> Counts:
    return {outcome: notifier.outbox.counts[name, outcome] for outcome in ("sent", "failed", "dead")}
