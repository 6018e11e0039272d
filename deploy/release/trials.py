"""Runs linters, types and tests in an environment and returns what fails there, by names that can be run again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

TOOLS: dict[str, list[str]] = {
    "ruff check": ["ruff", "check", "-q", "."],
    "mypy": ["mypy"],
    "docs": ["sphinx-build", "-q", "-W", "-b", "html", "docs", "build/newest/docs"],
}


class Unusable(Exception):
    """The tests could not be run at all; the text has the last words of pytest."""


def failures(
    root: Path, environment: Path, tests: Iterable[str], tools: Iterable[str] = TOOLS, workers: int = 3
) -> frozenset[str]:
    """Return the tools that fail in the environment, and the node ids of tests. Raises Unusable."""
    failed = [
        name for name in tools if subprocess.run(_tool(environment, name), cwd=root, capture_output=True).returncode
    ]
    chosen = list(tests)
    return frozenset(failed) | (_failed_tests(root, environment, chosen, workers) if chosen else frozenset())


def _tool(environment: Path, name: str) -> list[str]:
    program, *words = TOOLS[name]
    return [str(environment / "bin" / program), *words]


def _failed_tests(root: Path, environment: Path, tests: list[str], workers: int) -> frozenset[str]:
    report = root / "build" / "newest" / "report.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    words = ["-m", "pytest", "-q", "-n", str(workers), "--no-loadscope-reorder", "-m", "not long and not pictures"]
    words += ["-o", "junit_family=xunit1", f"--junitxml={report}", *tests]
    done = subprocess.run([environment / "bin" / "python", *words], cwd=root, capture_output=True, text=True)
    if done.returncode > 1 or not report.exists():
        raise Unusable(f"pytest ended with {done.returncode}: {(done.stdout + done.stderr).strip()[-1000:]}")
    return failed_in(report.read_text())


def failed_in(report: str) -> frozenset[str]:
    """Return the node ids of tests that failed by a JUnit report, and the files that could not be collected."""
    found = set()
    for case in ElementTree.fromstring(report).iter("testcase"):
        if case.find("failure") is None and case.find("error") is None:
            continue
        file, name, group = case.get("file"), case.get("name", ""), case.get("classname", "")
        if file is None:  # a file that can't be imported
            found.add(f"{(group or name).replace('.', '/')}.py")
            continue
        inner = group.removeprefix(file.removesuffix(".py").replace("/", ".")).strip(".")
        found.add("::".join([file, *filter(None, inner.split(".")), name]))
    return frozenset(found)
