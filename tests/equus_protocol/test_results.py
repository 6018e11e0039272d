"""Test section 4 of docs/protocol.rst: results in all three languages, and that no blob makes `parse` raise."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equus_protocol.results import (
    CRITICAL,
    MAX_DEPTH,
    MAX_METRICS,
    MAX_REASON,
    MAX_WORDS,
    OK,
    REASONS,
    STATUS_WORDS,
    UNKNOWN,
    WARNING,
    Metric,
    ResultDocument,
    parse,
    parse_plugin,
    to_json,
)  # fmt: skip


def opaque(text: str) -> ResultDocument:
    return ResultDocument(UNKNOWN, output=text, reason="opaque-result")


FULL = {
    "status": "critical", "summary": "disk is full ☃",
    "metrics": [{"name": "used", "value": 99.5, "unit": "%", "kind": "gauge", "labels": {"path": "/"}, "warn": "80",
                 "crit": "~:90", "min": 0, "max": 100}, {"name": "reads", "value": 12, "kind": "counter"}],
    "output": "line 1\nline 2", "started": 1700000000.25, "took_ms": 12, "cpu_ms": 3.5, "peak_kib": 2048,
    "check": "disk", "code": "c" * 64, "truncated": {"output": 9000000}, "reason": "denied",
}  # fmt: skip

JSON: dict[str, tuple[bytes | str, ResultDocument]] = {
    "all of it": (
        json.dumps(FULL),
        ResultDocument(
            CRITICAL,
            "disk is full ☃",
            (
                Metric("used", 99.5, "%", "gauge", {"path": "/"}, "80", "~:90", 0.0, 100.0),
                Metric("reads", 12.0, kind="counter"),
            ),
            "line 1\nline 2",
            "denied",
            1700000000.25,
            12.0,
            3.5,
            2048.0,
            "disk",
            "c" * 64,
            {"output": 9000000},
        ),
    ),
    "status alone": ('{"status": "ok"}', ResultDocument(OK)),
    "every status": ('{"status": "warning"}', ResultDocument(WARNING)),
    "no status": ('{"summary": "warm"}', ResultDocument(UNKNOWN, "warm")),
    "no such status": ('{"status": "splendid"}', ResultDocument(UNKNOWN)),
    "status in upper case": ('{"status": "OK"}', ResultDocument(UNKNOWN)),
    "status as a number": ('{"status": 0}', ResultDocument(UNKNOWN)),
    "status as a list": ('{"status": ["ok"]}', ResultDocument(UNKNOWN)),
    "an empty object": ("{}", ResultDocument(UNKNOWN)),
    "space around": (' \n{"status":"ok"}\r\n', ResultDocument(OK)),
    "foreign fields": ('{"status": "ok", "shoe_size": {"a": [1]}}', ResultDocument(OK)),
    "a list": ("[1, 2]", opaque("[1, 2]")),
    "a string": ('"ok"', opaque('"ok"')),
    "a number": ("1", opaque("1")),
    "cut short": ('{"status": "ok"', opaque('{"status": "ok"')),
    "something behind": ('{"status": "ok"} x', opaque('{"status": "ok"} x')),
    "a key twice": ('{"status": "ok", "status": "critical"}', opaque('{"status": "ok", "status": "critical"}')),
    "a key twice inside": (
        '{"status": "ok", "x": {"a": 1, "a": 1}}',
        opaque('{"status": "ok", "x": {"a": 1, "a": 1}}'),
    ),
    "wrong types": (
        '{"status": "ok", "summary": 5, "output": [], "started": "now", "took_ms": true, "check": 1,'
        ' "metrics": {}, "truncated": [], "reason": 3}',
        ResultDocument(OK),
    ),
    "a reason of somebody else": (
        '{"status": "ok", "reason": "%s"}' % ("r" * 80),
        ResultDocument(OK, reason="r" * MAX_REASON),
    ),
    "no reason": ('{"status": "ok", "reason": ""}', ResultDocument(OK)),
    "NaN in a metric": (
        '{"status": "ok", "metrics": [{"name": "a", "value": NaN}]}',
        ResultDocument(OK, metrics=(Metric("a", None, text="NaN"),)),
    ),
    "Infinity": (
        '{"status": "ok", "metrics": [{"name": "a", "value": -Infinity}]}',
        ResultDocument(OK, metrics=(Metric("a", None, text="-Infinity"),)),
    ),
    "1e999": (
        '{"status": "ok", "metrics": [{"name": "a", "value": 1e999}], "started": 1e999, "took_ms": 5}',
        ResultDocument(OK, metrics=(Metric("a", None, text="1e999"),), took_ms=5.0),
    ),
    "5,000 digits": (
        '{"status": "ok", "metrics": [{"name": "a", "value": %s}]}' % ("7" * 5_000),
        ResultDocument(OK, metrics=(Metric("a", None, text="7" * 5_000),)),
    ),
    "400 digits": ('{"status": "ok", "cpu_ms": %s}' % ("7" * 400), ResultDocument(OK)),
    "300 digits": ('{"status": "ok", "cpu_ms": %s}' % ("7" * 300), ResultDocument(OK, cpu_ms=float("7" * 300))),
    "an odd number beside whole ones": (
        '{"status": "ok", "x": NaN, "truncated": {"output": 7}, "cpu_ms": %s}' % ("7" * 300),
        ResultDocument(OK, truncated={"output": 7}, cpu_ms=float("7" * 300)),
    ),
    "text for a value": (
        '{"status": "ok", "metrics": [{"name": "a", "value": "on"}]}',
        ResultDocument(OK, metrics=(Metric("a", None, text="on"),)),
    ),
    "no value": (
        '{"status": "ok", "metrics": [{"name": "a"}, {"name": "b", "value": null}]}',
        ResultDocument(OK, metrics=(Metric("a", None), Metric("b", None))),
    ),
    "metrics that are none": (
        '{"status": "ok", "metrics": [1, {"name": ""}, {"value": 1},'
        ' {"name": "a", "value": true}, {"name": "b", "value": 1}]}',
        ResultDocument(OK, metrics=(Metric("b", 1.0),), truncated={"metrics": 5}),
    ),
    "labels that are none": (
        '{"status": "ok", "metrics": [{"name": "a", "value": 1, "labels": {"x": 1, "y": "z"}}]}',
        ResultDocument(OK, metrics=(Metric("a", 1.0, labels={"y": "z"}),)),
    ),
    "another kind": (
        '{"status": "ok", "metrics": [{"name": "a", "value": 1, "kind": "histogram"}]}',
        ResultDocument(OK, metrics=(Metric("a", 1.0),)),
    ),
    "thresholds as numbers": (
        '{"status": "ok", "metrics": [{"name": "a", "value": 1, "warn": 80, "crit": 0.1},'
        ' {"name": "b", "value": 1, "warn": 1234567890123, "crit": 1e300}]}',
        ResultDocument(
            OK, metrics=(Metric("a", 1.0, warn="80", crit="0.1"), Metric("b", 1.0, warn="1234567890123", crit="1e+300"))
        ),
    ),
    "half a surrogate pair": (
        r'{"status": "ok", "summary": "a\ud800b", "check": "\udfff"}',
        ResultDocument(OK, "a?b", check="?"),
    ),
    "a pair": (r'{"status": "ok", "summary": "\ud83d\ude00"}', ResultDocument(OK, "😀")),
    "truncated": (
        '{"status": "ok", "truncated": {"output": 5, "x": -1, "y": 1.5, "z": true}}',
        ResultDocument(OK, truncated={"output": 5}),
    ),
}

TEXT: dict[str, tuple[bytes | str, ResultDocument]] = {
    "nothing": ("", opaque("")),
    "neither": ("good morning", opaque("good morning")),
    "no UTF-8": (b"caf\xe9", opaque("caf\\xe9")),
    "a bar alone": ("a | b", opaque("a | b")),
    "agent-plugin text": (
        "status ok all is well\nmetric load double 0.5\nmetric n int 3 users\n",
        ResultDocument(
            OK,
            "all is well",
            (Metric("load", 0.5), Metric("n", 3.0, "users")),
            "status ok all is well\nmetric load double 0.5\nmetric n int 3 users\n",
        ),
    ),
    "agent-plugin, warn": (
        "status warn it creaks",
        ResultDocument(WARNING, "it creaks", output="status warn it creaks"),
    ),
    "agent-plugin, err": ("status err", ResultDocument(CRITICAL, output="status err")),
    "agent-plugin, CR LF": (
        "status ok x\r\nmetric a int 1\r\n",
        ResultDocument(OK, "x", (Metric("a", 1.0),), "status ok x\r\nmetric a int 1\r\n"),
    ),
    "agent-plugin, the status last": (
        "metric a int 1\nstatus ok x",
        ResultDocument(OK, "x", (Metric("a", 1.0),), "metric a int 1\nstatus ok x"),
    ),
    "agent-plugin, two statuses": (
        "status ok x\nstatus err y",
        ResultDocument(OK, "x", output="status ok x\nstatus err y"),
    ),
    "agent-plugin, strings and odd numbers": (
        "status ok\nmetric v string 1.2.3\nmetric c counter 9\nmetric o int many\nmetric h double 1e999\n"
        "metric z blob 1",
        ResultDocument(
            OK,
            "",
            (
                Metric("v", None, text="1.2.3"),
                Metric("c", 9.0, kind="counter"),
                Metric("o", None, text="many"),
                Metric("h", None, text="1e999"),
            ),
            "status ok\nmetric v string 1.2.3\nmetric c counter 9\nmetric o int many\n"
            "metric h double 1e999\nmetric z blob 1",
            truncated={"metrics": 5},  # the line of `z` is none, and counted (F84)
        ),
    ),
    "a status that isn't one": ("status of the disk: fine", opaque("status of the disk: fine")),
    "a word that begins like one": ("status okay", opaque("status okay")),
    "Nagios": (
        "DISK OK - free space: / 3326 MB (56%) | /=2643MB;5948;5958;0;5968",
        ResultDocument(
            OK,
            "DISK OK - free space: / 3326 MB (56%)",
            (Metric("/", 2643.0, "MB", "gauge", {}, "5948", "5958", 0.0, 5968.0),),
        ),
    ),
    "Nagios, no word": ("fine|a=1", ResultDocument(UNKNOWN, "fine", (Metric("a", 1.0),))),
    "Nagios, many lines": (
        "DISK WARNING - / is full | /=2643MB;5948;5958;0;5968\n/ 15272 MB (77%);\n/boot 68 MB (69%) |"
        " /boot=68MB;88;93;0;98\n/home=69357MB;253404;253409;0;253414\n",
        ResultDocument(
            WARNING,
            "DISK WARNING - / is full",
            (
                Metric("/", 2643.0, "MB", warn="5948", crit="5958", min=0.0, max=5968.0),
                Metric("/boot", 68.0, "MB", warn="88", crit="93", min=0.0, max=98.0),
                Metric("/home", 69357.0, "MB", warn="253404", crit="253409", min=0.0, max=253414.0),
            ),
            "/ 15272 MB (77%);\n/boot 68 MB (69%) ",
        ),
    ),
}

PERFDATA: dict[str, tuple[str, tuple[Metric, ...]]] = {
    "a value": ("a=1", (Metric("a", 1.0),)),
    "several": ("a=1 b=2\tc=3", (Metric("a", 1.0), Metric("b", 2.0), Metric("c", 3.0))),
    "a quoted label": ("'free space'=1.5GB", (Metric("free space", 1.5, "GB"),)),
    "a quote in a label": ("'it''s'=1", (Metric("it's", 1.0),)),
    "an equals sign in a label": ("'a=b'=1", (Metric("a=b", 1.0),)),
    "a label of quotes": ("''''=1", (Metric("'", 1.0),)),
    "U": ("a=U;1;2", (Metric("a", None, warn="1", crit="2"),)),
    "a counter": ("a=12c", (Metric("a", 12.0, "c", "counter"),)),
    "percent": ("a=-0.5%", (Metric("a", -0.5, "%"),)),
    "no digit before the point": ("a=.5s", (Metric("a", 0.5, "s"),)),
    "no digit behind it": ("a=5.s", (Metric("a", 5.0, "s"),)),
    "a comma for a point": ("a=0,5s", (Metric("a", 0.5, "s"),)),
    "an exponent": ("a=1.5e3B b=1E-3", (Metric("a", 1500.0, "B"), Metric("b", 0.001))),
    "a unit like an exponent": ("a=5eur", (Metric("a", 5.0, "eur"),)),
    "ranges": ("a=1;10:20;@~:5;0;100", (Metric("a", 1.0, warn="10:20", crit="@~:5", min=0.0, max=100.0),)),
    "left out": ("a=1;;5;;9", (Metric("a", 1.0, crit="5", max=9.0),)),
    "a semicolon behind": (
        "a=1;2;3;4;5; b=2",
        (Metric("a", 1.0, warn="2", crit="3", min=4.0, max=5.0), Metric("b", 2.0)),
    ),
    "too many limits": ("a=1;2;3;4;5;6 b=2", (Metric("b", 2.0),)),
    "beyond a float": ("a=1e999", (Metric("a", None, text="1e999"),)),
    "words that are none": ("x a= =1 'b c=2 d==1 e=five f=6", (Metric("c", 2.0), Metric("f", 6.0))),
    "an open quote": ("'a=1 b=2", (Metric("b", 2.0),)),
    "min that is none": ("a=1;;;x;y", (Metric("a", 1.0),)),
}


@pytest.mark.adversary(18)
@pytest.mark.parametrize(("blob", "expected"), (JSON | TEXT).values(), ids=JSON | TEXT)
def test_parse(blob: bytes | str, expected: ResultDocument) -> None:
    """A blob is read as this whole document."""
    assert parse(blob if isinstance(blob, bytes) else blob.encode()) == expected


@pytest.mark.parametrize(("text", "metrics"), PERFDATA.values(), ids=PERFDATA)
def test_performance_data(text: str, metrics: tuple[Metric, ...]) -> None:
    """Performance data has the form of Nagios, and a word that is no figure takes nothing from the others."""
    assert parse_plugin(b"fine|" + text.encode(), 0).metrics == metrics


@pytest.mark.parametrize(("exit_status", "status"), [
    (0, OK), (1, WARNING), (2, CRITICAL), (3, UNKNOWN), (4, UNKNOWN), (127, UNKNOWN), (-9, UNKNOWN), (None, UNKNOWN),
])  # fmt: skip
def test_a_plugins_exit_status_is_its_status(exit_status: int | None, status: int) -> None:
    """The exit status of a plugin is its status, whatever word its text has."""
    expected = ResultDocument(status, "DISK OK - fine", (Metric("a", 1.0),), "more")
    assert parse_plugin(b"DISK OK - fine|a=1\nmore\n", exit_status) == expected


def test_a_plugins_text_may_be_anything() -> None:
    """A plugin's text without a bar is a summary and the output below it, and bytes that are no UTF-8 are escaped."""
    assert parse_plugin(b"ok \xff\nmore\n\xfe\n", 0) == ResultDocument(OK, "ok \\xff", output="more\n\\xfe")
    assert parse_plugin(b"", 2) == ResultDocument(CRITICAL)
    assert parse_plugin(b"status err broken", 0) == ResultDocument(CRITICAL, "broken", output="status err broken")


