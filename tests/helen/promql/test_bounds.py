"""Tests that a question that is too large is refused, odd ones are read or refused, and nothing grows
without a bound.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from helen.promql import errors, gathering, matching, segment_source
from helen.promql.answers import number
from helen.promql.errors import BadData, Refused, TooMuch, Unsupported
from helen.promql.evaluate import Evaluation, Found
from helen.promql.gathering import TIME, Gathering
from helen.promql.matching import Budget, Match
from helen.promql.matrix import Matrix
from helen.promql.needs import VALUE
from helen.promql.nodes import Selector
from helen.promql.parameters import Parameters
from helen.promql.points import Points
from helen.promql.segment_source import SegmentSource
from helen.promql.series_labels import Choice, labels_of, read_metric
from helen.promql.syntax import read_question, read_selector


def a_choice(*matches: Match) -> Choice:
    return Choice(matches, {}, lambda name: True, Budget())


class Some:
    """Has so many series, each with one sample at second 100."""

    def __init__(self, count: int) -> None:
        self.count = count

    def of(self, selector: Selector) -> Found:
        points = Points(np.array([100_000]), np.array([1.5]))
        return [({"__name__": "x", "n": str(n)}, points) for n in range(self.count)]


def value(question: str, series: int = 3, steps: int = 2) -> Matrix:
    at = np.arange(100_000, 100_000 + steps * 1_000, 1_000)
    found = Evaluation(Some(series), at, int(at[-1])).value(read_question(question))
    assert isinstance(found, Matrix)
    return found


def test_a_million_series_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Series are counted while they come, so that too many end the question early."""
    monkeypatch.setattr(gathering, "MOST_SERIES", 1_000)
    found = Gathering(a_choice(), names_only=True)
    with pytest.raises(TooMuch, match="more than 1000 series fit: pick fewer"):
        for n in range(10**6):
            found.take(("web-1", f"check-{n}"), "x", "", "gauge", {})
    assert len(found.slots) == 1_001


def test_samples_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is on all series of a selector together."""
    monkeypatch.setattr(gathering, "MOST_SAMPLES", 10_000)
    found, piece = Gathering(a_choice()), {TIME: np.arange(6_000), VALUE: np.zeros(6_000)}
    found.take(("a", "b"), "x", "", "gauge", piece)
    with pytest.raises(TooMuch, match="more than 10000 samples are to be read"):
        found.take(("a", "c"), "x", "", "gauge", piece)


def test_cells_are_counted_before_they_are_made() -> None:
    """Cells are series times steps, and are bounded in each part of a question."""
    assert value("x", series=400, steps=1_000).values.shape == (400, 1_000)
    with pytest.raises(TooMuch, match="401 series at 10000 steps are more than 4000000 values"):
        value("x", series=401, steps=10_000)
    with pytest.raises(TooMuch, match="401 series at 10000 steps"):
        value("rate(x[5m])", series=401, steps=10_000)


def test_expressions_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question has one budget for all its expressions; a list of words costs nothing, however it is escaped."""
    long = Match("agent", "=~", "(?:a?){100}b")
    budget = Budget(30_000)
    assert not long.takes("a" * 100, budget) and not long.takes("a" * 100, budget)  # the second is known
    with pytest.raises(TooMuch, match="the expressions of the labels take too long"):
        long.takes("a" * 101, budget)
    words = Match("agent", "=~", r"web\.1|db-1|")
    assert [words.takes(text, Budget(0)) for text in ("web.1", "webx1", "db-1", "", "web")] == [
        True, False, True, True, False
    ]  # fmt: skip
    assert matching.MOST_TRIES == errors.MOST_TRIES


