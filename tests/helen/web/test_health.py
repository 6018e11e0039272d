"""Tests /livez, /readyz and /metrics of a real Helen: access, answers, and promtool's verdict."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve
from helen_running import Running, wait_until
from web_client import Web, ask

from helen.files.restored import Restored
from helen.jobs.pipeline_status import PipelineReport
from helen.telemetry import Look
from helen.web.access import OWNER, STRANGER
from helen.web.figures.fleet_figures import MOST_SERIES, FleetFigures, single_families
from helen.web.figures.metric_families import look_at_process, pipeline_families
from helen.web.routes.health import FAIL, PASS, WARN, Finding, answer, examine

# ---------------------------------------------------------------------------------------------- findings


def a_helen(**changes: Any) -> Any:
    """Return the parts of a Helen that are examined, without any trouble unless `changes` make one."""
    document = SimpleNamespace(expires=200.0)
    parts = {
        "live.is_ending": False, "live.is_serving": True, "live.trouble": None, "journal.full": False,
        "store.trouble": None, "store.is_open": True,
        "library.published": SimpleNamespace(version=3, document=document), "library.staged": None,
        "library.restored": None, "notifier.is_muted": False,
        "library.problems": {}, "assignments.fault": None, "notifier.config_file.fault": None,
        "notifier.outbox.dead": 0, "forwarding.config_file.fault": None, "forwarding.troubles": list,
        "drain.phase": "off", "telemetry.looks": [],
    } | changes  # fmt: skip
    helen = SimpleNamespace()
    for path, value in parts.items():
        *way, last = path.split(".")
        place = helen
        for name in way:
            if not hasattr(place, name):
                setattr(place, name, SimpleNamespace())
            place = getattr(place, name)
        setattr(place, last, value)
    return helen


BROKEN = {"disk.lua": (SimpleNamespace(severity="error"),)}


@pytest.mark.parametrize(
    ("changes", "part", "status", "word"),
    [
        ({"live.is_ending": True}, "life", FAIL, "stopping"),
        ({"live.is_serving": False}, "life", FAIL, "starting"),
        ({"live.trouble": "No space for x"}, "journal", FAIL, "No space for x"),
        ({"journal.full": True}, "journal", FAIL, "reading has stopped"),
        ({"store.trouble": "helen.db: full"}, "store", FAIL, "helen.db: full"),
        ({"store.is_open": False}, "store", FAIL, "closed"),
        ({"library.published": None}, "manifest", WARN, "nothing is published"),
        ({"library.published": SimpleNamespace(version=3, document=SimpleNamespace(expires=100.0))},
         "manifest", FAIL, "version 3 has expired"),
        ({"library.staged": SimpleNamespace(version=4)}, "manifest", WARN, "version 4 waits"),
        ({"library.restored": Restored(0.0, 1.0)}, "manifest", WARN, "`helen push --yes`"),
        ({"notifier.is_muted": True}, "notifications", WARN, "--mute"),
        ({"library.problems": BROKEN}, "manifest", WARN, "broken"),
        ({"assignments.fault": "no TOML"}, "assignments", WARN, "no TOML"),
        ({"notifier.config_file.fault": "no TOML"}, "notifications", WARN, "no TOML"),
        ({"notifier.outbox.dead": 2}, "notifications", WARN, "2 messages"),
        ({"forwarding.config_file.fault": "no TOML"}, "forwards", WARN, "no TOML"),
        ({"forwarding.troubles": lambda: ["lake is 26 h behind", "p: y"]}, "forwards", WARN, "behind; p: y"),
        ({"drain.phase": "over"}, "drain", FAIL, "takes no agents"),
    ],
)  # fmt: skip
def test_each_trouble_is_found(changes: dict[str, Any], part: str, status: str, word: str) -> None:
    """Each trouble is found in its own part and in no other."""
    found = {each.part: each for each in examine(a_helen(**changes), 100.0)}
    assert {name: each.status for name, each in found.items() if each.status != PASS} == {part: status}
    assert word in found[part].sentence


def test_all_is_well() -> None:
    """A Helen without trouble passes in all parts without a sentence."""
    assert [each for each in examine(a_helen(), 100.0) if each.status != PASS or each.sentence] == []


def test_a_late_reactor_is_no_reason() -> None:
    """A late reactor is told with its latest long look, passes all the same, and a short delay is not told."""
    looks = [Look(0.04, 0.04), Look(0.2, 0.05), Look(0.06, 0.06)]
    (told,) = [each for each in examine(a_helen(**{"telemetry.looks": looks}), 100.0) if each.sentence]
    assert (told.part, told.status) == ("reactor", PASS)
    assert "200 ms late within the last minute: 150 ms it waited for a processor, 50 ms Helen held it" in told.sentence
    assert [each for each in examine(a_helen(**{"telemetry.looks": looks[:1]}), 100.0) if each.sentence] == []


class Asked:
    """Play a request as far as an answer uses it."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.code = 0

    def setHeader(self, name: str, value: str) -> None:
        self.headers[name] = value

    def setResponseCode(self, code: int) -> None:
        self.code = code


