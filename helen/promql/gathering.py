"""Gathers the samples of the series that a selector picks, from batches of results and of rollups. numpy and Arrow.

A batch has rows of many checks. Rows that no selector wants are left out early; the rest is sorted once, and cut into
series.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field

from helen.pipeline.rollup.segment_rows import metric_names
from helen.promql.errors import MOST_SAMPLES, MOST_SERIES, TooMuch
from helen.promql.matrix import Key as LabelsKey
from helen.promql.matrix import key_of
from helen.promql.needs import ALL, CURVE, SUMS, VALUE
from helen.promql.nodes import Labels
from helen.promql.points import Curve, Points, Sums
from helen.promql.series_labels import IS_OK, OWN, STATE, Choice, Key, labels_of, read_metric

Array = Any  # of numpy
Columns = dict[str, Array]
TIME = "time"  # of each sample, milliseconds; needs.py has the names of all other columns
ROUNDED = 0.002  # seconds, since times are rounded to milliseconds
FEW = 64  # rows of one batch that are cut one by one, without sorting


@define
class Slot:
    """Holds the samples of one series, as they come in pieces."""

    labels: Labels
    unit: str
    kind: str
    pieces: list[Columns] = field(factory=list)


@define
class Gathering:
    """Collects the series of one selector. With `names_only` it keeps no samples.

    `needed` are the columns of a bucket that count, by needs.py.
    """

    choice: Choice
    names_only: bool = False
    needed: frozenset[str] = ALL
    slots: dict[LabelsKey, Slot] = field(init=False, factory=dict)
    samples: int = field(init=False, default=0)
    _by_text: dict[tuple[Key, str], Slot | None] = field(init=False, factory=dict)

    def take(self, key: Key, metric: str, unit: str, kind: str, columns: Columns) -> None:
        """Take samples of one metric, named as rollups name it, if the selector picks it. Raises TooMuch."""
        slot = self._slot(key, metric, unit, kind)
        if slot is None or self.names_only:
            return
        self.samples += len(columns[TIME])
        if self.samples > MOST_SAMPLES:
            raise TooMuch(
                f"more than {MOST_SAMPLES} samples are to be read: ask for fewer series, less time, or longer ranges"
                " such as rate(x[1h]), which need no single results"
            )
        slot.pieces.append(columns)

    def take_many(self, keys: Sequence[Key], place: Array, metrics: pa.Array, units: Sequence[str],
                  kinds: Sequence[str], columns: Columns) -> None:  # fmt: skip
        """Take rows: `place` is the number of the key of each, `metrics` its text. Raises TooMuch."""
        if not len(place):
            return
        encoded = metrics.dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        joined = place.astype(np.int64) * len(texts) + encoded.indices.to_numpy(zero_copy_only=False)
        order = np.argsort(joined, kind="stable")
        ordered = joined[order]
        begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        ends = np.append(begins[1:], len(ordered))
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            rows, which = order[begin:end], int(ordered[begin])
            key, text, row = keys[which // len(texts)], texts[which % len(texts)], int(rows[-1])
            self.take(key, text, units[row], kinds[row], {name: each[rows] for name, each in columns.items()})

    def take_results(self, keys: Sequence[Key], place: Array, time: Array, rows: pa.Table) -> None:
        """Take rows with `status` and `metrics`, of the keys at `place`, milliseconds at `time`. Raises TooMuch."""
        status = rows["status"].to_numpy()
        for name, values in ((STATE, status), (IS_OK, status == 0)):
            if self.choice.takes_name(name):
                empty = [""] * len(place)
                self.take_many(keys, place, pa.array([name] * len(place), pa.string()), empty, ["gauge"] * len(place),
                               {TIME: time, VALUE: values.astype(float)})  # fmt: skip
        if self.choice.name not in OWN:
            lists = rows["metrics"].combine_chunks()
            lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
            self._take_metrics(keys, place, time, lists)

    def found(self) -> list[tuple[Labels, Points]]:
        """Return the series in the order of their labels, each with its samples in order. Raises TooMuch."""
        self._demand_few()
        return [(slot.labels, _points(slot.pieces)) for _, slot in sorted(self.slots.items()) if slot.pieces]

    def _take_metrics(self, keys: Sequence[Key], place: Array, time: Array, lists: pa.ListArray) -> None:
        flat = lists.flatten()
        wanted = flat.field("value").is_valid().to_numpy(zero_copy_only=False)
        if self.choice.name is not None:
            wanted &= pc.equal(flat.field("name"), self.choice.name).to_numpy(zero_copy_only=False)
        parent, taken = pc.list_parent_indices(lists).to_numpy(), np.flatnonzero(wanted)
        if not len(taken):
            return
        kept, parent = flat.take(pa.array(taken)), parent[taken]
        values = kept.field("value").to_numpy(zero_copy_only=False)
        self.take_many(keys, place[parent], metric_names(kept), _texts(kept.field("unit")), _texts(kept.field("kind")),
                       {TIME: time[parent], VALUE: values})  # fmt: skip

    def _slot(self, key: Key, metric: str, unit: str, kind: str) -> Slot | None:
        if (key, metric) not in self._by_text:
            self._by_text[key, metric] = self._made(key, metric, unit, kind)
        return self._by_text[key, metric]

    def _made(self, key: Key, metric: str, unit: str, kind: str) -> Slot | None:
        base = self.choice.base(key)
        if base is None:
            return None
        labels = labels_of(base, *read_metric(metric))
        if not self.choice.takes(labels):
            return None
        slot = self.slots.setdefault(key_of(labels), Slot(labels, unit, kind))
        self._demand_few()
        return slot

    def _demand_few(self) -> None:
        if len(self.slots) > MOST_SERIES:
            raise TooMuch(f'more than {MOST_SERIES} series fit: pick fewer, such as used{{agent=~"web-.*"}}')


def _texts(column: pa.Array) -> _Words:
    encoded = column.dictionary_encode()
    return _Words(encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False))


class _Words(Sequence[str]):
    """Shows a column of few different words as a sequence of texts."""

    def __init__(self, words: Sequence[str], codes: Array) -> None:
        self._words, self._codes = words, codes

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, at: Any) -> Any:
        return self._words[self._codes[at]]

    def __iter__(self) -> Iterator[str]:
        return (self._words[code] for code in self._codes)


def _points(pieces: Sequence[Columns]) -> Points:
    """Return the samples of all pieces in the order of time; of two with the same time the later piece counts."""
    names = set.intersection(*(set(piece) for piece in pieces))
    kept = {name: np.concatenate([piece[name] for piece in pieces]) for name in names}
    times = kept[TIME]
    if not (times[1:] > times[:-1]).all():
        order = np.argsort(times, kind="stable")
        ordered = times[order]
        order = order[np.append(ordered[1:] != ordered[:-1], True)]
        kept = {name: each[order] for name, each in kept.items()}
    values = kept[VALUE] if VALUE in names else np.broadcast_to(np.nan, len(kept[TIME]))  # nobody asks for it
    sums = Sums(*(kept.get(name) for name in SUMS)) if names & {*SUMS} else None
    return Points(kept[TIME], values, sums, _curve(kept) if names >= CURVE else None)


def _curve(kept: Mapping[str, Array]) -> Curve:
    """Return a counter of two samples for each bucket, its first and its last; `added` makes it never fall.

    A bucket's `increase` is that since the last value of the bucket before, or since its own first value where it
    covers no more seconds.
    """
    first, last = kept["first"], kept[VALUE]
    gap = np.concatenate([[0.0], first[1:] - last[:-1]])
    gap = np.where(gap < 0, first, gap)
    gap[:1] = 0.0
    is_inside = kept["increase_s"] <= (kept[TIME] - kept["first_time"]) / 1000 + ROUNDED
    inside = np.where(is_inside, kept["increase"], kept["increase"] - gap)
    is_unknown = ~np.isfinite(inside) | (np.arange(len(first)) == 0) & ~is_inside
    inside = np.where(is_unknown, np.where(last < first, last, last - first), inside)
    total = np.cumsum(gap + np.concatenate([[0.0], inside[:-1]])) + first[:1]
    times = np.stack([kept["first_time"], kept[TIME]], axis=1).ravel()
    values = np.stack([first, last], axis=1).ravel()
    grown = np.stack([total, total + inside], axis=1).ravel()
    single = np.append(times[1:] != times[:-1], True)
    return Curve(times[single], values[single], (grown - values)[single])
