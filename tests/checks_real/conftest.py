"""Provide the shipped checks in the real sandbox, to run against real servers that `servers` beside this file
starts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

sys.path.insert(0, str(Path(__file__).parent))

from servers import Home

import helen_checks
from equus.authoring.test_runner import job_of
from equus.code.check_files import read_check_files
from equus.sandbox.blocking import Sandbox
from equus.schedule.secret_runner import redact_result
from equus.secrets.redaction import Redaction
from equus.secrets.references import Resolved, Secrets

FILES = read_check_files(Path(helen_checks.FOLDER))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test of this folder as an integration test, because it starts real processes."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def home() -> Iterator[Home]:
    """Yield the folders of the servers, which end with it."""
    made = Home()
    try:
        yield made
    finally:
        made.close()


class Outcome:
    """Hold a result document, with short names for its parts."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.status, self.summary = document["status"], document["summary"]
        self.metrics = {_label(metric): metric["value"] for metric in document.get("metrics", ())}
        self.units = {metric["name"]: metric.get("unit") for metric in document.get("metrics", ())}

    def __repr__(self) -> str:
        return json.dumps(self.document, indent=1)


def _label(metric: dict[str, Any]) -> str:
    labels = ",".join(f"{name}={value}" for name, value in sorted((metric.get("labels") or {}).items()))
    return f"{metric['name']}{{{labels}}}" if labels else str(metric["name"])


Check = Callable[..., Outcome]


@pytest.fixture(scope="module")
def checking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Check]]:
    """Return a function that makes a check runner: it runs a check by name in a sandbox that may use these sockets."""
    open_ones: list[Sandbox] = []

    def make(sockets: Sequence[Path] = (), secrets: dict[str, str] | None = None) -> Check:
        folder = tmp_path_factory.mktemp("agent")
        policy, known = folder / "policy.toml", folder / "secrets.toml"
        policy.write_text(f"[caps.unix]\npaths = {json.dumps(list(map(str, sockets)))}\n")
        policy.chmod(0o600)
        known.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in (secrets or {}).items()))
        known.chmod(0o600)
        store = Secrets(known, {})
        store.read()
        sandbox = Sandbox(policy, folder)
        open_ones.append(sandbox)

        def check(name: str, /, **args: Any) -> Outcome:
            resolved = store.resolve(name, json.dumps(args).encode())
            assert isinstance(resolved, Resolved), resolved
            job = evolve(job_of(FILES, name, resolved.args), secrets=resolved.values)
            blob = redact_result(Redaction(resolved.values), name, sandbox.run(job))
            for value in resolved.values:
                assert value.encode() not in blob
            return Outcome(json.loads(blob))

        return check

    yield make
    for sandbox in open_ones:
        sandbox.close()
