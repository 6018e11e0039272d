"""From a check's name to a Job, and the results that never reach the sandbox. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from equus.library import CheckSet
from equus.sandbox.job import Job


def job_for(checks: CheckSet, name: str, args: bytes, timeout: float | None = None, state_key: str = "") -> Job | None:
    """What to run for a check, as the set stands now; None if it has no such check."""
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
    """A result document that the agent writes itself."""
    return dump({"status": "unknown", "reason": reason, "summary": summary, "check": check})


def unknown_check(name: str) -> bytes:
    return unknown(name, "unknown-check", f"this agent has no check named {name!r}")


def dump(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
