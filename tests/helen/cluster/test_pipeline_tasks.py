"""Tests the history on Spark as tasks: the words that become of what a task asks. A program that repeats
them is Spark.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helen.jobs import pipeline_tasks
from zerotask import errors
from zerotask.errors import TaskFailed
from zerotask.functions import Context, LoadError, load, perform

SPARK = """
import json, os, sys
print("starting Spark", file=sys.stderr)
if "--top=13" in sys.argv: sys.exit("Error: The lake knows no web7")
if "--from=soon" in sys.argv: print("Error: no day", file=sys.stderr); sys.exit(2)
print("done", file=sys.stderr)
print(json.dumps([sys.argv[1:], os.environ["HELEN_STATE"]]))
"""
MODULE = "helen.jobs.pipeline_tasks"

Ask = Callable[..., Any]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return a function that calls one of the methods as a node's child does."""
    (tmp_path / "spark.py").write_text(SPARK)
    monkeypatch.setattr(pipeline_tasks, "PIPELINE", (sys.executable, "-S", "-E", str(tmp_path / "spark.py")))
    monkeypatch.setattr(pipeline_tasks, "NEEDED", ())
    monkeypatch.setenv("HELEN_STATE", str(tmp_path))
    served = load([MODULE], with_entry_points=False)

    def call(method: str, params: Any, tell: Any = lambda status, detail: None) -> Any:
        return perform(served[f"pipeline.{method}"], params, Context("t", 1, tell))

    return call


def test_what_is_served() -> None:
    """The methods have the names of the design, each with a limit for its time."""
    limits = {name: value for name, value in vars(pipeline_tasks).items() if name.endswith("_SECONDS")}
    assert limits == {"RUN_SECONDS": 3_600.0, "REPORT_SECONDS": 900.0, "COMPACT_SECONDS": 14_400.0}
    marked = [pipeline_tasks.run, pipeline_tasks.compact, pipeline_tasks.report]
    assert [function.__zerotask__ for function in marked] == [
        ("pipeline.run", {"time_limit": 3_600.0}),
        ("pipeline.compact", {"time_limit": 14_400.0}),
        ("pipeline.report", {"time_limit": 900.0}),
    ]


WORDS: dict[str, tuple[str, Any, list[str]]] = {
    "run": ("run", [], ["run", "--once"]),
    "run with options": (
        "run", {"max_segments": 5, "keep": {"results": 14, "d1": "forever"}},
        ["run", "--once", "--max-segments=5", "--keep=results=14", "--keep=d1=forever"],
    ),
    "compact": ("compact", {"all": True}, ["compact", "--all"]),
    "a flag that is not set": ("compact", {"all": False}, ["compact"]),
    "report": ("report", ["cost"], ["report", "cost", "--output=json", "--"]),
    "report of some": (
        "report", {"report": "availability", "names": ["web1", "--help"], "from": "2026-11-01", "zone": "-x",
                   "each_day": True, "target": 99.5},
        ["report", "availability", "--output=json", "--from=2026-11-01", "--zone=-x", "--each-day", "--target=99.5",
         "--", "web1", "--help"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("method", "params", "words"), WORDS.values(), ids=WORDS)
def test_what_becomes_of_a_task(ask: Ask, tmp_path: Path, method: str, params: Any, words: list[str]) -> None:
    """A value becomes no option, and a task does not say which history it is."""
    told: list[Any] = []
    said = ask(method, params, lambda status, detail: told.append(detail["said"]))
    assert said == ([words, str(tmp_path)] if method == "report" else {"said": ["starting Spark", "done"]})
    assert told[-1] == "done"


def test_a_report_as_text(ask: Ask) -> None:
    """A report as text is the one that the command prints."""
    text = ask("report", {"report": "cost", "output": "csv"})
    assert json.loads(text)[0] == ["report", "cost", "--output=csv", "--"]


REFUSED: dict[str, tuple[str, Any, str]] = {
    "another report": ("report", ["sql"], "there is no such report: availability, sla, offenders, flapping"),
    "another format": ("report", ["cost", [], "--out=/etc/passwd"], "`output` is one of json, csv"),
    "a folder": ("run", {"state": "/etc"}, "'state' is no parameter; there are max_segments, keep"),
    "an option of another report": ("report", {"report": "cost", "profile": "strict"}, "'profile' is no parameter"),
    "a number for a text": ("report", {"report": "cost", "zone": 1}, "`zone` is a text"),
    "a text for a number": ("report", {"report": "cost", "top": "1"}, "`top` is a whole number"),
    "true for a number": ("report", {"report": "cost", "top": True}, "`top` is a whole number"),
    "a number for a flag": ("compact", {"all": 1}, "`all` is true or false"),
    "days of nothing": ("run", {"keep": {"results": "some"}}, "`keep` is an object TABLE: DAYS"),
    "a line end": ("report", {"report": "cost", "zone": "UTC\n"}, "`zone` is a text"),
    "no names": ("report", ["cost", "web1"], "`names` is an array"),
    "an empty name": ("report", ["cost", [""]], "`names` is an array"),
    "nothing": ("report", [], "wrong parameters: missing a required argument: 'report'"),
    "by Spark, in its words": ("report", {"report": "cost", "from": "soon"}, "Error: no day (exit status 2)"),
}


@pytest.mark.parametrize(("method", "params", "said"), REFUSED.values(), ids=REFUSED)
def test_what_can_never_be_done(ask: Ask, method: str, params: Any, said: str) -> None:
    """A task that can never be done fails for good, with a sentence."""
    with pytest.raises(TaskFailed) as failure:
        ask(method, params)
    assert (failure.value.code, failure.value.retry) == (errors.INVALID_PARAMS, False)
    assert said in failure.value.message


def test_what_may_go_better_the_next_time(ask: Ask) -> None:
    """A failure that may pass is tried again with what was said, such as a lake that another one has at the moment."""
    with pytest.raises(TaskFailed) as failure:
        ask("report", {"report": "cost", "top": 13})
    assert (failure.value.code, failure.value.retry) == (errors.FUNCTION_RAISED, True)
    assert failure.value.message == "Error: The lake knows no web7 (exit status 1)"
    assert failure.value.data["said"] == ["starting Spark", "Error: The lake knows no web7"]


def test_a_node_that_can_do_none_of_it_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node does not start, rather than take tasks and fail them."""
    for name in pipeline_tasks.WHOSE:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(LoadError, match="no history is named"):
        load([MODULE], with_entry_points=False)
    monkeypatch.setenv("HELEN_LAKE", "/lake")
    monkeypatch.setattr(pipeline_tasks, "NEEDED", ("no_such_package",))
    with pytest.raises(LoadError, match="no_such_package is not installed here"):
        load([MODULE], with_entry_points=False)
