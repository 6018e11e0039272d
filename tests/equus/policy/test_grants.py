"""Tests what a grant covers: folders, units and names."""

from __future__ import annotations

import pytest

from equus.policy.grants import NOTHING, Grant

GRANT = Grant(paths=("/var/log", "/srv"), units=("nginx.service", "app-*"), names=("check_ntp",))


@pytest.mark.parametrize(
    ("path", "root"),
    [("/var/log/syslog", "/var/log"), ("/srv", "/srv"), ("/var/logs", None), ("/", None), ("/var/log/../x", None)],
)
def test_the_root_above_a_path(path: str, root: str | None) -> None:
    """A name that begins in the same way lies beside the folder, not in it."""
    assert GRANT.root_above(path) == root


@pytest.mark.parametrize(
    ("unit", "is_covered"), [("nginx.service", True), ("nginx", False), ("app-1", True), ("app", False)]
)
def test_units(unit: str, is_covered: bool) -> None:
    """A pattern ends in `*`; all else is a whole name."""
    assert GRANT.covers_unit(unit) is is_covered


def test_names() -> None:
    """A grant without names covers all."""
    assert [GRANT.covers_name(name) for name in ("check_ntp", "check_disk")] == [True, False]
    assert Grant().covers_name("check_disk")


def test_what_is_not_granted_covers_no_object() -> None:
    """Nothing granted has no folder and no unit."""
    assert (NOTHING.root_above("/"), NOTHING.covers_unit("*"), NOTHING.paths) == (None, False, ())
