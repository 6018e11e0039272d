"""Tests that declared and found targets are put together in steps of NAMES_A_STEP, and come to the same as in one
piece.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from held_walks import HeldWalks

from helen.targets import merged_targets
from helen.targets.merged_targets import MergedTargets
from helen.targets.source_watch import SourceWatch
from helen.targets.sources import Source
from helen.targets.target_fields import Target
from helen.targets.target_groups import NAMES_A_STEP

EACH = 1_000


def target(name: str, address: str = "x") -> Target:
    return Target(name, address, ("probe-*",))


@pytest.fixture
def sources() -> SourceWatch:
    """Return three sources of 1,000 targets each. The second one has 300 names of the first, 100 of them at other
    places.
    """
    nothing: Any = None
    watch = SourceWatch(nothing, nothing, lambda: 0.0, lambda: None)
    places = [Source(("probe-*",), files=(f"/nowhere/{letter}.json",)) for letter in "abc"]
    watch.take(places)
    for source, letter in zip(places, "abc", strict=True):
        watch._watched[source.key].found = {letter: tuple(target(f"{letter}{n}") for n in range(EACH))}
    both = tuple(target(f"a{n}", "y" if n < 100 else "x") for n in range(300))
    second = watch._watched[places[1].key]
    second.found = {"b": both + second.found["b"][: EACH - len(both)]}
    return watch


def test_each_step_takes_some(sources: SourceWatch) -> None:
    merged = MergedTargets({}, sources)
    before, sizes = 0, list[int]()
    for _ in merged.steps():
        now = len(merged._all) + len(merged._fresh)
        sizes.append(now - before)
        before = now
    assert max(sizes) == NAMES_A_STEP and sum(sizes) == 2 * (3 * EACH - 300)
    assert len(sizes) < merged.most_steps


def test_the_first_of_a_name_counts_and_the_others_are_told(sources: SourceWatch) -> None:
    merged = MergedTargets({"a7": target("a7", "declared")}, sources)
    for _ in merged.steps():
        pass
    assert (merged.config["a7"].address, merged.config["a8"].address, merged.config["a250"].address) == (
        "declared", "x", "x",
    )  # fmt: skip
    assert "a7" not in merged.found and merged.found["a8"] == "/nowhere/a.json"
    assert list(merged.config)[:2] == ["a7", "a0"] and len(merged.config) == 3 * EACH - 300
    (said,) = sources.faults()
    assert said == (
        "/nowhere/b.json: a0 is left out, since another target of /nowhere/a.json has that name,"
        " and so have 99 further ones"
    )


def test_no_more_than_the_most(sources: SourceWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Declared ones come first; what is left out is counted."""
    monkeypatch.setattr(merged_targets, "MAX_TARGETS", 501)
    merged = MergedTargets({"d": target("d")}, sources)
    for _ in merged.steps():
        pass
    assert (len(merged.config), len(merged.found), merged.left_out) == (501, 500, 3 * EACH - 300 - 500)
    assert list(merged.config) == ["d", *(f"a{number}" for number in range(500))]


def test_a_change_while_the_one_before_is_merged(sources: SourceWatch) -> None:
    """Walks end in the order in which they began, so the newest counts."""
    walks = HeldWalks()
    held = SimpleNamespace(config={})
    for declared in ({"d": target("d", "1")}, {"d": target("d", "2")}):
        merged = MergedTargets(declared, sources)
        steps = merged.steps()
        walks.walk(range(merged.most_steps), lambda _, steps=steps: next(steps, None))
        walks.walk([merged], lambda each: setattr(held, "config", each.config))
    walks.take_all(lambda: 0)
    assert held.config["d"].address == "2" and len(held.config) == 3 * EACH - 300 + 1
