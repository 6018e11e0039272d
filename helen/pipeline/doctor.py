"""Looks at everything that the pipeline needs and says what is wrong and what to do. Doesn't start Spark."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from helen.pipeline.errors import PipelineError
from helen.pipeline.histories import CHANGES, RESULTS, open_history
from helen.pipeline.java import find_java
from helen.pipeline.lake import Lake
from helen.pipeline.telemetry import LAKE_FILE, lag

LEAST_FREE = 2 * 1024**3  # bytes: a day of 1,000 agents with 20 checks a minute takes 1.5 GB
SILENT = 120.0  # seconds without a sign of life: eight beats
BEHIND = 300.0  # seconds: thirty triggers
PACKAGES = ("pyspark", "deltalake", "pyarrow", "pandas", "numpy")


@frozen
class Finding:
    """One thing that was looked at."""

    what: str
    fine: bool
    said: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def examine(lake: Lake, states: Sequence[Path]) -> list[Finding]:
    """In the order in which things depend on each other."""
    findings = [_java(), _packages(), _folder(lake)]
    findings += [_history(lake, folder) for folder in states]
    return [*findings, _tables(lake), _driver(lake)]


def _java() -> Finding:
    return _try("Java", _java_text)


def _java_text() -> str:
    with tempfile.TemporaryDirectory() as shims:
        java = find_java(os.environ, Path(shims))
    return f"{java.version} from {java.found}"


def _packages() -> Finding:
    found = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    old = int(version("pandas").split(".")[0]) >= 3
    return Finding("packages", not old, found + (": pyspark can't work with pandas 3, pip install 'pandas<3'" * old))


def _folder(lake: Lake) -> Finding:
    folder = lake.folder
    while not folder.exists():
        folder = folder.parent
    if not os.access(folder, os.W_OK):
        return Finding("lake", False, f"{folder} can't be written: run as the user that owns it")
    free = shutil.disk_usage(folder).free
    return Finding("lake", free >= LEAST_FREE, f"{lake.folder}, {free / 1024**3:.1f} GiB free")


def _history(lake: Lake, folder: Path) -> Finding:
    def look() -> str:
        history = open_history(folder)
        name = history.identity()
        published = {
            kind: lake.done(table, f"{kind}:{name}") for kind, table in ((RESULTS, "results"), (CHANGES, "changes"))
        }
        behind = lag(history, published)
        text = f"{history.folder}: segment {behind['segment']}, {behind['behind']} behind"
        if behind["seconds"] > BEHIND:
            raise PipelineError(f"{text}, the oldest for {behind['seconds']:.0f} s: is `helen pipeline run` running?")
        return text

    return _try("history", look)


def _tables(lake: Lake) -> Finding:
    def look() -> str:
        files = lake.files("results")
        missing = [file.path for file in files if not (lake.path("results") / file.path).exists()]
        if missing:
            raise PipelineError(
                f"{len(missing)} files are in the log and not on the disk, {missing[0]} first: restore them"
            )
        return f"{sum(file.rows for file in files)} results in {len(files)} files, {sum(f.size for f in files)} bytes"

    return _try("tables", look)


def _driver(lake: Lake) -> Finding:
    try:
        status = json.loads((lake.folder / LAKE_FILE).read_text())
        last, ago = status["last"], time.time() - status["at"]
        if status["running"] and ago > SILENT:
            return Finding("driver", False, f"not heard of for {ago:.0f} s, and it did not say that it ends")
        if status["error"]:
            text = "runs, but" if status["running"] else f"ended {ago:.0f} s ago:"
            return Finding("driver", False, f"{text} {status['error']}")
        text = "runs" if status["running"] else f"ended {ago:.0f} s ago"
        if last is not None:
            text += (
                f"; last batch {time.time() - last['at']:.0f} s ago: {last['results']} results in {last['seconds']} s"
            )
        return Finding("driver", True, text)
    except FileNotFoundError:
        return Finding("driver", True, "has not taken anything in yet")
    except (OSError, ValueError, LookupError, TypeError) as error:
        return Finding("driver", False, f"{lake.folder / LAKE_FILE} can't be read ({error}): delete it")


def _try(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, look())
    except PipelineError as error:
        return Finding(what, False, str(error))
