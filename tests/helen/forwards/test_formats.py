"""Tests what each format writes, as programs that read it would: OpenTelemetry's own messages, and small readers of
lines.
"""

from __future__ import annotations

import gzip
import math
import re
import struct
from typing import Any

import pytest
from cramjam import snappy
from forward_stage import NOW, changed, measured
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from helen.forwards import protobuf as pb
from helen.forwards.formats import graphite, influx, otlp, remote_write
from helen.forwards.formats.values import Body
from helen.forwards.records import METRICS, STATES, Figure, Measured

BOTH, ONLY_METRICS, ONLY_STATES = frozenset((METRICS, STATES)), frozenset((METRICS,)), frozenset((STATES,))
LABELS = {"web-1": {"role": "web", "zone": ""}, "db-1": {"role": "db"}}
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
LATER = round((NOW + 5) * 1_000)


def content(body: Body | None) -> Any:
    assert body is not None
    return body.content


def of(*figures: Figure, agent: str = "web-1", check: str = "disk") -> Measured:
    return Measured(9, agent, check, NOW, LATER, 0, figures)


# ---------------------------------------------------------------------------------------------- remote-write


def read_series(raw: bytes) -> list[tuple[dict[str, str], list[tuple[int, float]]]]:
    """Return the series of a WriteRequest: labels in their order, samples in theirs."""
    found = []
    for number, series in pb.fields(bytes(snappy.decompress_raw(raw))):
        assert number == 1 and isinstance(series, bytes)
        labels, samples = {}, []
        for inner, part in pb.fields(series):
            assert isinstance(part, bytes)
            held = dict(pb.fields(part))
            if inner == 1:
                labels[held[1].decode()] = held[2].decode()  # type: ignore[union-attr]
            else:
                samples.append((int(held[2]), struct.unpack("<d", held[1])[0]))  # type: ignore[arg-type]
        found.append((labels, samples))
    return found


def test_remote_write_groups_samples() -> None:
    """Samples are grouped by series in the order of their times; labels are sorted by name, without empty ones."""
    body = remote_write.write([measured(2, 2.0), measured(1, 1.0), measured(3, 3.0, "db-1")], LABELS, ONLY_METRICS, "")
    assert body is not None and body.count == 3
    assert read_series(body.content) == [
        ({"__name__": "used", "agent": "web-1", "check": "disk", "role": "web"},
         [(round((NOW + 1) * 1_000), 1.0), (round((NOW + 2) * 1_000), 2.0)]),
        ({"__name__": "used", "agent": "db-1", "check": "disk", "role": "db"}, [(round((NOW + 3) * 1_000), 3.0)]),
    ]  # fmt: skip
    assert all(list(labels) == sorted(labels) for labels, _ in read_series(body.content))


def test_remote_write_has_states() -> None:
    """A result has its status, and a transition the judged one; `prefix` is for metrics alone."""
    body = remote_write.write([measured(1, status=1), changed(2)], {}, BOTH, "helen:")
    names = {labels["__name__"]: samples for labels, samples in read_series(content(body))}
    assert names == {
        "helen_result_status": [(round((NOW + 1) * 1_000), 1.0)],
        "helen:used": [(round((NOW + 1) * 1_000), 1.0)],
        "helen_state": [(round((NOW + 2) * 1_000), 2.0)],
    }


@pytest.mark.parametrize(("raw", "clean"), [
    ("used", "used"), ("bytes-sent", "bytes_sent"), ("1min", "_1min"), ("a:b", "a:b"), ("\u00e9", "_"), ("", ""),
])  # fmt: skip
def test_names_of_metrics(raw: str, clean: str) -> None:
    assert remote_write.metric_name(raw) == clean


@pytest.mark.parametrize(("raw", "clean"), [
    ("role", "role"), ("a:b", "a_b"), ("9x", "_9x"), ("__name__", "_name__"), ("", "_"), ("_x", "_x"), ("__", "_"),
])  # fmt: skip
def test_names_of_labels(raw: str, clean: str) -> None:
    """A label's name has no two underscores in front, which are Prometheus' own."""
    assert remote_write.label_name(raw) == clean


