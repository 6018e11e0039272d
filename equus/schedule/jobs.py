"""Make the Job of a check, and the results that the agent writes without running one. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from equus.code.library import CheckSet
from equus.sandbox.job import Job


def job_for(checks: CheckSet, name: str, args: bytes, timeout: float | None = None, state_key: str = "") -> Job | None:
    """Return the Job of a check in this set, or None if the set has no such check. `timeout` is in seconds."""
    file = checks.check(name)
    if file is None:
        return None
    return Job(
        check=name,
        source=file.content,
        libraries=checks.libraries,
        args=args,
        timeout=timeout,
        code=file.sha256,
        state_key=state_key or name,
        pushed=checks.pushed,
    )


def unknown(check: str, reason: str, summary: str) -> bytes:
    """Return a result document with the status `unknown`."""
    return dump({"status": "unknown", "reason": reason, "summary": summary, "check": check})


def unknown_check(name: str) -> bytes:
    """Return the result of a check that the set in use does not have."""
    return unknown(name, "unknown-check", f"this agent has no check named {name!r}")


def dump(document: Mapping[str, Any]) -> bytes:
    """Return a document as JSON in UTF-8; what UTF-8 can't encode becomes `?`."""
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
