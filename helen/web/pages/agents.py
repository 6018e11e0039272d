"""Serves the pages of agents: the list, and one of them with its link, checks, schedule and files.

They show the documents of GET /api/v1/agents and /api/v1/agents/NAME. static/agents.js keeps them live, makes join
lines, and shuts an agent out.
"""

from __future__ import annotations

import json
import time
from typing import Any

from attrs import asdict, frozen
from twisted.internet.threads import deferToThread

from groundwork.authority import decide
from groundwork.globs import reader_of_all
from helen.actions import AUDIT
from helen.agents.roster import Agent
from helen.agents.sight import Sight, seen
from helen.parts import Parts
from helen.queries.past_changes import Question
from helen.sessions.v1_scheduler import next_due
from helen.storage.agent_rows import audit_page
from helen.web.cursors import read_page
from helen.web.pages.answer import write_page
from helen.web.pages.strip_svg import strip_runs
from helen.web.problems import Problem
from helen.web.query import first_text
from helen.web.request import ApiRequest
from helen.web.route import Query, Routes
from helen.web.routes.agents import agent_in_full, find_agent, place_of, shown_agent
from helen.web.routes.changes import past_changes
from helen.web.rows.row import SORT_KEYS, Row
from helen.web.rows.strips import QUARTER, QUARTERS
from helen.web.web_parts import WebParts

routes = Routes()
LINK_KIND = "link"  # of a change
SHOWN = 60  # agents of a page
SHOWN_AUDIT = 20  # entries
SPAN, SHORTEST = 30 * 86_400.0, 3_600.0  # seconds of the link strip; of a young Helen it is shorter
MOST_STEPS, MOST_READS = 1_000, 4  # changes of a link in one read, and reads: an agent that blinks has more
SHOWN_ROWS = 200  # checks; the board has all
FAULTS = ("away", "trouble", "old")


