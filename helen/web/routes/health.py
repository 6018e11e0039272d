"""Tells at /livez and /readyz whether this process answers, and whether Helen can take results; why not, if it can't.

They are open to all, without a token: so a stranger hears which part is in trouble, and no more. Sentences, which may
name folders and files, are for callers that may read the API.
"""

from __future__ import annotations

import json
import time
from typing import Annotated, Any, NotRequired, TypedDict

from attrs import frozen

from groundwork.authority import decide
from groundwork.counts import count
from helen.actions import DETAILS
from helen.parts import Parts
from helen.telemetry import Look
from helen.web.access import Caller
from helen.web.json_types import words
from helen.web.problems import PROBLEM_JSON
from helen.web.request import ApiRequest
from helen.web.route import PLAIN, Query, Routes

routes = Routes()
PASS, WARN, FAIL = "pass", "warn", "fail"
HEALTH_JSON = "application/health+json"
LATE = 0.05  # seconds of lag, from which on people wait for pages: docs/performance.rst, "Add another Helen"
VERBOSE = (Query("verbose", str, "every part"),)


class HealthJson(TypedDict):
    """Says if results can be taken; with `?verbose` it has each part by its name."""

    status: Annotated[str, words(PASS, WARN, FAIL)]
    checks: NotRequired[dict[str, list[dict[str, Any]]]]


@frozen
class Finding:
    """Says how one part is. A part that fails takes readiness with it, a warning doesn't."""

    part: str
    status: str = PASS
    sentence: str = ""


@routes.get("/livez", None, "Whether this process answers", answer=str, kind=PLAIN)
def livez(parts: Parts, request: ApiRequest) -> bytes:
    """Answer; that is the answer: the reactor turns."""
    request.setHeader("content-type", "text/plain; charset=utf-8")
    request.setHeader("cache-control", "no-store")
    return b"ok\n"


