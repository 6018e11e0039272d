"""Serves the history on Spark as functions of a ZeroTask node: `pipeline.run`, `pipeline.report`, `pipeline.compact`.

    HELEN_STATE=/var/lib/helen zerotask node --module helen.jobs.pipeline_tasks --slots 1

Each task is one `helen pipeline ...` in a process of its own, so a node that waits has no Spark in memory, and a task
that is over its time limit or cancelled is killed with its JVM; the lake can't be harmed by that. The operator
names history and lake when the node is started, by the variables that `helen pipeline` reads; a task can't: its
parameters become values of known options, and nothing else.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from zerotask import errors
from zerotask.errors import TaskFailed
from zerotask.functions import Context, LoadError, task
from zerotask.node.programs import Ended, run_program
from zerotask.wire.methods import MAX_BODY

PIPELINE = (sys.executable, "-m", "helen.pipeline")  # what `helen pipeline` becomes
WHOSE = ("HELEN_STATE", "HELEN_LAKE")
NEEDED = ("pyspark", "deltalake")

RUN_SECONDS = 3_600.0  # of one attempt; a first run over the weeks that Helen keeps takes some minutes
REPORT_SECONDS = 900.0
COMPACT_SECONDS = 4 * 3_600.0  # a year of raw results, on two cores
LONGEST_TEXT = 256  # characters of one option or name
MOST_NAMES = 1_000  # of a report; the words of a program have a limit of 2 MiB
FORMATS = ("json", "csv", "html", "text")

# Options of the reports, and which JSON value each takes. A bool is a flag.
_DAYS: dict[str, type] = {"from": str, "to": str, "zone": str}
_OF_RUN: dict[str, type] = {"max_segments": int, "keep": dict}
_OF_COMPACT: dict[str, type] = {"all": bool, "keep": dict}
_REPORTS: dict[str, dict[str, type]] = {
    "availability": _DAYS | {"profile": str, "each_day": bool, "target": float, "store": bool},
    "sla": _DAYS | {"profile": str, "target": float},
    "offenders": _DAYS | {"top": int},
    "flapping": _DAYS | {"top": int},
    "cost": _DAYS | {"top": int},
    "capacity": _DAYS | {"within": float},
    "anomalies": _DAYS | {"threshold": float},
}
_KINDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", dict: "an object TABLE: DAYS"}


def before_serving() -> None:
    """Check that the node can do this work. Raises LoadError if history or extra is missing: it would claim in vain."""
    if not any(os.environ.get(name) for name in WHOSE):
        raise LoadError(f"{__name__}: no history is named. Start the node with HELEN_STATE=DIR, or with HELEN_LAKE=DIR")
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise LoadError(f"{__name__}: {missing[0]} is not installed here: pip install 'helen-equus[spark]'")


@task("pipeline.run", time_limit=RUN_SECONDS)
def run(context: Context, **options: Any) -> dict[str, Any]:
    """Ingest the segments that are there, once; options `max_segments`, `keep`. Return `said`, what it printed."""
    return {"said": _pipeline(["run", "--once", *words(options, _OF_RUN)], context).said}


@task("pipeline.compact", time_limit=COMPACT_SECONDS)
def compact(context: Context, **options: Any) -> dict[str, Any]:
    """Compact, forget and sweep now; options `all`, `keep`. Return `said`, what it printed."""
    return {"said": _pipeline(["compact", *words(options, _OF_COMPACT)], context).said}


@task("pipeline.report", time_limit=REPORT_SECONDS)
def report(report: str, names: Sequence[str] = (), output: str = "json", *, context: Context, **options: Any) -> Any:
    """Return one of the reports: a value for JSON, else a text. Raises TaskFailed for an unknown report or option."""
    if not isinstance(report, str) or report not in _REPORTS:
        raise _wrong(f"there is no such report: {', '.join(_REPORTS)}")
    if output not in FORMATS:
        raise _wrong(f"`output` is one of {', '.join(FORMATS)}")
    given = ["report", report, f"--output={output}", *words(options, _REPORTS[report]), "--", *_names(names)]
    text = _pipeline(given, context).output
    return json.loads(text) if output == "json" else text


def _pipeline(given: Sequence[str], context: Context) -> Ended:
    return run_program([*PIPELINE, *given], context, MAX_BODY)


def words(options: Mapping[str, Any], known: Mapping[str, type]) -> list[str]:
    """Return options as `--name=value`, so that no value can be taken for an option.

    Raises TaskFailed, INVALID_PARAMS, for an unknown name or a value of the wrong kind.
    """
    found: list[str] = []
    for name, value in options.items():
        kind = known.get(name)
        if kind is None:
            raise _wrong(f"{name!r} is no parameter; there are {', '.join(known)}")
        if not _fits(value, kind):
            raise _wrong(f"`{name}` is {_KINDS[kind]}")
        found += _words(name.replace("_", "-"), value)
    return found


def _fits(value: Any, kind: type) -> bool:
    if kind is dict:
        return isinstance(value, dict) and all(_fits(days, int) or days == "forever" for days in value.values())
    if kind is str:
        return isinstance(value, str) and 0 < len(value) <= LONGEST_TEXT and value.isprintable()
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    return isinstance(value, (int, float) if kind is float else int)


def _words(option: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{option}"] * value
    if isinstance(value, dict):
        return [f"--{option}={table}={days}" for table, days in value.items()]
    return [f"--{option}={value}"]


def _names(names: Any) -> list[str]:
    if not isinstance(names, list | tuple) or len(names) > MOST_NAMES or not all(_fits(name, str) for name in names):
        raise _wrong(f"`names` is an array of AGENT or AGENT/CHECK, {MOST_NAMES} at most")
    return list(names)


def _wrong(text: str) -> TaskFailed:
    return TaskFailed(errors.INVALID_PARAMS, text, retry=False)
