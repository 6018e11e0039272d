"""Try a set out: `equus lint` on its files and recorded tests, in a folder of their own. Blocks for that long.

Beside the set lie the libraries that it will find: those of the operator's folder, else those that Helen ships. The
code runs in the sandbox of checks, with recorded answers, so that it sees and touches nothing of this machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from attrs import frozen

import helen_checks
from groundwork.counts import count
from helen.sets.check_set import CheckSet
from helen.sets.refused import SetRefused

LINT_SECONDS = 300.0
MOST_ANSWER = 16 * 1024 * 1024  # bytes
_EQUUS = "from equus.main import main; main(prog_name='equus')"


@frozen
class Trial:
    """Holds what lint says: the table of each check by name, warnings as lines, and the number of tests that pass.

    `granted`: the capabilities that a host without a policy of its own grants.
    """

    tables: Mapping[str, Mapping[str, Any]]
    warnings: tuple[str, ...]
    tests: int
    granted: frozenset[str]

    @property
    def needs(self) -> list[str]:
        """Return the capabilities that any of the checks needs."""
        return sorted({need for table in self.tables.values() for need in table["needs"]})


def try_out(found: CheckSet, folder: Path) -> Trial:
    """Lint a set and run its tests. Raises SetRefused if there is an error, or a test fails."""
    with tempfile.TemporaryDirectory(prefix="helen-set-") as place:
        for name, content in {**_libraries(folder), **found.files}.items():
            path = Path(place) / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        report = _lint(place)
    problems = [
        (f"{name}:{each['line']}: {each['text']}", each["severity"])
        for name in sorted(found.files)
        for each in report["files"].get(name, {}).get("problems", ())
    ]
    errors = [line for line, severity in problems if severity == "error"]
    if errors:
        more = f", and {count(len(errors) - 1, 'more error')}" if len(errors) > 1 else ""
        raise SetRefused(f"{found.name} {found.version} does not pass: {errors[0]}{more}")
    tables = {name: report["files"][f"{name}.lua"]["table"] for name in found.checks}
    tests = [each for each in report["tests"] if each["file"] in found.files]
    warnings = tuple(line for line, severity in problems if severity != "error")
    return Trial(tables, warnings, len(tests), _granted())


def requirers(folder: Path, libraries: set[str], but: set[str]) -> list[str]:
    """Return the files of a folder, other than `but`, that require one of these libraries. Raises SetRefused."""
    files = _lint(str(folder), "--no-tests")["files"]
    return sorted(
        name for name, report in files.items() if name not in but and libraries & set(report.get("requires", ()))
    )


def _libraries(folder: Path) -> dict[str, bytes]:
    places = (helen_checks.FOLDER / "lib", folder / "lib")
    return {f"lib/{path.name}": path.read_bytes() for place in places for path in sorted(place.glob("*.lua"))}


@cache
def _granted() -> frozenset[str]:
    """Return the capabilities of the policy that holds where there is no file."""
    with tempfile.NamedTemporaryFile(prefix="helen-set-", suffix=".toml") as empty:
        found = _equus("policy", "show", "--policy", empty.name)
    return frozenset(found.get("grants", ()))


def _lint(place: str, *options: str) -> dict[str, Any]:
    found = _equus("lint", "--output", "json", *options, place)
    if "error" in found:
        raise SetRefused(f"`equus lint` could not judge it: {found['error']}")
    return found


def _equus(*words: str) -> dict[str, Any]:
    """Run a command of the agent's, and return the JSON that it prints. Raises SetRefused."""
    started = [sys.executable, "-c", _EQUUS, *words]
    with tempfile.TemporaryFile() as out:
        try:
            subprocess.run(
                started, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL, timeout=LINT_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise SetRefused(f"its tests did not end within {LINT_SECONDS:g} s") from None
        out.seek(0)
        text = out.read(MOST_ANSWER + 1)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise SetRefused(f"`equus {words[0]}` could not be run on it: nothing is known of the set")
    return found
