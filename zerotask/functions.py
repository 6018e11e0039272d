"""Marks, finds and calls the functions that a node serves.

    from zerotask.functions import task, Context

    @task("add", time_limit=30, max_attempts=5)
    def add(a, b, context: Context):
        context.status("adding", done=0)
        return a + b

A function is called with the task's params, and with `context` if it has a parameter of that name. Its result has to be
JSON. An exception is a failed attempt; TaskFailed chooses the code, and whether the task is tried again. After the loss
of a node a task may run twice: `context.task_id` is the same then, so a function can recognise it.
"""

from __future__ import annotations

import importlib
import inspect
import traceback
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from attrs import frozen

from zerotask import errors
from zerotask.errors import RpcError, TaskFailed
from zerotask.tasks.task import Options
from zerotask.wire.methods import options, task_method

GROUP = "zerotask.functions"  # entry points of this group name modules or marked functions
PREPARE = (
    "before_serving"  # a module's function of this name is called before any task is taken, and may raise LoadError
)
TRACE = 4_096  # characters of a traceback that go with an error: the last ones, which have the cause
_MARK = "__zerotask__"


class LoadError(Exception):
    """Tells which module cannot be imported or serves nothing, and why."""


@frozen
class Context:
    """Tells a function its task and attempt, and reports its status."""

    task_id: str
    attempt: int
    tell: Callable[[Any, dict[str, Any]], None]

    def status(self, status: Any, **detail: Any) -> None:
        """Report a status, with details of it by name; each is JSON. The last one is kept with the task."""
        self.tell(status, detail)


@frozen
class Served:
    """Holds a function and its policy: the options of its tasks, unless a submission has others."""

    call: Callable[..., Any]
    policy: dict[str, Any]
    wants_context: bool


def task(name: str | None = None, **policy: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a function as served under `name`, or under its own name. `policy` has options of its tasks.

    Raises RpcError if the name is malformed or an option is out of its bounds.
    """
    options(policy, Options())

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        """Mark the function and return it."""
        method = task_method({"method": name or function.__name__})
        setattr(function, _MARK, (method, policy))
        return function

    return mark


def load(modules: Iterable[str], with_entry_points: bool) -> dict[str, Served]:
    """Return the marked functions of modules, and of entry points, by their method: {"add": Served(...)}.

    Raises LoadError if a module cannot be imported, or has no marked function.
    """
    served: dict[str, Served] = {}
    for name in modules:
        module = _imported(name)
        getattr(module, PREPARE, lambda: None)()
        found = _marked(module)
        if not found:
            raise LoadError(f"{name} has no function marked with @zerotask.functions.task")
        served |= found
    if with_entry_points:
        for point in entry_points(group=GROUP):
            served |= _of_entry_point(point.name, point.load)
    if not served:
        raise LoadError(f"nothing to serve: give --module, or install a package with entry points of {GROUP}")
    return served


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise LoadError(f"{name} cannot be imported: {_sentence(error)}") from error


def _of_entry_point(name: str, load_point: Callable[[], Any]) -> dict[str, Served]:
    try:
        thing = load_point()
    except Exception as error:
        raise LoadError(f"entry point {name} cannot be loaded: {_sentence(error)}") from error
    return _marked(thing) if isinstance(thing, ModuleType) else _one(thing)


def _marked(module: ModuleType) -> dict[str, Served]:
    served: dict[str, Served] = {}
    for value in vars(module).values():
        served |= _one(value)
    return served


def _one(function: Any) -> dict[str, Served]:
    mark = getattr(function, _MARK, None) if callable(function) else None
    if mark is None:
        return {}
    method, policy = mark
    return {method: Served(function, policy, "context" in inspect.signature(function).parameters)}


def perform(served: Served, params: list[Any] | dict[str, Any], context: Context) -> Any:
    """Call a function with the params of a task and return its result.

    Raises TaskFailed if the params do not fit, or if the function raises anything.
    """
    args, named = (params, {}) if isinstance(params, list) else ([], params)
    if served.wants_context:
        named = {**named, "context": context}
    try:
        bound = inspect.signature(served.call).bind(*args, **named)
    except TypeError as error:
        raise TaskFailed(errors.INVALID_PARAMS, f"wrong parameters: {error}", retry=False) from None
    try:
        return served.call(*bound.args, **bound.kwargs)
    except TaskFailed:
        raise
    except RpcError as error:
        raise TaskFailed(error.code, error.message, error.data) from error
    except Exception as error:
        trace = "".join(traceback.format_exception(error))[-TRACE:]
        raise TaskFailed(errors.FUNCTION_RAISED, _sentence(error), {"traceback": trace}) from error


def _sentence(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:1_000]
