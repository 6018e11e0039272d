"""Routes of agents: the list, one of them, shutting one out, and taking one off the list. docs/api.rst lists them."""

from __future__ import annotations

import time
from operator import attrgetter
from typing import TypedDict

from helen import departed_agents
from helen.agents.roster import Agent
from helen.agents.sight import Sight
from helen.identity import given_labels
from helen.parts import Parts
from helen.states.model import LINK
from helen.storage import given_rows
from helen.web.agent_views import (
    AgentJson,
    EntryJson,
    LatestJson,
    show_agent,
    show_entry,
    show_latest,
)
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import Labels, Strings
from helen.web.connections.paced_answers import write_rows
from helen.web.cursors import read_page
from helen.web.json_types import Object
from helen.web.problems import Problem
from helen.web.query import patterns_in
from helen.web.request import ApiRequest
from helen.web.route import ON, V1, Routes
from helen.web.sight.agents_in_turns import agents_in_sight, meant_by
from helen.web.state_rows import StateJson, show_state

routes = Routes()
UNKNOWN = {404: "no such agent"}


class AgentsJson(TypedDict):
    """Lists agents, a page of them."""

    agents: list[AgentJson]
    next: str | None


class JudgedResult(LatestJson):
    """Holds the latest result of a check, and the judged state of the check."""

    state: StateJson


class AgentInFull(AgentJson):
    """Describes one agent with its files, results and schedule; `unheard` are states of checks without a result.

    `shell` has its SSH host key, signed by the agent, if its policy lets people in.
    """

    files: dict[str, Object]
    results: list[JudgedResult]
    unheard: list[StateJson]
    schedule: list[EntryJson]
    shell: dict[str, str]


class Revoked(TypedDict):
    """Counts the certificates of an agent that are good no more."""

    agent: str
    revoked: int


class Labelled(TypedDict):
    """Holds the labels that an agent was given, before and now, and all of its labels that steer now."""

    agent: str
    before: dict[str, str]
    given: dict[str, str]
    labels: dict[str, str]


class LabelAgent(Body, frozen=True, kw_only=True):
    """Gives an agent the labels of `put`, and takes those with the keys of `drop` from it."""

    put: Labels = {}
    drop: Strings = []


class Forgotten(TypedDict):
    """Names the agent that is in no list any more."""

    agent: str


@routes.get(f"{V1}/agents", "read", "The agents, connected or not", answer=AgentsJson, query=(ON,), paged=True)
async def list_agents(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with agents by name, all or those of `?on=`; revoked ones, too."""
    patterns = patterns_in(request)
    page = read_page(request, "agents", (str,), patterns)
    agents, sight = parts.sessions.roster.agents.values(), parts.visible(request.caller)
    found = await agents_in_sight(agents, sight, meant_by(patterns, revoked=True))
    rows, following = page.cut(sorted(found, key=attrgetter("name")), place_of)

    def show(agent: Agent) -> AgentJson:
        return shown_agent(parts, agent)

    return await write_rows(request, "agents", rows, show, {"next": following}, whole=page.limit is not None)


@routes.get(
    f"{V1}/agents/<name>", "read", "One agent, its files, results and schedule", answer=AgentInFull, errors=UNKNOWN
)
def get_agent(parts: Parts, request: ApiRequest, name: str) -> bytes:
    """Answer with all that is known of one agent."""
    shown = agent_in_full(parts, find_agent(parts, name), parts.visible(request.caller))
    return write_json(request, shown)


def agent_in_full(parts: Parts, agent: Agent, sight: Sight | None) -> AgentInFull:
    """Return all that is known of one agent, without parents of its checks that are out of sight."""
    name = agent.name
    states = {
        check_id: state for _, check_id in parts.evaluator.timeline.keys_of(name) if check_id != LINK
        if (state := show_state(parts.evaluator, name, check_id, sight)) is not None
    }  # fmt: skip
    return {
        **shown_agent(parts, agent),
        "files": agent.files,
        "results": [
            {**show_latest(agent.latest[check_id]), "state": state}
            for check_id, state in states.items()
            if check_id in agent.latest
        ],
        "unheard": [state for check_id, state in states.items() if check_id not in agent.latest],
        "schedule": [show_entry(entry) for entry in parts.sessions.delivery.schedule_of(agent)],
        "shell": agent.shell,
    }


@routes.post(f"{V1}/agents/<name>/revoke", "revoke", "Shut an agent out", body=Body, answer=Revoked, errors=UNKNOWN)
async def revoke_agent(parts: Parts, request: ApiRequest, body: Body, name: str) -> bytes:
    """Revoke all certificates of an agent, and forget what its checks said."""
    now = time.time()
    if body.dry_run:
        count = await parts.authority.revocation.check_revoke(name, now)
    else:
        count = await parts.authority.revoke(name, now, request.caller.actor)
        parts.evaluator.forget(name)
        parts.sessions.roster.know(name).revoke(time.time())
        parts.sessions.connections.came_from(name, "")
        parts.passive.restate(name)
    shown: Revoked = {"agent": name, "revoked": count}
    return write_json(request, shown)


@routes.post(
    f"{V1}/agents/<name>/forget", "forget", "Take an agent off all lists", body=Body, answer=Forgotten,
    errors=UNKNOWN | {409: "a host, or connected"},
)  # fmt: skip
async def forget_agent(parts: Parts, request: ApiRequest, body: Body, name: str) -> bytes:
    """Revoke a name that no agent has any more, and take it off all lists. Raises Problem while it is connected."""
    agent = find_agent(parts, name)
    if agent.is_host:
        raise Problem(409, "a host", f"{name} is no agent, it reports from outside: take it out of passive.toml")
    if agent.link is not None:
        raise Problem(409, "connected", f"{name} is connected: `helen revoke {name}` shuts it out first")
    if not body.dry_run:
        await departed_agents.forget(parts, name, time.time(), request.caller.actor)
    shown: Forgotten = {"agent": name}
    return write_json(request, shown)


@routes.post(
    f"{V1}/agents/<name>/labels", "label", "Give an agent labels", body=LabelAgent, answer=Labelled,
    errors=UNKNOWN | {409: "a host"},
)  # fmt: skip
async def label_agent(parts: Parts, request: ApiRequest, body: LabelAgent, name: str) -> bytes:
    """Change the labels that an operator gives to an agent. Raises Problem for a host without an agent."""
    agent, given = find_agent(parts, name), parts.authority.given
    if agent.is_host:
        raise Problem(409, "a host", f"{name} is no agent: its labels are those of [hosts.{name}] in passive.toml")
    before = given.of(name)
    after = given_labels.checked(given_rows.changed(before, body.put, body.drop))
    claimed = {key: value for key, value in agent.labels.items() if key not in agent.given}
    if not body.dry_run:
        await given.change(name, body.put, body.drop, time.time(), request.caller.actor)
        after, claimed = given.of(name), agent.labels
    shown: Labelled = {"agent": name, "before": before, "given": after, "labels": claimed | after}
    return write_json(request, shown)


def find_agent(parts: Parts, name: str) -> Agent:
    """Return an agent by its name. Raises Problem 404 if there is none."""
    agent = parts.sessions.roster.agents.get(name)
    if agent is None:
        raise Problem(404, "no such agent", f"no agent is called {name!r}: `helen agents` lists them")
    return agent


def place_of(agent: Agent) -> tuple[str]:
    """Return the place of an agent in the list."""
    return (agent.name,)


def shown_agent(parts: Parts, agent: Agent) -> AgentJson:
    """Return an agent as the list has it."""
    return show_agent(agent, parts.library.offered(agent.name), parts.evaluator.timeline, time.time())
