"""Tests forwards from their file to a receiver: where they begin, what answers lead to, kills, and changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow.parquet
import pytest
from attrs import evolve
from forward_stage import NOW, LineReceiver, Receiver, Request, Stage
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from helen.forwards.delivery import LONGEST_ASKED, MOST_PROBES, MOST_REFUSALS
from helen.forwards.segment_walk import SegmentWalk
from helen.journal.values import Origin
from helen.web.figures.exposition import write
from helen.web.figures.forward_families import forward_families

VALUE = re.compile(r"used=([0-9.]+)")


def influx(receiver: Receiver, more: str = "", name: str = "lake") -> str:
    return f'[forwards.{name}]\ntype = "influx"\nurl = "{receiver.url}/api/v2/write?bucket=b"\n{more}'


def values(receiver: Receiver) -> list[float]:
    """Return the values that were taken, in their order."""
    return [float(found[1]) for line in receiver.lines() if (found := VALUE.search(line))]


def counted(first: int, last: int) -> list[float]:
    return [float(n) for n in range(first, last + 1)]


# ---------------------------------------------------------------------------------------------- where it begins


def test_it_begins_with_what_comes_next(stage: Stage, receiver: Receiver) -> None:
    stage.results(70)
    stage.start(influx(receiver))
    stage.results(70)
    stage.until_even("lake")
    assert values(receiver) == counted(71, 140)
    assert receiver.got[0].path == "/api/v2/write?bucket=b"


def test_it_begins_with_the_oldest(stage: Stage, receiver: Receiver) -> None:
    stage.results(70)
    stage.start(influx(receiver, 'begin = "oldest"\n'))
    stage.until_even("lake")
    assert (values(receiver), stage.forward("lake").place.lost) == (counted(1, 70), 0)


def test_what_is_chosen(stage: Stage, receiver: Receiver) -> None:
    """A forward sends what its agents, labels and checks choose, and metrics without states if it says so."""
    stage.start(influx(receiver, 'on = ["role=db", "nas"]\nchecks = ["disk*"]\nsend = "metrics"\n'))
    for agent in ("web-1", "db-1", "nas"):
        for check in ("disk", "disk:2", "load"):
            stage.results(1, agent, check)
    stage.transition("db-1", "disk")
    stage.until_even("lake")
    found = [line.split()[0].split(",")[1:3] for line in receiver.lines()]
    assert found == [[f"agent={agent}", f"check={check}"] for agent in ("db-1", "nas") for check in ("disk", "disk:2")]
    assert all(line.split(" ")[1].startswith("used=") for line in receiver.lines())


def test_a_place_that_is_not_in_this_history(stage: Stage, receiver: Receiver) -> None:
    """A forward with such a place starts anew with what comes next, as after a restore from a copy."""
    stage.results(5)
    stage.store.db.execute(
        "INSERT INTO kv VALUES ('forward/lake', ?)",
        ('{"at": 999, "segment": 9, "changes": 9, "sent": 1, "refused": 0, "lost": 0}',),
    )
    stage.start(influx(receiver))
    stage.results(5)
    stage.until_even("lake")
    assert values(receiver) == counted(6, 10)


# ---------------------------------------------------------------------------------------------- kills and outages


def test_a_kill_at_any_request_loses_nothing(stage: Stage, receiver: Receiver) -> None:
    """A Helen that is killed with requests under way sends each record at least once, and in order."""
    stage.start(influx(receiver))
    stage.results(300)
    for answered in (1, 2, 3):
        receiver.reply = lambda request, so_far=[0], most=answered: _few(so_far, most)  # type: ignore[misc]
        before = len(receiver.got)
        stage.until(lambda before=before, most=answered: len(receiver.got) > before + most - 1, "requests")
        stage.kill()
        stage.start()
    receiver.reply = lambda request: (204, {}, b"")
    stage.until_even("lake")
    found = values(receiver)
    assert sorted(set(found)) == counted(1, 300)
    firsts = [value for at, value in enumerate(found) if value not in found[:at]]
    assert firsts == counted(1, 300)
    again = len(found) - 300
    assert again <= 3 * 50  # of each kill one step at most


def _few(so_far: list[int], most: int) -> Any:
    so_far[0] += 1
    return (204, {}, b"") if so_far[0] <= most else None


def test_it_is_away_for_a_day(stage: Stage, receiver: Receiver) -> None:
    """The lag is told while the receiver is away; once it is back it gets all, and the trouble ends."""
    receiver.reply = lambda request: (503, {}, b"no room")
    stage.start(influx(receiver))
    for _ in range(6):
        stage.results(100)
    stage.until(lambda: stage.forward("lake").counts.failed >= 3, "tries")
    stage.now = NOW + 86_401.25
    assert stage.forward("lake").lag() == 86_400.0
    (said,) = stage.forwarding.troubles()
    assert said == "lake is 24 h behind: 503 Service Unavailable: no room"
    receiver.reply = lambda request: (204, {}, b"")
    stage.until_even("lake")
    assert values(receiver) == counted(1, 600)
    stage.until(lambda: not stage.forwarding.troubles(), "end of the trouble")
    assert (stage.forward("lake").lag(), stage.forward("lake").counts.error) == (0.0, None)


def test_a_restart_goes_on_and_keeps_the_counts(stage: Stage, receiver: Receiver) -> None:
    stage.start(influx(receiver))
    stage.results(40)
    stage.until_even("lake")
    stage.stop()
    stage.results(40)
    stage.start()
    stage.until_even("lake")
    assert values(receiver) == counted(1, 80)
    assert (stage.forward("lake").total("sent"), stage.forward("lake").counts.sent) == (80, 40)


def test_a_store_that_is_full_stops_nothing(stage: Stage, receiver: Receiver) -> None:
    stage.start(influx(receiver))
    stage.store.broken = True
    stage.results(120)
    stage.until_even("lake")
    stage.store.broken = False
    assert values(receiver) == counted(1, 120)


# ---------------------------------------------------------------------------------------------- answers


@pytest.mark.parametrize("status", [301, 401, 403, 404, 408, 429, 500, 502, 503, 504])
def test_answers_that_are_waited_for(stage: Stage, receiver: Receiver, status: int) -> None:
    replies = [(status, {"location": "http://x/"} if status == 301 else {}, b"later")] * 2
    receiver.reply = lambda request: replies.pop() if replies else (204, {}, b"")
    stage.start(influx(receiver))
    stage.results(3)
    stage.until(lambda: stage.forward("lake").place.at == 3, "end")
    counts = stage.forward("lake").counts
    assert (values(receiver), counts.failed, counts.refused, counts.sent) == ([1.0, 2.0, 3.0], 2, 0, 3)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_answers_that_are_for_good(stages: Callable[..., Stage], receiver: Receiver, status: int) -> None:
    """A record that the receiver never takes is alone in the end, and everything else arrives."""
    stage = stages(results_per_segment=20, segment_seconds=60.0)
    bad = ("used=3.0", "used=17.0")
    receiver.reply = lambda request: (
        (status, {}, b"bad value") if any(each in request.body.decode() for each in bad) else (204, {}, b"")
    )
    stage.start(influx(receiver))
    stage.results(20)
    stage.until_even("lake")
    counts = stage.forward("lake").counts
    assert values(receiver) == [n for n in counted(1, 20) if n not in (3.0, 17.0)]
    assert (counts.sent, counts.refused, counts.failed, counts.error) == (18, 2, 0, None)
    assert (counts.refusal or "").endswith("bad value, web-1/disk first")
    assert stage.place("lake") is not None and stage.place("lake")["refused"] == 2  # type: ignore[index]
    assert stage.forwarding.troubles() == [f"lake: 2 values were refused for good: {counts.refusal}"]
    stage.now += 3_601.0
    assert stage.forwarding.troubles() == []


def test_many_refusals_cost_no_other_agent(stages: Callable[..., Stage], receiver: Receiver) -> None:
    """All results of other agents arrive with few requests, though each eighth result is refused."""
    stage = stages(results_per_segment=320, segment_seconds=60.0)
    receiver.reply = lambda request: (422, {}, b"odd") if b"agent=odd" in request.body else (204, {}, b"")
    stage.start(influx(receiver))
    for number in range(1, 321):
        stage.count = number
        agent = "odd" if number % 8 == 0 else f"web-{number % 3}"
        stage.result(agent, "disk", Origin.SCHEDULED, [{"name": "used", "value": number}])
    stage.sealed()
    stage.until_even("lake")
    found = values(receiver)
    assert sorted(set(found)) == [n for n in counted(1, 320) if n % 8]
    assert (stage.forward("lake").counts.refused, len(found) <= 282) == (40, True)  # one may be asked for twice
    assert len(receiver.got) <= MOST_REFUSALS + 2 * (40 + 10) + MOST_PROBES


def test_a_receiver_that_refuses_everything(stages: Callable[..., Stage], receiver: Receiver) -> None:
    """Nothing is set aside, since it may be the settings; the receiver is not asked for each record, and all arrives
    later.
    """
    stage = stages(results_per_segment=400, segment_seconds=60.0)
    receiver.reply = lambda request: (400, {}, b"Client sent an HTTP request to an HTTPS server.")
    stage.start(influx(receiver))
    stage.results(400)
    stage.until(lambda: stage.forward("lake").counts.failed >= 3, "tries")
    assert stage.forwarding.troubles() == [
        "lake: the receiver takes nothing: 400 Bad Request: Client sent an HTTP request to an HTTPS server.;"
        " look at the settings"
    ]
    assert len(receiver.got) <= MOST_REFUSALS + stage.forward("lake").counts.failed * (MOST_PROBES + 1)
    receiver.reply = lambda request: (204, {}, b"")
    stage.until_even("lake")
    counts = stage.forward("lake").counts
    assert set(values(receiver)) == set(counted(1, 400))
    assert (counts.refused, counts.doubt, counts.error, stage.forwarding.troubles()) == (0, None, None, [])


def test_a_step_that_is_refused_whole_waits_for_a_later_one(stage: Stage, receiver: Receiver) -> None:
    """A refused step is left only when another result that the receiver takes says that the refusal was about its
    records.
    """
    receiver.reply = lambda request: (400, {}, b"odd") if b"agent=odd" in request.body else (204, {}, b"")
    stage.start(influx(receiver))
    stage.results(7, "odd")
    stage.until(lambda: stage.forward("lake").counts.failed >= 3, "tries")
    assert (stage.forward("lake").counts.refused, stage.forward("lake").place.at) == (0, 0)
    stage.results(5)
    stage.until_even("lake")
    assert stage.forward("lake").counts.refused == 7
    assert sorted(set(values(receiver))) == counted(8, 12)
    assert stage.forward("lake").counts.doubt is None


def test_a_doubt_that_is_broken_off_ends_with_the_next_answer(
    stage: Stage, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """A doubt ends with the next answer, though the newest records can't be read while the receiver refuses all."""
    monkeypatch.setattr("helen.forwards.forwarder.AGAIN_SECONDS", 0.01)

    def fails(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("helen.forwards.forwarder.newest_records", fails)
    receiver.reply = lambda request: (400, {}, b"odd")
    stage.start(influx(receiver))
    stage.results(3)
    stage.until(lambda: stage.forward("lake").failure, "failure")
    receiver.reply = lambda request: (204, {}, b"")
    stage.until_even("lake")
    assert (set(values(receiver)), stage.forward("lake").counts.refused) == (set(counted(1, 3)), 0)
    assert stage.forwarding.troubles() == []


def test_logs_that_are_refused_hold_up_no_metrics(stage: Stage, receiver: Receiver) -> None:
    """Metrics go on while logs are refused, as a request without a record says that the receiver takes logs."""
    receiver.reply = lambda request: (
        (400, {}, b"odd") if request.path == "/v1/logs" and b"it is full" in request.body else (200, {}, b"")
    )
    stage.start(f'[forwards.otel]\ntype = "otlp"\nurl = "{receiver.url}"\n')
    stage.transition()
    stage.until_even("otel")
    assert (stage.forward("otel").counts.refused, stage.forward("otel").counts.doubt) == (1, None)


# ---------------------------------------------------------------------------------------------- odd records, faults


@pytest.mark.parametrize("kind", ["influx", "otlp", "remote-write"])
def test_times_that_cannot_be_true(stage: Stage, receiver: Receiver, kind: str) -> None:
    """A time that cannot be true costs its own result that time, and no other result anything."""
    stage.start(f'[forwards.x]\ntype = "{kind}"\nurl = "{receiver.url}"\n')
    for took, began in ((1e306, NOW), (-7.5, 0.0), (1e-320, 0.0), (1e12, 0.0), (3.0, -9e10), (1.0, 9e10)):
        stage.result("web-1", "odd", Origin.SCHEDULED, [{"name": "n", "value": 1}], took_ms=took, started=began)
    stage.results(20)
    stage.until_even("x")
    counts = stage.forward("x").counts
    assert (counts.error, counts.refused, stage.forward("x").failure) == (None, 0, None)
    assert counts.sent >= 2 * 20 if kind != "influx" else counts.sent == 26


def test_a_record_that_cannot_be_written(
    stage: Stage, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """A record that cannot be written is counted and left; those beside it are sent."""
    stage.start(influx(receiver))
    (signal,) = stage.forward("lake").forward.signals

    def write(records: Any, labels: Any) -> Any:
        if any(record.agent == "odd" for record in records):
            raise OverflowError("too much")
        return signal.write(records, labels)

    monkeypatch.setattr(stage.forward("lake")._delivery, "_forward", evolve(
        stage.forward("lake").forward, signals=(evolve(signal, write=write),)
    ))  # fmt: skip
    stage.results(4)
    stage.results(1, "odd")
    stage.results(4)
    stage.until_even("lake")
    counts = stage.forward("lake").counts
    assert (values(receiver), counts.refused) == (counted(1, 4) + counted(6, 9), 1)
    assert counts.refusal == "can't be written: OverflowError: too much, odd/disk first"


def test_a_history_that_cannot_be_read_is_a_trouble(
    stage: Stage, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """A history that cannot be read is told with its age from the first failure until a step can be made; nothing is
    lost.
    """
    monkeypatch.setattr("helen.forwards.forwarder.AGAIN_SECONDS", 0.01)
    stage.start(influx(receiver))
    real = SegmentWalk.step

    def fails(*_: Any) -> None:
        raise PermissionError(13, "Permission denied", "segments")

    monkeypatch.setattr(SegmentWalk, "step", fails)
    stage.results(30)
    stage.until(lambda: stage.forwarding.troubles(), "trouble")
    assert stage.forwarding.troubles() == [
        "lake: the history can't be sent: [Errno 13] Permission denied: 'segments'; it is tried again"
    ]
    stage.now += 7_200.0
    assert stage.forward("lake").lag() == 7_200.0
    monkeypatch.setattr(SegmentWalk, "step", real)
    stage.until_even("lake")
    assert values(receiver) == counted(1, 30)
    stage.until(lambda: not stage.forward("lake").lag(), "end of the lag")
    assert (stage.forwarding.troubles(), stage.forward("lake").failure) == ([], None)


def test_too_many_open_files_lose_nothing(
    stage: Stage, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """A segment or the file of names that can't be opened for once is read another time."""
    monkeypatch.setattr("helen.forwards.forwarder.AGAIN_SECONDS", 0.01)
    stage.start(influx(receiver))
    failed: set[str] = set()
    real = pyarrow.parquet.ParquetFile

    def opened(path: Any, *more: Any, **named: Any) -> Any:
        if path.name not in failed:
            failed.add(path.name)
            raise OSError(24, "Too many open files")
        return real(path, *more, **named)

    monkeypatch.setattr("pyarrow.parquet.ParquetFile", opened)
    stage.results(60)
    stage.results(20, "new-1")
    stage.until_even("lake")
    assert (values(receiver), stage.forward("lake").place.lost) == (counted(1, 80), 0)
    assert {"series.parquet", "seg-00000001.parquet"} <= failed


def test_a_lost_segment_is_news_for_an_hour(stage: Stage, receiver: Receiver) -> None:
    stage.results(60)
    (stage.journal.segments / "seg-00000001.parquet").write_bytes(b"PAR1 odd PAR1")
    stage.start(influx(receiver, 'begin = "oldest"\n'))
    stage.until_even("lake")
    (said,) = stage.forwarding.troubles()
    assert said.startswith("lake: seg-00000001.parquet can't be read")
    stage.now += 3_601.0
    assert (stage.forwarding.troubles(), stage.forward("lake").place.lost) == ([], 1)


# ---------------------------------------------------------------------------------------------- secrets


def test_errors_have_no_secret(stage: Stage, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error shows neither parts of the URL, nor words of a header, nor where a redirect leads to."""
    monkeypatch.setenv("FORWARD_TEST_URL", f"{receiver.url}/in/k3yk3yk3y?pass=swordfish")
    monkeypatch.setenv("FORWARD_TEST_WORDS", "Token qwertz-99")
    receiver.reply = lambda request: (302, {"location": f"https://lake.example:8{request.path}&x=other-secret"}, b"")
    by_reference = '[forwards.a]\ntype = "influx"\nurl = { env = "FORWARD_TEST_URL" }\n'
    stage.start(by_reference)
    stage.results(1)
    stage.until(lambda: stage.forward("a").counts.failed, "failed try")
    assert stage.forward("a").counts.error == (
        "302 Found; it redirects to https://lake.example:8/****, which is not followed: write the final URL"
    )
    receiver.reply = lambda request: (403, {}, b"qwertz-99 may not look at k3yk3yk3y with swordfish")
    headers = 'headers = { Authorization = { env = "FORWARD_TEST_WORDS" } }\n'
    stage.write(by_reference + headers + influx(receiver, headers, "b").replace("/api/v2/write", "/k3yk3yk3y"))
    stage.until(lambda: stage.forward("a").counts.failed, "failed try")
    assert stage.forward("a").counts.error == "403 Forbidden: **** may not look at **** with ****"
    stage.results(1)
    stage.until(lambda: stage.forward("b").counts.failed, "failed try")
    assert stage.forward("b").counts.error == "403 Forbidden: **** may not look at **** with swordfish"


def test_an_otlp_url_of_a_secret_with_a_query(
    stage: Stage, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setenv("FORWARD_TEST_URL", f"{receiver.url}/in?key=1")
    stage.start('[forwards.o]\ntype = "otlp"\nurl = { env = "FORWARD_TEST_URL" }\n')
    stage.results(1)
    stage.until(lambda: stage.forward("o").counts.failed, "failed try")
    assert (stage.forward("o").counts.error, receiver.got) == (
        "the URL that the secret holds has a query, which no path can be added to", []
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------- waits


def test_how_long_a_receiver_may_ask_for(stage: Stage, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry-After counts, up to ten minutes; without it the waits double, up to a minute."""
    waits: list[float] = []
    runtime = type(stage.forwarding._runtime)
    held = runtime.pause
    monkeypatch.setattr("helen.forwards.delivery.FIRST_RETRY", 1.0)
    monkeypatch.setattr("helen.forwards.delivery.LONGEST_RETRY", 60.0)
    monkeypatch.setattr(runtime, "pause", lambda self, seconds: (waits.append(seconds), held(self, 0.0))[1])
    asked = iter(["7", "99999", *([""] * 8)])
    receiver.reply = lambda request: (
        (429, {"retry-after": word}, b"") if (word := next(asked, None)) is not None else (204, {}, b"")
    )
    stage.start(influx(receiver))
    stage.results(1)
    stage.until(lambda: stage.forward("lake").place.at == 1, "end")
    tries = [seconds for seconds in waits if seconds != 0.01]
    assert tries == [7.0, LONGEST_ASKED, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0, 60.0]


def test_a_receiver_that_says_nothing(stage: Stage, receiver: Receiver) -> None:
    """A silent receiver has its time, then the same records are sent again."""
    silent = [True]
    receiver.reply = lambda request: None if silent else (204, {}, b"")
    stage.start(influx(receiver, 'timeout = "1s"\n'))
    stage.results(2)
    stage.until(lambda: stage.forward("lake").counts.failed, "failed try")
    assert stage.forward("lake").counts.error == "no whole answer within 1 s"
    silent.clear()
    stage.until_even("lake")
    assert values(receiver) == [1.0, 2.0]


# ---------------------------------------------------------------------------------------------- OTLP, Graphite


def test_otlp_sends_metrics_and_logs(stage: Stage, receiver: Receiver) -> None:
    """A signal goes to its own path; records that a receiver says it has left out are counted as refused."""
    partial = ExportMetricsPartialSuccess(rejected_data_points=2, error_message="too old")
    said = ExportMetricsServiceResponse(partial_success=partial).SerializeToString()
    receiver.reply = lambda request: (200, {}, said if request.path.endswith("metrics") and first else b"")
    first = [True]
    stage.start(f'[forwards.otel]\ntype = "otlp"\nurl = "{receiver.url}/base"\nheaders = {{ x-tenant = "a" }}\n')
    stage.results(5)
    stage.until_even("otel")
    first.clear()
    stage.transition()
    stage.until_even("otel")
    paths = ("/base/v1/metrics", "/base/v1/logs")
    by_path = {path: [each for each in receiver.taken if each.path == path] for path in paths}
    assert len(receiver.taken) == sum(map(len, by_path.values()))
    points = [
        point.as_double
        for request in by_path["/base/v1/metrics"]
        for resource in ExportMetricsServiceRequest.FromString(request.body).resource_metrics
        for scope in resource.scope_metrics for metric in scope.metrics if metric.name == "used"
        for point in metric.gauge.data_points
    ]  # fmt: skip
    assert points == counted(1, 5)
    (logs,) = by_path["/base/v1/logs"]
    ((record,),) = [
        scope.log_records for each in ExportLogsServiceRequest.FromString(logs.body).resource_logs
        for scope in each.scope_logs
    ]  # fmt: skip
    assert (record.severity_text, record.body.string_value) == ("CRITICAL", "it is full")
    assert logs.headers["x-tenant"] == "a"
    counts = stage.forward("otel").counts
    assert counts.refused % 2 == 0 and counts.refused >= 2 and counts.refusal == "too old"
    assert counts.sent + counts.refused == 5 * 2 + 1 + 1


def test_one_signal_that_fails_repeats_no_other(stage: Stage, receiver: Receiver) -> None:
    """Logs that wait for their receiver send no metric a second time."""
    tries = [0]

    def reply(request: Request) -> Any:
        tries[0] += request.path == "/v1/logs"
        return (503, {}, b"") if request.path == "/v1/logs" and tries[0] < 4 else (200, {}, b"")

    receiver.reply = reply
    stage.start(f'[forwards.otel]\ntype = "otlp"\nurl = "{receiver.url}"\n')
    stage.transition()
    stage.until_even("otel")
    assert [each.path for each in receiver.taken] == ["/v1/metrics", "/v1/logs"] and tries == [4]


def test_graphite_waits_for_its_reader(stage: Stage, lines: LineReceiver) -> None:
    lines.manner = "reset"
    settings = f'[forwards.carbon]\ntype = "graphite"\nurl = "tcp://127.0.0.1:{lines.port}"\nprefix = "helen."\n'
    stage.start(settings + 'send = "metrics"\n')
    stage.results(60)
    stage.until(lambda: stage.forward("carbon").counts.failed, "failed try")
    lines.manner = "whole"
    stage.until_even("carbon")
    wanted = [f"helen.web-1.disk.used {n}.0 {round(NOW) + n}" for n in range(1, 61)]
    assert lines.lines() == wanted


# ---------------------------------------------------------------------------------------------- changes of the file


def test_forwards_come_change_and_go(stage: Stage, receiver: Receiver) -> None:
    """A changed forward goes on from the same place; one that was taken out has no place any more."""
    stage.start(influx(receiver))
    stage.results(10)
    stage.until_even("lake")
    stage.write(influx(receiver, 'prefix = "x_"\n') + influx(receiver, name="second", more='prefix = "second_"\n'))
    stage.results(10)
    stage.until_even("lake")
    stage.until_even("second")
    names = [line.split(",")[0] for line in receiver.lines()]
    assert [names.count(name) for name in ("disk", "x_disk", "second_disk")] == [10, 10, 10]
    held = stage.forward("second")
    stage.write(influx(receiver, 'prefix = "x_"\n'))
    assert (list(stage.forwarding.running), stage.place("second"), held.total("sent")) == (["lake"], None, 10)
    assert stage.place("lake") is not None
    stage.write("")
    assert (stage.forwarding.running, stage.place("lake")) == ({}, None)


def test_the_same_file_interrupts_nothing(stage: Stage, receiver: Receiver) -> None:
    stage.start(influx(receiver))
    held = stage.forward("lake")
    stage.write("# a comment\n" + influx(receiver))
    assert stage.forward("lake") is held


def test_a_fault_leaves_what_runs(stage: Stage, receiver: Receiver) -> None:
    """A file with a fault changes nothing; a start with one goes on by the copy in the store."""
    stage.start(influx(receiver))
    stage.results(5)
    stage.until_even("lake")
    stage.stop()
    stage.start('[forwards.lake]\ntype = "what"\n')
    assert "forwards.lake: type is 'what'" in (stage.forwarding.config_file.fault or "")
    stage.results(5)
    stage.until_even("lake")
    assert values(receiver) == counted(1, 10)


def test_a_forward_is_not_forgotten_for_a_fault(stage: Stage, receiver: Receiver) -> None:
    """Nothing runs and the place stays if neither file nor copy can be used."""
    stage.start(influx(receiver))
    stage.results(5)
    stage.until_even("lake")
    stage.stop()
    stage.store.db.execute("DELETE FROM kv WHERE key = 'forwards.toml'")
    stage.start("[forwards.lake]\n")
    assert stage.forwarding.running == {}
    assert stage.place("lake") is not None


def test_a_fault_of_ours_loses_nothing(stage: Stage, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A delivery that fails by an error nobody expected is read and sent again."""
    monkeypatch.setattr("helen.forwards.forwarder.AGAIN_SECONDS", 0.01)
    stage.start(influx(receiver))
    held, left = stage.forward("lake")._delivery.deliver, [2]

    async def deliver(records: Any, labels: Any) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise RuntimeError("odd")
        await held(records, labels)

    monkeypatch.setattr(stage.forward("lake")._delivery, "deliver", deliver)
    stage.results(60)
    stage.until_even("lake")
    assert values(receiver) == counted(1, 60)


# ---------------------------------------------------------------------------------------------- figures


def test_figures(stage: Stage, receiver: Receiver) -> None:
    assert list(forward_families(stage.forwarding)) == []
    receiver.reply = lambda request: (503, {}, b"no")
    stage.start(influx(receiver))
    stage.results(8)
    stage.until(lambda: stage.forward("lake").counts.failed, "failed try")
    stage.now = NOW + 101.25
    page = "".join(write(forward_families(stage.forwarding)))
    assert 'helen_forward_lag_seconds{forward="lake"} 100\n' in page
    assert 'helen_forward_behind_records{forward="lake"} 8\n' in page
    receiver.reply = lambda request: (204, {}, b"")
    stage.until_even("lake")
    page = "".join(write(forward_families(stage.forwarding)))
    for line in ("behind_records", "refused_total", "lost_segments_total"):
        assert f'helen_forward_{line}{{forward="lake"}} 0\n' in page
    assert 'helen_forward_sent_total{forward="lake"} 8\n' in page


@pytest.mark.parametrize("reply", [None, (503, {}, b"no")])
def test_what_was_stopped_sends_no_more(stage: Stage, receiver: Receiver, reply: Any) -> None:
    """A stopped forward sends no more, with a request under way or between two tries; the new settings alone count."""
    receiver.reply = lambda request: reply
    stage.start(influx(receiver, 'prefix = "old_"\n'))
    stage.results(5)
    stage.until(lambda: receiver.got, "request")
    old = stage.forward("lake")
    stage.write(influx(receiver, 'prefix = "new_"\ntimeout = "1s"\n'))
    stage.until(lambda: any(b"new_" in each.body for each in receiver.got), "request of the new one")
    assert old._running is not None and old._running.called
    before = old.counts.failed
    receiver.reply = lambda request: (204, {}, b"")
    stage.until_even("lake")
    assert (values(receiver), old.counts.failed) == (counted(1, 5), before)
    assert all(line.startswith("new_disk,") for line in receiver.lines())
