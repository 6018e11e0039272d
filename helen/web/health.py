"""/livez, /readyz: whether this process answers, and whether Helen can take results; why not, if she can't.

For everybody, without a token: so a stranger hears which part is in trouble, and no more. Sentences, which may name
folders and files, are for whoever may read the API.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from attrs import frozen
from klein import Klein

from helen.web.access import Caller

if TYPE_CHECKING:
    from helen.tap import Helen

PASS, WARN, FAIL = "pass", "warn", "fail"
HEALTH_JSON = "application/health+json"


@frozen
class Finding:
    """How one part is. A part that fails takes readiness with it, a warning doesn't."""

    part: str
    status: str = PASS
    sentence: str = ""


def examine(helen: Helen, now: float) -> list[Finding]:
    """Every part that results need on their way to the disk, and agents on theirs to a check."""
    rest = [_store(helen), _manifest(helen, now), _assignments(helen), _told(helen), _drain(helen)]
    return [_life(helen), _journal(helen), *rest]


def _life(helen: Helen) -> Finding:
    if helen.is_ending:
        return Finding("life", FAIL, "Helen is stopping")
    if not helen.is_serving:
        return Finding("life", FAIL, "Helen is starting: agents are not accepted yet")
    return Finding("life")


def _journal(helen: Helen) -> Finding:
    if helen.trouble is not None:
        return Finding("journal", FAIL, helen.trouble)
    if helen.journal.full:
        return Finding("journal", FAIL, "more results wait for the disk than the journal holds: reading has stopped")
    return Finding("journal")


def _store(helen: Helen) -> Finding:
    if helen.store.trouble is not None:
        return Finding("store", FAIL, helen.store.trouble)
    return Finding("store") if helen.store.is_open else Finding("store", FAIL, "the store is closed")


def _manifest(helen: Helen, now: float) -> Finding:
    """Agents refuse a set that has expired. None at all is how a Helen with an empty folder begins."""
    published, staged = helen.library.published, helen.library.staged
    if published is None:
        return Finding("manifest", WARN, "nothing is published: `helen checks` says what is wrong with the folder")
    if published.document.expires <= now:
        return Finding("manifest", FAIL, f"version {published.version} has expired: `helen push` signs it anew")
    if staged is not None:
        return Finding("manifest", WARN, f"version {staged.version} waits for a signature: `helen push --key FILE`")
    if any(problem.severity == "error" for found in helen.library.problems.values() for problem in found):
        return Finding("manifest", WARN, "some checks are broken and not used: `helen checks` names them")
    return Finding("manifest")


def _assignments(helen: Helen) -> Finding:
    fault = helen.book.fault
    return Finding("assignments") if fault is None else Finding("assignments", WARN, f"the file is not used: {fault}")


def _drain(helen: Helen) -> Finding:
    """Whoever sends agents here should send them elsewhere."""
    if helen.drain.phase == "off":
        return Finding("drain")
    return Finding("drain", FAIL, "this Helen is drained and takes no agents: `helen drain --undo`")


def _told(helen: Helen) -> Finding:
    notifier = helen.notifier
    if notifier.book.fault is not None:
        return Finding("notifications", WARN, f"the file is not used: {notifier.book.fault}")
    if notifier.outbox.dead:
        said = f"{notifier.outbox.dead} messages could not be delivered: `helen notify list`"
        return Finding("notifications", WARN, said)
    return Finding("notifications")


def add_routes(app: Klein) -> None:
    """To the class of the API, whose instances have `_helen`."""

    @app.route("/livez", methods=["GET"])
    def livez(api: Any, request: Any) -> bytes:
        """That this is answered is the answer: the reactor turns."""
        request.setHeader("content-type", "text/plain; charset=utf-8")
        request.setHeader("cache-control", "no-store")
        return b"ok\n"

    @app.route("/readyz", methods=["GET"])
    @app.route("/healthz", methods=["GET"])
    def readyz(api: Any, request: Any) -> bytes:
        """503 and why if a part fails; `?verbose` lists all parts."""
        findings = examine(api._helen, time.time())
        return answer(request, findings, request.caller, b"verbose" in request.args)


def answer(request: Any, findings: list[Finding], caller: Caller, verbose: bool) -> bytes:
    """As health+json, or as the problem that it is."""
    failed = [each for each in findings if each.status == FAIL]
    request.setHeader("cache-control", "no-store")
    request.setResponseCode(503 if failed else 200)
    if failed and not verbose:
        reasons = [_said(each, caller) for each in failed]
        request.setHeader("content-type", "application/problem+json")
        document: dict[str, Any] = {"type": "about:blank", "title": "not ready", "status": 503}
        document |= {"detail": "; ".join(reasons), "reasons": [each.part for each in failed]}
        return _json(document)
    request.setHeader("content-type", HEALTH_JSON)
    warned = any(each.status == WARN for each in findings)
    document = {"status": FAIL if failed else WARN if warned else PASS}
    if verbose:
        document["checks"] = {each.part: [_shown(each, caller)] for each in findings}
    return _json(document)


def _shown(finding: Finding, caller: Caller) -> dict[str, str]:
    shown = {"status": finding.status}
    return shown | {"output": finding.sentence} if finding.sentence and caller.may("read") else shown


def _said(finding: Finding, caller: Caller) -> str:
    return f"{finding.part}: {finding.sentence}" if caller.may("read") else finding.part


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"