@pytest.mark.parametrize(("text", "exit_status", "status"), [
    ("status ok all is well", 1, WARNING), ("status success fine\nmetric a int 1", 2, CRITICAL),
    ("status ok fine", 3, UNKNOWN), ("status ok fine", 127, UNKNOWN), ("status ok fine", -11, UNKNOWN),
    ("status warn creaks", 2, CRITICAL), ("status err broken", 1, CRITICAL), ("status err broken", -9, CRITICAL),
    ("CRITICAL - 1 of 3 nodes is down\nnode a\n  status ok\n", 2, CRITICAL),
    ("WARNING - x | a=1\nstatus ok", 1, WARNING), ("nothing to say\nstatus err", 0, OK),
    ("\n\n \nstatus ok fine", 2, CRITICAL),
    ("metric a int 1\nstatus ok fine", 2, CRITICAL), ("metric a int 1\nfree text\nstatus ok fine", 1, WARNING),
])  # fmt: skip
def test_an_exit_status_is_never_made_better_by_a_line(text: str, exit_status: int, status: int) -> None:
    """Only text that begins with its status is an agent plugin's, and the worse of status and exit status
    counts (F10).
    """
    assert parse_plugin(text.encode(), exit_status).status == status


def test_a_status_line_below_other_text_is_no_status() -> None:
    """A status line below other text is no status, also in a whole blob without an exit status (F10)."""
    assert parse(b"CRITICAL - 1 of 3 is down | a=1\nnode a\n status ok\n").status == CRITICAL
    assert parse(b"it is down\nstatus ok fine") == opaque("it is down\nstatus ok fine")


