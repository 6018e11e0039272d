"""Tests that pieces of the lake are kept within their bound, and change no answer: nor what a caller may see."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rollup_questions import BEGIN, DAYS, Scene, sums

from helen.pipeline.lake.lake import Lake
from helen.promql import bucket_files, gathering, questions
from helen.promql.bucket_files import BucketFiles
from helen.promql.kept_pieces import KeptPieces, Lot, Piece
from helen.promql.needs import ALL, OF_FUNCTION, Needs
from helen.promql.syntax import read_question, selectors
from helen.promql.window_functions import FUNCTIONS


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def nothing_is_read(self: BucketFiles, lot: Any) -> Iterator[Piece]:
    raise AssertionError(f"{lot} are read again")


QUESTIONS = ["used", "rate(sent[1h])", "avg_over_time(used[30m])", "helen_state", '{__name__=~"used|helen_ok"}',
             'max_over_time({path="/var"}[2h])']  # fmt: skip


@pytest.mark.parametrize("query", QUESTIONS)
def test_a_question_that_comes_again_reads_nothing(scene: Scene, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that comes again has the same answer from memory, also for another span of the same days."""
    first = scene.ask(query)
    within = scene.ask(query, KeptPieces(), days=(1.25, 2.5))
    assert first and within and scene.kept.size > 10_000
    monkeypatch.setattr(BucketFiles, "read", nothing_is_read)
    assert scene.ask(query) == first


