"""Routes of judged states: the list, one of them, and why a check is in its state. docs/api.rst lists them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from attrs import evolve
from twisted.internet.threads import deferToThread

from equus_protocol.results import STATUS_WORDS
from groundwork.durations import words_of
from helen.agents.roster import Agent
from helen.agents.sight import Sight
from helen.evaluation.replay import HistoryRecord
from helen.explain.explain import AROUND, DAY, Facts, explain
from helen.explain.history_around import HistoryAround
from helen.journal.values import Origin
from helen.parts import Parts
from helen.sessions.v1_scheduler import next_due
from helen.states.model import Key
from helen.states.rollout_trials import ROLLOUT_KEY
from helen.web.answers import write_json
from helen.web.connections.paced_answers import Write, write_pieces
from helen.web.cursors import read_page
from helen.web.json_types import At, Status
from helen.web.problems import Problem, bad_request
from helen.web.query import first_text, texts
from helen.web.request import ApiRequest
from helen.web.route import V1, Query, Routes
from helen.web.sight.redaction import seen_changes, seen_facts, seen_result
from helen.web.state_rows import ConditionJson, StateFilter, StateJson, show_state, write_states
from helen.web.web_parts import WebParts

routes = Routes()
RESULTS_SHOWN = 10  # results that an explanation looks at
RUNS_AROUND = 900.0  # seconds before and after a moment in which runs that did not happen are looked for
RUNS_SHOWN = 5  # or so many intervals of the check, if they are longer
CLOCKS_APART = 60.0  # seconds by which a caller's clock may be ahead: a moment from then on is in the future
UNKNOWN = {404: "no such check, or no such agent"}


class StatesJson(TypedDict):
    """Lists judged states, a page of them; events after the id `at` are not in it."""

    states: list[StateJson]
    at: str
    next: str | None


class ReferenceJson(TypedDict):
    """Names a downtime, a silence, a parent or a rollout that holds messages back."""

    kind: str
    ref: str


class SentenceJson(TypedDict):
    """Holds one sentence of an explanation, and the moment that it is about (unix seconds).

    `told`, of a sentence about a message: true where a channel has taken it, false where it was not sent; `refs`: why.
    """

    at: float | None
    text: str
    told: NotRequired[bool]
    refs: NotRequired[list[ReferenceJson]]


class ExplanationJson(TypedDict):
    """Says why a check is in its state, why people were not told, why it did not run, and what changed then."""

    agent: str
    check: str
    at: float
    state: ConditionJson | None
    why_state: list[SentenceJson]
    why_no_alert: list[SentenceJson]
    why_not_run: list[SentenceJson]
    what_else: list[SentenceJson]
    what_changed: list[SentenceJson]


@routes.get(
    f"{V1}/states", "read", "The judged states", answer=StatesJson, paged=True,
    query=(Query("agent", str, "an agent by its name"), Query("all", bool, "those that are well, too"),
           Query("status", Status, "only these", many=True)),
)  # fmt: skip
async def list_states(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with states of `?agent=`, of `?status=`, or of `?all=true`; else with those that are not well."""
    wanted, given = read_filter(request)
    page = read_page(request, "states", (str, str), given)
    place = None if page.after is None else (page.after[0], page.after[1])
    at = parts.events.id_of(parts.evaluator.at)  # before the first row: what comes meanwhile is in events since then

    def end(last: Key | None) -> bytes:
        following = None if last is None else page.next(last)
        return f', "at": {json.dumps(at)}, "next": {json.dumps(following)}}}\n'.encode()

    rows = parts.state_rows.rows(evolve(wanted, sight=parts.visible(request.caller)), place)

    def pieces(write: Write, is_gone: Callable[[], bool]) -> Iterator[None]:
        return write_states(rows, page.limit, write, end, is_gone)

    return await write_pieces(request, pieces, whole=page.limit is not None)


@routes.get(
    f"{V1}/states/<agent>/<path:check>", "read", "The judged state of one check", answer=StateJson, errors=UNKNOWN
)
def get_state(parts: Parts, request: ApiRequest, agent: str, check: str) -> bytes:
    """Answer with the judged state of one check."""
    shown = show_state(parts.evaluator, *known_key(parts, agent, check), parts.visible(request.caller))
    assert shown is not None
    return write_json(request, shown)


@routes.get(
    f"{V1}/explain/<agent>/<path:check>", "read", "Why a check is in its state, and who was told",
    answer=ExplanationJson, query=(Query("at", At, "unix seconds"),), errors=UNKNOWN,
)  # fmt: skip
async def explain_state(parts: Parts, request: ApiRequest, agent: str, check: str) -> bytes:
    """Answer with sentences about `?at=` (unix seconds), or about now. Raises Problem for a time that can't be."""
    text = first_text(request, "at")
    try:
        at = None if text is None else float(text)
    except ValueError as error:
        raise bad_request("`at` is a time in unix seconds") from error
    return write_json(request, await explanation(parts, agent, check, at, parts.visible(request.caller)))