FINDINGS = [Finding("journal", FAIL, "No space for /var/x"), Finding("store"), Finding("manifest", WARN, "staged")]


def test_not_ready_is_a_problem() -> None:
    """A Helen that is not ready answers a problem, with the sentence for a caller that may read and the part's name
    for strangers."""
    asked = Asked()
    said = json.loads(answer(asked, FINDINGS, OWNER, verbose=False))  # type: ignore[arg-type]
    assert (asked.code, asked.headers["content-type"]) == (503, "application/problem+json")
    assert said == {
        "type": "about:blank", "title": "not ready", "status": 503, "detail": "journal: No space for /var/x",
        "reasons": ["journal"],
    }  # fmt: skip
    assert json.loads(answer(Asked(), FINDINGS, STRANGER, verbose=False))["detail"] == "journal"  # type: ignore[arg-type]


def test_the_verbose_form() -> None:
    """The verbose form has every part as health+json, without sentences for strangers."""
    asked = Asked()
    said = json.loads(answer(asked, FINDINGS, OWNER, verbose=True))  # type: ignore[arg-type]
    assert (asked.code, asked.headers["content-type"]) == (503, "application/health+json")
    assert said == {
        "status": "fail",
        "checks": {
            "journal": [{"status": "fail", "output": "No space for /var/x"}],
            "store": [{"status": "pass"}],
            "manifest": [{"status": "warn", "output": "staged"}],
        },
    }
    assert b"/var/x" not in answer(Asked(), FINDINGS, STRANGER, verbose=True)  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------------------- a real one

integration = pytest.mark.integration


@pytest.fixture(scope="module")
def web(fleet: Running) -> Web:
    return Web(fleet)


@integration
def test_probes_need_no_token(web: Web) -> None:
    """Probes need neither a token nor a known Host, since they come by address; other requests over TCP need both."""
    for path, said in (("/livez", b"ok\n"), ("/readyz", None), ("/healthz?verbose", None)):
        found = web.ask("GET", path, authorization="", host="192.0.2.7:4167")
        assert (found.status, said in (None, found.raw)) == (200, True)
    assert web.ask("GET", "/readyz?verbose", authorization="Bearer wrong").status == 401
    assert web.ask("GET", "/metrics", authorization="").problem[:2] == (401, "refused")


@integration
def test_a_helen_that_stops_is_not_ready(tmp_path: Path) -> None:
    """A ready Helen that gets SIGTERM ends with status 0."""
    helen = Running(tmp_path).up()
    try:
        wait_until(lambda: ask(helen, "GET", "/readyz").json["status"] in ("pass", "warn"), "word that it is ready")
        helen.signal(signal.SIGTERM)
        assert helen.program.wait() == 0
    finally:
        helen.end()


def promtool(page: bytes) -> str:
    """Return promtool's complaints about a page, or nothing."""
    path = shutil.which("promtool")
    assert path is not None, "promtool is missing: apt-get install prometheus"
    done = subprocess.run([path, "check", "metrics"], input=page, capture_output=True, timeout=30, check=False)
    said = (done.stdout + done.stderr).decode()
    return said or ("" if done.returncode == 0 else f"status {done.returncode}")


