"""Tests the commands of the pipeline from outside: their output, and their errors."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from helen.pipeline import commands
from helen.pipeline.lake.lake import Lake
from helen.pipeline.reports import command_options

Say = Callable[..., Result]


@pytest.fixture
def say(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Return a function that runs a command with the Spark of the tests, which it cannot stop."""

    class Kept(SimpleNamespace):
        def __getattr__(self, name: str) -> Any:
            return getattr(spark, name)

    monkeypatch.setattr(command_options, "start_spark", lambda *_: Kept(stop=lambda: None))
    monkeypatch.setattr(commands.signal, "signal", lambda *_: None)
    return lambda *words: CliRunner().invoke(commands.main, [str(word) for word in words])


def test_from_run_to_reports(say: Say, history: Any) -> None:
    """Two checks are taken in and shown by each report, `sql` and `doctor`."""
    now = time.time() // 86_400 * 86_400 - 86_400  # yesterday
    history.segment(
        *(history.result("web1/disk", now + n * 60, "critical" if n % 4 == 3 else "ok", took_ms=10.0, cpu_ms=2.0,
                         peak_kib=100.0 + n) for n in range(40)),
        *(history.result("web2/load", now + n * 60, took_ms=1.0) for n in range(10)),
    )  # fmt: skip
    where = ("--state", history.state)
    ran = say("run", "--once", *where)
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert "50 results and 0 changes in" in ran.stderr
    state = history.state / "history" / "lake" / "status.json"
    assert json.loads(state.read_text())["results"] == 50
    offenders = json.loads(say("report", "offenders", *where, "--output", "json").stdout)["rows"]
    assert offenders == [{"check": "web1/disk", "bad_percent": 25.0, "changes": 19, "alerts": 0, "messages": 0,
                          "results": 40, "ok": 30, "warning": 0, "critical": 10, "unknown": 0}]  # fmt: skip
    assert say("report", "cost", *where, "--output", "csv").stdout.splitlines() == [
        "check,agents,runs,cpu_seconds,cpu_ms_per_run,mean_ms,slowest_ms,peak_kib",
        "disk,1,40,0.08,2.0,10.0,10.0,139.0", "load,1,10,,,1.0,1.0,0.0",
    ]  # fmt: skip
    assert json.loads(say("report", "flapping", *where, "--output", "json").stdout)["rows"] == []
    text = say("report", "availability", *where, "web1", "--profile", "icinga").stdout
    assert text.splitlines()[1].split()[:2] == ["web1/disk", "2.0833"]  # the last result was critical
    missed = say("report", "sla", *where, "web1", "--target", "99", "--output", "csv").stdout.splitlines()
    assert missed[1].startswith("web1/disk,") and ",False," in missed[1]
    page = say("report", "sla", *where, "--output", "html", "--out", history.state / "sla.html")
    assert (page.exit_code, page.stdout) == (0, "")
    assert "<svg" in (history.state / "sla.html").read_text()
    writer = Lake(history.state / "history" / "lake")
    writer.lock()  # as `run` has it all the time
    done = say("recent", *where, "--minutes", "1440")
    writer.unlock()
    shown = done.stdout
    assert "another process takes results in already" in done.stderr
    assert "Sums of five minutes (UTC):" in shown and "Availability (strict)" in shown
    asked = say("sql", "select agent, count(*) n from results join series using (series) group by agent order by agent",
                *where, "--output", "json")  # fmt: skip
    assert json.loads(asked.stdout)["rows"] == [{"agent": "web1", "n": 40}, {"agent": "web2", "n": 10}]
    assert say("compact", "--all", *where).exit_code == 0
    looked = say("doctor", *where)
    assert looked.exit_code == 0, looked.stdout
    assert "segment 1, 0 behind" in looked.stdout


REFUSED: dict[str, tuple[tuple[str, ...], int, str]] = {
    "no lake": (("sql", "select 1"), 2, "give --lake DIR, or one --state DIR whose history/lake it is"),
    "no history": (("run", "--once", "--state", "nowhere"), 1, "There is no history in nowhere"),
    "an unknown check": (("report", "cost", "--lake", "lake", "web7/x"), 1, "The lake knows no web7/x: write AGENT"),
    "no such zone": (("report", "cost", "--lake", "lake", "--zone", "Mars"), 1, "'Mars' is no time zone"),
    "no such day": (("report", "cost", "--lake", "lake", "--from", "soon"), 1, "'soon' is no day: write 2026-11-27"),
    "a setting without value": (("sql", "select 1", "--lake", "l", "--conf", "x"), 2, "write NAME=VALUE"),
    "too short to keep": (("run", "--state", "s", "--keep", "m5=2"), 1, "m5 must be kept 9 days or longer"),
    "no such table": (("run", "--state", "s", "--keep", "m6=9"), 2, "write TABLE=DAYS or TABLE=forever; tables: res"),
    "wrong SQL": (("sql", "select nothing", "--lake", "lake"), 1, "Spark: "),
}


@pytest.mark.parametrize(("words", "status", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_done_is_said(say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...],
                                     status: int, said: str) -> None:  # fmt: skip
    """A command that cannot be done ends with its status and one sentence, without a traceback."""
    monkeypatch.chdir(tmp_path)
    done = say(*words)
    assert (done.exit_code, said in done.stderr) == (status, True), done.stderr
    assert "Traceback" not in done.stderr


def test_helen_pipeline_is_a_process_of_its_own(tmp_path: Path) -> None:
    """`helen pipeline` runs as a process of its own, passes its words on without Spark, and returns that process's
    status."""
    code = "import sys; from helen.cli.pipeline import pipeline; assert 'pyspark' not in sys.modules; pipeline()"
    words = [sys.executable, "-c", code, "doctor", "--lake", str(tmp_path / "lake"), "--output", "json"]
    root = str(Path(__file__).parents[3])
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stderr
    assert [finding["what"] for finding in json.loads(done.stdout)] == [
        "Java", "packages", "lake", "tables", "quarantine", "driver",
    ]  # fmt: skip
