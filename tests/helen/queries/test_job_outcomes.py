"""Tests outcomes of a job: what is asked for, what fits, and the file that outlives a restart."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from equus_protocol import one_off
from helen.queries import answer_file
from helen.queries.job_outcomes import LEAST, RESULT_MOST, JobOutcomes, check_targets, fit, line
from helen.queries.job_request import JobRequest, order_life, plain_names, read_params
from helen.queries.live_queries import OUTCOMES

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("params", "asked"),
    [
        ({"agents": ["web*"], "check": "disk"}, JobRequest(("web*",), "disk", b"{}", None, 30.0)),
        ({"agents": "a", "check": "d", "args": None}, JobRequest(("a",), "d", b"{}", None, 30.0)),
        (
            [["a", "b"], "disk", {"path": "/"}, NOW + 60, 5],
            JobRequest(("a", "b"), "disk", b'{"path":"/"}', NOW + 60, 5.0),
        ),
    ],
)
def test_parameters_by_name_and_by_position(params: Any, asked: JobRequest) -> None:
    assert read_params(params, NOW) == asked


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"agents": []}, "`agents` is an array"),
        ({"agents": [7]}, "`agents` is an array"),
        ({"agents": ["a*"] * 65}, "more than 64 patterns"),
        ({"check": None}, "`check` is the name"),
        ({"check": "two words"}, "no check can be called"),
        ({"args": [1]}, "`args` is a JSON object"),
        ({"args": {"a": "x" * 1_048_576}}, "more than 1048576 bytes"),
        ({"timeout": 0}, "`timeout` is more than 0"),
        ({"timeout": True}, "`timeout` is a number"),
        ({"deadline": "24h"}, "`deadline` is a number"),
        ({"deadline": NOW + 31 * 86_400}, "at most 30 days"),
        ({"when": 1}, "'when' is no parameter"),
    ],
)
def test_parameters_that_cannot_be_used(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=r"^") as told:
        read_params({"agents": ["a"], "check": "disk"} | change, NOW)
    assert sentence in str(told.value)


def test_for_how_long_an_order_is_signed() -> None:
    """An order is signed for the wait, the answer, and five minutes for clocks; a day is the most."""
    assert order_life(0.0, 30.0) == 330.0
    assert order_life(23 * 3_600, 30.0) == 83_130.0
    assert order_life(86_070.0, 30.0) == one_off.MAX_LIFE
    with pytest.raises(ValueError, match=r"agents are waited for 23\.9 h then"):
        order_life(86_071.0, 30.0)


def test_which_names_are_one_agent() -> None:
    """A name is one agent, while patterns and labels are not."""
    assert plain_names(["web-1", "web*", "web-?", "w[ab]", "role=web", "db.x"]) == ["web-1", "db.x"]


def outcome(agent: str, word: str, size: int = 0) -> dict[str, Any]:
    result = {"status": "ok", "summary": "s" * min(size, 500), "output": "o" * size} if word == "answered" else None
    return {"agent": agent, "outcome": word, "result": result}


@pytest.mark.parametrize("seed", range(20))
def test_outcomes_add_up_at_every_moment(seed: int) -> None:
    """The first word about a target counts; strangers and second words change nothing."""
    dice = random.Random(seed)
    names = [f"a{number}" for number in range(dice.randrange(1, 30))]
    question = JobOutcomes(tuple(names))
    first: dict[str, str] = {}
    for _ in range(100):
        agent, word = dice.choice([*names, "stranger"]), dice.choice(OUTCOMES)
        counted = question.settle(outcome(agent, word))
        assert counted == (agent in names and agent not in first)
        if counted:
            first[agent] = word
        counts = question.counts()
        assert sum(counts.values()) == len(names)
        assert counts["open"] == len(question.open) == len(names) - len(first)
    question.give_up("enough")
    assert question.is_over
    told = {each["agent"]: each["outcome"] for each in question.result()["targets"]}
    assert told == {name: first.get(name, "expired") for name in names}


@pytest.mark.parametrize("size", [0, 100, 1_000, 10_000])
def test_a_result_fits(size: int) -> None:
    """A result of 3,000 agents with long answers fits, and its shortened parts are marked."""
    names = tuple(f"agent-{number:05}.example" for number in range(3_000))
    check_targets(names)
    question = JobOutcomes(names)
    for name in names:
        question.settle(outcome(name, "answered", size))
    result = question.result()
    assert len(line(result)) <= RESULT_MOST + 200
    assert result["counts"] == dict.fromkeys(OUTCOMES, 0) | {"answered": 3_000}
    assert [each["agent"] for each in result["targets"]] == list(names)
    assert {each["result"]["status"] for each in result["targets"]} == {"ok"}


def test_too_many_agents() -> None:
    """More agents than could be told of at all are refused."""
    names = ["x" * 20] * (RESULT_MOST // (20 + LEAST))
    check_targets(names)
    with pytest.raises(ValueError, match="are too many for one question"):
        check_targets([*names, "x"])


@pytest.mark.parametrize(("most", "kept"), [(2_000, {"status", "summary", "output"}), (900, {"status", "summary"}),
                                            (400, {"status", "summary"}), (100, {"status"})])  # fmt: skip
def test_what_is_left_out_first(most: int, kept: set[str]) -> None:
    """Output is left out first, then all but the summary, then all but the status."""
    fitting = fit(outcome("web-1", "answered", 700), most)
    assert fitting["result"].keys() - {"shortened"} == kept
    assert len(line(fitting)) <= most


def test_answers_are_kept(tmp_path: Path) -> None:
    """Answers before a line that a crash has cut off are kept, and there may be none."""
    path = tmp_path / "jobs" / "1.ndjson"
    assert (answer_file.load(path), answer_file.read_on(path, 0)) == (None, ([], 0))
    answer_file.begin(path, ("a", "b", "c"))
    answer_file.append(path, [outcome("a", "failed")])
    with open(path, "ab") as file:
        file.write(b'{"agent": "b", "outco')
    first, offset = answer_file.read_on(path, 0)
    assert first == [outcome("a", "failed")]
    answer_file.append(path, [outcome("b", "expired")])
    assert answer_file.read_on(path, offset) == ([outcome("b", "expired")], path.stat().st_size)
    question = answer_file.load(path)
    assert question is not None
    assert (question.targets, question.open) == (("a", "b", "c"), ["c"])
    assert {agent: each["outcome"] for agent, each in question.outcomes.items()} == {"a": "failed", "b": "expired"}


def test_old_answers_go(tmp_path: Path) -> None:
    """A file of answers goes when it is old, and not before any question could be over."""
    path = tmp_path / "1.ndjson"
    answer_file.begin(path, ("a",))
    answer_file.prune(tmp_path, path.stat().st_mtime + answer_file.STALE_SECONDS)
    assert path.exists()
    answer_file.prune(tmp_path, path.stat().st_mtime + answer_file.STALE_SECONDS + 1)
    assert not path.exists()


@pytest.mark.parametrize("name", ["timeout", "deadline"])
@pytest.mark.parametrize("value", [10**400, -(10**400), float("inf"), float("nan"), True, "5"])
def test_times_that_no_clock_has(name: str, value: object) -> None:
    """JSON has integers that no float holds, and Python reads NaN: each is refused in a sentence."""
    with pytest.raises(ValueError, match=f"`{name}` is a number of seconds"):
        read_params({"agents": ["a"], "check": "load", name: value}, 1_000.0)