def test_helens_own_labels_win() -> None:
    """A metric can't pass for one of another agent, whatever labels a check gives it."""
    forged = Figure("x", 1.0, "", "gauge", {"agent": "db-1", "check": "other", "__name__": "up", "role": "mine"})
    ((labels, _),) = read_series(content(remote_write.write([of(forged)], LABELS, ONLY_METRICS, "")))
    assert labels == {
        "__name__": "x", "_name__": "up", "agent": "web-1", "check": "disk", "role": "web",
        "exported_agent": "db-1", "exported_check": "other", "exported_role": "mine",
    }  # fmt: skip


# ---------------------------------------------------------------------------------------------- OTLP


def attributes(given: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in given}


def test_otlp_metrics() -> None:
    """A body has a resource for each agent, gauges and counters, units in UCUM, and nanoseconds."""
    counter = Figure("in", 7.0, "c", "counter", {"if": "eth0"})
    body = otlp.write_metrics([measured(1, 1.5), of(counter, agent="db-1", check="net")], LABELS, ONLY_METRICS, "h.")
    assert body is not None and body.count == 2
    request = ExportMetricsServiceRequest.FromString(gzip.decompress(body.content))
    by_agent = {attributes(each.resource.attributes)["host.name"]: each for each in request.resource_metrics}
    assert sorted(by_agent) == ["db-1", "web-1"]
    resource = attributes(by_agent["db-1"].resource.attributes)
    assert resource == {"role": "db", "service.name": "helen", "service.instance.id": "db-1", "host.name": "db-1"}
    (scope,) = by_agent["web-1"].scope_metrics
    (metric,) = scope.metrics
    assert (scope.scope.name, metric.name, metric.unit, metric.WhichOneof("data")) == ("helen", "h.used", "By", "gauge")
    (point,) = metric.gauge.data_points
    assert (point.as_double, point.time_unix_nano) == (1.5, round(NOW + 1) * 1_000_000_000)
    assert attributes(point.attributes) == {"agent": "web-1", "check": "disk"}
    ((metric,),) = [scope.metrics for scope in by_agent["db-1"].scope_metrics]
    assert (metric.unit, metric.sum.is_monotonic, metric.sum.aggregation_temporality) == ("1", True, 2)
    assert attributes(metric.sum.data_points[0].attributes) == {"if": "eth0", "agent": "db-1", "check": "net"}


def test_otlp_logs() -> None:
    """A transition is a record with a severity; results are none."""
    body = otlp.write_logs([measured(1), changed(2), changed(3, status=0)], LABELS)
    assert body is not None and body.count == 2
    request = ExportLogsServiceRequest.FromString(gzip.decompress(body.content))
    ((first, last),) = [scope.log_records for each in request.resource_logs for scope in each.scope_logs]
    assert (first.severity_number, first.severity_text, first.body.string_value) == (17, "CRITICAL", "it is full")
    assert (last.severity_number, last.severity_text) == (9, "OK")
    assert first.time_unix_nano == first.observed_time_unix_nano == round(NOW + 2) * 1_000_000_000
    assert (first.event_name, attributes(first.attributes)) == ("helen.transition", {
        "agent": "web-1", "check": "disk", "status": "critical", "was": "ok", "kind": "hard", "reason": "timeout",
        "why": "3 of 3",
    })  # fmt: skip
    assert otlp.write_logs([measured(1)], LABELS) is None


@settings(max_examples=30)
@given(st.lists(st.tuples(TEXT, st.floats(), TEXT, st.dictionaries(TEXT, TEXT, max_size=2)), max_size=3))
def test_otlp_reads_back_whatever_a_check_says(figures: list[tuple[str, float, str, dict[str, str]]]) -> None:
    made = of(*(Figure(name, value, unit, "gauge", labels) for name, value, unit, labels in figures))
    body = otlp.write_metrics([made], {}, ONLY_METRICS, "")
    if not figures:
        assert body is None
        return
    request = ExportMetricsServiceRequest.FromString(gzip.decompress(content(body)))
    found = [
        (metric.name, point.as_double)
        for each in request.resource_metrics for scope in each.scope_metrics for metric in scope.metrics
        for point in metric.gauge.data_points
    ]  # fmt: skip
    key = lambda pair: (pair[0], math.isnan(pair[1]), 0.0 if math.isnan(pair[1]) else pair[1])  # noqa: E731
    wanted = sorted(((name, value) for name, value, _, _ in figures), key=key)
    assert list(map(repr, sorted(found, key=key))) == list(map(repr, wanted))


