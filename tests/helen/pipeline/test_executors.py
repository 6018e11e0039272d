"""Tests a cluster's executors: how long a start waits for them, and their settings on this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from helen.pipeline import spark
from helen.pipeline.spark import SETTLED_SECONDS, WORKERS_SECONDS, wait_for_executors


class Clock:
    """Note when each count of executors was asked for: a look takes no time, and 0.1 s lie between two."""

    def __init__(self, come: list[float]) -> None:
        self.now, self._come = 0.0, come

    def count(self) -> int:
        return sum(each <= self.now for each in self._come)

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(
    ("come", "until"),
    [
        ([0.0, 0.0], SETTLED_SECONDS),
        ([3.0, 3.5, 4.2, 4.2], 4.2 + SETTLED_SECONDS),  # the first one isn't all of them
        ([2.0, 9.0], 2.0 + SETTLED_SECONDS),  # that one comes too late: nobody knows that it will
        ([], WORKERS_SECONDS),
        ([each * 0.9 for each in range(100)], WORKERS_SECONDS + SETTLED_SECONDS),  # they never stop coming
    ],
)
def test_how_long_a_start_waits_for_executors(come: list[float], until: float) -> None:
    clock = Clock(come)
    wait_for_executors(clock.count, clock.read, clock.sleep)
    assert clock.now == pytest.approx(until, abs=0.25)


class Builder:
    """Note the settings with which Spark would be started, and start nothing."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}

    def appName(self, name: str) -> Builder:
        return self

    def master(self, name: str) -> Builder:
        return self

    def config(self, name: str, value: str) -> Builder:
        self.settings[name] = value
        return self

    def getOrCreate(self) -> Builder:
        raise LookupError("started")


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Builder]:
    made = Builder()
    monkeypatch.setattr(spark.SparkSession, "builder", made)
    monkeypatch.setattr(spark, "set_environment", lambda java, python: None)
    yield made


@pytest.mark.parametrize(
    ("master", "given", "expected"),
    [
        ("spark://127.0.0.1:7077", {}, "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"),
        ("spark://127.0.0.1:7077", {"spark.executor.extraJavaOptions": "-Xss2m"}, "-Xss2m"),
        ("spark://node1:7077", {}, None),  # executors that live for weeks are worth the compiling
        ("yarn", {}, None),
    ],
)
def test_executors_on_this_machine_are_compiled_quickly(
    builder: Builder, master: str, given: dict[str, str], expected: str | None
) -> None:
    with pytest.raises(LookupError, match="started"):
        spark.start_spark("test", master, given)
    assert builder.settings.get("spark.executor.extraJavaOptions") == expected
