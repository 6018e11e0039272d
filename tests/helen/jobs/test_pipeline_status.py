"""Tests what Helen makes of the pipeline's own words: nothing that makes no sense, and a line in `helen status`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import maybeDeferred

from helen.cli.shown.status import pipeline_line
from helen.jobs import pipeline_status
from helen.jobs.pipeline_status import MOST_BYTES, PipelineWatch, read, report_of

NOW = 1_790_000_000.0
SAID: dict[str, Any] = {
    "at": NOW - 5, "pid": 7, "lake": "/srv/lake", "trigger": 10.0, "running": True, "results": 40_000, "changes": 3,
    "batches": 12, "error": None, "segment": 17, "change": 4, "behind": 2, "seconds": 11.5,
    "last": {"at": NOW - 9, "results": 3330, "changes": 0, "seconds": 0.75, "results_per_second": 4440.0},
}  # fmt: skip


def line(**changed: Any) -> str:
    return pipeline_line(report_of(SAID | changed).to_json(NOW), NOW)


def test_the_line_in_status() -> None:
    """The line tells how far the pipeline is, how fast, and whether it has ended, failed, or died."""
    pace = "4,440 results/s in a batch of 0.8 s"
    assert line() == f"history: 2 segments (12 s) behind; {pace}"
    assert line(behind=0, seconds=0.0) == f"history: all segments are in the lake; {pace}"
    assert line(error="upkeep failed") == f"history: 2 segments (12 s) behind; {pace}; upkeep failed"
    assert line(running=False) == "history: the pipeline ended 5s ago, with segment 17"
    assert line(running=False, error="no space\x1b") == "history: the pipeline failed 5s ago: no space\\x1b"
    assert line(at=NOW - 300) == ("history: the pipeline has been silent for 5m: `helen pipeline doctor` says more")


def test_the_file_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lake is in its usual folder before the file is there; afterwards it is where the file says."""
    monkeypatch.setattr(pipeline_status, "deferToThread", maybeDeferred)
    watch = PipelineWatch(tmp_path)
    watch.look()
    assert (watch.overview(NOW), watch.lake) == (None, tmp_path / "lake")
    (tmp_path / "pipeline.json").write_text(json.dumps(SAID))
    watch.look()
    assert watch.lake == Path("/srv/lake")
    assert watch.overview(NOW) == {
        "heard": NOW - 5, "state": "running", "lake": "/srv/lake", "segment": 17, "behind": 2, "behind_seconds": 11.5,
        "results": 40_000, "batches": 12, "batch_results": 3330, "batch_seconds": 0.75, "results_per_second": 4440.0,
        "error": None,
    }  # fmt: skip
    (tmp_path / "pipeline.json").unlink()
    watch.look()
    assert watch.overview(NOW) is None


WRONG = (
    "", "[]", "7", '{"at": 1}', "[" * 10_000, " " * MOST_BYTES + "{}", '{"at": NaN}',
    json.dumps(SAID | {"lake": "a\0"}),
    json.dumps(SAID | {"segment": -1}), json.dumps(SAID | {"behind": True}), json.dumps(SAID | {"last": "x"}),
    json.dumps(SAID | {"seconds": 1e999}), json.dumps(SAID | {"error": 5}), json.dumps(SAID | {"results": 2**63}),
)  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_what_makes_no_sense_counts_as_none(tmp_path: Path, text: str) -> None:
    """A text that makes no sense counts as none, however it came there."""
    (tmp_path / "x").write_text(text)
    assert read(tmp_path / "x") is None


def test_before_the_first_batch() -> None:
    """There is no last batch before the first one."""
    said = report_of(SAID | {"last": None})
    assert (said.last_results, said.last_seconds, said.results_per_second) == (0, 0.0, 0.0)
