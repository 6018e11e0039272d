"""Test the runner of the schedule: its one timer, the outcome of each kind of run, its counts, and its log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import define, field
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher

from equus.code.library import CheckSet, CodeFile
from equus.sandbox.job import Job
from equus.schedule.document import ScheduleRefused, parse
from equus.schedule.jobs import job_for, unknown
from equus.schedule.runner import ScheduleRunner, scheduled_job
from equus.schedule.schedule import Entry, Overlap
from equus.schedule.secret_runner import RefusedRun, SecretRunner, redact_result
from equus.secrets.redaction import Redaction
from equus.secrets.references import Resolved

WALL = 1_699_999_200.0  # unix seconds at monotonic 0: a multiple of all periods here


@define
class FakeRun:
    """Stand in for a run that goes on until the test ends it."""

    check: str
    done: Callable[[bytes], None]
    cancelled: list[str] = field(factory=list)

    def cancel(self, reason: str = "cancelled") -> None:
        self.cancelled.append(reason)


class Stage:
    """Run a ScheduleRunner with a clock, runs that end when told, and a sentence that refuses all runs if it is set."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.runs: list[FakeRun] = []
        self.reports: list[tuple[str, bytes]] = []
        self.refusal: str | None = None
        self.unknown: set[str] = set()
        self.runner = ScheduleRunner(
            self.clock, lambda: WALL + self.clock.seconds(), self, self._job, lambda entry: self.refusal, self._report
        )

    def run(self, job: str, done: Callable[[bytes], None]) -> FakeRun:
        self.runs.append(FakeRun(job, done))
        return self.runs[-1]

    def _job(self, entry: Entry) -> Any:
        return None if entry.check in self.unknown else f"{entry.check} at {self.clock.seconds():g}"

    def _report(self, name: str, blob: bytes) -> None:
        self.reports.append((name, blob))

    def pass_to(self, at: float) -> list[str]:
        """Let the time come to `at` second by second; return what was started on the way."""
        before = len(self.runs)
        while self.clock.seconds() < at:
            self.clock.advance(1)
        return [run.check for run in self.runs[before:]]


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def logged() -> Iterator[list[str]]:
    lines: list[str] = []

    def note(event: dict[str, Any]) -> None:
        if str(event.get("log_namespace")).startswith("equus.schedule.runner"):
            lines.append(f"{event['entry']}: {event.get('what', 'killed')}")

    globalLogPublisher.addObserver(note)
    yield lines
    globalLogPublisher.removeObserver(note)


def test_one_timer_stands_at_the_next_run(stage: Stage) -> None:
    """One timer stands at the next run, however often the schedule is replaced, and is gone with the last entry."""
    stage.clock.advance(3)
    stage.runner.replace((Entry("a", "load", every=60), Entry("b", "disk", every=20)))
    assert [call.getTime() for call in stage.clock.getDelayedCalls()] == [20.0]
    stage.runner.replace((Entry("a", "load", every=60),))
    assert [call.getTime() for call in stage.clock.getDelayedCalls()] == [60.0]
    assert stage.pass_to(60) == ["load at 60"]
    assert [call.getTime() for call in stage.clock.getDelayedCalls()] == [120.0]
    stage.runner.replace(())
    assert stage.clock.getDelayedCalls() == []


def test_a_result_goes_out_under_the_id_of_its_entry(stage: Stage) -> None:
    """A result is reported under the id of its entry, and the next run has a job of its own."""
    stage.runner.replace((Entry("a", "load", every=10),))
    assert stage.pass_to(10) == ["load at 10"]
    stage.runs[0].done(b"first")
    assert stage.reports == [("a", b"first")]
    assert stage.pass_to(20) == ["load at 20"]
    assert stage.runner.totals == {"runs": 2, "late": 0, "skipped": 0, "missed": 0, "killed": 0}


def test_skip(stage: Stage, logged: list[str]) -> None:
    """A run that is due while the one before goes on is left out, counted each time and logged once until it runs."""
    stage.runner.replace((Entry("a", "load", every=10),))
    assert stage.pass_to(39) == ["load at 10"]
    said = ["a: a run was skipped: the one before is still going"]
    assert (stage.runner.totals["skipped"], logged, stage.runner.worst(5)) == (2, said, [("a", 2)])
    stage.runs[0].done(b"")
    assert stage.pass_to(50) == ["load at 40"]
    assert logged == said * 2


