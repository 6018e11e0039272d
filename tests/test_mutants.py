"""Tests the mutation run: what it changes, that a seed says it all, and that equivalent mutants on record exist."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("mutants", Path(__file__).with_name("mutants.py"))
assert _spec is not None and _spec.loader is not None
mutants = sys.modules["mutants"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(mutants)

CHANGES: dict[str, list[str]] = {
    "a < b <= c": ["a <= b <= c", "a < b < c"],
    "a is not b": ["a is b"],
    "a not in b": ["a in b"],
    "a + b": ["a - b"],
    "a // b": ["a * b"],
    "a and b": ["a or b"],
    "not a": ["a"],
    "b if a else c": ["b if not a else c"],
    "a[1:b]": ["b + 1", "2", "0"],
    "True": ["False"],
    "0": ["1"],
    "2.5": ["3.5", "1.5"],
    "'text' + a": [],
    "f'{1:2}'": [],
    "x = 3": ["4", "2"],
    "x: int = 3": ["4", "2"],
    "x.y = a": ["pass"],
    "x += a": ["pass", "x -= a"],
    "x.y(a)": ["pass"],
    "self._log.warn('{n}', n=1)": [],
    "if a:\n    b()": ["not a", "pass"],
    "if a == b:\n    c = d": ["a != b"],
    "if TYPE_CHECKING:\n    a = 1": [],
    "Known = Cat | Dog": [],
    "def f(a: int = 1) -> 2:\n    return a": ["2", "0", "None"],
    "def f():\n    'Add 1.'\n    return": [],
    "class A:\n    x = 1": ["2", "0"],
    "for a in b:\n    continue": ["pass"],
    "raise A": ["pass"],
}


@pytest.mark.parametrize("source", CHANGES)
def test_changes(source: str) -> None:
    """Each is one change, and the file stays Python that says something else."""
    found = mutants.mutants_of("a.py", source.encode())
    assert [each.change.partition(" -> ")[2] for each in found] == CHANGES[source]
    for each in found:
        changed = each.put_into(source.encode())
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))


def test_a_mutant_says_where_it_is() -> None:
    """A mutant is named by its line, and by its function, which later changes of the file don't move."""
    source = "x = 'é'; y = a < b\nclass A:\n    def f(self):\n        return c + d"
    found = mutants.mutants_of("a.py", source.encode())
    assert [str(each) for each in found] == [
        "a.py:1:15: a < b -> a <= b",
        "a.py:4:16: c + d -> None  [A.f]",
        "a.py:4:16: c + d -> c - d  [A.f]",
    ]
    assert found[0].put_into(source.encode()).decode() == source.replace("a < b", "(a <= b)")


def test_the_seed_says_it_all() -> None:
    """The same seed draws the same mutants of a package, and another one draws others."""
    (package,) = mutants.packages_of(["helen/states"])
    drawn = [mutants.sample(package, seed, 30, []) for seed in (7, 7, 8)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len({*drawn[0]}) == 30


def test_a_part_of_a_package() -> None:
    """A folder or a file in a package has the tests of the package, those about it first."""
    (package,) = mutants.packages_of(["scale0/broker/stalls.py"])
    assert (package.name, package.files) == ("scale0", ["scale0/broker/stalls.py"])
    near, others = package.tests_for("scale0/broker/stalls.py", mutants.ROOT)
    assert near[0] == "tests/scale0/broker/test_stalls.py"
    assert others[0].startswith("tests/scale0/broker/")
    assert {"tests/scale0/test_tap.py", "tests/scale0/wire/test_reader.py"} <= {*others}
    both = mutants.packages_of(["helen/states/flapping.py", "equus/schedule", "helen/states/model.py"])
    assert [each.name for each in both] == ["helen/states", "equus/schedule"]
    assert both[0].files == ["helen/states/flapping.py", "helen/states/model.py"]
    with pytest.raises(SystemExit, match="helen/web is not in a package"):
        mutants.packages_of(["helen/web"])


def test_what_is_written_down_as_equivalent_is_there() -> None:
    """Each entry is one mutant of today's code, with a reason, and is not drawn."""
    known = mutants.equivalents()
    for each in known:
        package = mutants.packages_of([each.file])[0]
        found = [
            one for one in mutants.mutants_of(each.file, (mutants.ROOT / each.file).read_bytes()) if each.covers(one)
        ]
        assert len(found) == 1, f"gone or changed, look at it again: {each}"
        assert len(each.reason.split()) > 3, each
        assert not {*found} & {*mutants.sample(package, 1, 100_000, known)}
