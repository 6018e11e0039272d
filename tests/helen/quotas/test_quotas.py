"""Tests that each quota has a name, a default and a setting; one that can't be used is told in a sentence."""

from __future__ import annotations

import pytest

from helen.quotas.budget import Bucket, Budget
from helen.quotas.quotas import DEFAULTS, MIB, NAMES, USUAL, Quota, read_quotas
from helen.settings.settings import SettingsError, read


def test_defaults() -> None:
    """The defaults are far above what a full agent needs that empties its spool."""
    assert {quota.name: (quota.most, quota.a_minute) for quota in DEFAULTS} == {
        "results": (20_000, 6_000), "bytes": (64 * MIB, 16 * MIB), "disk": (4096 * MIB, 4 * MIB),
        "messages": (10_000, 600), "sessions": (1_000, 60), "enrolments": (10, 1), "states": (1_000, 0),
        "series": (4_096, 0), "questions": (64, 0), "strangers": (20, 0),
    }  # fmt: skip


def test_settings() -> None:
    """A setting that is not given stays as it is; bytes may have a unit."""
    read_in = read({"state": "/s", "quota": ["results=5/60", "bytes=2MiB/512KiB", "states=7"]}).quotas
    found = {name: (read_in[name].most, read_in[name].a_minute) for name in ("results", "bytes", "states", "series")}
    assert found == {
        "results": (5, 60), "bytes": (2 * MIB, 512 * 1024), "states": (7, 0), "series": (4_096, 0),
    }  # fmt: skip
    assert read({"state": "/s"}).quotas == USUAL
    assert [quota.name for quota in read_in.by_name] == list(NAMES)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("speed=5", "'speed' is no quota. There are: results, bytes"),
        ("", "'' is no quota"),
        ("results", "results='': write results=BURST/A_MINUTE, for example results=20000/6000"),
        ("results=5", "write results=BURST/A_MINUTE"),
        ("results=5/0", "results=5/0: 1 is the least"),
        ("results=0/5", "results=0/5: 1 is the least"),
        ("results=-1/5", "write results=BURST/A_MINUTE"),
        ("results=1e3/5", "write results=BURST/A_MINUTE"),
        ("bytes=1MB/1MB", "write bytes=BURST/A_MINUTE, for example bytes=64MiB/16MiB"),
        ("bytes=1MiB/1MiB", f"{2 * MIB} is the least"),  # one blob must fit
        ("states=1/2", "write states=MOST, for example states=1000"),
        ("states=99999999999999999", "write states=MOST"),
        ("questions=65", "questions=65: 1 is the least, and 64 the most"),
        ("strangers=201", "and 200 the most"),
        ("messages=99/1", "100 is the least"),
        ("states=٣", "write states=MOST"),
    ],
)
def test_what_is_no_quota(text: str, sentence: str) -> None:
    """A wrong quota is refused with a sentence that names what was given and what is expected."""
    with pytest.raises(SettingsError) as refused:
        read({"state": "/s", "quota": [text]})
    assert str(refused.value).startswith("--quota ")
    assert sentence in str(refused.value)


@pytest.mark.parametrize(("most", "good"), [("64", True), ("65", False)])
def test_both_sides_of_questions(most: str, good: bool) -> None:
    """A quota of more than 64 questions is refused, as the protocol does not have more."""
    if good:
        assert read_quotas([f"questions={most}"])["questions"].most == 64
        return
    with pytest.raises(ValueError, match="64 the most"):
        read_quotas([f"questions={most}"])


def test_a_bucket_fills_up_to_its_burst() -> None:
    """A bucket fills in whole ones up to its burst; the part of one is not lost, however often it is looked at."""
    bucket = Bucket(Quota("results", 10, 60), 100.0)
    bucket.left = 0
    seen = []
    for tenth in range(1, 31):
        bucket.fill(100.0 + tenth / 10)
        seen.append(bucket.left)
    assert [seen.index(number) for number in (1, 2, 3)] == pytest.approx([9, 19, 29], abs=1)
    bucket.fill(500.0)
    assert bucket.left == 10
    bucket.left = -5
    assert bucket.wait(1) == 6.0
    bucket.fill(500.0)
    assert bucket.left == -5


def spend(budget: Budget, size: int, now: float) -> str:
    """Send one result as QuotaControl counts it; return the quota that forbids it, or an empty text."""
    budget.results.left -= 1
    budget.bytes.left -= size
    if budget.results.left >= 0 and budget.bytes.left >= 0:
        return ""
    spent = budget.refill(now, size)
    return "" if spent is None else spent.quota.name


def test_a_burst_of_results_then_so_many_a_minute() -> None:
    """A budget gives exactly its burst at once, and then what the time brought (F52)."""
    budget = Budget(read_quotas(["results=50/60"]), 0.0)
    assert [spend(budget, 10, 0.0) for _ in range(52)] == [""] * 50 + ["results"] * 2
    assert [spend(budget, 10, 7.0) for _ in range(8)] == [""] * 7 + ["results"]
    assert [spend(budget, 10, 7_000.0) for _ in range(51)] == [""] * 50 + ["results"]


def test_a_burst_of_bytes_then_so_many_a_minute() -> None:
    """A result that does not fit is not counted, and a smaller one still is (F52)."""
    budget = Budget(read_quotas(["bytes=3MiB/60KiB"]), 0.0)
    assert [spend(budget, MIB, 0.0) for _ in range(4)] == ["", "", "", "bytes"]
    assert spend(budget, 1, 0.0) == "bytes"
    assert spend(budget, 1024, 1.0) == ""
    assert spend(budget, MIB, 2.0) == "bytes"
    assert spend(budget, MIB, 1_025.0) == ""


def test_what_is_kept_on_the_disk() -> None:
    """The data that `bytes` would let in for ever ends where `disk` is used up, and goes on with its rate (F52)."""
    budget = Budget(read_quotas(["bytes=2MiB/120MiB", "disk=5MiB/1MiB"]), 0.0)
    taken = [spend(budget, MIB, float(second)) for second in range(12)]
    assert taken.count("") == 7  # the burst of both
    assert taken[-1] == "disk"
    assert spend(budget, MIB, 11.0 + 60.0) == ""
    assert spend(budget, MIB, 11.0 + 60.0) == "disk"


def test_nothing_is_gained_by_refusals() -> None:
    """A thousand refusals leave the rest of the budget as it was."""
    budget = Budget(read_quotas(["results=5/60"]), 0.0)
    for _ in range(5):
        spend(budget, 3, 0.0)
    before = budget.results.left, budget.bytes.left
    assert {spend(budget, 3, 0.0) for _ in range(1_000)} == {"results"}
    assert (budget.results.left, budget.bytes.left) == before