def test_segments_are_counted(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Segments are counted before the first is read; a list of names takes the newest, and passes over
    unreadable ones.
    """
    folder = tmp_path_factory.mktemp("history")
    (folder / "segments").mkdir()
    for n in range(5):
        (folder / "segments" / f"seg-{n:08}.parquet").write_bytes(b"no Parquet")
    source, found = SegmentSource(folder, 1, ()), Gathering(a_choice())
    assert [path.name for path in source._files(0.0, 0.0)] == [f"seg-{n:08}.parquet" for n in (2, 3, 4)]
    with pytest.raises(TooMuch, match="3 segments of the journal are to be read, and 2 may be"):
        source.gather(found, 0, 0, 2)
    source.gather(found, 0, 0, 2, newest_only=True)
    assert found.found() == [] and segment_source.MOST_SEGMENTS == 3_000


@pytest.mark.parametrize(("text", "name", "labels"), [
    ("used", "used", {}), ('used{path="/"}', "used", {"path": "/"}), ('a{b="1",c="2"}', "a", {"b": "1", "c": "2"}),
    ('a{b="}\\"\\\\,c=\\"x"}', "a", {"b": '}"\\,c="x'}), ("a{b}", "a{b}", {}), ('{b="1"}', '{b="1"}', {}),
    ('a{b="1"', 'a{b="1"', {}), ('a{b="1",}', 'a{b="1",}', {}), ('a{b="1"}x"}', 'a{b="1"}x"}', {}), ("", "", {}),
    ('a{="1"}', "a", {"": "1"}), ("%{", "%{", {}),
])  # fmt: skip
def test_names_of_rollups_are_read_back(text: str, name: str, labels: dict[str, str]) -> None:
    """Any other text is all name."""
    assert read_metric(text) == (name, labels)


def test_labels_of_a_metric_do_not_hide_others() -> None:
    """Labels that would hide others are renamed, as Prometheus does it; empty ones are none."""
    base = {"agent": "web-1", "check": "x", "team": "shop"}
    own = {"agent": "other", "team": "", "path": "/", "__name__": "y"}
    assert labels_of(base, "used", own) == {
        "__name__": "used", **base, "exported_agent": "other", "path": "/", "exported___name__": "y"
    }  # fmt: skip


def test_results_without_metrics_or_values_are_taken() -> None:
    """A result may have an empty list of metrics, or a metric without a value."""
    kind = pa.list_(segment_source.METRIC)
    rows = pa.table({"status": pa.array([0, 3], pa.int8()), "metrics": pa.array([[], [{
        "name": "x", "value": None, "unit": "", "kind": "gauge", "labels": []}]], kind)})  # fmt: skip
    found = Gathering(a_choice())
    found.take_results([("a", "b")], np.zeros(2, np.int64), np.array([1, 2]), rows)
    assert [labels["__name__"] for labels, _ in found.found()] == ["helen_ok", "helen_state"]


@pytest.mark.parametrize(
    "question",
    [
        "max_over_time(x[5m:1m])",
        'label_replace(x, "a", "b", "c", "d")',
        "histogram_quantile(0.9, x)",
        "deriv(x[5m])",
        "absent(x)",
        'count_values("a", x)',
        "stddev(x)",
        "quantile(0.9, x)",
        "double_exponential_smoothing(x[5m], 0.1, 0.1)",
        "timestamp(x)",
        'x{a="1" or b="2"}',
        "predict_linear(x[5m], 60)",
        "day_of_week()",
        "limitk(1, x)",
    ],
)
def test_what_is_missing_is_named(question: str) -> None:
    """A missing part of PromQL is refused with the word that was asked for."""
    with pytest.raises(Unsupported) as caught:
        read_question(question)
    word = question.partition("(")[0]
    assert word in str(caught.value) or "subqueries" in str(caught.value) or "`or`" in str(caught.value)
    assert caught.value.status == 422


@pytest.mark.parametrize(
    "question",
    [
        "",
        "   ",
        "x" * 5_001,
        "(" * 101 + "x" + ")" * 101,
        "-" * 401 + "1",
        "+".join(["1"] * 402),
        "sum(" * 101 + "x" + ")" * 101,
        "x offset 11y",
        "x[100y]",
        "x[99999999999999y]",
        " or ".join(["x"] * 21),
        "x{",
        "\x00",
        'x{a=~"[[:alpha:]]"}',
        "\ud800",
    ],
)
def test_what_can_not_be_read(question: str) -> None:
    """A text that can not be read is refused at once, with a sentence; brackets and signs within quotes are text."""
    with pytest.raises(BadData):
        read_question(question)


def test_brackets_in_quotes_do_not_count() -> None:
    """Brackets and signs in quotes do not count."""
    read_question('x{a="' + "(" * 200 + "-" * 500 + '"}')
    with pytest.raises(BadData, match="is no selector"):
        read_selector("rate(x[5m])")


def test_what_has_no_place_in_a_question() -> None:
    """A string, a number instead of series, and series instead of a number are refused."""
    for question in ("sum(1)", "topk(x, x)", "x and 1", "x[5m]", '"a" + 1'):
        with pytest.raises(Refused):
            value(question)


def test_times_and_durations() -> None:
    """A time is unix seconds or a date with a zone; a duration is seconds or a text of Prometheus."""
    given = {"time": ["1790000000.1234"], "date": ["2026-11-29T12:00:00+01:00"], "zulu": ["2026-11-29T11:00:00.5Z"],
             "step": ["1h30m"], "part": ["0.5"], "limit": ["7"], "none": [""]}  # fmt: skip
    found = Parameters(given, 5)
    assert (found.time("time"), found.time("date")) == (1_790_000_000_123, 1_795_950_000_000)
    assert (found.time("zulu"), found.time("none", 9)) == (1_795_950_000_500, 9)
    assert (found.duration("step"), found.duration("part"), found.limit()) == (5_400_000, 500, 7)
    for name, text in (("time", "nan"), ("time", "-1"), ("time", "1e999"), ("time", "2026-11-29T12:00:00"),
                       ("time", "9" * 400), ("time", "0x1"), ("time", "\uff12")):  # fmt: skip
        with pytest.raises(BadData):
            Parameters({name: [text]}, 0).time(name)
    for text in ("0", "-1", "inf", "5 m", "1e400", "m", "5m5", "999999999999y"):
        with pytest.raises(BadData):
            Parameters({"step": [text]}, 0).duration("step")
    for text in ("-1", "1.5", "x", "9" * 20):
        with pytest.raises(BadData):
            Parameters({"limit": [text]}, 0).limit()


def test_numbers_are_text() -> None:
    """A number is shown as text that reads back as the same number."""
    values = [0.0, -0.0, 1.0, 1e15, 1e300, 0.1, -2.5, 5e-324, float("inf"), float("-inf")]
    shown = ["0", "-0.0", "1", "1000000000000000.0", "1e+300", "0.1", "-2.5", "5e-324", "+Inf", "-Inf"]
    assert [number(each) for each in values] == shown
    assert number(float("nan")) == "NaN" and [float(text) for text in shown[:8]] == values[:8]