def test_otlp_says_what_was_left_out() -> None:
    """A 200 may have left out a part, which is counted; any bytes may come for an answer."""
    partial = ExportMetricsPartialSuccess(rejected_data_points=3, error_message="too old")
    answer = ExportMetricsServiceResponse(partial_success=partial).SerializeToString()
    assert otlp.left_out(answer) == (3, "too old")
    for other in (b"", b"{}", b"\xff" * 20, answer[:-1], ExportMetricsServiceResponse().SerializeToString()):
        assert otlp.left_out(other) == (0, "")
    long = ExportMetricsPartialSuccess(rejected_data_points=1, error_message="x" * 9_000)
    assert len(otlp.left_out(ExportMetricsServiceResponse(partial_success=long).SerializeToString())[1]) == 500


@given(st.binary(max_size=40))
def test_any_answer_is_read_or_refused(answer: bytes) -> None:
    count, why = otlp.left_out(answer)
    assert count >= 0 and len(why) <= otlp.MOST_ERROR


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**31, 2**63 - 1, 2**64 - 1])
def test_numbers_are_read_back(value: int) -> None:
    assert list(pb.fields(pb.number(3, value))) == [(3, value)]
    assert list(pb.fields(pb.fixed(200, value))) == [(200, struct.pack("<Q", value))]


@pytest.mark.parametrize(("value", "written"), [(-5, 0), (2**70, 2**64 - 1)])
def test_a_fixed_number_is_the_nearest(value: int, written: int) -> None:
    assert list(pb.fields(pb.fixed(1, value))) == [(1, struct.pack("<Q", written))]


def test_a_negative_number_is_of_64_bits() -> None:
    assert list(pb.fields(pb.number(1, -2))) == [(1, 2**64 - 2)]