def test_queue(stage: Stage) -> None:
    """With `queue`, one run waits, and starts the moment the one before ends."""
    stage.runner.replace((Entry("a", "load", every=10, overlap=Overlap.QUEUE),))
    assert stage.pass_to(23) == ["load at 10"]
    stage.runs[0].done(b"1")
    assert [run.check for run in stage.runs[1:]] == ["load at 23"]
    stage.runs[1].done(b"2")
    assert len(stage.runs) == 2
    assert stage.reports == [("a", b"1"), ("a", b"2")]


def test_kill(stage: Stage, logged: list[str]) -> None:
    """With `kill`, the new run counts before the old one is killed, and the old one's late result ends only itself."""
    stage.runner.replace((Entry("a", "load", every=10, overlap=Overlap.KILL),))
    assert stage.pass_to(20) == ["load at 10", "load at 20"]
    old, new = stage.runs
    assert (old.cancelled, new.cancelled, logged) == (["killed"], [], ["a: killed"])
    old.done(b"killed")
    assert stage.pass_to(30) == ["load at 30"]
    assert new.cancelled == ["killed"]  # it was still known as the one that runs
    assert (stage.reports, stage.runner.totals["killed"]) == ([("a", b"killed")], 2)


def test_a_stall_is_logged_with_its_runs(stage: Stage, logged: list[str]) -> None:
    """After a stall each entry runs once, and the runs that did not happen are counted and logged."""
    stage.runner.replace((Entry("a", "load", every=10),))
    stage.clock.advance(45)
    assert [run.check for run in stage.runs] == ["load at 45"]
    assert logged == ["a: 3 runs did not happen: the agent was stalled"]
    assert stage.runner.totals == {"runs": 1, "late": 1, "skipped": 0, "missed": 3, "killed": 0}


def test_while_it_may_not_run(stage: Stage, logged: list[str]) -> None:
    """Runs that may not happen count as missed, the reason is logged once, and the next run afterwards is a
    usual one.
    """
    stage.refusal = "no sandbox"
    stage.runner.replace((Entry("a", "load", every=10),))
    assert stage.pass_to(25) == []
    assert (stage.runner.totals["missed"], stage.runner.totals["runs"]) == (2, 0)
    assert logged == ["a: a run did not happen: no sandbox"]
    stage.refusal = None
    assert stage.pass_to(30) == ["load at 30"]
    assert stage.runner.worst(5) == [("a", 2)]


def test_an_unknown_check_is_a_result(stage: Stage) -> None:
    """An unknown check gives a result each time that it is due, and does not count as running."""
    stage.unknown.add("nope")
    stage.runner.replace((Entry("a", "nope", every=10),))
    assert stage.pass_to(20) == []
    documents = [json.loads(blob) for name, blob in stage.reports if name == "a"]
    expected = {"status": "unknown", "reason": "unknown-check", "check": "nope"}
    assert [{name: each[name] for name in expected} for each in documents] == [expected] * 2
    assert stage.runner.totals["skipped"] == 0


def test_new_entries_run_early_when_their_code_is_there(stage: Stage) -> None:
    """New entries run early once their code is there; entries without code are returned, and unknown names
    forgotten.
    """
    stage.unknown.add("new")
    stage.runner.replace((Entry("a", "load", every=3600, offset=1800), Entry("b", "new", every=3600, offset=900)))
    assert stage.runner.run_early({"a", "b", "gone"}) == {"b"}
    assert stage.pass_to(5) == ["load at 3"]
    stage.unknown.clear()
    assert stage.runner.run_early({"b"}) == set()
    assert stage.pass_to(10) == ["new at 7"]


def test_totals_never_fall(stage: Stage) -> None:
    """Counts of an entry that is gone, or has another timing, stay in the totals once."""
    stage.runner.replace((Entry("a", "load", every=10), Entry("b", "disk", every=10)))
    stage.pass_to(10)
    stage.runner.replace((Entry("b", "disk", every=10),))
    stage.runner.replace((Entry("b", "disk", every=20),))
    assert stage.runner.totals["runs"] == 2
    assert [entry.every for entry in stage.runner.entries] == [20]


