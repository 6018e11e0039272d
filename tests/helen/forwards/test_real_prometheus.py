"""Tests a real Prometheus that takes remote-write: each sample arrives at its own time, and an outage loses none."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forward_stage import NOW, Stage
from real_peers import program
from remotes import wait_for

from helen.journal.values import Origin

CONFIG = "global: {scrape_interval: 1h}\nstorage: {tsdb: {out_of_order_time_window: 2d}}\n"
RECEIVES = "--web.enable-remote-write-receiver"
PLAIN = "global: {scrape_interval: 1h}\n"
START = 1_800_000_000


class Prometheus:
    """Runs one server on a port that stays the same over a restart."""

    def __init__(self, folder: Path, config: str = CONFIG) -> None:
        self.folder = folder
        (folder / "prometheus.yml").write_text(config)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *flags: str) -> None:
        words = [program("prometheus", "prometheus"), "--config.file=prometheus.yml", "--storage.tsdb.path=data",
                 f"--web.listen-address=127.0.0.1:{self.port}", *flags,
                 "--storage.tsdb.retention.time=100y"]  # fmt: skip
        with open(self.folder / "log", "ab") as out:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.folder)
        wait_for(self._is_ready, "Prometheus")

    def _is_ready(self) -> bool:
        assert self.process is not None and self.process.poll() is None, (self.folder / "log").read_text()
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5.0) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(30.0)
            self.process = None

    def samples(self, query: str, at: float) -> list[tuple[dict[str, str], list[tuple[float, float]]]]:
        """Return each series of a range selector with its samples."""
        asked = urllib.parse.urlencode({"query": query, "time": at})
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{asked}", timeout=10.0) as answer:
            found: list[Any] = json.loads(answer.read())["data"]["result"]
        return [(each["metric"], [(at, float(value)) for at, value in each["values"]]) for each in found]


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Prometheus]:
    folder = tmp_path / "prometheus"
    folder.mkdir()
    made = Prometheus(folder)
    made.start(RECEIVES)
    yield made
    made.end()


def settings(prometheus: Prometheus, more: str = "") -> str:
    return f'[forwards.prom]\ntype = "remote-write"\nurl = "{prometheus.url}/api/v1/write"\n{more}'


def test_each_sample_arrives_at_its_time(stage: Stage, prometheus: Prometheus) -> None:
    """A sample has names and labels as they are queried; a late result is an older sample of the same series."""
    stage.start(settings(prometheus))
    stage.results(120)
    stage.transition()
    late = {"started": NOW - 3_600.5, "took_ms": 500.0}
    stage.result("web-1", "disk", Origin.SCHEDULED, [{"name": "used", "value": 7.5}], **late)
    labelled = {"name": "bytes-sent", "value": 3, "labels": {"net-if": "eth0"}, "kind": "counter"}
    stage.result("db-1", "net", Origin.PASSIVE, [labelled])
    stage.sealed()
    stage.until_even("prom")
    ((labels, values),) = prometheus.samples('used{agent="web-1"}[2d]', NOW + 200)
    assert labels == {"__name__": "used", "agent": "web-1", "check": "disk", "role": "web"}
    assert values == [(START - 3_600, 7.5), *((START + n, float(n)) for n in range(1, 121))]
    ((labels, values),) = prometheus.samples("helen_state[1h]", NOW + 200)
    assert (labels["check"], values) == ("disk", [(START + 120.3, 2.0)])
    ((labels, values),) = prometheus.samples("bytes_sent[1h]", NOW + 200)
    assert labels == {"__name__": "bytes_sent", "agent": "db-1", "check": "net", "role": "db", "net_if": "eth0"}
    assert [value for _, value in values] == [3.0]
    assert len(prometheus.samples("helen_result_status[1h]", NOW + 200)) == 2
    assert (stage.forward("prom").counts.refused, stage.forward("prom").counts.error) == (0, None)


def test_it_is_away_for_a_while_and_helen_is_killed(stage: Stage, prometheus: Prometheus) -> None:
    """Results that came meanwhile arrive when both are back: no sample is missing, none is there twice."""
    stage.start(settings(prometheus))
    stage.results(60)
    stage.until_even("prom")
    prometheus.end()
    stage.results(300)
    stage.until(lambda: stage.forward("prom").counts.failed >= 2, "failed tries")
    assert "no connection" in (stage.forward("prom").counts.error or "")
    stage.kill()
    prometheus.start(RECEIVES)
    stage.start()
    stage.results(60)
    stage.until_even("prom")
    stage.kill()  # the last step may come twice
    stage.start()
    stage.results(1)
    stage.until_even("prom")
    ((_, values),) = prometheus.samples("used[2h]", NOW + 1_000)
    assert values == [(START + n, float(n)) for n in range(1, 422)]


def test_one_bad_sample_costs_no_other(stage: Stage, tmp_path: Path) -> None:
    """One bad sample is set aside alone, though Prometheus refuses a whole request for it."""
    folder = tmp_path / "plain"
    folder.mkdir()
    plain = Prometheus(folder, PLAIN)
    try:
        plain.start(RECEIVES)
        stage.start(settings(plain, 'send = ["metrics"]\n'))
        stage.results(10)
        stage.until_even("prom")
        late = {"started": NOW - 40_000.5, "took_ms": 500.0}
        stage.result("web-1", "disk", Origin.SCHEDULED, [{"name": "used", "value": 7.5}], **late)
        stage.results(30, "db-1")
        stage.until_even("prom")
        found = {labels["agent"]: values for labels, values in plain.samples("used[2d]", NOW + 100)}
        assert found["web-1"] == [(START + n, float(n)) for n in range(1, 11)]
        assert found["db-1"] == [(START + n, float(n)) for n in range(11, 41)]
        counts = stage.forward("prom").counts
        assert (counts.sent, counts.refused) == (40, 1)
        assert "400 Bad Request: out of" in (counts.refusal or "") and "web-1/disk first" in (counts.refusal or "")
        assert stage.forwarding.troubles() == [f"prom: 1 value was refused for good: {counts.refusal}"]
    finally:
        plain.end()


def test_a_sample_that_is_older_than_its_window(stage: Stage, prometheus: Prometheus) -> None:
    """A sample to which Prometheus 2 answers 500 each time is set aside, and stops nothing."""
    stage.start(settings(prometheus, 'send = ["metrics"]\n'))
    stage.results(10)
    stage.until_even("prom")
    old = {"started": NOW - 5 * 86_400.0, "took_ms": 1.0}
    stage.result("web-1", "disk", Origin.SCHEDULED, [{"name": "used", "value": 7.5}], **old)
    stage.results(5)
    stage.until_even("prom")
    counts = stage.forward("prom").counts
    assert (counts.sent, counts.refused) == (15, 1) and "too old sample" in (counts.refusal or "")
    ((_, values),) = prometheus.samples("used[7d]", NOW + 100)
    assert [value for _, value in values] == [float(n) for n in range(1, 16)]


def test_it_does_not_take_remote_write(stage: Stage, prometheus: Prometheus) -> None:
    """A server without its flag answers 404, which is about the settings, so everything waits until they are mended."""
    prometheus.end()
    prometheus.start()
    stage.start(settings(prometheus))
    stage.results(5)
    stage.until(lambda: stage.forward("prom").counts.failed, "failed try")
    assert (stage.forward("prom").counts.error or "").startswith("404 Not Found: remote write receiver needs to be")
    prometheus.end()
    prometheus.start(RECEIVES)
    stage.until_even("prom")
    ((_, values),) = prometheus.samples("used[1h]", NOW + 100)
    assert [value for _, value in values] == [1.0, 2.0, 3.0, 4.0, 5.0]