@pytest.mark.parametrize(("text", "metrics", "number"), [
    ("OK | a=1 last=1234", [("a", 1.0)], 2), ("OK | a=1 last=1234 ", [("a", 1.0), ("last", 1234.0)], None),
    ("OK | a=1;5;1", [], 1), ("OK | b=2 'a c=5", [("b", 2.0)], 2), ("OK | b=2 'it''s a c=5", [("b", 2.0)], 2),
    ("OK | a=1\nlong | b=2 c=3", [("a", 1.0), ("b", 2.0)], 3), ("OK | a=1\nlong a=5", [("a", 1.0)], None),
    ("OK | a=1\n", [("a", 1.0)], None), ("OK | " + "x" * 9, [], None),
    ("status ok x\nmetric a int 1\nmetric b int 12 K", [("a", 1.0)], 2),
    ("status ok x\nmetric a int 1\nmetric b int 12\n", [("a", 1.0), ("b", 12.0)], None), ("status ok x", [], None),
])  # fmt: skip
def test_a_word_at_a_cut_is_no_figure(text: str, metrics: list[tuple[str, float]], number: int | None) -> None:
    """A figure that may go on behind the cut is left out, and counted (F21)."""
    document = parse_plugin(text.encode(), 0, was_cut=True)
    assert [(each.name, each.value) for each in document.metrics] == metrics
    assert document.truncated.get("metrics") == number


