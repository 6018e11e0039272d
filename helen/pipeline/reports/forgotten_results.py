"""Stands in for raw results that are forgotten: by sums of five minutes, which are kept longer, and by a note."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from helen.pipeline.lake.kept_days import oldest_day
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import between, read
from helen.pipeline.lake.local_days import Day, date_of
from helen.pipeline.lake.schema import CHECK, RESULTS, STATUSES, SUMS
from helen.pipeline.rollup.segment_rows import micros

_WORST = (0, 1, 3, 2)  # statuses from the best one to the worst
Array = Any  # of numpy


def note_on(lake: Lake, days: Sequence[Day]) -> list[str]:
    """Return a sentence if raw results of days of a report are forgotten by now; none if they are not."""
    oldest = oldest_day(lake, RESULTS.name)
    if oldest is None or date_of(days[0].begin) >= oldest or not lake.files(SUMS.name):
        return []
    return [
        f"Raw results of before {oldest} are forgotten. Checks that Helen did not judge are taken from sums of five"
        " minutes there; changes of status and limits of metrics are of later days alone."
    ]


def sums_as_results(paths: Sequence[str], series: Array, is_judged: Array) -> tuple[Array, Array, Array, Array]:
    """Return place, time, `at` and status of results, one for each five minutes of a check, as bad as the worst one.

    Checks that have transitions, `is_judged`, need none. The time is the beginning of the five minutes, the place that
    of the check among `series`.
    """
    wanted = between(int(series[0]), int(series[-1])) & (pc.field("metric") == CHECK)
    rows = read(SUMS, paths, ["series", "bucket", *STATUSES], wanted)
    number = rows["series"].to_numpy()
    status = np.full(len(number), _WORST[0])
    for each in _WORST[1:]:
        status[rows[STATUSES[each]].to_numpy() > 0] = each
    kept = np.isin(number, series[~is_judged]) & (np.add.reduce([rows[word].to_numpy() for word in STATUSES]) > 0)
    time = micros(rows["bucket"])[kept]
    return np.searchsorted(series, number[kept]), time, np.zeros(len(time), np.int64), status[kept]
