"""/metrics: what Helen tells Prometheus about herself and her fleet. The format is helen/web/exposition.py's.

Series of single checks and agents are written while there are MOST_SERIES at most, and left out as a whole beyond:
`helen_series_left_out` says how many. `?on=PATTERN` picks agents, so that several scrapes share a great fleet.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from klein import Klein
from twisted.internet.task import cooperate
from twisted.internet.threads import deferToThread

from equus_protocol.results import STATUS_WORDS
from helen.judged import LINK, State
from helen.pipeline_watch import Said
from helen.roster import Agent
from helen.timeline import Key
from helen.web.exposition import OPEN_METRICS, TEXT, Family, Sample, by_word, histogram, one, write

if TYPE_CHECKING:
    from helen.tap import Helen

MOST_SERIES = 10_000  # checks with series of their own: three lines each make 2 MB, which Prometheus reads at ease
Counts = dict[tuple[str, str], int]
PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")


def add_routes(app: Klein) -> None:
    """To the class of the API, whose instances have `_helen`."""

    @app.route("/metrics", methods=["GET"])
    async def metrics(api: Any, request: Any) -> bytes:
        is_open = b"application/openmetrics-text" in (request.getHeader(b"accept") or b"")
        patterns = [value.decode("utf-8", "replace") for value in request.args.get(b"on", [])]
        outside = await deferToThread(look_outside)
        counts = await deferToThread(count_states, dict(api._helen.judge.timeline.states))
        request.setHeader("content-type", OPEN_METRICS if is_open else TEXT)
        gone: list[Any] = []
        request.notifyFinish().addErrback(gone.append)
        pieces = write(gather(api._helen, patterns, outside, counts), is_open)
        await cooperate(_send(request, pieces, gone)).whenDone()
        return b""


def _send(request: Any, pieces: Iterator[str], gone: list[Any]) -> Iterator[None]:
    for piece in pieces:
        if gone:
            return
        request.write(piece.encode("utf-8", "replace"))
        yield


def look_outside() -> dict[str, Any]:
    """What the kernel says of this process. In a thread."""
    fields = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
    return {
        "cpu": (int(fields[11]) + int(fields[12])) / TICK,
        "rss": int(fields[21]) * PAGE,
        "files": len(os.listdir("/proc/self/fd")),
    }


def count_states(states: Mapping[Key, State]) -> Counts:
    """How many checks there are of each status, confirmed or not. In a thread: a great fleet has 100,000."""
    counts: Counts = {(word, kind): 0 for word in STATUS_WORDS for kind in ("soft", "hard")}
    for (_, check), state in states.items():
        if check != LINK:
            counts[STATUS_WORDS[state.shown.status], "soft" if state.shown.attempt else "hard"] += 1
    return counts


def gather(helen: Helen, patterns: list[str], outside: dict[str, Any], counts: Counts) -> Iterator[Family]:
    """Everything, in an order that stays."""
    yield from _of_helen(helen, outside)
    yield from _of_agents(helen)
    yield from _of_results(helen, counts)
    yield from _of_notifications(helen)
    yield from _of_the_web(helen)
    yield from _of_pipeline(helen.pipeline.latest, time.time())
    yield from _of_each(helen, patterns)


def _of_helen(helen: Helen, outside: dict[str, Any]) -> Iterator[Family]:
    journal, store = helen.journal, helen.store
    yield Family("helen_build", "info", "This Helen's version.", [("", {"version": helen.version}, 1)])
    yield one("process_start_time_seconds", "gauge", "When Helen started, in unix seconds.", helen.started_at)
    yield one("process_cpu_seconds", "counter", "CPU time of Helen's process, all threads.", outside["cpu"])
    yield one("process_resident_memory_bytes", "gauge", "Memory of Helen's process.", outside["rss"])
    yield one("process_open_fds", "gauge", "Open descriptors of Helen's process.", outside["files"])
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield one("process_max_fds", "gauge", "How many descriptors it may have.", most)
    lag = helen.telemetry.loop_lag
    yield histogram("helen_event_loop_lag_seconds", "How late a call of the reactor came that was due.", lag)
    yield histogram("helen_store_write_seconds", "Transactions of the store, the disk included.", store.write_seconds)
    yield one("helen_store_trouble", "gauge", "1 while the store can't write.", store.trouble is not None)
    yield one("helen_journal_trouble", "gauge", "1 while the journal can't write.", helen.trouble is not None)
    yield one("helen_journal_backlog_bytes", "gauge", "Results that wait for the disk.", journal.backlog_bytes)
    yield one("helen_journal_segment", "gauge", "Number of the newest segment of the history.", journal.segment)
    yield one("helen_journal_refused", "counter", "Results whose sequence can't be counted.", journal.refused)


def _of_agents(helen: Helen) -> Iterator[Family]:
    house, library = helen.house, helen.library
    agents = house.roster.agents.values()
    connected = [agent for agent in agents if agent.link is not None]
    yield one("helen_agents_known", "gauge", "Agents that have a name here.", len(agents))
    yield one("helen_agents_connected", "gauge", "Agents that are connected.", len(connected))
    turned_away = house.door.turned_away if house.door is not None else 0
    sessions = {**house.sessions, "turned-away": turned_away}
    yield by_word("helen_sessions", "counter", "Connections of agents, by what came of them.", "outcome", sessions)
    errors = house.errors
    yield by_word("helen_protocol_errors", "counter", "Error words that were sent to agents.", "reason", errors)
    yield one("helen_identity_conflicts", "counter", "Second machines with one identity.", house.counts["clashes"])
    version = library.published.version if library.published is not None else None
    yield one("helen_manifest_version", "gauge", "Version of the published set of checks.", version)
    expires = library.published.document.expires if library.published is not None else None
    yield one("helen_manifest_expires_timestamp_seconds", "gauge", "When agents refuse that set.", expires)
    pushed = helen.telemetry.pushed
    yield one("helen_scripts_pushed", "counter", "Times that agents were told of another set of checks.", pushed)
    have = sum(1 for agent in connected if version is not None and _is_current(helen, agent))
    yield one("helen_agents_current", "gauge", "Connected agents that run the set that they should.", have)
    yield one("helen_questions_open", "gauge", "Questions that wait for agents.", len(house.runs))


def _is_current(helen: Helen, agent: Agent) -> bool:
    offered = helen.library.offered(agent.name)
    return offered is not None and agent.digest == offered.digest


def _of_results(helen: Helen, counts: Counts) -> Iterator[Family]:
    telemetry, dispatch = helen.telemetry, helen.house.supply.dispatch
    yield by_word("helen_check_results", "counter", "Results that became durable.", "status", telemetry.results)
    yield histogram("helen_check_duration_seconds", "How long checks took, as agents say.", telemetry.duration)
    late = "From the end of a run, by its agent's clock, to the result's arrival."
    yield histogram("helen_check_lag_seconds", late, telemetry.lag)
    yield one("helen_checks_asked", "counter", "Runs that agents of version 1 were asked for.", dispatch.asked)
    yield one("helen_checks_skipped", "counter", "Runs of theirs that were left out.", dispatch.skipped)
    samples: list[Sample] = [("", {"status": word, "kind": kind}, n) for (word, kind), n in counts.items()]
    yield Family("helen_states", "gauge", "Checks by their judged state.", samples)
    active = len(helen.judge.timeline.active)
    yield one("helen_windows_active", "gauge", "Downtimes and silences that are on.", active)


def _of_notifications(helen: Helen) -> Iterator[Family]:
    outbox = helen.notifier.outbox
    samples: list[Sample] = [
        ("", {"channel": channel, "outcome": outcome}, count) for (channel, outcome), count in outbox.counts.items()
    ]
    yield Family("helen_notifications", "counter", "Tries to deliver messages, by what came of them.", samples)
    yield one("helen_notifications_waiting", "gauge", "Messages in the outbox.", len(outbox))
    yield one("helen_notifications_dead", "gauge", "Messages that could not be delivered.", outbox.dead)
    decided = helen.notifier.counts
    yield one("helen_notification_decisions", "counter", "Decisions to tell somebody.", decided["decisions"])
    yield one("helen_notifications_unrouted", "counter", "Those for which no rule has a channel.", decided["unrouted"])


def _of_the_web(helen: Helen) -> Iterator[Family]:
    telemetry = helen.telemetry
    yield one("helen_event_streams", "gauge", "Streams of events that are open.", len(helen.streams))
    yield one("helen_event_streams_cut", "counter", "Readers of events that were too slow.", telemetry.streams_cut)
    yield by_word("helen_http_requests", "counter", "Answers of the HTTP API.", "code", telemetry.requests)


def _of_pipeline(said: Said | None, now: float) -> Iterator[Family]:
    """What `helen pipeline run` says of itself; nothing where it has never run."""
    if said is None:
        return
    runs = said.running and not said.is_silent(now)
    yield one("helen_pipeline_up", "gauge", "1 while the pipeline runs, and says so now and then.", runs)
    failing = "1 while a part of it fails (hours, upkeep), or where it has ended by a failure."
    yield one("helen_pipeline_failing", "gauge", failing, said.error is not None)
    yield one("helen_pipeline_heard_timestamp_seconds", "gauge", "When it has last said so.", said.at)
    yield one("helen_pipeline_results", "counter", "Results that this run has taken in.", said.results)
    yield one("helen_pipeline_batches", "counter", "Batches of this run.", said.batches)
    at = said.last_at or None
    yield one("helen_pipeline_last_batch_timestamp_seconds", "gauge", "When the last batch was published.", at)
    yield one("helen_pipeline_last_batch_seconds", "gauge", "How long it took.", said.last_seconds)
    yield one("helen_pipeline_last_batch_results", "gauge", "How many results it had.", said.last_results)
    yield one("helen_pipeline_segment", "gauge", "The newest segment that the lake has.", said.segment)
    yield one("helen_pipeline_behind_segments", "gauge", "Segments that are still to come.", said.behind)
    yield one("helen_pipeline_behind_seconds", "gauge", "Age of the oldest of them.", said.seconds)


def _of_each(helen: Helen, patterns: list[str]) -> Iterator[Family]:
    """Series of single agents and checks, or how many there would be."""
    roster, states = helen.house.roster, helen.judge.timeline.states
    agents = sorted(roster.matching(patterns) if patterns else roster.agents.values(), key=lambda agent: agent.name)
    checks = sum(len(agent.latest) for agent in agents)
    left_out = checks + len(agents) if max(checks, len(agents)) > MOST_SERIES else 0
    said = f"Checks and agents without series of their own: more than {MOST_SERIES}; pick some with ?on=PATTERN."
    yield one("helen_series_left_out", "gauge", said, left_out)
    if left_out:
        return
    yield Family("helen_agent_connected", "gauge", "Whether an agent is connected.", (
        ("", {"agent": agent.name}, agent.link is not None) for agent in agents
    ))  # fmt: skip
    yield Family("helen_agent_clock_offset_seconds", "gauge", "How far an agent's clock is ahead.", (
        ("", {"agent": agent.name}, agent.clock_offset) for agent in agents if agent.clock_offset is not None
    ))  # fmt: skip
    yield Family("helen_check_status", "gauge", "0 ok, 1 warning, 2 critical, 3 unknown, as it is judged.", (
        ("", {"agent": agent.name, "check": check}, states[agent.name, check].shown.status)
        for agent in agents for _, check in helen.judge.timeline.keys_of(agent.name) if check != LINK
    ))  # fmt: skip
    yield Family("helen_check_last_result_timestamp_seconds", "gauge", "When its last result came.", (
        ("", {"agent": agent.name, "check": latest.check_id}, latest.received)
        for agent in agents for latest in list(agent.latest.values())
    ))  # fmt: skip
