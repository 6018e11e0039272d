"""Stand in for attrs in processes that fork often, with the few names that their modules use.

attrs brings inspect, ast, dis and tokenize with it, 3 MiB that are read at the start only. Each fork copies their page
tables, and each child gives them back at its end. `install` makes `from attrs import frozen` mean this module, so that
the modules stay as they are, and have the real attrs everywhere else. A name that is missing here is an ImportError at
the start of such a process.

Classes made here take the same arguments and compare equal in the same cases. They don't refuse a change of their
attributes, which the type checker does, and show none of their values.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_MISSING: Any = object()


class _Default:
    """Holds the arguments of `field` until `frozen` reads them."""

    def __init__(self, value: Any, factory: Callable[[], Any] | None) -> None:
        self.value, self.factory = value, factory


def install() -> None:
    """Make each later `import attrs` of this process import this module."""
    sys.modules["attrs"] = sys.modules[__name__]


def field(*, default: Any = _MISSING, factory: Callable[[], Any] | None = None, repr: bool = True) -> Any:
    """Return a mark for the default of an attribute; `frozen` replaces it."""
    return _Default(default, factory)


def frozen(cls: type) -> type:
    """Give a class its __init__, __eq__ and __hash__ from the annotations in its body, and return it."""
    defaults: dict[str, _Default] = {}
    for name in vars(cls).get("__annotations__", {}):
        given = vars(cls).get(name, _MISSING)
        if given is not _MISSING:
            delattr(cls, name)
        defaults[name] = given if isinstance(given, _Default) else _Default(given, None)
    added: Any = cls
    added._plain_names = tuple(defaults)
    added.__init__, added.__eq__, added.__hash__ = _init(defaults), _equal, _hash
    return cls


def _init(defaults: dict[str, _Default]) -> Any:
    """Compile an __init__ that sets one attribute for each argument, which is the fastest that Python has."""
    known: dict[str, Any] = {"missing": _MISSING}
    arguments, body = ["self"], ["    pass"]
    for name, default in defaults.items():
        argument = value = name.lstrip("_")
        if default.factory is not None:
            known[f"made_{name}"] = default.factory
            argument, value = f"{argument}=missing", f"made_{name}() if {value} is missing else {value}"
        elif default.value is not _MISSING:
            known[f"given_{name}"] = default.value
            argument = f"{argument}=given_{name}"
        arguments.append(argument)
        body.append(f"    self.{name} = {value}")
    exec(f"def __init__({', '.join(arguments)}):\n" + "\n".join(body), known)
    return known["__init__"]


def asdict(instance: Any) -> dict[str, Any]:
    """Return the attributes of an instance by their names."""
    return {name: getattr(instance, name) for name in instance._plain_names}


def evolve(instance: Any, **changes: Any) -> Any:
    """Return a copy of an instance with these arguments in place of its own values."""
    return type(instance)(**{name.lstrip("_"): value for name, value in asdict(instance).items()} | changes)


def _equal(self: Any, other: Any) -> Any:
    return asdict(self) == asdict(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(tuple(asdict(self).values()))
