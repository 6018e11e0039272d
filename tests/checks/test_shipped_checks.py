"""Test the installed checks: their recorded tests in the real sandbox, and the rules that all of them keep."""

import re
from pathlib import Path

import pytest

import helen_checks
from equus.authoring.lint import lint_files
from equus.authoring.test_cases import read_cases
from equus.authoring.test_runner import run_tests
from equus.code.check_files import read_check_files

FILES = read_check_files(Path(helen_checks.FOLDER))
REPORTS = lint_files(FILES.files)
DOCUMENTATION = (Path(__file__).parents[2] / "docs" / "checks.rst").read_text()
BY_DEFAULT = {"cpu", "memory", "swap", "load", "disk", "inodes", "network", "disk_io", "processes", "uptime"}


def test_all_recorded_tests_pass_in_the_real_sandbox():
    """Each recorded case of each check passes in the real sandbox."""
    outcomes = run_tests(FILES, sorted(FILES.checks))
    assert [(one.check, one.name, one.faults) for one in outcomes if not one.passed] == []
    assert {one.check for one in outcomes} == set(FILES.checks)


def test_the_linter_has_nothing_to_say():
    """The linter reports no error and no warning in checks, libraries and tests."""
    found = {name: report.problems for name, report in REPORTS.items() if report.problems}
    assert (found, FILES.faults) == ({}, {})


def test_what_runs_everywhere_by_default():
    """Exactly the checks in BY_DEFAULT have an interval; the others need arguments or a grant."""
    assert {name for name in FILES.checks if REPORTS[f"{name}.lua"].table.every} == BY_DEFAULT


def test_what_happens_once_counts_at_once():
    """A check whose finding shows in one run has one attempt, because its next run is good again (F26)."""
    assert {name: REPORTS[f"{name}.lua"].table.attempts for name in FILES.checks} == {
        **dict.fromkeys(FILES.checks), "apcupsd": 1, "journal": 1, "log_match": 1, "ups": 1, "uptime": 1,
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(FILES.checks))
def test_tests_cover_the_states(name):
    """The recorded tests of each check have good, bad and unknown results, and warnings where there are thresholds."""
    states = {case.expect["status"] for case in read_cases(FILES.tests(name))}
    assert {"ok", "critical", "unknown"} <= states
    assert "warning" in states or name in ("file",)


@pytest.mark.parametrize("name", sorted(FILES.checks))
def test_every_argument_is_explained(name):
    """Each argument has a help text, because forms are made from these tables, and each timeout is at least 10 s."""
    table = REPORTS[f"{name}.lua"].table
    assert [argument for argument, what in table.args.items() if not what.help] == []
    assert table.timeout >= 10


@pytest.mark.parametrize("name", sorted(FILES.checks))
def test_the_documentation_lists_it(name):
    """The documentation lists each check with the summary of its table."""
    assert re.search(rf"^``{name}`` .*{re.escape(REPORTS[f'{name}.lua'].table.summary)}$", DOCUMENTATION, re.MULTILINE)


@pytest.mark.parametrize("name", sorted(BY_DEFAULT))
def test_default_checks_need_no_argument(name):
    """A check that runs by default needs no argument."""
    table = REPORTS[f"{name}.lua"].table
    assert [argument for argument, what in table.args.items() if what.required] == []