@integration
def test_promtool_is_content(fleet: Running) -> None:
    """promtool accepts the page of a real Helen, and complains of a bad one."""
    assert "x_ms" in promtool(b"# TYPE x_ms counter\nx_ms 1\n")
    page = ask(fleet, "GET", "/metrics")
    assert page.kind == "text/plain; version=0.0.4; charset=utf-8"
    assert promtool(page.raw) == ""


NAMES = """helen_build_info helen_agents_connected helen_sessions_total helen_check_results_total helen_check_status
 helen_check_duration_seconds_bucket helen_check_lag_seconds_bucket helen_check_last_result_timestamp_seconds
 helen_event_loop_lag_seconds_bucket helen_store_write_seconds_bucket helen_scripts_pushed_total helen_states
 helen_journal_backlog_bytes helen_agent_connected helen_event_loop_held_seconds_bucket
 helen_event_loop_processor_wait_seconds_total""".split()


@integration
def test_the_names_that_dashboards_rest_on(fleet: Running) -> None:
    """Each name that dashboards use has a sample, and figures of one agent are those of its check."""
    wait_until(lambda: ask(fleet, "GET", "/api/v1/states/web-1/pulse").status == 200, "state of the check")
    page = ask(fleet, "GET", "/metrics").raw.decode()
    missing = [name for name in NAMES if not re.search(rf"^{name}[ {{]", page, re.MULTILINE)]
    assert missing == []
    for line in ('helen_check_status{agent="web-1",check="pulse"} 0', "helen_agents_connected 1",
                 'helen_agent_connected{agent="web-1"} 1', "helen_series_left_out 0"):  # fmt: skip
        assert line in page.splitlines()
    assert 'agent="web-1"' not in ask(fleet, "GET", "/metrics?on=nobody-*").raw.decode()


@integration
def test_open_metrics_for_whoever_asks(web: Web) -> None:
    """OpenMetrics is sent to a client whose Accept header asks for it."""
    page = web.ask("GET", "/metrics", accept="application/openmetrics-text; version=1.0.0,text/plain;q=0.5")
    assert page.kind.startswith("application/openmetrics-text")
    assert page.raw.endswith(b"\n# EOF\n")


def test_too_many_checks_have_no_series() -> None:
    """With too many series all single ones are left out and counted, since half a fleet would look whole."""
    agent: Any = SimpleNamespace(name="a", latest=range(MOST_SERIES + 1), is_host=False, revoked_at=None, link=None)
    helen: Any = SimpleNamespace(
        evaluator=SimpleNamespace(timeline=SimpleNamespace(states={})), library=SimpleNamespace(published=None)
    )
    fleet = FleetFigures(helen, [])
    list(fleet.steps([agent]))
    (family,) = single_families(helen, fleet)
    assert (family.name, list(family.samples)) == ("helen_series_left_out", [("", {}, MOST_SERIES + 2)])


def test_the_pipeline_in_metrics() -> None:
    """The pipeline has no metrics where it has never run, and otherwise its progress and if it is still heard."""
    said = PipelineReport(
        at=1000.0, running=True, lake="/lake", segment=17, behind=2, seconds=11.5, results=40, batches=3,
        last_at=990.0, last_results=12, last_seconds=0.5, results_per_second=24.0,
    )  # fmt: skip
    assert list(pipeline_families(None, 1000.0)) == []
    figures = {family.name.removeprefix("helen_pipeline_"): next(iter(family.samples))[2]
               for family in pipeline_families(said, 1010.0)}  # fmt: skip
    assert figures == {
        "up": 1, "failing": 0, "heard_timestamp_seconds": 1000.0, "results": 40, "batches": 3,
        "last_batch_timestamp_seconds": 990.0, "last_batch_seconds": 0.5, "last_batch_results": 12, "segment": 17,
        "behind_segments": 2, "behind_seconds": 11.5,
    }  # fmt: skip
    silent, failing, *_ = pipeline_families(evolve(said, error="upkeep failed"), 1200.0)
    assert (next(iter(silent.samples))[2], next(iter(failing.samples))[2]) == (0, 1)


def test_what_the_kernel_says() -> None:
    """The process's own memory is read from the kernel."""
    assert look_at_process().rss > os.sysconf("SC_PAGE_SIZE")
