"""Holds a lake of four days of buckets, and questions in PromQL about it that share what was kept of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from helen.pipeline.lake.lake import Lake
from helen.promql.archive import Facts
from helen.promql.kept_pieces import KeptPieces
from helen.promql.parameters import Parameters
from helen.promql.questions import ask

BEGIN = 1_790_000_400 - 1_790_000_400 % 86_400
DAYS, STEP = 4, 300
AGENTS = ("web-1", "web-2", "hidden")
METRICS = (("used", "gauge"), ('used{path="/var"}', "gauge"), ("sent", "counter"), ("", "gauge"))


def sums(lake: Lake, day: int, metrics: tuple[tuple[str, str], ...] = METRICS, version: int | None = None,
         level: str = "m5") -> None:  # fmt: skip
    """Publish rows of one day, as upkeep leaves them."""
    dice, length = np.random.default_rng(day), lake.levels[level].seconds
    begins = [BEGIN + day * 86_400 + at for at in range(0, 86_400, length)]
    rows = []
    for series in range(len(AGENTS)):
        for metric, kind in metrics:
            total = 1e6 * (series + 1) + day * 1e5
            for begin in begins:
                values = dice.uniform(1, 99, 3) if kind == "gauge" else total + np.cumsum(dice.uniform(0, 50, 3))
                total = float(values[-1])
                rows.append(row(series, begin, metric, kind, values.tolist(), version))
    columns = lake.tables[level].arrow
    table = pa.Table.from_pylist(rows, schema=columns)
    lake.lock()
    lake.publish(level, lake.stage_rows(level, table), {f"{level}-{day}-{version}-{len(metrics)}": day + 1})
    lake.unlock()


def row(series: int, begin: int, metric: str, kind: str, values: list[float], version: int | None) -> dict[str, Any]:
    whole = pa.scalar(begin * 10**6, pa.timestamp("us", "UTC")).as_py()
    first, last = (pa.scalar((begin + at) * 10**6, pa.timestamp("us", "UTC")).as_py() for at in (30, 270))
    told = {
        "series": series, "bucket": whole, "day": whole.date(), "metric": metric, "unit": "", "kind": kind, "n": 3,
        "ok": 2, "warning": 1, "critical": 0, "unknown": 0, "values": 3, "sum": sum(values),
        "sumsq": sum(each**2 for each in values), "min": min(values), "max": max(values), "first": values[0],
        "first_at": first, "last": values[-1], "last_at": last, "cpu_runs": 0,
    }  # fmt: skip
    if kind == "counter":
        told |= {"increase": values[-1] - values[0], "increase_s": 240.0}
    return told if version is None else told | {"version": version}


class Scene:
    """Holds a lake of four days, and asks questions that share what was kept."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.kept = folder, KeptPieces()
        self.lake = Lake(folder / "lake")
        names = pa.table([pa.array(range(3), pa.int32()), list(AGENTS), ["disk"] * 3, ["disk"] * 3],
                         schema=self.lake.tables["series"].columns)  # fmt: skip
        self.lake.lock()
        self.lake.publish("series", self.lake.stage_rows("series", names), {"names": 1})
        self.lake.unlock()
        for day in range(DAYS):
            sums(self.lake, day)

    def ask(self, query: str, kept: KeptPieces | None = None, hidden: str = "", resolution: str = "m5",
            days: tuple[float, float] = (1, 3)) -> Any:  # fmt: skip
        begin, end = (BEGIN + at * 86_400 for at in days)
        given = {"query": query, "start": begin, "end": end, "step": 3_600, "resolution": resolution}
        texts = {name: [str(value)] for name, value in given.items()}
        answer = self.answer("query_range", texts, self.kept if kept is None else kept, hidden)
        assert answer["status"] == "success", answer
        return answer["data"]["result"]

    def series(self, match: str, days: tuple[float, float]) -> Any:
        """Ask for the series that fit, and return the whole answer."""
        begin, end = (BEGIN + at * 86_400 for at in days)
        return self.answer("series", {"match[]": [match], "start": [str(begin)], "end": [str(end)]}, self.kept)

    def answer(self, path: str, texts: dict[str, Any], kept: KeptPieces, hidden: str = "") -> Any:
        facts = Facts(self.folder, self.folder / "lake", {}, lambda name: name != hidden)
        return json.loads(ask(path, Parameters(texts, 0), facts, kept)[1])