def test_a_span_is_cut_from_what_is_kept(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Days that are read for a long question answer shorter ones of them."""
    shorter = scene.ask("rate(sent[1h])", KeptPieces(), days=(1.3, 1.7))
    scene.ask("rate(sent[1h])", days=(1.1, 1.9))
    monkeypatch.setattr(BucketFiles, "read", nothing_is_read)
    assert scene.ask("rate(sent[1h])", days=(1.3, 1.7)) == shorter != []


def test_nobody_gets_what_another_one_was_shown(scene: Scene) -> None:
    """A kept piece belongs to the series that were asked for."""
    assert len(scene.ask("used")) == 6
    found = scene.ask("used", hidden="hidden")
    assert {each["metric"]["agent"] for each in found} == {"web-1", "web-2"}
    assert len(scene.ask("used")) == 6


def test_what_is_published_meanwhile_is_there(scene: Scene) -> None:
    """A metric that is published meanwhile is found, also on a day that was asked about before."""
    before = scene.ask('{__name__="fresh"}')
    sums(scene.lake, 2, (("fresh", "gauge"),))
    assert before == [] and len(scene.ask('{__name__="fresh"}')) == 3


@pytest.mark.parametrize("name", sorted({*FUNCTIONS, *OF_FUNCTION, "", "quantile_over_time"}))
def test_no_function_needs_what_is_not_read(scene: Scene, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is the same when all columns are read: of a counter, a gauge, and a series that Helen adds."""
    for of in ("sent", "used", "helen_state"):
        query = f"{name}({'0.5, ' if name.startswith('quantile') else ''}{of}[2h])" if name else of
        pruned = scene.ask(query, KeptPieces())
        with monkeypatch.context() as patched:
            patched.setattr(questions.Needs, "of", lambda node: Needs(dict.fromkeys(selectors(node), ALL)))
            assert scene.ask(query, KeptPieces()) == pruned != []


def test_a_selector_that_stands_twice_has_both_needs() -> None:
    """A selector that stands twice reads the columns for its average and for its rate."""
    node = read_question("avg_over_time(x[1h]) + rate(x[1h]) + max_over_time(y[1h])")
    found = {selector.matches[0].value: needed for selector, needed in Needs.of(node).of_each.items()}
    assert found == {"x": OF_FUNCTION["rate"] | {"count", "total"}, "y": {"most"}}


def test_a_metric_that_a_newer_hour_lacks_is_gone(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A metric that a newer hour lacks is gone: in an older format the check's rows tell which version of a bucket
    counts.
    """
    for day in range(DAYS):
        sums(scene.lake, day, version=1, level="h1")
    sums(scene.lake, 2, (("", "gauge"), ("used", "gauge")), version=2, level="h1")
    monkeypatch.setattr(Lake, "is_live", lambda lake, table: False)
    found = scene.ask("last_over_time(sent[2h])", resolution="h1")
    assert len(found) == 3
    for each in found:  # a sample counts until two hours behind its bucket
        assert max(at for at, _ in each["values"]) < BEGIN + 2 * 86_400 + 7_200
    assert max(at for at, _ in scene.ask("last_over_time(used[2h])", resolution="h1")[0]["values"]) == (
        BEGIN + 3 * 86_400
    )


def test_rows_are_counted_while_they_are_read(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question ends when it has read too many rows, before all of them are in memory."""
    monkeypatch.setattr(bucket_files, "MOST_ROWS", 1_000)
    with pytest.raises(AssertionError, match="more than 1000 buckets are to be read: ask for fewer series"):
        scene.ask("used")


def test_series_of_one_metric_are_counted(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Series are counted while they come, also those of a metric's own labels; those of other metrics don't count."""
    many = tuple((f'many{{n="{number}"}}', "gauge") for number in range(40))
    sums(scene.lake, 2, many)
    monkeypatch.setattr(gathering, "MOST_SERIES", 100)
    with pytest.raises(AssertionError, match="more than 100 series fit: pick fewer"):
        scene.ask("many")
    assert len(scene.ask('many{n=~"1.?"}')) == 33


# ---------------------------------------------------------------------------------------------- the bound


def piece(series: int, rows: int) -> Piece:
    return Piece(series, "used", "", "gauge", {"time": np.arange(rows), "value": np.zeros(rows)})


def test_the_bound_is_of_bytes() -> None:
    """The piece that was not used for longest goes first; one that is larger than the bound is handed on
    and not kept.
    """
    kept, read = KeptPieces(100_000), list[str]()

    def ask(name: str, rows: int) -> list[Piece]:
        def made() -> Iterator[Piece]:
            read.append(name)
            yield from (piece(number, rows) for number in range(3))

        return list(kept.of([name.encode()], lot({1: ["a"]}), lambda paths: made()))

    for name in ("a", "b", "a", "c", "b", "a"):
        assert [len(each.columns["time"]) for each in ask(name, 800)] == [800] * 3
        assert kept.size <= 100_000
    assert read == ["a", "b", "c", "b", "a"]  # 41 KB each, so two of them are kept
    large = ask("large", 10_000)
    assert len(large) == 3 and kept.size <= 100_000
    ask("large", 10_000)
    assert read[-2:] == ["large", "large"]


def test_a_lot_that_was_not_read_to_its_end_is_not_kept() -> None:
    """A question that ends early keeps no part of its lot."""
    kept = KeptPieces()
    one = lot({1: ["a"]})
    taken = kept.of([b"a"], one, lambda paths: (piece(number, 10) for number in range(3)))
    next(taken)
    taken.close()  # type: ignore[attr-defined]
    assert kept.size == 0
    assert len(list(kept.of([b"a"], one, lambda paths: (piece(number, 10) for number in range(3))))) == 3


def test_parts_of_a_key_stay_apart() -> None:
    """Two lists of parts with the same letters are two keys."""
    kept, one = KeptPieces(), lot({1: ["a"]})
    assert [each.series for each in kept.of([b"ab", b"c"], one, lambda paths: [piece(1, 1)])] == [1]
    assert [each.series for each in kept.of([b"a", b"bc"], one, lambda paths: [piece(2, 1)])] == [2]


# ---------------------------------------------------------------------------------------------- days of a lot


def lot(files: dict[int, list[str]], first: int = 0, last: int = 9) -> Lot:
    """Return a lot whose times are tenths of a day."""
    return Lot("lot 0", files, first, last, lambda times: times // 10)


@pytest.mark.parametrize("seed", range(30))
def test_days_whose_files_are_others_are_read_again_and_no_others(seed: int) -> None:
    """The answer is as if all was read each time, whatever comes, goes and is replaced, whichever days
    are asked for.
    """
    rng, kept, number = random.Random(seed), KeptPieces(), 0
    files: dict[int, list[str]] = {}
    stored: dict[str, list[tuple[int, int]]] = {}  # file -> (series, time)
    seen: dict[int, list[str]] = {}
    for _ in range(25):
        for day in rng.sample(range(10), rng.choice((0, 0, 1, 2))):
            number += 1
            path = f"{number}"
            stored[path] = [(series, day * 10 + at) for series in rng.sample(range(4), 2) for at in (1, 5)]
            files[day] = [path]
            if rng.random() < 0.2:
                del files[day]
        first, last = sorted(rng.choices(range(10), k=2))
        asked = {day: paths for day, paths in sorted(files.items()) if first <= day <= last}
        read: list[str] = []

        def made(paths: Sequence[str], read: list[str] = read) -> Iterator[Piece]:
            read += paths
            for series in range(4):
                times = sorted(at for path in paths for of, at in stored[path] if of == series)
                if times:
                    columns = {"time": np.array(times), "value": np.array(times) * 2.0}
                    yield Piece(series, "used", "", "gauge", columns)

        pieces = list(kept.of([b"x"], lot(asked, first, last), made))
        assert read == [path for day, paths in asked.items() if seen.get(day) != paths for path in paths]
        seen = {day: paths for day, paths in seen.items() if not first <= day <= last} | asked
        found = {(each.series, int(at)) for each in pieces for at in each.columns["time"] if first <= at // 10 <= last}
        assert found == {pair for paths in asked.values() for path in paths for pair in stored[path]}
        for each in pieces:
            assert (np.diff(each.columns["time"]) > 0).all() and (
                each.columns["value"] == each.columns["time"] * 2
            ).all()
        assert kept.size == sum(each.size for each in kept._lots.values())
