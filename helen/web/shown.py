"""What the API shows of what Helen knows: values in, plain data out. docs/api.rst lists the fields."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from equus_protocol.manifest import key_id
from equus_protocol.results import STATUS_WORDS
from helen import signing
from helen.keyring import KeyRing
from helen.library import Library
from helen.policy import ScheduleEntry
from helen.refusals import show
from helen.releases import Published
from helen.roster import Agent, Latest
from helen.web import notifications

if TYPE_CHECKING:
    from helen.tap import Helen


def counted(agents: Any) -> dict[str, int]:
    """How many latest results there are of each status."""
    sums = [0] * len(STATUS_WORDS)
    for agent in agents:
        for status, count in enumerate(agent.counts):
            sums[status] += count
    return dict(zip(STATUS_WORDS, sums, strict=True))


def show_overview(helen: Helen) -> dict[str, Any]:
    """All in all."""
    house, library, journal = helen.house, helen.library, helen.journal
    agents, published, dispatch = house.roster.agents.values(), library.published, house.supply.dispatch
    hosts = sum(agent.is_host for agent in agents)
    return {
        "version": helen.version,
        "started": helen.started_at,
        "agents": {
            "known": sum(not agent.is_host and agent.revoked_at is None for agent in agents),
            "connected": len(house.roster.connected()),
            "hosts": hosts,
        },
        "checks": counted(agents),
        "manifest": None if published is None else {"version": published.version, "digest": published.digest},
        "assignments": {"revision": helen.book.revision, "fault": helen.book.fault},
        "journal": {"segment": journal.segment, "backlog": journal.backlog_bytes, "trouble": helen.trouble},
        "store": {"trouble": helen.store.trouble},
        "questions": len(house.runs),
        "counts": house.counts
        | {"asked": dispatch.asked, "skipped": dispatch.skipped, "turned_away": house.door.turned_away},
        "notifications": notifications.show_overview(helen.notifier),
        "network": None if helen.network is None else helen.network.overview(),
        "pipeline": helen.pipeline.overview(time.time()),
        "drain": helen.drain.overview(),
    }


def show_agent(agent: Agent, offered: Published | None, now: float) -> dict[str, Any]:
    """A row of the list of agents."""
    return {
        "name": agent.name,
        "kind": "host" if agent.is_host else "agent",
        "connected": agent.link is not None,
        "since": agent.connected_at,
        "last_seen": now if agent.link is not None else agent.last_seen,
        "address": agent.address,
        "protocol": agent.version or None,
        "equus": agent.equus_version,
        "labels": agent.labels,
        "host": agent.host,
        "isolation": agent.isolation,
        "policy": agent.policy,
        "clock_offset": agent.clock_offset,
        "spool": agent.spool,
        "troubles": agent.troubles,
        "clash": agent.clash,
        "revoked": agent.revoked_at,
        "current": offered is not None and agent.digest == offered.digest,
        "checks": counted([agent]),
        "kept": agent.kept,
    }


def would_ask(targets: Iterable[Agent]) -> dict[str, Any]:
    """The answer to a dry run of a question."""
    asked = {agent.name: "asked" if agent.link is not None else "offline" for agent in targets}
    return {"targets": len(asked), "agents": asked}


def show_entry(entry: ScheduleEntry) -> dict[str, Any]:
    return {
        "id": entry.id, "check": entry.check, "every": entry.every, "timeout": entry.timeout, "args": entry.args,
        "overlap": entry.overlap,
    }  # fmt: skip


def show_latest(latest: Latest) -> dict[str, Any]:
    """The last result of a check."""
    return {
        "check_id": latest.check_id,
        "status": STATUS_WORDS[latest.status],
        "summary": latest.summary,
        "received": latest.received,
        "since": latest.since,
        "kept": latest.kept,
        "reason": latest.reason,
        "code": latest.code,
        "took_ms": latest.took_ms,
        "metrics": [
            {"name": x.name, "value": x.value, "unit": x.unit, "labels": x.labels, "warn": x.warn, "crit": x.crit}
            for x in latest.metrics
        ],
    }


def show_checks(library: Library) -> dict[str, Any]:
    """The published checks, and what is wrong with files of the folder."""
    published = library.published
    listed = [
        {
            "name": table.name,
            "summary": table.summary,
            "every": table.every,
            "timeout": table.timeout,
            "needs": list(table.needs),
            "args": table.args,
            "sha256": published.files[f"{table.name}.lua"].sha256,
            "kept_old": f"{table.name}.lua" in library.kept_old,
        }
        for table in (sorted(published.tables.values(), key=lambda table: table.name) if published is not None else ())
        if f"{table.name}.lua" in published.files
    ]
    problems = [
        {"file": name, "line": p.line, "severity": p.severity, "text": p.text}
        for name, found in sorted(library.problems.items())
        for p in found
    ]
    version = published.version if published is not None else None
    refused = show(library.releases.refused)
    return {"version": version, "checks": listed, "problems": problems, "refused": refused, "waits": library.waits}


def show_keys(keys: KeyRing, library: Library) -> dict[str, Any]:
    """The newest root. `waiting`: what agents run is not signed by its keys yet, so they are not shown it."""
    root, here = keys.root, {key_id(key.public_key()) for key in library.private}
    return {
        "version": root.version,
        "threshold": root.threshold,
        "keys": [{"id": name, "pem": signing.public_pem(key), "here": name in here} for name, key in root.keys.items()],
        "online": {"id": key_id(keys.online.public_key()), "pem": signing.public_pem(keys.online.public_key())},
        "waiting": library.releases.is_signed_otherwise(root.keys, root.threshold),
    }


def show_push(library: Library, connected: list[Agent]) -> dict[str, Any]:
    """How far the newest set has come, and what waits for a signature. `connected` are those of version 2."""
    releases, staged = library.releases, library.staged
    newest = releases.newest
    shown: dict[str, Any] = {"version": None, "staged": None, "can_sign": bool(library.private)}
    shown |= {"agents": len(connected), "loaded": 0, "kept_old": {}, "agent": None}
    if newest is not None:
        have = [agent for agent in connected if agent.digest == newest.digest]
        shown |= {"version": newest.version, "digest": newest.digest, "loaded": len(have)}
        shown["agent"] = newest.document.agent["version"] if newest.document.agent is not None else None
        shown["kept_old"] = {agent.name: agent.not_active for agent in have if agent.not_active}
    if staged is not None:
        shown["staged"] = {
            "version": staged.version,
            "manifest": staged.pair.new.decode(),
            "undo": staged.pair.undo.decode(),
            "files": {name: entry.sha256 for name, entry in staged.files.items()},
        }
    return shown
