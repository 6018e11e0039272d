"""Tests that the fast reader of results agrees with equus_protocol, or leaves the blob to it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equus_protocol.results import MAX_DEPTH, MAX_METRICS, ResultDocument, parse
from helen.journal.document import Document, from_result, read_document

texts = st.text(max_size=8) | st.sampled_from(["\ud800", "a\ud800", "ok", "gauge", "", "a:b", '":', ":", "\\", '\\":'])
numbers = st.integers(-(2**70), 2**70) | st.floats() | st.booleans() | st.just(10**400)
values = st.none() | texts | numbers | st.lists(numbers, max_size=2)
labels = st.dictionaries(texts, texts | numbers, max_size=3) | values
metric_fields = {
    "name": texts | values, "value": values, "unit": values, "kind": st.sampled_from(["gauge", "counter", "odd", 3]),
    "labels": labels, "warn": values, "crit": values, "min": values, "max": values, "text": values, "other": values,
}  # fmt: skip
metrics = st.lists(st.fixed_dictionaries({}, optional=metric_fields) | values, max_size=4) | values
documents = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(["ok", "warning", "critical", "unknown", "OK", "", 0, None]),
        "summary": values, "metrics": metrics, "output": values, "reason": values | st.just("r" * 65),
        "started": values, "took_ms": values, "cpu_ms": values, "peak_kib": values, "check": values, "code": values,
        "truncated": st.dictionaries(texts, values, max_size=3) | values, "other": metrics,
    },
)  # fmt: skip


def same(blob: bytes) -> None:
    expected = from_result(parse(blob))
    assert repr(read_document("cpu", blob)) == repr(expected)  # by repr: -0.0 and 0.0 differ


@settings(deadline=None, max_examples=200)
@given(documents)
def test_it_reads_what_the_protocol_reads(document: dict) -> None:
    """Both readers agree on JSON with every part of any type."""
    same(json.dumps(document).encode("utf-8", "surrogatepass"))


@settings(deadline=None, max_examples=100)
@given(documents, st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r\n")]))
def test_no_escapes_and_any_spaces(document: dict, separators: tuple[str, str]) -> None:
    """Both readers agree on text without escapes and with any spaces, for which colons are counted in another way."""
    same(json.dumps(document, ensure_ascii=False, separators=separators).encode("utf-8", "replace"))


@settings(deadline=None, max_examples=100)
@given(documents, st.sampled_from(['"other":1', '"a:b":":"', '"status":"ok"', '"":""', '"metrics":[]', '"x":"\\\\"']))
def test_a_part_too_many(document: dict, part: str) -> None:
    """Both readers agree on a part that is unknown or stands twice, which the decoder ignores and the count detects."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    same((text[:-1] + "," * (len(text) > 2) + part + "}").encode("utf-8", "replace"))


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_it_never_raises(blob: bytes) -> None:
    """Both readers agree on any bytes, and neither raises."""
    same(blob)


PLAIN = b'{"status":"ok","summary":"s","metrics":[{"name":"m","value":1}]%s}'


@pytest.mark.parametrize(
    "blob",
    [
        b"", b"{", b"[]", b"null", b"3", b'"ok"', b"{}", b'{"status":"ok"}', b'{"status":"ok"} ', b'{"status":"ok"}x',
        b'\xef\xbb\xbf{"status":"ok"}', b'{"status":"ok","status":"warning"}', b'{"status":"ok","started":NaN}',
        b'{"status":"ok","started":1e999}', b'{"status":"ok","started":1e-999}', b'{"status":"ok","started":-0}',
        b'{"status":"ok","summary":"\xff"}', b'{"status":"ok","summary":"\\ud800\\udc00"}',
        b'{"status":"ok","summary":"\\ud800"}', b'{"status":"ok","truncated":{"output":9223372036854775808}}',
        b'{"status":"ok","truncated":{"output":-1}}', b'{"status":"ok","reason":""}',
        b'{"status":"ok","metrics":[{"name":"a","text":"x"}]}', b'{"status":"ok","metrics":[{"name":""}]}',
        b'{"status":"ok","metrics":[{"value":1}]}', b"status ok fine\nmetric a int 5", b"DISK OK | /=5%;80;90",
        PLAIN % (b',"deep":' + b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1)),
        PLAIN % (b',"deep":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH),
        PLAIN % (b',"deep":' + b"[" * 100_000 + b"]" * 100_000),
        PLAIN % (b',"deep":' + b'{"a":' * 5000 + b"1" + b"}" * 5000),
        b'{"status":"ok","metrics":[' + b",".join([b'{"name":"m"}'] * MAX_METRICS) + b"]}",
        b'{"status":"ok","metrics":[' + b",".join([b'{"name":"m"}'] * (MAX_METRICS + 1)) + b"]}",
        b'{"status":"ok","metrics":[{"name":"a","labels":' + b'{"b":' * 70 + b"1" + b"}" * 70 + b"}]}",
        b'{"status":"ok","x":' + b"9" * 5000 + b"}",
        b'{"status":"ok","metrics":[' + b'{"name":"a"},' * 70 + b'{"name":"a","x":' + b"[" * 70 + b"]" * 70 + b"}]}",
    ],
)  # fmt: skip
def test_the_edges(blob: bytes) -> None:
    """Both readers agree at each edge where one could be more lenient than the other."""
    same(blob)


def test_our_own_agents_documents_are_read_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast reader reads a usual result of Equus without the slow one."""
    monkeypatch.setattr("helen.journal.document.parse", lambda blob: pytest.fail(f"slow: {blob!r}"))
    blob = (
        b'{"status":"warning","summary":"91 %","metrics":[{"name":"used","value":91,"unit":"%","kind":"gauge","labels":'
        b'{"mount":"/"},"warn":"90","crit":"95","min":0,"max":100}],"started":1800000000.25,"took_ms":3.5,"check":"d",'
        b'"truncated":{"output":70000}}'
    )
    document = read_document("disk", blob)
    assert (document.status, document.word, document.metrics[0].value) == (1, "warning", 91.0)


def test_a_gap_record_is_always_a_gap() -> None:
    """A gap record has the status and reason of a gap, whatever an agent writes in it."""
    document = read_document("equus:gap", b'{"status":"ok","reason":"because","from":1,"to":2}')
    assert (document.status, document.reason) == (3, "gap")


def test_the_fields_are_those_of_the_protocol() -> None:
    """The document of the fast reader has each field of ResultDocument."""
    ours = {name for name in Document.__struct_fields__ if name != "word"} | {"status"}
    assert ours == {attribute.name for attribute in ResultDocument.__attrs_attrs__}