def test_half_a_character_at_a_cut_is_left_out() -> None:
    """Half a character at a cut is left out, so that no escaped bytes stand in the summary (F21)."""
    assert parse_plugin("grün".encode()[:3], 0, was_cut=True).summary == "gr"


@pytest.mark.parametrize(("text", "summary", "output"), [
    ("\nCRITICAL - it is here", "CRITICAL - it is here", None), ("\r\n \t\n\n here\nmore", "here", "more"),
    ("| a=1\nit is here\nmore", "it is here", "more"), ("\n \n", "", None), ("  | a=1", "", None),
])  # fmt: skip
def test_the_summary_is_the_first_line_that_is_not_empty(text: str, summary: str, output: str | None) -> None:
    """The summary is the first line that has text for people, neither an empty one nor one of performance data alone
    (F21).
    """
    document = parse_plugin(text.encode(), 2)
    assert (document.status, document.summary, document.output) == (CRITICAL, summary, output)


@pytest.mark.parametrize(("text", "kept", "number"), [
    ("status ok\nmetric a int", 0, 1), ("status ok\nmetric a", 0, 1), ("status ok\nmetric\nmetric b int 1", 1, 2),
    ("status ok\nmetric a blob 1\nmetric a int 1 2 3", 0, 2), ("status ok\nmetric a int 1\n", 1, None),
    ("status ok\nmetrics follow", 0, None), ("OK | a=1 b=x c=", 1, 3), ("OK | a=1 words only", 1, None),
])  # fmt: skip
def test_figures_that_cannot_be_read_are_counted(text: str, kept: int, number: int | None) -> None:
    """A line or word that looks like a figure and cannot be read is counted (F84)."""
    document = parse_plugin(text.encode(), 0)
    assert (len(document.metrics), document.truncated.get("metrics")) == (kept, number)


