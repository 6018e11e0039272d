"""Test `./dev newest`: newer versions, the failures that they cause, and the package that causes each."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "deploy" / "release"))

from lock import Pin  # noqa: E402
from newest import Change, blame, changes, sentences, versions  # noqa: E402
from trials import Unusable, failed_in, failures  # noqa: E402

LOCKED = {"attrs": "26.1", "klein": "24.8", "six": "1.17"}
NEWEST = {"attrs": "27.0", "klein": "24.8", "click": "9.0"}
ATTRS, CLICK, SIX = Change("attrs", "26.1", "27.0"), Change("click", "", "9.0"), Change("six", "1.17", "")
REPORT = """<testsuites><testsuite>
<testcase classname="tests.a.test_x" file="tests/a/test_x.py" name="test_one[a-b]"><failure>no</failure></testcase>
<testcase classname="tests.a.test_x" file="tests/a/test_x.py" name="test_two"/>
<testcase classname="tests.a.test_x.TestGroup" file="tests/a/test_x.py" name="test_three"><error>no</error></testcase>
<testcase classname="" name="tests.b.test_y"><error>no import</error></testcase>
</testsuite></testsuites>"""


def test_what_is_newer() -> None:
    """Other versions, packages that came and packages that went are changes, by the markers of this machine (20)."""
    assert changes(LOCKED, NEWEST) == [ATTRS, CLICK, SIX]
    pins = [Pin("a", "1", "", (), ()), Pin("b", "2", "sys_platform == 'win32'", (), ())]
    assert versions(pins) == {"a": "1"}


def test_failures_can_be_run_again() -> None:
    """Each failure has a name that pytest accepts (20)."""
    names = {"tests/a/test_x.py::test_one[a-b]", "tests/a/test_x.py::TestGroup::test_three", "tests/b/test_y.py"}
    assert failed_in(REPORT) == names


def test_who_is_to_blame() -> None:
    """A package that breaks a test alone is named, and so is a failure that no package causes alone (20)."""
    tried: list[Mapping[str, str]] = []

    def attempt(others: Mapping[str, str], wanted: frozenset[str]) -> frozenset[str]:
        tried.append(others)
        return frozenset({"mypy", "another"}) if "attrs" in others else frozenset()

    found = blame(frozenset({"mypy", "tests/a.py::test_b"}), [ATTRS, CLICK, SIX], attempt)
    assert tried == [{"attrs": "27.0"}, {"click": "9.0"}]
    assert sentences(found) == [
        "mypy: attrs 26.1 -> 27.0",
        "tests/a.py::test_b: no newer package alone; several together",
    ]
    assert str(CLICK) == "click none -> 9.0"


def test_it_is_run_for_real(tmp_path: Path) -> None:
    """A failing test and a failing tool are named, and a run without any test is an error (20)."""
    (tmp_path / "test_it.py").write_text("def test_good(): pass\ndef test_bad(): assert 1 == 2\n")
    (tmp_path / "bad.py").write_text("import os\n")
    here = Path(sys.prefix)
    assert failures(tmp_path, here, ["test_it.py"], ["ruff check"], 0) == {"ruff check", "test_it.py::test_bad"}
    with pytest.raises(Unusable, match=r"pytest ended with 4: (.|\n)*nowhere\.py"):
        failures(tmp_path, here, ["nowhere.py"], [], 0)