@pytest.mark.parametrize(("data", "why"), [
    (b"\x80" * 11, "does not end"), (b"\x0a\x05ab", "longer than its message"), (b"\x0b", "unknown kind 3"),
    (b"\x09abc", "longer than its message"), (b"\x08", "does not end"),
])  # fmt: skip
def test_what_is_no_message(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        list(pb.fields(data))


# ---------------------------------------------------------------------------------------------- InfluxDB


def read_line(line: str) -> tuple[str, dict[str, str], dict[str, str], int]:
    """Return measurement, tags, fields and nanoseconds, as InfluxDB's documentation reads a line."""
    head, fields, when = re.fullmatch(r"((?:[^ \\]|\\.|\\(?=,))+) (.*) (-?[0-9]+)", line).groups()  # type: ignore[union-attr]
    parts = [_plain(part) for part in re.split(r"(?<!\\),", head)]
    tags = dict(_pair(part) for part in re.split(r"(?<!\\),", head)[1:])
    found = dict(_pair(part) for part in re.findall(r'(?:[^,\\"]|\\.|"(?:[^"\\]|\\.)*")+', fields))
    return parts[0], tags, found, int(when)


def _pair(part: str) -> tuple[str, str]:
    name, value = re.split(r"(?<!\\)=", part, maxsplit=1)
    return _plain(name), value if value.startswith('"') else _plain(value)


def _plain(text: str) -> str:
    return re.sub(r"\\([,= ])", r"\1", text)


def influx_lines(*records: Any, sends: frozenset[str] = BOTH, prefix: str = "") -> list[str]:
    body = influx.write(records, LABELS, sends, prefix)
    return [] if body is None else gzip.decompress(body.content).decode().removesuffix("\n").split("\n")


def test_influx_lines() -> None:
    """The check is the measurement; metrics with the same labels stand together; a transition has words."""
    plain, inner = Figure("used", 1.5, "B", "gauge", {}), Figure("free", 2.0, "B", "gauge", {"mount": "/a b"})
    lines = influx_lines(of(plain, inner), changed(6), prefix="helen_")
    assert lines == [
        "helen_disk,agent=web-1,check=disk,role=web used=1.5,helen_status=0i 1800000005000000000",
        "helen_disk,agent=web-1,check=disk,mount=/a\\ b,role=web free=2.0 1800000005000000000",
        "helen_state,agent=web-1,check=disk,role=web"
        ' status=2i,was="ok",kind="hard",why="3 of 3",summary="it is full" 1800000006000000000',
    ]
    assert influx_lines(of(Figure("x", math.inf, "", "gauge", {})), sends=ONLY_METRICS) == []
    assert influx_lines(changed(1), sends=ONLY_METRICS) == []


@settings(max_examples=50)
@given(TEXT.filter(bool), TEXT.filter(bool), TEXT.filter(bool))
def test_influx_survives_any_text(check: str, name: str, value: str) -> None:
    """Any text is one line with the given names, but for control characters and a backslash at the end."""
    lines = influx_lines(of(Figure(name, 1.0, "", "gauge", {"t" + name: value}), check=check), sends=ONLY_METRICS)
    assert len(lines) == 1 and not re.search(r"[\x00-\x1f\x7f]", lines[0])


@pytest.mark.parametrize("value", ["a,b", "a=b", "a b", "C:\\dir", "a\\,b", "\u00e4", "\\n"])
def test_influx_tags_are_read_back(value: str) -> None:
    (line,) = influx_lines(of(Figure("x", 1.0, "", "gauge", {"t": value})), sends=ONLY_METRICS)
    measurement, tags, fields, when = read_line(line)
    assert (measurement, tags["t"], fields, when) == ("disk", value, {"x": "1.0"}, LATER * 1_000_000)


def test_influx_names_that_are_helens_own() -> None:
    """A metric, or a check, of any name takes nobody's place, and hides no line."""
    mine = Figure("helen_status", 7.0, "", "gauge", {}), Figure("status", 8.0, "", "gauge", {})
    (line,) = influx_lines(of(*mine))
    assert read_line(line)[2] == {"exported_helen_status": "7.0", "status": "8.0", "helen_status": "0i"}
    (line,) = influx_lines(of(check="helen_state"))
    assert read_line(line)[0] == "exported_helen_state"
    (line,) = influx_lines(of(check="#disk"))
    assert line.startswith("\\#disk,agent=web-1,check=#disk,")


def test_a_backslash_at_the_end_hides_nothing() -> None:
    (line,) = influx_lines(of(Figure("x\\", 1.0, "", "gauge", {"t\\": "v\\"})), sends=ONLY_METRICS)
    assert read_line(line)[1:3] == ({"agent": "web-1", "check": "disk", "role": "web", "t/": "v/"}, {"x/": "1.0"})


# ---------------------------------------------------------------------------------------------- Graphite


def test_graphite_paths() -> None:
    """A path has agent, check, metric and values of labels, nothing that a path can't hold, and whole seconds."""
    figure = Figure("in.use", 2.0, "", "gauge", {"b": "/var/log", "a": "x y"})
    body = graphite.write([of(figure, agent="web.1")], {}, BOTH, "helen.", "path")
    assert content(body).decode().splitlines() == [
        "helen.web_1.disk.helen_result_status 0.0 1800000005",
        "helen.web_1.disk.in_use.x_y._var_log 2.0 1800000005",
    ]


def test_graphite_tags() -> None:
    figure = Figure("used", 2.0, "", "gauge", {"m;=": "a;b ~c"})
    body = graphite.write([of(figure)], LABELS, ONLY_METRICS, "", "tags")
    assert content(body) == b"used;agent=web-1;check=disk;m_=a_b_c;role=web 2.0 1800000005\n"


@settings(max_examples=50)
@given(TEXT, TEXT, TEXT, st.floats())
def test_graphite_lines_have_three_words(agent: str, name: str, label: str, value: float) -> None:
    figure = Figure(name, value, "", "gauge", {label: label})
    for style in graphite.STYLES:
        body = graphite.write([of(figure, agent=agent)], {}, ONLY_METRICS, "", style)
        if math.isfinite(value):
            (line,) = content(body).decode().split("\n")[:-1]
            assert len(line.split()) == 3 and float(line.split()[1]) == value
        else:
            assert body is None