@pytest.mark.adversary(18)
@pytest.mark.parametrize(("shape", "opening", "closing"), [("lists", "[", "]"), ("objects", '{"a":', "}")])
def test_depth(shape: str, opening: str, closing: str) -> None:
    """64 levels are read, and deeper documents are kept as text, also 100,000 levels."""

    def nested(levels: int) -> bytes:
        return ('{"status":"ok","x":' + opening * (levels - 1) + "1" + closing * (levels - 1) + "}").encode()

    assert parse(nested(MAX_DEPTH)) == ResultDocument(OK)
    for levels in (MAX_DEPTH + 1, 2_000, 100_000):
        assert parse(nested(levels)) == opaque(nested(levels).decode())
    assert parse(b"[" * 1_000_000).reason == "opaque-result"


@pytest.mark.parametrize("number", [MAX_METRICS - 1, MAX_METRICS, MAX_METRICS + 1, 3 * MAX_METRICS])
def test_numbers_of_metrics(number: int) -> None:
    """A thousand metrics are read, and the number of all is kept if there are more."""
    expected = {"metrics": number} if number > MAX_METRICS else {}
    as_json = json.dumps({"status": "ok", "metrics": [{"name": f"m{i}", "value": i} for i in range(number)]})
    as_text = "status ok\n" + "".join(f"metric m{i} int {i}\n" for i in range(number))
    as_perfdata = "OK|" + " ".join(f"m{i}={i}" for i in range(number))
    for blob in (as_json, as_text, as_perfdata):
        document = parse(blob.encode())
        assert document.metrics == tuple(Metric(f"m{i}", float(i)) for i in range(min(number, MAX_METRICS)))
        assert (document.status, document.truncated) == (OK, expected)


