"""Names the figures of /metrics, with their types and help, and takes them from the parts of Helen.

fleet_figures.py beside it counts agents, and has the series of single ones.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import frozen

from equus_protocol.results import STATUS_WORDS
from helen.agents.sight import Sight
from helen.jobs.pipeline_status import PipelineReport
from helen.parts import Parts
from helen.states.model import LINK, Key, State
from helen.telemetry import Telemetry
from helen.web.figures.exposition import Family, Sample, by_word, histogram, one
from helen.web.figures.fleet_figures import FleetFigures, single_families
from helen.web.figures.forward_families import forward_families
from helen.web.web_parts import WebParts

Counts = dict[tuple[str, str], int]  # checks by status and kind
PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")


@frozen
class ProcessFigures:
    """Holds the kernel's figures of this process: CPU seconds, bytes of memory, open descriptors."""

    cpu: float
    rss: int
    files: int


def look_at_process() -> ProcessFigures:
    """Return the kernel's figures of this process. In a thread."""
    fields = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
    cpu = (int(fields[11]) + int(fields[12])) / TICK
    return ProcessFigures(cpu, int(fields[21]) * PAGE, len(os.listdir("/proc/self/fd")))


def count_states(states: Mapping[Key, State], sight: Sight | None = None) -> Counts:
    """Return how many checks in sight there are of each status, confirmed or not.

    In a thread: a great fleet has 100,000.
    """
    counts: Counts = {(word, kind): 0 for word in STATUS_WORDS for kind in ("soft", "hard")}
    for (agent, check), state in states.items():
        if check != LINK and (sight is None or sight(agent)):
            counts[STATUS_WORDS[state.shown.status], "soft" if state.shown.attempt else "hard"] += 1
    return counts


def gather(
    parts: WebParts, fleet: FleetFigures, process: ProcessFigures, counts: Counts, now: float
) -> Iterator[Family]:
    """Yield all figures, in an order that stays. `fleet` has counted all agents; `now` is in unix seconds."""
    yield from _of_process(parts, process)
    yield from _of_disk(parts)
    yield from _of_agents(parts, fleet)
    yield from _of_results(parts, counts)
    yield from _of_notifications(parts)
    yield from forward_families(parts.forwarding)
    yield from _of_the_api(parts)
    yield from _of_network(parts)
    yield from pipeline_families(parts.pipeline.latest, now)
    yield from single_families(parts, fleet)


def gather_seen(parts: WebParts, fleet: FleetFigures, process: ProcessFigures, counts: Counts) -> Iterator[Family]:
    """Yield the figures for a caller that is limited to some agents: of the process, and of `fleet`, these agents."""
    yield from _of_process(parts, process)
    yield _known(fleet)
    yield _connected(fleet)
    yield _states(counts)
    yield from single_families(parts, fleet)


def _known(fleet: FleetFigures) -> Family:
    return one("helen_agents_known", "gauge", "Agents that have a name here.", fleet.known)


def _connected(fleet: FleetFigures) -> Family:
    return one("helen_agents_connected", "gauge", "Agents that are connected.", fleet.connected)


def _states(counts: Counts) -> Family:
    samples: list[Sample] = [("", {"status": word, "kind": kind}, n) for (word, kind), n in counts.items()]
    return Family("helen_states", "gauge", "Checks by their judged state.", samples)


def _of_process(parts: Parts, process: ProcessFigures) -> Iterator[Family]:
    yield Family("helen_build", "info", "This Helen's version.", [("", {"version": parts.version}, 1)])
    yield one("process_start_time_seconds", "gauge", "When Helen started, in unix seconds.", parts.started_at)
    yield one("process_cpu_seconds", "counter", "CPU time of Helen's process, all threads.", process.cpu)
    yield one("process_resident_memory_bytes", "gauge", "Memory of Helen's process.", process.rss)
    yield one("process_open_fds", "gauge", "Open descriptors of Helen's process.", process.files)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield one("process_max_fds", "gauge", "How many descriptors it may have.", most)
    steps = parts.clock.steps
    yield by_word("helen_clock_steps", "counter", "Steps of Helen's wall clock, by direction.", "way", steps)
    yield one("helen_clock_slept_seconds", "counter", "Seconds in which Helen or its machine stood still.",
              parts.clock.slept)  # fmt: skip


