"""Compares two sets of checks: which files a version changes, and which checks' results it may change. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from attrs import field, frozen

NAMED = 5  # names in one sentence; the others are counted


@frozen
class Touched:
    """Holds the changes of a version against the one before: files by name, and the checks that gates compare."""

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    checks: frozenset[str] = frozenset()
    codes: dict[str, str] = field(factory=dict)  # by check: sha256 of the new file, if its own file has changed

    @property
    def text(self) -> str:
        """Return a sentence such as `changed: disk.lua; new: x.lua`."""
        named = (("changed", self.changed), ("new", self.added), ("removed", self.removed))
        said = [f"{word}: {few(names)}" for word, names in named if names]
        return "; ".join(said) or "no file has changed"


def touched(
    before: Mapping[str, str], after: Mapping[str, str], using: Collection[str], other_equus: bool
) -> Touched:  # fmt: skip
    """Compare two sets, sha256 by name. `using`: files that require a library; a changed library changes them, too."""
    changed = tuple(sorted(name for name in after.keys() & before.keys() if after[name] != before[name]))
    added, removed = tuple(sorted(after.keys() - before.keys())), tuple(sorted(before.keys() - after.keys()))
    codes = {_check_of(name): after[name] for name in (*changed, *added) if not _is_library(name)}
    checks = set(codes)
    if other_equus:
        checks |= {_check_of(name) for name in after if not _is_library(name)}
    elif any(_is_library(name) for name in (*changed, *added, *removed)):
        checks |= {_check_of(name) for name in using if not _is_library(name)}
    return Touched(changed, added, removed, frozenset(checks), codes)


def _is_library(name: str) -> bool:
    return name.startswith("lib/")


def _check_of(name: str) -> str:
    return name.removesuffix(".lua")


def few(names: Iterable[str]) -> str:
    """Return the first NAMED names with the count of the others, as in `a, b and 3 more`."""
    listed = list(names)
    more = f" and {len(listed) - NAMED} more" if len(listed) > NAMED else ""
    return ", ".join(listed[:NAMED]) + more
