"""Provide a real sandbox with a registry of its own for the tests of this folder, and short ways to make a check."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from equus.sandbox.blocking import Sandbox
from equus.sandbox.job import Job
from equus.sandbox.spares import SPARES

REGISTRY = Path(__file__).parent / "registry"
PATIENCE = 60.0  # seconds for anything on a busy machine


@pytest.fixture(scope="session")
def new_sandbox() -> Callable[..., Sandbox]:
    """Makes a sandbox whose broker performs the calls of registry/calls_for_tests.py."""

    def make(**settings: Any) -> Sandbox:
        return Sandbox(registry="calls_for_tests", python_path=(REGISTRY,), **settings)

    return make


@pytest.fixture(scope="session")
def lasting_sandbox(new_sandbox: Callable[..., Sandbox]) -> Iterator[Sandbox]:
    with new_sandbox() as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def settle() -> Callable[[Sandbox], None]:
    """Return a function that waits until no check runs and the spare workers are there."""

    def wait(sandbox: Sandbox) -> None:
        runner = sandbox.runner
        sandbox.loop.until(lambda: not (runner.running or runner.waiting) and runner.spare == SPARES, PATIENCE)

    return wait


@pytest.fixture
def sandbox(lasting_sandbox: Sandbox, settle: Callable[[Sandbox], None]) -> Iterator[Sandbox]:
    """Yield the shared sandbox; each test leaves it idle, its workers gone and its descriptors as many as before."""
    settle(lasting_sandbox)
    before = len(os.listdir("/proc/self/fd"))
    yield lasting_sandbox
    settle(lasting_sandbox)
    assert lasting_sandbox.runner.waiting == 0
    assert len(os.listdir("/proc/self/fd")) <= before + 2  # a restart may have happened in between


def _job(body: str, needs: tuple[str, ...] = ("host",), args: str = "{}", before: str = "", **job: Any) -> Job:
    listed = ", ".join(f'"{name}"' for name in needs)
    source = (
        f'{before}\nreturn {{ summary = "a test", needs = {{ {listed} }}, args = {args},\n'
        f"run = function(args, host)\n{body}\nend }}\n"
    ).encode()
    given = {"check": "t", "source": source, "code": hashlib.sha256(source).hexdigest()} | job
    return Job(**given)


@pytest.fixture(scope="session")
def job() -> Callable[..., Job]:
    """Return a function that makes a job of a check whose run() has this body."""
    return _job


@pytest.fixture
def outcome(sandbox: Sandbox) -> Callable[..., dict[str, Any]]:
    """Return a function that runs a check, and returns the result document without the fields that differ from run to
    run.
    """

    def run(*args: Any, **settings: Any) -> dict[str, Any]:
        passed = {name: settings.pop(name) for name in ("answer", "now") if name in settings}
        blob = sandbox.run(_job(*args, **settings), **passed)
        assert len(blob) <= 1_048_576
        document = json.loads(blob)
        for name in ("started", "took_ms", "cpu_ms", "peak_kib", "check", "code"):
            document.pop(name, None)
        return document

    return run
