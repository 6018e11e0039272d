"""Test checks that go on from a place in a log: without that place they judge nothing, and keep none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from snmp_host import FILES, LIMIT

from equus.authoring.test_runner import job_of
from equus.sandbox.blocking import Sandbox

WHY = "host.state cannot be read: Too many open files"


@pytest.mark.parametrize(
    ("check", "args"), [("log_match", {"path": "/var/log/app.log", "match": "ERROR"}), ("journal", {})]
)
def test_a_place_that_cannot_be_read(check: str, args: dict[str, str]) -> None:
    """A check whose place cannot be read is unknown and reads no log, because it would pass over lines and say ok."""
    asked: list[str] = []
    found: list[dict[str, Any]] = []

    def answer(name: str, _: list[Any]) -> dict[str, Any]:
        asked.append(name)
        return {"error": ["failed", WHY]}

    with Sandbox(log=lambda _check, _text: None) as sandbox:
        job = job_of(FILES, check, json.dumps(args).encode())
        sandbox.runner.run(job, lambda blob: found.append(json.loads(blob)), answer, 1_700_000_000.0)
        sandbox.loop.until(lambda: bool(found), LIMIT)
    assert (found[0]["status"], found[0]["summary"]) == ("unknown", WHY)
    assert asked == ["state.get"]