def test_the_worst(stage: Stage) -> None:
    """Entries with the most lost runs come first, those without are left out, and as many are returned as asked for."""
    stage.runner.replace(tuple(Entry(name, name, every=every) for name, every in (("a", 40), ("b", 10), ("c", 20))))
    stage.pass_to(60)
    assert stage.runner.worst(9) == [("b", 5), ("c", 2)]
    assert stage.runner.worst(1) == [("b", 5)]


def test_after_stop_nothing_starts_and_nothing_is_reported(stage: Stage) -> None:
    """After a stop nothing starts and nothing is reported, and the end of a killed run is no result."""
    stage.runner.replace((Entry("a", "load", every=10),))
    stage.pass_to(10)
    stage.runner.stop()
    stage.runs[0].done(b"killed")
    stage.runner.replace((Entry("b", "load", every=10),))
    assert stage.clock.getDelayedCalls() == []
    assert (stage.reports, stage.pass_to(40)) == ([], [])


def test_the_job_of_an_entry() -> None:
    """A job has the arguments and the time limit of its entry, and the entry's id as the name of its state."""
    files = {"load.lua": CodeFile(b"return {}", "ab" * 32, "ef" * 32), "lib/text.lua": CodeFile.of(b"return 1")}
    checks = CheckSet("x", files, pushed=False)
    job = scheduled_job(checks, Entry("a", "load", 60.0, timeout=7.0, args=b"{}"))
    assert job == Job("load", b"return {}", {"text": b"return 1"}, b"{}", 7.0, "ab" * 32, "a", pushed=False)
    assert job_for(checks, "load", b"").state_key == "load"
    assert scheduled_job(checks, Entry("a", "lib/text", 60.0)) is None


def test_a_result_that_the_agent_writes_itself() -> None:
    """A result that the agent writes is plain UTF-8, and half a surrogate, which UTF-8 cannot hold, is a
    question mark.
    """
    assert "Größe".encode() in unknown("load", "crashed", "Größe")
    assert json.loads(unknown("load", "crashed", "a \ud800 b"))["summary"] == "a ? b"


class Kept:
    """Stand in for secrets: put one value into each argument that names one, or refuse."""

    def __init__(self, resolved: Resolved | str) -> None:
        self.resolved = resolved

    def resolve(self, check: str, args: bytes) -> Resolved | str:
        return self.resolved


class FakeRunner:
    """Takes jobs and keeps them; has figures that differ from each other."""

    isolation, kills, waiting, inspect = "strong", 3, 4, object()

    def __init__(self) -> None:
        self.jobs: list[tuple[Job, Callable[[bytes], None]]] = []
        self.calls: list[Any] = []

    def run(self, job: Job, done: Callable[[bytes], None]) -> str:
        self.jobs.append((job, done))
        return "the run"

    def reload(self, policy: Any) -> None:
        self.calls.append(policy)

    def stop(self) -> None:
        self.calls.append("stop")


def secretly(resolved: Resolved | str) -> tuple[Clock, FakeRunner, SecretRunner]:
    clock, inner = Clock(), FakeRunner()
    return clock, inner, SecretRunner(clock, inner, Kept(resolved))  # type: ignore[arg-type]


def test_the_value_is_in_the_arguments_and_not_in_the_result() -> None:
    """The value of a secret is in the arguments and not in the result, and the job names it as a text to hide."""
    _, inner, runner = secretly(Resolved(b'{"password": "hunter22"}', ("hunter22",)))
    results: list[bytes] = []
    assert runner.run(Job("c", b"", args=b"{}"), results.append) == "the run"
    job, done = inner.jobs[0]
    assert (job.args, job.secrets) == (b'{"password": "hunter22"}', ("hunter22",))
    done(b'{"summary": "no hunter22 here"}')
    assert json.loads(results[0]) == {"summary": "no **** here"}


