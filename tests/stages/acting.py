"""Plays a table of (time, input) -> events against a timeline, under a virtual clock.

A row is `TIME INPUT | EVENT; EVENT`, and a line that begins with `|` goes on with it. An event of another check than
a/c is written with its name, one at another time than the row's with `@TIME`. Actions that the table leaves out didn't
happen: the whole of it is compared.

    0    ok                      | -> ok
    60   critical                | -> critical soft 1; hold problem critical: soft; again 70
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import evolve

from equus_protocol.results import STATUS_WORDS
from helen.states.agent_rules import AgentRules, rules_to_json
from helen.states.events import AckEnded, Again, Decision, Event, Flapping, Transition
from helen.states.fleet_states import CheckEvent, run
from helen.states.fleet_timeline import Timeline
from helen.states.inputs import Result
from helen.states.model import Rule

HERE = ("a", "c")


def rows(table: str) -> list[tuple[float, str, str]]:
    """Return time, input and expected output of each line of a table."""
    found: list[tuple[float, str, str]] = []
    for line in table.strip().splitlines():
        told, _, expected = line.partition("|")
        if not told.strip():
            time, given, before = found.pop()
            found.append((time, given, f"{before}; {expected.strip()}"))
            continue
        time, _, given = told.strip().partition(" ")
        found.append((float(time), given.strip(), expected.strip()))
    return found


class Play:
    """Plays inputs against the timeline of one fleet; `rules` are by AGENT/CHECK. Every agent is connected from the
    start.
    """

    def __init__(self, rules: dict[str, Rule], labels: dict[str, str] | None = None) -> None:
        self.timeline = Timeline()
        self.sequence = 0
        for agent in sorted({name.partition("/")[0] for name in rules}):
            own = {name.partition("/")[2]: rule for name, rule in rules.items() if name.partition("/")[0] == agent}
            link = own.pop("equus:link", Rule())
            ruled = rules_to_json(AgentRules(labels or {}, own, link))
            run(self.timeline.change("rule", 0.0, agent, None, ruled))
            run(self.timeline.change("link", 0.0, agent, None, {"event": "up"}))

    def act(self, time: float, given: str) -> list[CheckEvent]:
        return run(self._spoken(time, given))

    def _spoken(self, time: float, given: str) -> Iterator[CheckEvent | None]:
        word, *rest = given.split()
        agent, check_id = HERE
        if "/" in word:
            agent, _, check_id = word.partition("/")
            word, *rest = rest
        options = dict(option.split("=", 1) for option in rest)
        if word in STATUS_WORDS:
            yield from self.timeline.result(agent, check_id, self._result(time, word, options))
        elif word == "tick":
            yield from self.timeline.advance(time)
        elif word in ("up", "down", "forgotten"):
            yield from self.timeline.change("link", time, options.get("agent", agent), None, {"event": word})
        elif word in ("ack", "unack"):
            action = {"ack": "set", "unack": "clear"}[word]
            yield from self.timeline.change("ack", time, agent, check_id, {"action": action, **_numbers(options)})
        elif word == "expect":
            within = {"within": float(options["within"]), "why": options.get("why", "")}
            yield from self.timeline.change("expect", time, agent, check_id, within)
        elif word in ("downtime", "silence"):
            yield from self.timeline.change(word, time, None, None, _numbers(options))
        elif word == "cancel":
            document = {"action": "cancel", **options}
            yield from self.timeline.change(document.pop("kind", "downtime"), time, None, None, document)
        elif word == "rule":
            known = self.timeline.rules[agent]
            rule = evolve(known.checks.get(check_id, Rule()), **_numbers(options))
            changed = evolve(known, checks=known.checks | {check_id: rule})
            yield from self.timeline.change("rule", time, agent, None, rules_to_json(changed))
        elif word == "retire":
            known = self.timeline.rules[agent]
            left = evolve(known, checks={name: rule for name, rule in known.checks.items() if name != check_id})
            yield from self.timeline.change("rule", time, agent, None, rules_to_json(left))
        elif word == "clock":
            yield from self.timeline.change(word, time, None, None, {name: float(by) for name, by in options.items()})
        elif word in ("open", "passed", "undone", "back"):
            yield from self.timeline.change("rollout", time, None, None, _rollout(word, **options))
        else:
            assert word in ("helen_start", "helen_stop"), word
            yield from self.timeline.change(word, time, None, None, {})

    def _result(self, time: float, word: str, options: dict[str, str]) -> Result:
        self.sequence += 1
        ended = float(options["ended"]) if "ended" in options else None
        sequence = int(options.get("sequence", self.sequence))
        spool, reason = options.get("spool", "s"), options.get("reason")
        return Result(time, STATUS_WORDS.index(word), ended, spool, sequence, reason)


def _rollout(action: str, version: str, agents: str = "*", without: str = "", checks: str = "c") -> dict[str, Any]:
    """Return the document of a step of a rollout."""
    return {
        "action": action, "version": int(version), "ring": 1, "agents": None if agents == "*" else agents.split(","),
        "without": [name for name in without.split(",") if name], "checks": checks.split(","), "detail": "it is tried",
        "why": f"version {version} {action}",
    }  # fmt: skip


def _numbers(options: dict[str, str]) -> dict[str, Any]:
    """Return the options of a row with the types that JSON has for them."""
    said: dict[str, Any] = {}
    for name, value in options.items():
        if name in ("until", "begin", "attempts", "recover", "stale", "retry"):
            said[name] = int(value) if name in ("attempts", "recover") else float(value)
        elif name in ("agents", "checks"):
            said[name] = value.split(",")
        elif name == "depends":
            said[name] = tuple(value.split(",")) if value else ()
        else:
            said[name] = value == "yes" if name == "sticky" else value
    return said


def play(table: str, *, labels: dict[str, str] | None = None, **rules: Rule) -> None:
    """Every row's events are those that the table has. Rules are named `c` (of agent a), or `b__c` (of agent b)."""
    named = {name.replace("__", "/") if "__" in name else f"a/{name}": rule for name, rule in rules.items()}
    named = {name.replace("link", "equus:link"): rule for name, rule in named.items()}
    actors = Play(named or {"a/c": Rule()}, labels)
    acted = [
        f"{time:g} {given} | {'; '.join(word(said, time) for said in actors.act(time, given))}"
        for time, given, _ in rows(table)
    ]
    assert "\n".join(acted) == "\n".join(f"{time:g} {given} | {expected}" for time, given, expected in rows(table))


def word(said: CheckEvent, time: float) -> str:
    """Return an event as the tables write it."""
    whose = "" if (said.agent, said.check_id) == HERE else f"{said.agent}/{said.check_id} "
    event = said.event
    when = "" if isinstance(event, Again) or event.at == time else f"@{event.at:g} "
    return f"{when}{whose}{_said(event)}"


def _said(event: Event) -> str:
    if isinstance(event, Transition):
        reason = f" ({event.now.reason})" if event.now.reason else ""
        soft = f" soft {event.now.attempt}" if event.now.attempt else ""
        return f"-> {STATUS_WORDS[event.now.status]}{reason}{soft}"
    if isinstance(event, Flapping):
        return f"flap on at {event.percent:g}" if event.on else f"flap off, {STATUS_WORDS[event.status]}"
    if isinstance(event, Decision):
        reasons = ", ".join(reason.kind + (f" {reason.ref}" if reason.ref else "") for reason in event.reasons)
        return f"{event.action} {event.what} {STATUS_WORDS[event.status]}" + (f": {reasons}" if reasons else "")
    if isinstance(event, AckEnded):
        return f"ack by {event.owner} ends"
    return f"again {event.at:g}"