async def explanation(
    parts: Parts, agent: str, check: str, moment: float | None, sight: Sight | None
) -> dict[str, Any]:
    """Return sentences about a moment (unix seconds), or about now (ExplanationJson has the keys). Raises Problem.

    Other agents that are out of sight are not named.
    """
    at = time.time() if moment is None else moment
    if not 0 <= at < 4e9:
        raise bad_request("`at` is a time in unix seconds, not milliseconds")
    if at > time.time() + CLOCKS_APART:
        raise bad_request(f"`at` is {words_of(at - time.time())} from now: only the past can be explained")
    facts = _facts(parts, (agent, check), at, is_now=moment is None)
    recent = list(parts.evaluator.recent)
    found = await deferToThread(_look_back, parts.state, facts, recent, sight)
    if moment is None and facts.state is None and not found.is_known:
        known_key(parts, agent, check)
    return explain(found)


def read_filter(request: ApiRequest) -> tuple[StateFilter, list[str]]:
    """Return the states that a request asks for, and the same in words, for cursors. Raises Problem."""
    agent = first_text(request, "agent")
    words = sorted(set(texts(request, "status")))
    unknown = [word for word in words if word not in STATUS_WORDS]
    if unknown:
        raise bad_request(f"{unknown[0]!r} is no status: {', '.join(STATUS_WORDS)}")
    everything = (first_text(request, "all") or "false").lower()
    if everything not in ("true", "false"):
        raise bad_request("`all` is true or false")
    statuses = {STATUS_WORDS.index(word) for word in words}
    if not words and (everything == "true" or agent is not None):
        statuses = set(range(len(STATUS_WORDS)))
    return StateFilter(agent, frozenset(statuses) or None), [agent or "", everything, *words]


def known_key(parts: Parts, agent: str, check_id: str) -> Key:
    """Return the key of a check that has a state. Raises Problem 404 for another."""
    if (agent, check_id) not in parts.evaluator.timeline.states:
        raise Problem(404, "no such check", f"nothing is known of {agent}/{check_id}: see `helen status {agent}`")
    return agent, check_id


def _facts(parts: Parts, key: Key, at: float, is_now: bool) -> Facts:
    """Return the facts on a check that are in memory; the history is read later, in a thread."""
    timeline, sessions = parts.evaluator.timeline, parts.sessions
    agent, clock = sessions.roster.agents.get(key[0]), timeline.clocks.get(key[0])
    if key == ROLLOUT_KEY:  # messages name it, and no agent has it
        return Facts(*key, at, None, timeline.rule(key))
    if agent is None:
        raise Problem(404, "no such agent", f"no agent is called {key[0]!r}: `helen agents` lists them")
    runners = parts.targets.runners(key[0])
    listed = (*sessions.delivery.schedule_of(agent), *parts.targets.entries_of(key[0]))
    entry = next((each for each in listed if each.id == key[1]), None)
    looking = [sessions.roster.agents.get(each, Agent(each)) for each in runners] or [agent]
    link = next((each for each in looking if each.link is not None), looking[0])
    return Facts(
        *key, at, timeline.states.get(key) if is_now else None, timeline.rule(key), entry, link.connected_at,
        link.last_seen, None if clock is None else clock.offset, timeline.dependencies.ignored.get(key, ()),
        None if entry is None else next_due(entry, at), runners=runners,
        others=_others(parts, key) if is_now else (),
    )  # fmt: skip


def _others(parts: Parts, key: Key) -> tuple[tuple[str, str], ...]:
    """Return the other agents of a mesh that check the same one, each with the status that it sees."""
    states = parts.evaluator.timeline.states
    found = [(name, states.get((name, key[1]))) for name in parts.meshes.watchers(key[1]) if name != key[0]]
    return tuple((name, STATUS_WORDS[state.shown.status]) for name, state in found if state is not None)


def _look_back(state: Path, facts: Facts, recent: list[HistoryRecord], sight: Sight | None) -> Facts:
    """Return the facts with records of the segments, and those that are too young for them. In a thread.

    With `sight` they are as a caller sees them that is limited to some agents.
    """
    history = HistoryAround(state / "history")
    begin, end = facts.at - DAY, facts.at + AROUND
    around = max(RUNS_AROUND, RUNS_SHOWN * (0.0 if facts.entry is None else facts.entry.every))
    until = min(facts.at + around, time.time())
    runs = {past.at: past for past in history.runs_of(facts.agent, facts.at - around, until)}
    runs |= {
        past.at: past for past in recent
        if past.result is not None and past.agent == facts.agent and past.origin != Origin.ASKED
        and facts.at - around <= past.received <= until
    }  # fmt: skip
    changes = {past.at: past for past in history.changes(begin, end)}
    changes |= {past.at: past for past in recent if past.result is None and begin <= past.received <= end}
    results = {past.at: past for past in history.results(facts.agent, facts.check_id, facts.at, RESULTS_SHOWN)}
    results |= {
        past.at: past for past in recent
        if past.result is not None and (past.agent, past.check_id) == (facts.agent, facts.check_id)
        and past.received <= facts.at and past.origin != Origin.ASKED
    }  # fmt: skip
    told = [changes[at] for at in sorted(changes)]
    if sight is not None:
        facts, told = seen_facts(facts, sight), list(seen_changes(told, sight))
    newest = [results[at] for at in sorted(results, reverse=True)][:RESULTS_SHOWN]
    return facts.with_history(
        told, [seen_result(past, sight) for past in newest],
        [runs[at] for at in sorted(runs)], until,
    )  # fmt: skip