def test_a_job_without_secrets_goes_through_as_it_is() -> None:
    """A job without secrets goes through as it is, and so does its result."""
    _, inner, runner = secretly(Resolved(b"{}"))
    results: list[bytes] = []
    job = Job("c", b"", args=b"{}")
    runner.run(job, results.append)
    assert inner.jobs == [(job, results.append)]


def test_a_missing_secret_is_a_result_and_no_run() -> None:
    """A missing secret gives a result and no run, after `run` has returned, and that run can be cancelled like any
    other.
    """
    clock, inner, runner = secretly("no secret named x")
    results: list[bytes] = []
    run = runner.run(Job("c", b""), results.append)
    assert isinstance(run, RefusedRun)
    run.cancel()
    assert (results, inner.jobs) == ([], [])
    clock.advance(0)
    assert [(each["reason"], each["summary"], each["check"]) for each in map(json.loads, results)] == [
        ("bad-arguments", "no secret named x", "c")
    ]


def test_a_result_that_cannot_be_read_is_not_shown() -> None:
    """A result that cannot be read is not shown, because it might hold a value."""
    shown = json.loads(redact_result(Redaction(["hunter22"]), "c", b"{hunter22"))
    assert (shown["status"], shown["reason"], shown["check"]) == ("unknown", "crashed", "c")
    assert "hunter22" not in str(shown)


def test_the_rest_is_the_runner_s() -> None:
    """Figures, stop and reload are those of the inner runner."""
    _, inner, runner = secretly("")
    assert (runner.isolation, runner.kills, runner.waiting, runner.inspect) == ("strong", 3, 4, inner.inspect)
    runner.reload("policy")  # type: ignore[arg-type]
    runner.stop()
    assert inner.calls == ["policy", "stop"]


LIMITS = [
    ("every", 0.1, 0.099), ("every", 31_622_400, 31_622_401), ("offset", 0, -0.001), ("offset", 31_622_400, 31_622_401),
    ("timeout", 0.001, 0.0009), ("timeout", 3600, 3600.5), ("id", "é" * 127 + "x", "é" * 128), ("check", "x" * 255, ""),
]  # fmt: skip


@pytest.mark.parametrize(("key", "most", "beyond"), LIMITS)
def test_limits_of_an_entry(key: str, most: Any, beyond: Any) -> None:
    """The last value of each field is accepted, and the one beyond it is refused by the field's name."""
    good = {"id": "a", "check": "load", "every": 31_622_400}
    read = parse(json.dumps([{**good, key: most}]).encode())
    expected = most % 31_622_400 if key == "offset" else most
    assert (read.refused, getattr(read.entries[0], key)) == ((), expected)
    assert parse(json.dumps([{**good, key: beyond}]).encode()).refused[0].startswith(f"entry 1: {key} ")


def test_limit_of_a_schedule() -> None:
    """A schedule has at most 4,096 entries."""
    many = [{"id": str(number), "check": "load", "every": 60} for number in range(4_097)]
    assert len(parse(json.dumps(many[1:]).encode()).entries) == 4_096
    with pytest.raises(ScheduleRefused, match="has 4097 entries; at most 4096"):
        parse(json.dumps(many).encode())


def test_arguments_have_one_form() -> None:
    """Equal arguments make equal entries, whatever the order of names and the escapes are."""
    texts = ('{"b": [1, "é"], "a": null}', '{"a":null,"b":[1,"\\u00e9"]}')
    (first,), (second,) = (
        parse(f'[{{"id": "x", "check": "load", "every": 60, "args": {text}}}]'.encode()).entries for text in texts
    )
    assert first == second
    assert first.args == '{"a":null,"b":[1,"é"]}'.encode()


@pytest.mark.parametrize(("character", "taken"), [
    ("\ud7ff", True), ("\ud800", False), ("\udfff", False), ("\ue000", True), ("!", True), (" ", False), ("~", True),
    ("\x7f", False), ("\x80", True),
])  # fmt: skip
def test_characters_of_an_id(character: str, taken: bool) -> None:
    """An id has no space, no control character of ASCII, and no half of a surrogate pair."""
    read = parse(json.dumps([{"id": f"a{character}", "check": "load", "every": 60}]).encode())
    assert [entry.id for entry in read.entries] == ([f"a{character}"] if taken else [])
    assert len(read.refused) == (not taken)
