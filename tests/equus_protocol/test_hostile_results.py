"""Test hostile results of 1 MiB: no call into C gets more of one than it reads in some milliseconds. There is no clock
here.

bench/longest_holds.py has the results, and measures how long each holds the interpreter.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from longest_holds import ALL, MIB, READ, REFUSED, limited

from equus.sandbox.metrics import MOST_LABELS
from equus_protocol import long_text, plugin_text, results
from equus_protocol.long_text import PIECE
from equus_protocol.plugin_text import contradicts, parse_plugin
from equus_protocol.result_fields import MAX_METRICS, MAX_PARTS
from equus_protocol.results import parse
from helen.journal import document
from helen.journal.document import from_result, read_document

OPAQUE = "opaque-result"
STRING = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z)', re.DOTALL)


class Watched:
    """Stands for a compiled expression, and notes how many characters each call may read."""

    def __init__(self, expression: Any, widest: list[int]) -> None:
        self._expression, self._widest = expression, widest

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._expression, name)

        def watched(text: str, at: int = 0, end: int = sys.maxsize) -> Any:
            self._widest.append(min(end, len(text)) - at)
            return call(text, at, min(end, len(text)))

        return watched


class Reader:
    """Stands for a decoder of JSON, and notes how many parts it was given."""

    def __init__(self, read: Callable[[Any], Any], most: list[int]) -> None:
        self._read, self._most = read, most

    def decode(self, text: str | bytes) -> Any:
        self._most.append(parts_of(text if isinstance(text, bytes) else text.encode()))
        return self._read(text)


def parts_of(blob: bytes) -> int:
    """Count commas, `[` and `{` outside of strings, by taking strings out."""
    return len(re.findall(rb"[,[{]", STRING.sub(b"", blob)))


@pytest.mark.adversary(18)
@pytest.mark.parametrize("kind", REFUSED)
def test_too_many_parts_reach_no_parser(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document with too many parts reaches no parser, and its text is kept as output."""
    blob = REFUSED[kind]()
    assert MIB - 4_096 < len(blob) <= MIB and parts_of(blob) > MAX_PARTS
    monkeypatch.setattr(json.JSONDecoder, "decode", lambda *_: pytest.fail("decoded"))
    monkeypatch.setattr(document, "_decode", lambda *_: pytest.fail("decoded"))
    read = parse(blob)
    assert (read.reason, read.output, read.metrics) == (OPAQUE, blob.decode(), ())
    assert read_document("c", blob) == from_result(read)


@pytest.mark.adversary(18)
@pytest.mark.parametrize("kind", READ)
def test_a_parser_gets_no_more_parts_than_the_limit(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser gets no more parts than the limit, and both readers of a document give the same."""
    blob, most = READ[kind](), list[int]()
    monkeypatch.setattr(results, "_PLAIN", Reader(lambda _: pytest.fail("holds all others"), most))
    monkeypatch.setattr(results, "_CAREFUL", Reader(results._CAREFUL.decode, most))
    monkeypatch.setattr(document, "_decode", Reader(document._decode, most).decode)
    read = parse(blob)
    assert (read.status, read.reason) == (0, None)
    assert read_document("c", blob) == from_result(read)
    assert max(most) <= MAX_PARTS
    if "limit" in kind:
        assert max(most) > MAX_PARTS - 62


@pytest.mark.adversary(18)
@pytest.mark.parametrize("kind", ALL)
def test_no_expression_reads_more_than_a_piece(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No regular expression reads more than a piece of a plugin's text, with any reader."""
    blob, widest = ALL[kind](), list[int]()
    for name, value in vars(plugin_text).items():
        if hasattr(value, "fullmatch"):
            monkeypatch.setattr(plugin_text, name, Watched(value, widest))
    monkeypatch.setattr(plugin_text, "_NUMBER", Watched(plugin_text._NUMBER, []))  # of a figure that a piece holds
    for act in (parse, lambda blob: parse_plugin(blob, 0), lambda blob: parse_plugin(blob, 2, True),
                lambda blob: contradicts(blob, 1)):  # fmt: skip
        act(blob)
    assert max(widest, default=0) <= PIECE + plugin_text._LONGEST_WORD + 1
    assert widest


@pytest.mark.parametrize("parts", [MAX_PARTS, MAX_PARTS + 1])
def test_the_number_of_parts(parts: int) -> None:
    """A document with MAX_PARTS parts is read, and one part more makes its text output."""
    blob = b'{"status":"ok","x":[' + b",".join([b"12"] * (parts - 2)) + b"]}"
    assert parts_of(blob) == parts
    assert (parse(blob).reason, read_document("c", blob).reason) == (
        (OPAQUE,) * 2 if parts > MAX_PARTS else (None,) * 2
    )


@pytest.mark.parametrize("labels", [MOST_LABELS, MOST_LABELS + 1])
def test_as_many_metrics_as_there_may_be_with_all_fields(labels: int) -> None:
    """A thousand metrics with all nine fields and the most labels are read beside any output, and one label more is
    not.
    """
    metric = {
        "name": "used", "value": 81.5, "unit": "%", "kind": "gauge", "labels": {f"l{at}": "v" for at in range(labels)},
        "warn": "80", "crit": "90", "min": 0, "max": 100,
    }  # fmt: skip
    given = {"status": "ok", "summary": "a, [b]", "output": '],[{"\\' * 10_000, "metrics": [metric] * MAX_METRICS}
    given |= {"started": 1.5, "took_ms": 1.0, "cpu_ms": 1.0, "peak_kib": 1, "check": "c", "code": "f" * 64}
    blob = json.dumps(given | {"truncated": {str(at): at for at in range(64)}}).encode()
    for read in (parse(blob), read_document("c", blob)):
        assert (read.reason, len(read.metrics)) == ((None, MAX_METRICS) if labels == MOST_LABELS else (OPAQUE, 0))
    assert labels > MOST_LABELS or (read.metrics[999].labels["l15"], read.output) == ("v", given["output"])


def test_what_the_limits_of_the_bench_are() -> None:
    """The documents of bench/longest_holds.py have the most parts that are allowed, or one unit less."""
    assert parts_of(limited(('{"x":[', "]}"), lambda _: "[]", 2)) in (MAX_PARTS, MAX_PARTS - 1)
    assert long_text.PIECE == 65_536