@routes.get("/readyz", None, "Whether Helen can take results", answer=HealthJson, kind=HEALTH_JSON, query=VERBOSE)
@routes.get("/healthz", None, "The same as /readyz", answer=HealthJson, kind=HEALTH_JSON, query=VERBOSE)
def readyz(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with 503 and why if a part fails; `?verbose` lists all parts."""
    return answer(request, examine(parts, time.time()), request.caller, b"verbose" in request.args)


# ---------------------------------------------------------------------------------------------- the parts


def examine(parts: Parts, now: float) -> list[Finding]:
    """Return how every part is that results need on their way to the disk. `now` is in unix seconds."""
    rest = [_manifest(parts, now), _assignments(parts), _notifications(parts), _forwards(parts), _drain(parts)]
    return [_life(parts), _reactor(parts), _journal(parts), _store(parts), *rest]


def _life(parts: Parts) -> Finding:
    if parts.live.is_ending:
        return Finding("life", FAIL, "Helen is stopping")
    if not parts.live.is_serving:
        return Finding("life", FAIL, "Helen is starting: agents are not accepted yet")
    return Finding("life")


def _reactor(parts: Parts) -> Finding:
    """Tell the latest look of the last minute, if it was late enough to be felt: that may be the machine or Helen."""
    worst = max(parts.telemetry.looks, key=lambda look: look.lag, default=None)
    return Finding("reactor") if worst is None or worst.lag <= LATE else Finding("reactor", PASS, lag_words(worst))


def lag_words(look: Look) -> str:
    """Return how late a look of the reactor came, and whether the machine or Helen is to be looked at for that."""
    late = f"the reactor was {look.lag * 1_000:,.0f} ms late within the last minute"
    if look.held is None:
        return f"{late}; the kernel does not tell how much of that it waited for a processor"
    waited = look.lag - look.held
    parts = f"{waited * 1_000:,.0f} ms it waited for a processor, {look.held * 1_000:,.0f} ms Helen held it"
    advice = (
        "this machine has too little CPU for all that it runs" if waited > look.held else "Helen has too much to do"
    )
    return f"{late}: {parts}; {advice}"


def _journal(parts: Parts) -> Finding:
    if parts.live.trouble is not None:
        return Finding("journal", FAIL, parts.live.trouble)
    if parts.journal.full:
        return Finding("journal", FAIL, "more results wait for the disk than the journal holds: reading has stopped")
    return Finding("journal")


def _store(parts: Parts) -> Finding:
    if parts.store.trouble is not None:
        return Finding("store", FAIL, parts.store.trouble)
    return Finding("store") if parts.store.is_open else Finding("store", FAIL, "the store is closed")


def _manifest(parts: Parts, now: float) -> Finding:
    """Find whether agents accept the published set. No set at all is how a Helen with an empty folder begins."""
    published, staged = parts.library.published, parts.library.staged
    if published is None:
        return Finding("manifest", WARN, "nothing is published: `helen checks` says what is wrong with the folder")
    if published.document.expires <= now:
        return Finding("manifest", FAIL, f"version {published.version} has expired: `helen push` signs it anew")
    if parts.library.restored is not None:
        return Finding("manifest", WARN, parts.library.restored.sentence)
    if staged is not None:
        return Finding("manifest", WARN, f"version {staged.version} waits for a signature: `helen push --key FILE`")
    if any(problem.severity == "error" for found in parts.library.problems.values() for problem in found):
        return Finding("manifest", WARN, "some checks are broken and not used: `helen checks` names them")
    return Finding("manifest")


def _assignments(parts: Parts) -> Finding:
    fault = parts.assignments.fault
    return Finding("assignments") if fault is None else Finding("assignments", WARN, f"the file is not used: {fault}")


def _drain(parts: Parts) -> Finding:
    """Find whether agents are taken: a load balancer that sends them here should send them elsewhere."""
    if parts.drain.phase == "off":
        return Finding("drain")
    return Finding("drain", FAIL, "this Helen is drained and takes no agents: `helen drain --undo`")


def _notifications(parts: Parts) -> Finding:
    notifier = parts.notifier
    if notifier.is_muted:
        return Finding("notifications", WARN, "none are sent, since Helen was started with --mute")
    if notifier.config_file.fault is not None:
        return Finding("notifications", WARN, f"the file is not used: {notifier.config_file.fault}")
    if notifier.outbox.dead:
        said = f"{count(notifier.outbox.dead, 'message')} could not be delivered: `helen notify list`"
        return Finding("notifications", WARN, said)
    return Finding("notifications")


def _forwards(parts: Parts) -> Finding:
    forwarding = parts.forwarding
    if forwarding.config_file.fault is not None:
        return Finding("forwards", WARN, f"the file is not used: {forwarding.config_file.fault}")
    troubles = forwarding.troubles()
    return Finding("forwards", WARN, "; ".join(troubles)) if troubles else Finding("forwards")


# ---------------------------------------------------------------------------------------------- the answer


def answer(request: ApiRequest, findings: list[Finding], caller: Caller, verbose: bool) -> bytes:
    """Return the findings as health+json, or as the problem that a part which fails is."""
    failed = [each for each in findings if each.status == FAIL]
    request.setHeader("cache-control", "no-store")
    request.setResponseCode(503 if failed else 200)
    if failed and not verbose:
        request.setHeader("content-type", PROBLEM_JSON)
        return _write({
            "type": "about:blank", "title": "not ready", "status": 503,
            "detail": "; ".join(_tell(each, caller) for each in failed), "reasons": [each.part for each in failed],
        })  # fmt: skip
    request.setHeader("content-type", HEALTH_JSON)
    warned = any(each.status == WARN for each in findings)
    document: dict[str, Any] = {"status": FAIL if failed else WARN if warned else PASS}
    if verbose:
        document["checks"] = {each.part: [_show(each, caller)] for each in findings}
    return _write(document)


def _show(finding: Finding, caller: Caller) -> dict[str, str]:
    shown = {"status": finding.status}
    return shown | {"output": finding.sentence} if finding.sentence and decide(caller, DETAILS) is None else shown


def _tell(finding: Finding, caller: Caller) -> str:
    return f"{finding.part}: {finding.sentence}" if decide(caller, DETAILS) is None else finding.part


def _write(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"
