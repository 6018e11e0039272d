"""Takes agents that are out of a limited caller's sight out of documents and sentences that Helen has written.

A check on another agent is written as `AGENT/CHECK`. Texts of people and agents (comments, summaries) are shown as they
are. Whether an agent is known makes no difference: else a caller could try out which names there are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import evolve
from msgspec.structs import replace

from groundwork.target_ids import kept_spool, source_of
from helen.agents.sight import Sight
from helen.evaluation.event_log import Line
from helen.evaluation.replay import HistoryRecord
from helen.explain.explain import Facts
from helen.states.model import AWAITING, DEPENDENCY, ROLLOUT, Hold, State

HIDDEN = "another check"  # what stands in the place of a check on an agent out of sight
HIDDEN_AGENT = "hidden"  # what stands in the place of an agent out of sight that looks at a target
SAID_ELSEWHERE = "the reason is on an agent out of your sight"
SAID_HIDDEN = "a check that it depends on is not well, on an agent out of your sight"
SAID_TRIED = "a version of the checks is being tried on it"
REF = re.compile(r"[^\s/,;()]+/[^\s,;()]+")
OF_PARENTS = (DEPENDENCY, AWAITING)
KINDS = ("transition", "flap", "decision", "notice", "ack", "expect", "link", "rule")  # of single agents


def clean(text: str, sight: Sight) -> str:
    """Return a sentence of Helen's; another one, if it names a check on an agent out of sight."""
    is_seen = "/" not in text or all(sight.sees_check(found) for found in REF.findall(text))
    return text if is_seen else SAID_ELSEWHERE


def seen_holds(state: State, sight: Sight | None) -> tuple[Hold, ...]:
    """Return the holds of a state; one of a parent out of sight tells that there is one, and no more."""
    if sight is None:
        return state.holds
    return tuple(
        Hold(hold.kind, "", SAID_HIDDEN) if hold.kind in OF_PARENTS and not sight.sees_check(hold.ref) else hold
        for hold in state.holds
    )


def seen_state(state: State, sight: Sight | None) -> State:
    """Return a state as a caller sees it: the same one, if nothing in it is of an agent out of sight."""
    if sight is None or (not state.holds and state.trial is None):
        return state
    holds = seen_holds(state, sight)
    if state.trial is not None:
        return evolve(state, holds=holds, trial=evolve(state.trial, detail=SAID_TRIED))
    return state if holds == state.holds else evolve(state, holds=holds)


def seen_facts(facts: Facts, sight: Sight) -> Facts:
    """Return the facts of an explanation, as they are now, without other agents that are out of sight."""
    state = None if facts.state is None else seen_state(facts.state, sight)
    ignored = tuple(each if sight.sees_check(each) else HIDDEN for each in facts.ignored)
    runners = tuple(each if sight(each) else HIDDEN_AGENT for each in facts.runners)
    others = tuple(each for each in facts.others if sight(each[0]))
    return evolve(facts, state=state, ignored=ignored, runners=runners, others=others)


def seen_result(past: HistoryRecord, sight: Sight | None) -> HistoryRecord:
    """Return a result as a caller sees it: without the agent that looked at a target, if that is out of sight."""
    if sight is None or past.result is None or past.agent is None:
        return past
    spool = _seen_spool(past.agent, past.result.spool, sight)
    return past if spool == past.result.spool else replace(past, result=evolve(past.result, spool=spool))


def seen_history(answer: Mapping[str, Any], sight: Sight | None) -> dict[str, Any]:
    """Return the lake's answer on a check as a caller sees it: its raw results name the agent that ran them."""
    if sight is None or "results" not in answer:
        return dict(answer)
    name = answer["agent"]
    return {**answer, "results": [
        row if row["spool"] is None else {**row, "spool": _seen_spool(name, row["spool"], sight)}
        for row in answer["results"]
    ]}  # fmt: skip


def _seen_spool(name: str, spool: str, sight: Sight) -> str:
    ran, own = source_of(name, spool)
    return spool if ran == name or sight(ran) else kept_spool(HIDDEN_AGENT, own)


def seen_changes(changes: Iterable[HistoryRecord], sight: Sight) -> Iterator[HistoryRecord]:
    """Yield the changes that an explanation may tell of: those of visible agents, windows, rollouts, Helen's own.

    An explanation tells of a window or a rollout only if it covers the check that is explained.
    """
    for past in changes:
        said = json.loads(past.document) if past.document else {}
        agent = past.agent if past.agent is not None else said.get("agent")
        if agent is None or sight(agent):
            yield replace(past, document=json.dumps(seen_document(past.kind, said, sight), ensure_ascii=False))


def redacted(line: Line, sight: Sight) -> Line:
    """Return an event of a visible agent without names of others."""
    said = json.loads(line.data)
    said["document"] = seen_document(line.kind, said["document"], sight)
    head = line.frame.partition(b"\ndata: ")[0]
    return evolve(line, frame=b"%b\ndata: %b\n\n" % (head, json.dumps(said, ensure_ascii=False).encode()))


def seen_document(kind: str, document: Mapping[str, Any], sight: Sight) -> dict[str, Any]:
    """Return the document of a change of a visible agent, or of a rollout, without names of other agents."""
    shown = dict(document)
    if isinstance(shown.get("why"), str):
        shown["why"] = clean(shown["why"], sight)
    if kind == "decision" and "reasons" in shown:
        shown["reasons"] = [_seen_reason(each, sight) for each in shown["reasons"]]
    elif kind == "rule":
        shown["checks"] = {name: _seen_rule(rule, sight) for name, rule in shown.get("checks", {}).items()}
    elif kind == "notice":
        shown |= {name: "" for name in ("rule", "why", "message") if name in shown}  # of a message of several alerts
        shown |= {"with": 0} if "with" in shown else {}
    elif kind == "rollout":
        shown |= {name: "" for name in ("why", "place", "detail") if name in shown}
    return shown


def _seen_reason(reason: Mapping[str, Any], sight: Sight) -> dict[str, Any]:
    if reason.get("kind") in OF_PARENTS and not sight.sees_check(reason.get("ref") or ""):
        return {**reason, "ref": "", "detail": SAID_HIDDEN}
    return {**reason, "detail": SAID_TRIED} if reason.get("kind") == ROLLOUT else dict(reason)


def _seen_rule(rule: Any, sight: Sight) -> Any:
    if not isinstance(rule, dict):
        return rule
    if "runners" in rule:
        rule = rule | {"runners": [each if sight(each) else HIDDEN_AGENT for each in rule["runners"]]}
    if "depends" in rule:
        rule = rule | {"depends": [each if sight.sees_check(each) else HIDDEN for each in rule["depends"]]}
    return rule