@routes.page(
    "/agents", "read", "The agents",
    query=(Query("q", str, "names, patterns, or KEY=PATTERN"), Query("which", str, "away, trouble or old")),
)  # fmt: skip
async def agents(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with a page of the agents by name: all, those that fit the words, or those with a fault."""
    text, which = (first_text(request, "q") or "")[:1_000], first_text(request, "which") or ""
    patterns = patterns_of(text)
    sight, agents = parts.visible(request.caller), list(parts.sessions.roster.agents.values())
    listed = await deferToThread(choose, parts, agents, sight, patterns, which)
    page = read_page(request, "agents page", (str,), [text, which], SHOWN)
    rows, following = page.cut(listed.found, place_of)
    return await write_page(
        parts, request, "agents", text=text, which=which, patterns=patterns, listed=listed, following=following,
        agents=[shown_agent(parts, agent) for agent in rows],
    )  # fmt: skip


@frozen
class Listed:
    """Holds the agents that are shown, by name, how many there are in all, how many fit the words, and have a fault."""

    found: list[Agent]
    known: int
    fitting: int
    faults: dict[str, int]


def choose(parts: Parts, agents: list[Agent], sight: Sight | None, patterns: list[str], which: str) -> Listed:
    """Return the agents in sight that fit one of the patterns, and have the fault `which`, if it is one of FAULTS.

    10,000 agents take 100 ms, so this is for a thread.
    """
    known, is_meant = seen(sight, agents), reader_of_all(patterns or ["*"])
    fitting = [each for each in known if is_meant(each.name, each.labels)]
    having = {name: [agent for agent in fitting if has_fault(parts, agent, name)] for name in FAULTS}
    found = sorted(having.get(which, fitting), key=place_of)
    return Listed(found, len(known), len(fitting), {name: len(each) for name, each in having.items()})


def patterns_of(text: str) -> list[str]:
    """Return the patterns of the words of a filter: a word without `*`, `?`, `[` and `=` is a part of a name."""
    return [word if set(word) & set("*?[=") else f"*{word}*" for word in text.split()]


def has_fault(parts: Parts, agent: Agent, which: str) -> bool:
    """Return True for an agent that is away, has a trouble, or does not run the set that it is offered (old)."""
    if agent.revoked_at is not None or agent.is_host:
        return False
    if which == "away":
        return agent.link is None
    if which == "trouble":
        return bool(agent.troubles or agent.noticed or agent.clash)
    offered = parts.library.offered(agent.name)
    return agent.link is not None and offered is not None and agent.digest != offered.digest


@routes.page("/agents/<name>", "read", "One agent", query=(Query("links", str, "1: its link of 30 days"),))
async def agent(parts: WebParts, request: ApiRequest, name: str) -> bytes:
    """Answer with all that is known of one agent. Raises Problem 404 if there is none."""
    now, wanted = time.time(), first_text(request, "part")
    known = find_agent(parts, name)
    shown, runs = agent_in_full(parts, known, parts.visible(request.caller)), next_runs(parts, known, now)
    link, link_fault = None, ""
    if wanted == "link" or first_text(request, "links") == "1":
        try:
            link = await link_history(parts, name, shown["connected"], now)
        except Problem as problem:
            link_fault = str(problem)
    audit: list[dict[str, Any]] = []
    if decide(request.caller, AUDIT) is None and wanted in (None, "audit"):
        audit = [asdict(entry) for entry in await parts.store.call(audit_page, None, name, SHOWN_AUDIT)]
    rows, more = own_rows(parts, name, now)
    return await write_page(
        parts, request, "agent", agent=shown, rows=rows, more=more, link=link, link_fault=link_fault, audit=audit,
        aside=parts.library.releases.aside.shown().get(name), next_runs=runs,
        certificate=parts.authority.renewal(name), strips_since=parts.row_feed.strips.since,
        strip_seconds=QUARTERS * QUARTER,
    )  # fmt: skip


def next_runs(parts: Parts, agent: Agent, now: float) -> dict[str, float]:
    """Return when each entry of an agent's schedule runs next, by its id. `now` and the times are unix seconds."""
    return {entry.id: next_due(entry, now) for entry in parts.sessions.delivery.schedule_of(agent)}


def own_rows(parts: WebParts, name: str, now: float) -> tuple[list[tuple[Row, list[tuple[int, int, str]]]], int]:
    """Return the worst rows of an agent's checks, each with the runs of its strip, and how many more there are.

    `now`: unix seconds.
    """
    feed, keys = parts.row_feed, parts.evaluator.timeline.keys_of(name)
    own = sorted((feed.rows[key] for key in keys if key in feed.rows), key=SORT_KEYS["problems"])
    shown = [(feed.now(row), strip_runs(feed.strips.strip(row.key, now))) for row in own[:SHOWN_ROWS]]
    return shown, len(own) - len(shown)


@frozen
class Span:
    """Holds one stretch of a link: `up`, `down`, or `none` where nothing is known. Times are unix seconds."""

    begin: float
    end: float
    kind: str


@frozen
class LinkHistory:
    """Holds the known spans of a link between `begin` and `end`, and how often it went down."""

    begin: float
    end: float
    spans: tuple[Span, ...]
    losses: int


async def link_history(parts: WebParts, name: str, is_up: bool, now: float) -> LinkHistory:
    """Return the link of an agent in the last 30 days, by the changes that were written. Raises Problem.

    `now`: unix seconds. If the history takes too long to read, its newest days are left out, as not known.
    """
    steps, after, known, until = list[tuple[float, str]](), None, now, now
    for _ in range(MOST_READS):
        question = Question(
            now - SPAN, now, MOST_STEPS, lambda line: line.kind == LINK_KIND and line.agent == name, [LINK_KIND],
            after=after,
        )  # fmt: skip
        page = await past_changes(parts, question)
        steps += [(line.received, json.loads(line.data)["document"]["event"]) for line in page.lines]
        known, after = now - SPAN if page.known_from is None else page.known_from, page.next
        if after is None:
            break
    else:
        until = steps[-1][0] if steps else now - SPAN
    return history_of(steps, max(now - SPAN, min(known, now - SHORTEST)), until, now, is_up)


def history_of(
    steps: list[tuple[float, str]], begin: float, until: float, now: float, is_up: bool
) -> LinkHistory:  # fmt: skip
    """Return the spans between steps (unix seconds, `up`, `down` or `forgotten`), which are in their order.

    Nothing is known after `until`; all times are unix seconds.
    """
    spans, kind, since = list[Span](), "none", begin
    if not steps:
        kind = "up" if is_up and until == now else "none"
    elif steps[0][1] == "down":
        kind = "up"
    for at, event in [*steps, *([(until, "unknown")] if until < now else [])]:
        if at > since:
            spans.append(Span(since, at, kind))
        kind, since = {"up": "up", "down": "down"}.get(event, "none"), max(at, since)
    spans.append(Span(since, max(now, since), kind))
    return LinkHistory(begin, now, tuple(spans), sum(event == "down" for _, event in steps))