def _of_disk(parts: Parts) -> Iterator[Family]:
    journal, store = parts.journal, parts.store
    yield from reactor_families(parts.telemetry)
    yield histogram("helen_store_write_seconds", "Transactions of the store, the disk included.", store.write_seconds)
    yield one("helen_store_trouble", "gauge", "1 while the store can't write.", store.trouble is not None)
    trouble = parts.live.trouble is not None
    yield one("helen_journal_trouble", "gauge", "1 while the journal can't write.", trouble)
    yield one("helen_journal_backlog_bytes", "gauge", "Results that wait for the disk.", journal.backlog_bytes)
    yield one("helen_journal_segment", "gauge", "Number of the newest segment of the history.", journal.segment)
    yield one("helen_journal_refused", "counter", "Results whose sequence can't be counted.", journal.refused)


def reactor_families(telemetry: Telemetry) -> Iterator[Family]:
    """Yield how late the reactor is, and what of that Helen held it, if the kernel tells that."""
    said = "How late a call of the reactor came that was due."
    yield histogram("helen_event_loop_lag_seconds", said, telemetry.loop_lag)
    if telemetry.processor_wait is not None:
        said = "That lag without the time in which the reactor's thread waited for a processor: what Helen held it."
        yield histogram("helen_event_loop_held_seconds", said, telemetry.loop_held)
        said = "How long the reactor's thread has waited for a processor."
        yield one("helen_event_loop_processor_wait_seconds", "counter", said, telemetry.processor_wait)


def _of_agents(parts: Parts, fleet: FleetFigures) -> Iterator[Family]:
    sessions, library = parts.sessions, parts.library
    yield _known(fleet)
    yield one("helen_hosts_known", "gauge", "Hosts without an agent, that others report for.", fleet.hosts)
    yield _connected(fleet)
    outcomes = {**sessions.admissions, "turned-away": sessions.connections.turned_away}
    yield by_word("helen_sessions", "counter", "Connections of agents, by what came of them.", "outcome", outcomes)
    errors = sessions.errors
    yield by_word("helen_protocol_errors", "counter", "Error words that were sent to agents.", "reason", errors)
    clashes = sessions.counts["clashes"]
    yield one("helen_identity_conflicts", "counter", "Second machines with one identity.", clashes)
    limits = {quota.name: quota.most for quota in sessions.quotas.quotas.by_name}
    yield by_word("helen_quota_limit", "gauge", "What each agent may send at once, or have.", "quota", limits)
    refills = {quota.name: quota.a_minute for quota in sessions.quotas.quotas.by_name if quota.is_rate}
    yield by_word("helen_quota_per_minute", "gauge", "What each agent may send in a minute.", "quota", refills)
    turned_away, wrong = sessions.connections.turned_away, parts.authority.refusals["shut-out"]
    of_addresses = {"strangers": turned_away, "enrolments": sessions.quotas.exceeded["enrolments"] + wrong}
    exceeded = sessions.quotas.exceeded | of_addresses
    yield by_word("helen_quota_exceeded", "counter", "What was not taken for a quota.", "quota", exceeded)
    yield one("helen_agent_troubles", "gauge", "Troubles of agents that last: quotas, copies.", len(sessions.troubles))
    version = library.published.version if library.published is not None else None
    yield one("helen_manifest_version", "gauge", "Version of the published set of checks.", version)
    expires = library.published.document.expires if library.published is not None else None
    yield one("helen_manifest_expires_timestamp_seconds", "gauge", "When agents refuse that set.", expires)
    pushed = parts.telemetry.pushed
    yield one("helen_scripts_pushed", "counter", "Times that agents were told of another set of checks.", pushed)
    said = "Connected agents that run the set that they should."
    yield one("helen_agents_current", "gauge", said, fleet.current)
    yield one("helen_questions_open", "gauge", "Questions that wait for agents.", len(sessions.queries))


