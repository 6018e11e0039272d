"""Reads the history that the lake has of a check, in threads, few at a time.

helen/pipeline/reports/check_history.py and lake_changes.py do it. They need the extra `spark`
(deltalake of it, no Spark) and are imported when a client asks for the first time.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from twisted.internet.defer import DeferredSemaphore
from twisted.internet.threads import deferToThread

from helen.agents.sight import Sight
from helen.web.problems import Problem, bad_request
from helen.web.sight.redaction import seen_history

T = TypeVar("T")
AT_ONCE = 2  # readers of the lake: each takes a core, and some 10 ms to 1 s
MOST_WAITING = 16  # more than these are told to come again, instead of waiting for a minute
CHANGES_READER = "helen.pipeline.reports.lake_changes"
READER = "helen.pipeline.reports.check_history"
EXTRA = "deltalake"


class LakeReads:
    """Lets few clients read the lake at once, and few wait for it."""

    def __init__(self) -> None:
        self._turns = DeferredSemaphore(AT_ONCE)

    async def ask(self, call: Callable[..., T], *arguments: object) -> T:
        """Call it in a thread. Raises Problem 503 if too many wait already, and what the call raises."""
        if len(self._turns.waiting) >= MOST_WAITING:
            raise Problem(503, "can't be asked", f"{MOST_WAITING} others wait for the lake already; ask again soon")
        answer: T = await self._turns.run(deferToThread, call, *arguments)
        return answer


def has_reader() -> bool:
    """Return True if the extra that reads the lake is installed."""
    return importlib.util.find_spec(EXTRA) is not None


def demand_reader() -> None:
    """Raises Problem 409 if the extra that reads the lake is not installed."""
    if not has_reader():
        raise Problem(
            409, "no history", "the lake can't be read here: pip install 'helen-equus[spark]' into the environment"
            " that Helen runs in",
        )  # fmt: skip


def read_lake(lake: Path, fields: Mapping[str, Any], sight: Sight | None = None) -> bytes:
    """Return the history as JSON. In a thread; `fields` are those of `HistoryRequest`, times in microseconds.

    With `sight` it is as a limited caller sees it. Raises Problem for a lake that isn't there, a check that it doesn't
    know, and what can't be answered.
    """
    reader = importlib.import_module(READER)
    try:
        document = seen_history(reader.read_history(lake, reader.HistoryRequest.of(**fields)), sight)
    except reader.NoLake as error:
        raise Problem(409, "no history", str(error)) from error
    except reader.NotInLake as error:
        raise Problem(404, "not found", str(error)) from error
    except (reader.BadRequest, reader.TooMuch) as error:
        raise bad_request(str(error)) from error
    except reader.LakeUnreadable as error:
        raise Problem(503, "the lake can't be read", str(error)) from error
    return json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n"


class LakeChanges:
    """Reads changes from the lake, for `helen.queries.past_changes`. Its methods block, and are for a thread."""

    def __init__(self, lake: Path, history: Path) -> None:
        """Take the lake and the history whose changes are wanted."""
        self._lake = lake
        self._history = history

    def oldest(self) -> float | None:
        """Return when the oldest change of the lake came, unix seconds; None: it has none. Raises Problem."""
        if not has_reader():
            return None
        with _as_problems(reader := importlib.import_module(CHANGES_READER)):
            found: float | None = reader.oldest(self._lake)
        return found

    def changes(self, **question: Any) -> Iterator[dict[str, Any]]:
        """Yield the rows that lake_changes.read_changes finds. Raises Problem."""
        if has_reader():
            with _as_problems(reader := importlib.import_module(CHANGES_READER)):
                yield from reader.read_changes(self._lake, self._history, **question)


@contextmanager
def _as_problems(reader: ModuleType) -> Iterator[None]:
    """Raise a Problem for what a reader of the lake raises."""
    try:
        yield
    except reader.TooMuch as error:
        raise bad_request(str(error)) from error
    except reader.LakeUnreadable as error:
        raise Problem(503, "the lake can't be read", str(error)) from error
