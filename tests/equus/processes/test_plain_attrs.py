"""Test that the replacement for attrs makes classes that behave like those of attrs in all that forking
processes use.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import attrs
import pytest

from equus.processes import plain_attrs

BOTH = pytest.mark.parametrize("library", [attrs, plain_attrs], ids=["attrs", "stand-in"])


def made(library: ModuleType) -> Any:
    """Return a class with each kind of attribute that the modules have, made by this library."""

    class Run:
        check: str
        _number: int
        limits: dict[str, int] = library.field(factory=dict)
        args: bytes = library.field(default=b"{}", repr=False)
        timeout: float | None = None

        def doubled(self) -> int:
            """Return a value that depends on an attribute."""
            return self._number * 2

    return library.frozen(Run)


@BOTH
def test_arguments_become_attributes(library: ModuleType) -> None:
    """Arguments become attributes: defaults are filled in, a factory makes a new value each time, and a private name
    loses its underscore.
    """
    cls = made(library)
    one, other = cls("disk", 3), cls(check="load", number=4, timeout=1.5, args=b"[]")
    assert (one.check, one._number, one.limits, one.args, one.timeout, one.doubled()) == ("disk", 3, {}, b"{}", None, 6)
    assert (other.check, other._number, other.args, other.timeout) == ("load", 4, b"[]", 1.5)
    assert one.limits is not other.limits


@BOTH
@pytest.mark.parametrize("arguments", [{}, {"check": "disk"}, {"check": "disk", "number": 1, "other": 2}])
def test_other_arguments_are_refused(library: ModuleType, arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        made(library)(**arguments)


@BOTH
def test_equal_by_value(library: ModuleType) -> None:
    """Two instances of one class are equal if their values are, and those of another class are not."""
    cls, twin = made(library), made(library)
    assert cls("disk", 3) == cls("disk", 3)
    assert cls("disk", 3) != cls("disk", 4)
    assert cls("disk", 3) != twin("disk", 3)
    assert hash(cls("disk", 3, ())) == hash(cls("disk", 3, ()))
    assert len({cls("disk", 3, ()), cls("disk", 3, ()), cls("disk", 4, ())}) == 2


@BOTH
def test_copies_and_dictionaries(library: ModuleType) -> None:
    one = made(library)("disk", 3, {"memory": 1})
    assert library.asdict(library.evolve(one, number=5, args=b"")) == {
        "check": "disk", "_number": 5, "limits": {"memory": 1}, "args": b"", "timeout": None,
    }  # fmt: skip
    assert one._number == 3
    assert not library.asdict(library.frozen(type("Empty", (), {}))())


def test_no_value_is_shown() -> None:
    """The repr of such a class shows no value, so that a field with repr=False is never in a traceback."""
    assert "secret" not in repr(made(plain_attrs)("secret", 3, args=b"secret"))