def _of_results(parts: Parts, counts: Counts) -> Iterator[Family]:
    telemetry, dispatch = parts.telemetry, parts.sessions.delivery.v1_scheduler
    yield by_word("helen_check_results", "counter", "Results that became durable.", "status", telemetry.results)
    yield histogram("helen_check_duration_seconds", "How long checks took, as agents say.", telemetry.duration)
    late = "From the end of a run, by its agent's clock, to the result's arrival."
    yield histogram("helen_check_lag_seconds", late, telemetry.lag)
    yield one("helen_checks_asked", "counter", "Runs that agents of version 1 were asked for.", dispatch.asked)
    yield one("helen_checks_skipped", "counter", "Runs of theirs that were left out.", dispatch.skipped)
    yield _states(counts)
    active = len(parts.evaluator.timeline.active)
    yield one("helen_windows_active", "gauge", "Downtimes and silences that are on.", active)


def _of_notifications(parts: Parts) -> Iterator[Family]:
    outbox, decided = parts.notifier.outbox, parts.notifier.counts
    samples: list[Sample] = [
        ("", {"channel": channel, "outcome": outcome}, count) for (channel, outcome), count in outbox.counts.items()
    ]
    yield Family("helen_notifications", "counter", "Tries to deliver messages, by what came of them.", samples)
    yield one("helen_notifications_waiting", "gauge", "Messages in the outbox.", len(outbox))
    yield one("helen_notifications_dead", "gauge", "Messages that could not be delivered.", outbox.dead)
    yield one("helen_notification_decisions", "counter", "Decisions to tell somebody.", decided["decisions"])
    yield one("helen_notifications_unrouted", "counter", "Those for which no rule has a channel.", decided["unrouted"])


def _of_the_api(parts: WebParts) -> Iterator[Family]:
    telemetry = parts.telemetry
    yield one("helen_event_streams", "gauge", "Streams of events that are open.", len(parts.streams))
    yield one("helen_event_streams_cut", "counter", "Readers of events that were too slow.", telemetry.streams_cut)
    yield by_word("helen_http_requests", "counter", "Answers of the HTTP API.", "code", telemetry.requests)


def _of_network(parts: Parts) -> Iterator[Family]:
    for name, text, value in parts.network.figures() if parts.network is not None else ():
        yield one(name, "gauge", text, value)


def pipeline_families(status: PipelineReport | None, now: float) -> Iterator[Family]:
    """Yield the figures of `helen pipeline run` by its status file; nothing where it has never run. `now` is in unix
    seconds."""
    if status is None:
        return
    runs = status.running and not status.is_silent(now)
    yield one("helen_pipeline_up", "gauge", "1 while the pipeline runs, and says so now and then.", runs)
    failing = "1 while a part of it fails (hours, upkeep), or where it has ended by a failure."
    yield one("helen_pipeline_failing", "gauge", failing, status.error is not None)
    yield one("helen_pipeline_heard_timestamp_seconds", "gauge", "When it has last said so.", status.at)
    yield one("helen_pipeline_results", "counter", "Results that this run has taken in.", status.results)
    yield one("helen_pipeline_batches", "counter", "Batches of this run.", status.batches)
    at = status.last_at or None
    yield one("helen_pipeline_last_batch_timestamp_seconds", "gauge", "When the last batch was published.", at)
    yield one("helen_pipeline_last_batch_seconds", "gauge", "How long it took.", status.last_seconds)
    yield one("helen_pipeline_last_batch_results", "gauge", "How many results it had.", status.last_results)
    yield one("helen_pipeline_segment", "gauge", "The newest segment that the lake has.", status.segment)
    yield one("helen_pipeline_behind_segments", "gauge", "Segments that are still to come.", status.behind)
    yield one("helen_pipeline_behind_seconds", "gauge", "Age of the oldest of them.", status.seconds)
