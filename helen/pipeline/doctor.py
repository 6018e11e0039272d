"""Checks everything that the pipeline needs, and says for each fault what to do. It doesn't start Spark."""

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

from groundwork.counts import count
from groundwork.durations import words_of
from groundwork.figures import figure
from helen.pipeline.ingest import missing
from helen.pipeline.ingest.batch import IN_ORDER
from helen.pipeline.ingest.claims import check_claim
from helen.pipeline.ingest.histories import CHANGES, RESULTS, open_history
from helen.pipeline.ingest.quarantine import waiting
from helen.pipeline.java import find_java
from helen.pipeline.lake import schema
from helen.pipeline.lake.errors import MissingSegments, PipelineError, StoreUnreachable
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.places import files_below, missing_of, read_bytes
from helen.pipeline.lake.read_errors import with_advice
from helen.pipeline.lake.stores import is_stored, url_of
from helen.pipeline.telemetry import LAKE_FILE, lag

LEAST_FREE = 2 * 1024**3  # bytes: a day of 1,000 agents with 20 checks a minute takes 1.5 GB
SILENT = 120.0  # seconds without a sign of life: eight beats
BEHIND = 300.0  # seconds: thirty triggers
PACKAGES = ("pyspark", "deltalake", "pyarrow", "pandas", "numpy")


@frozen
class Finding:
    """Holds the outcome of one check."""

    what: str
    fine: bool
    said: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def examine(lake: Lake, states: Sequence[Path]) -> list[Finding]:
    """Return the findings, in the order in which things depend on each other."""
    findings = [_java(), _packages(), _folder(lake)]
    findings += [_history(lake, folder) for folder in states]
    return [*findings, _tables(lake), _aside(lake), _driver(lake)]


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
    if is_stored(folder):
        return _try("lake", lambda: _reached(folder))
    while not folder.exists():
        folder = folder.parent
    if not os.access(folder, os.W_OK):
        return Finding("lake", False, f"{folder} can't be written: run as the user that owns it")
    free = shutil.disk_usage(folder).free
    return Finding("lake", free >= LEAST_FREE, f"{lake.folder}, {free / 1024**3:.1f} GiB free")


def _reached(folder: Path) -> str:
    """Raise StoreUnreachable if an object store doesn't answer, or may not be read."""
    try:
        next(files_below(folder, ""), None)
    except OSError as error:
        raise StoreUnreachable(f"{url_of(folder)} can't be reached: {error}") from error
    return f"{url_of(folder)}, in an object store"


def _history(lake: Lake, folder: Path) -> Finding:
    def look() -> str:
        """Raise PipelineError if the pipeline is far behind the history, or can't go on with it."""
        history = open_history(folder)
        name = history.identity()
        published = {
            kind: lake.done(table, f"{kind}:{name}") for kind, table in ((RESULTS, "results"), (CHANGES, "changes"))
        }
        behind = lag(history, published)
        text = f"{history.folder}: segment {behind['segment']}, {behind['behind']} behind"
        done = {table: lake.done(table, f"{RESULTS}:{name}") for table in IN_ORDER}
        listed = done[schema.TAKEN.name] > 0  # a lake of an older version gets its list when a writer starts
        tables = {table: last for table, last in done.items() if listed or table != schema.TAKEN.name}
        missing.check(history, tables, published[CHANGES])
        check_claim(history, lake.folder)
        if behind["seconds"] > BEHIND:
            raise PipelineError(
                f"{text}, the oldest for {words_of(round(behind['seconds']))}: is `helen pipeline run` running?"
            )
        return text

    return _try("history", look)


def _tables(lake: Lake) -> Finding:
    def look() -> str:
        """Raise PipelineError if a file that counts is missing."""
        files = {table: lake.files(table) for table in lake.tables}
        paths = [lake.path(table) / file.path for table, each in files.items() for file in each]
        missing = missing_of(paths)
        if missing:
            raise PipelineError(
                f"{count(len(missing), 'file is', 'files are')} in the log and not on the disk, {missing[0]} first:"
                " restore them"
            )
        results = files[schema.RESULTS.name]
        rows, size = sum(file.rows for file in results), sum(file.size for file in results)
        return f"{count(rows, 'result')} in {count(len(results), 'file')}, {figure(size, 'B')}"

    return _try("tables", look)


def _aside(lake: Lake) -> Finding:
    def look() -> str:
        """Raise PipelineError if segments were set aside."""
        rows = waiting(lake)
        if rows:
            first = f"{rows[0]['kind']} {rows[0]['segment']} first ({rows[0]['why']})"
            raise PipelineError(
                f"{count(len(rows), 'segment is', 'segments are')} in quarantine, {first}: put a sound copy into the"
                " history's segments, then `helen pipeline readmit`"
            )
        return "none"

    return _try("quarantine", look)


def _driver(lake: Lake) -> Finding:
    try:
        status = json.loads(read_bytes(lake.folder / LAKE_FILE))
        last, ago = status["last"], time.time() - status["at"]
        if status["running"] and ago > SILENT:
            return Finding("driver", False, f"not heard of for {words_of(round(ago))}, and it did not say that it ends")
        if status["error"]:
            text = "runs, but" if status["running"] else f"ended {words_of(round(ago))} ago:"
            return Finding("driver", False, f"{text} {status['error']}")
        text = "runs" if status["running"] else f"ended {words_of(round(ago))} ago"
        if last is not None:
            text += (
                f"; last batch {words_of(round(time.time() - last['at']))} ago: {count(last['results'], 'result')} in"
                f" {figure(last['seconds'], 's')}"
            )
        return Finding("driver", True, text)
    except FileNotFoundError:
        return Finding("driver", True, "has not taken anything in yet")
    except OSError as error:
        return Finding("driver", False, with_advice(f"{lake.folder / LAKE_FILE} can't be read ({error})", error))
    except (ValueError, LookupError, TypeError) as error:
        return Finding("driver", False, f"{lake.folder / LAKE_FILE} can't be read ({error}): delete it")


def _try(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, look())
    except (PipelineError, MissingSegments, OSError) as error:
        return Finding(what, False, with_advice(str(error), error))