def test_words_that_are_no_metrics_are_passed_over_up_to_a_limit() -> None:
    """4,000 words of performance data are read, so that a megabyte of noise costs milliseconds."""
    assert parse_plugin(b"|" + b"x " * (MAX_WORDS - 1) + b"a=1", 0).metrics == (Metric("a", 1.0),)
    beyond = parse_plugin(b"|" + b"x " * MAX_WORDS + b"a=1", 0)
    assert (beyond.metrics, beyond.truncated) == ((), {"metrics": 1})


SLOW = {
    "one word": "|" + "a" * 2**20,
    "quotes": "|" + "'" * 2**20,
    "open quotes": "|" + "'a " * 2**18,
    "doubled quotes": "|'" + "''" * 2**19 + " ",
    "spaces": "|x=1" + " " * 2**20,
    "words": "|" + "a " * 2**19,
    "digits": "|a=" + "1" * 2**20 + "'",
    "semicolons": "|a=1" + ";" * 2**20,
    "lines": "\n" * 2**20,
    "blank lines": (" " * 1_023 + "\n") * 1_024,
    "status": "status " * 2**17,
    "metric": "status ok\nmetric a" + " " * 2**20,
    "metrics": "status ok\n" + "metric a int 1\n" * 2**16,
    "brackets": "[" * 2**20,
    "objects": '{"a":' * 2**17,
    "a number": '{"status":"ok","x":' + "1" * 2**20 + "}",
    "a threshold": '{"status":"ok","x":1.' + "1" * 2**20 + "}",
}


@pytest.mark.adversary(18)
@pytest.mark.parametrize("text", SLOW.values(), ids=SLOW)
def test_a_megabyte_of_malice_takes_no_time(text: str) -> None:
    """A hostile megabyte is read within 2 s of CPU, in which a linear reader ends and a quadratic one does not."""
    began = time.process_time()
    parse(text.encode())
    parse_plugin(text.encode(), 0)
    assert time.process_time() - began < 2


