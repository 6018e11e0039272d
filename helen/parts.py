"""Names and types the result of wiring.py: the one value that the web interface and the network of Helens are given."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from attrs import define, frozen
from twisted.internet.defer import Deferred

from groundwork.authority import Caller
from groundwork.clock_watch import ClockWatch
from groundwork.event import Event
from helen.agents.sight import Sight
from helen.assignments.assignments_file import AssignmentsFile
from helen.assignments.known_exports import KnownExports
from helen.assignments.known_notes import KnownNotes
from helen.evaluation.commands import Commands
from helen.evaluation.evaluator import Evaluator
from helen.evaluation.event_log import EventLog
from helen.forwards.forwarding import Forwarding
from helen.identity.authority import Authority
from helen.jobs.jobs import Jobs
from helen.jobs.pipeline_status import PipelineWatch
from helen.journal.journal import Journal
from helen.library.draft_lint import DraftLint
from helen.library.key_rotation import KeyRotation
from helen.library.keyring import KeyRing
from helen.library.library import Library
from helen.notify.notifier import Notifier
from helen.passive.intake import PassiveIntake
from helen.queries.one_off_code import OneOffCode
from helen.sessions.drain import Drain
from helen.sessions.rollout_control import RolloutControl
from helen.sessions.session_service import SessionService
from helen.settings.settings import Settings
from helen.storage.database import Store
from helen.targets.mesh_control import MeshControl
from helen.targets.target_control import TargetControl
from helen.telemetry import Telemetry


class FarTunnels(Protocol):
    """Describes helen.cluster.far_tunnels.FarTunnels."""

    def open(self, agent: str, kind: str, described: dict[str, str], token: str = "") -> Deferred[Any]:
        """Open a tunnel to an agent of another Helen. Fails with TunnelRefused, NotThere among them.

        `token` is the name of the caller's, empty for the operator.
        """

    def host_key(self, agent: str) -> Deferred[dict[str, str]]:
        """Return what an agent of another Helen has said of its SSH host key, {} if there is none."""


class Network(Protocol):
    """Describes helen.cluster.helen_network.HelenNetwork as far as others need it, which need not have its extra."""

    @property
    def jobs(self) -> Jobs | None:
        """Return the jobs of ZeroTask; None if this Helen works for no broker of it."""

    @property
    def far_tunnels(self) -> FarTunnels | None:
        """Return the tunnels to agents of other Helens; None without a network key."""

    def overview(self) -> dict[str, Any]:
        """Return `scale0`, `shared` and `zerotask`, each a dict or None, and `troubles` where there are any."""

    def figures(self) -> list[tuple[str, str, float]]:
        """Return name, help and value of each gauge."""

    def has_agent(self, name: str) -> Deferred[bool | None]:
        """Fire with True if some Helen of the network has an agent of this name; None: there is no broker to ask."""

    def other_helens(self) -> list[str]:
        """Return addresses, HOST:PORT, where agents of this Helen may go."""


@define(eq=False)
class Live:
    """Holds what changes while Helen runs and belongs to no part: it is written by the service alone."""

    settings: Settings  # SIGHUP replaces it
    trouble: str | None = None  # of the journal, as long as it lasts
    is_serving: bool = False  # agents are accepted
    is_ending: bool = False  # Helen was told to stop
    address: str = ""  # HOST:PORT of agents, as bound
    web: str | None = None  # HOST:PORT of the HTTP API on TCP


@frozen(eq=False)
class Parts:
    """Holds every part of one running Helen. `reactor` is Twisted's, `started_at` is in unix seconds."""

    reactor: Any
    state: Path
    version: str
    started_at: float
    live: Live
    clock: ClockWatch
    telemetry: Telemetry
    store: Store
    authority: Authority
    keys: KeyRing
    key_rotation: KeyRotation
    journal: Journal
    sessions: SessionService
    evaluator: Evaluator
    commands: Commands
    events: EventLog
    notifier: Notifier
    passive: PassiveIntake
    targets: TargetControl
    meshes: MeshControl
    forwarding: Forwarding
    one_off: OneOffCode
    library: Library
    drafts: DraftLint
    published: Event[[]]  # a set of checks was published
    assignments: AssignmentsFile
    notes: KnownNotes
    exports: KnownExports
    rollout_control: RolloutControl
    drain: Drain
    pipeline: PipelineWatch
    network: Network | None = None  # with --scale0, --zerotask and their like

    def visible(self, caller: Caller) -> Sight | None:
        """Return the test for agents that a caller sees, by name; None for a caller without a limit."""
        return None if caller.on is None else Sight(caller.on, self.sessions.roster.agents)