# ------------------------------------------------------------------------------------------------ properties

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_FLOAT = st.floats(allow_nan=False, allow_infinity=False)
_METRICS = st.builds(
    Metric, _TEXT.filter(bool), _FLOAT, unit=_TEXT, kind=st.sampled_from(["gauge", "counter"]),
    labels=st.dictionaries(_TEXT, _TEXT, max_size=3), warn=st.none() | _TEXT, crit=st.none() | _TEXT,
    min=st.none() | _FLOAT, max=st.none() | _FLOAT,
) | st.builds(lambda name, text: Metric(name, None, text=text), _TEXT.filter(bool), st.none() | _TEXT)  # fmt: skip
_DOCUMENTS = st.builds(
    ResultDocument, st.sampled_from(range(4)), _TEXT, st.lists(_METRICS, max_size=4).map(tuple), st.none() | _TEXT,
    st.none() | st.sampled_from(sorted(REASONS)), st.none() | _FLOAT, st.none() | _FLOAT, st.none() | _FLOAT,
    st.none() | _FLOAT, st.none() | _TEXT, st.none() | _TEXT,
    st.dictionaries(_TEXT, st.integers(0, 2**63 - 1), max_size=3),
)  # fmt: skip


@settings(max_examples=150, deadline=None, database=None)
@given(_DOCUMENTS)
def test_documents_come_back(document: ResultDocument) -> None:
    """A document that to_json writes is read again as the same, also without escapes."""
    text = json.dumps(to_json(document), allow_nan=False)
    assert parse(text.encode()) == document
    assert parse(json.dumps(to_json(document), ensure_ascii=False).encode()) == document


def test_to_json_leaves_out_what_is_not_there() -> None:
    """to_json leaves out fields without a value, and keeps the null of a metric without one."""
    document = ResultDocument(OK, metrics=(Metric("a", None),))
    assert to_json(ResultDocument(WARNING, "warm")) == {"status": "warning", "summary": "warm"}
    assert to_json(document)["metrics"] == [{"name": "a", "value": None, "unit": "", "kind": "gauge"}]


def is_sound(document: ResultDocument) -> bool:
    """Tell if a document can be stored: its text is UTF-8, and its numbers are finite."""
    json.dumps(to_json(document), allow_nan=False, ensure_ascii=False).encode()
    return document.status in range(len(STATUS_WORDS)) and len(document.metrics) <= MAX_METRICS


def test_random_bytes_never_raise() -> None:
    """Random bytes never raise, be they noise or begin like JSON, plugin text or performance data."""
    rng = random.Random(4166)
    for _ in range(3_000):
        start = rng.choice([b"", b"{", b"[", b'{"status":', b"status ok ", b"status ok\nmetric a int ", b"OK | 'a'="])
        assert is_sound(parse(start + rng.randbytes(rng.randrange(60))))
        assert is_sound(parse_plugin(start + rng.randbytes(rng.randrange(60)), rng.randrange(-3, 300)))


def mutated(rng: random.Random, value: Any) -> Any:
    """Return a document with another value in one place."""
    odd = [None, True, "", "\ud800", -1, 10**400, 1e308, float("nan"), float("inf"), [], {}, [{}], {"": {}}, "x" * 300]
    if not value or not isinstance(value, dict | list) or rng.random() < 0.3:
        return rng.choice(odd)
    key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
    copy = value.copy()
    copy[key] = mutated(rng, value[key])
    return copy


def test_mutated_documents_never_raise() -> None:
    """A document with any value in any place, and then with any bytes in its text, never raises."""
    rng = random.Random(4166)
    for _ in range(2_000):
        text = bytearray(json.dumps(mutated(rng, FULL)).encode())
        assert is_sound(parse(bytes(text)))
        for _ in range(rng.randrange(3)):
            text[rng.randrange(len(text))] = rng.choice(b'"{}[],:\\0\xff')
        assert is_sound(parse(bytes(text)))


CROSSING = st.lists(
    st.sampled_from([b"\xff", b"a", b"\xc3", b"\xa9", "é".encode(), "☃".encode(), "🐎".encode(), b"\xf0\x9f"])
)


@given(around=CROSSING.map(b"".join), back=st.integers(0, 40), pieces=st.integers(1, 2))
@settings(deadline=None, max_examples=200)
def test_bytes_that_are_no_text_are_read_in_pieces(around: bytes, back: int, pieces: int) -> None:
    """Bytes that are no text are read in pieces as in one call, wherever one piece ends and the next begins."""
    blob = b"\xff" + b"z" * (pieces * 16 * 1024 - 1 - back) + around + b"z" * 50
    assert parse(blob) == opaque(blob.decode("utf-8", "backslashreplace"))
