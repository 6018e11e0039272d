"""Tests files and name servers as they change: what was found last stays, whatever breaks, and it is told."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.logger import capturedLogs

from helen.targets import source_watch
from helen.targets.source_files import MAX_BYTES, MAX_FILES
from helen.targets.source_watch import POLL_SECONDS, SourceWatch
from helen.targets.sources import Source, SourceFault
from helen.targets.target_fields import Quorum


class Store:
    """Keeps the last text, as the database does."""

    text: str | None = None

    def call(self, work: Any, key: str, text: str) -> Deferred[None]:
        self.text = text
        return succeed(None)


class Stage:
    """Holds a watch of one folder, whose threads and clock are the test's."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now, self.changes, self.store = folder, 0.0, 0, Store()
        self.answer: Any = []
        self.watch = SourceWatch(None, self.store, lambda: self.now, self._changed)  # type: ignore[arg-type]

    def _changed(self) -> None:
        self.changes += 1

    def files(self, *patterns: str, **labels: str) -> Source:
        return Source(("probe-*",), tuple(f"{self.folder}/{each}" for each in patterns), labels=labels)

    def write(self, name: str, *targets: str) -> None:
        (self.folder / name).write_text(json.dumps([{"targets": list(targets)}]))

    def names(self) -> list[str]:
        self.now += POLL_SECONDS
        self.watch.tick()
        return list(self.watch.found())


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    made = Stage(tmp_path)

    async def lookup(reactor: Any, source: Source) -> Any:
        if isinstance(made.answer, Exception):
            raise made.answer
        return await made.answer if isinstance(made.answer, Deferred) else made.answer

    def at_once(call: Callable[..., Any], *given: Any) -> Deferred[Any]:
        return maybeDeferred(call, *given)

    monkeypatch.setattr(source_watch, "deferToThread", at_once)
    monkeypatch.setattr(source_watch, "lookup", lookup)
    yield made


def test_files_that_change(stage: Stage) -> None:
    """Files that come, change and go are followed; one that has not changed is not read again, and tells nobody."""
    stage.write("a.json", "web-1:80")
    stage.watch.take([stage.files("*.json")])
    assert stage.names() == ["web-1-80"]
    stage.write("b.json", "web-2:80", "web-1:80")
    assert stage.names() == ["web-1-80", "web-2-80"]
    assert (stage.names(), stage.changes) == (["web-1-80", "web-2-80"], 2)
    (stage.folder / "a.json").unlink()
    assert stage.names() == ["web-2-80", "web-1-80"]
    (stage.folder / "b.json").unlink()
    assert (stage.names(), stage.watch.faults()) == ([], [])


def test_a_file_that_breaks(stage: Stage) -> None:
    """A broken file keeps its targets, the others go on, and the fault is told until it is good again."""
    stage.write("a.json", "web-1")
    stage.write("b.json", "web-2")
    stage.watch.take([stage.files("*.json")])
    stage.names()
    (stage.folder / "a.json").write_text('[{"targets": ["web-')
    stage.write("b.json", "web-3")
    assert stage.names() == ["web-1", "web-3"]
    (fault,) = stage.watch.faults()
    assert fault.startswith(f"{stage.folder}/*.json: {stage.folder}/a.json: no list of")
    assert fault.endswith("; what it has found before stays")
    (stage.folder / "a.json").write_bytes(b" " * (MAX_BYTES + 1))
    assert stage.names() == ["web-1", "web-3"] and "more than 1,048,576 bytes" in stage.watch.faults()[0]
    (stage.folder / "a.json").unlink()
    (stage.folder / "a.json").mkdir()
    assert stage.names() == ["web-1", "web-3"] and "it can't be read: Is a directory" in stage.watch.faults()[0]
    (stage.folder / "a.json").rmdir()
    stage.write("a.json", "web-4")
    assert (stage.names(), stage.watch.faults()) == (["web-4", "web-3"], [])


def test_a_file_that_was_never_good(stage: Stage) -> None:
    stage.watch.take([stage.files("gone.json")])
    assert stage.names() == []
    place = f"{stage.folder}/gone.json"
    assert stage.watch.faults() == [f"{place}: {place}: there is no such file; it has found nothing so far"]


def test_a_file_or_a_folder_that_goes(stage: Stage) -> None:
    """A named file and a folder of them are missed: a mount that was lost takes no target away."""
    (stage.folder / "sub").mkdir()
    stage.write("one.json", "web-1")
    stage.write("sub/a.json", "web-2")
    stage.watch.take([stage.files("one.json"), stage.files("sub/*.json")])
    assert stage.names() == ["web-1", "web-2"]
    (stage.folder / "one.json").unlink()
    (stage.folder / "sub").rename(stage.folder / "away")
    assert stage.names() == ["web-1", "web-2"]
    assert [fault.count("there is no such file") for fault in stage.watch.faults()] == [1, 1]


def test_too_many_files(stage: Stage) -> None:
    stage.watch.take([stage.files("*.json")])
    for number in range(MAX_FILES + 1):
        stage.write(f"{number}.json", f"web-{number}")
    assert stage.names() == [] and "101 files fit; 100 are the most" in stage.watch.faults()[0]
    (stage.folder / "0.json").unlink()
    assert len(stage.names()) == MAX_FILES


def test_name_servers(stage: Stage) -> None:
    """A name server is asked when it is time, and not while it is; no answer and no records keep what was found."""
    source = Source(("a",), (), "_http._tcp.example.test", every=30.0)
    stage.answer = [("a.example.test", 80)]
    stage.watch.take([source])
    assert stage.names() == ["a.example.test-80"]
    stage.answer = [("b.example.test", 80)]
    assert stage.names() == ["a.example.test-80"]
    stage.now += 30.0
    assert stage.names() == ["b.example.test-80"]
    for answer, fault in (([], "there are no such records"), (SourceFault("no answer by x"), "no answer by x")):
        stage.now, stage.answer = stage.now + 30.0, answer
        assert stage.names() == ["b.example.test-80"]
        assert stage.watch.faults() == [f"SRV _http._tcp.example.test: {fault}; what it has found before stays"]
    waiting: Deferred[Any] = Deferred()
    stage.now, stage.answer = stage.now + 30.0, waiting
    stage.names()
    stage.now, stage.answer = stage.now + 90.0, [("wrong.example.test", 1)]
    assert stage.names() == ["b.example.test-80"]
    waiting.callback([("c.example.test", 80)])
    assert (list(stage.watch.found()), stage.watch.faults()) == (["c.example.test-80"], [])


def test_an_answer_for_a_source_that_is_no_more(stage: Stage) -> None:
    waiting: Deferred[Any] = Deferred()
    stage.answer = waiting
    stage.watch.take([Source(("a",), (), "_http._tcp.example.test")])
    stage.names()
    stage.watch.take([])
    waiting.callback([("a.example.test", 80)])
    assert (stage.watch.found(), stage.changes) == ({}, 0)


def test_other_labels(stage: Stage) -> None:
    """A source that is changed in the file keeps its targets, and they get what it says with the next look."""
    stage.write("a.json", "web-1")
    stage.watch.take([stage.files("a.json")])
    stage.names()
    stage.watch.take([stage.files("a.json", role="web")])
    assert list(stage.watch.found()) == ["web-1"]
    stage.names()
    assert dict(stage.watch.found()["web-1"][1].labels) == {"role": "web"}


@pytest.mark.parametrize("kept", [None, "", "{", "[]", '{"a": [["x"]]}'])
def test_a_start(stage: Stage, kept: str | None) -> None:
    """A start with a broken file goes on with what was found before; what was kept wrongly counts as nothing."""
    stage.write("a.json", "web-1:80", "http://web-2/x")
    source = stage.files("a.json", role="web")
    stage.watch.take([source])
    before = stage.names() and stage.watch.found()
    (stage.folder / "a.json").write_text("{")
    again = SourceWatch(None, stage.store, lambda: stage.now, lambda: None)  # type: ignore[arg-type]
    maybeDeferred(lambda: Deferred.fromCoroutine(again.start([source], stage.store.text)))
    assert again.found() == before
    again.tick()
    assert again.found() == before and len(again.faults()) == 1
    other = SourceWatch(None, stage.store, lambda: stage.now, lambda: None)  # type: ignore[arg-type]
    maybeDeferred(lambda: Deferred.fromCoroutine(other.start([source], kept)))
    assert other.found() == {}


def again_from(stage: Stage, *sources: Source) -> SourceWatch:
    """Return a watch after a start with what was kept."""
    made = SourceWatch(None, stage.store, lambda: stage.now, stage._changed)  # type: ignore[arg-type]
    maybeDeferred(lambda: Deferred.fromCoroutine(made.start(sources, stage.store.text)))
    return made


def test_a_start_with_one_broken_file_of_several(stage: Stage) -> None:
    """A broken file keeps its targets over two starts, while others are followed; a file of any name is kept."""
    odd = os.fsdecode(b"c-\xff.json")
    stage.write("a.json", "web-1:80", "web-2:80")
    stage.write("b.json", "db-1")
    stage.write(odd, "mq-1")
    source = stage.files("*.json", role="x")
    stage.watch.take([source])
    stage.names()
    (stage.folder / "a.json").write_text("[")
    stage.write("b.json", "db-2")
    (stage.folder / odd).write_text("[")
    expected = ["web-1-80", "web-2-80", "db-2", "mq-1"]
    for _ in range(2):
        stage.watch = again_from(stage, source)
        assert stage.names() == expected
        assert [fault.count("no list of") for fault in stage.watch.faults()] == [2]
    assert "c-\ufffd.json: no list of" in stage.watch.faults()[0]
    (stage.folder / "b.json").unlink()
    (stage.folder / odd).unlink()
    assert stage.names() == ["web-1-80", "web-2-80"]


def test_an_edit_with_a_broken_file(stage: Stage) -> None:
    """The file's targets stay, with the agents and the quorum that the source has now; labels need a good file."""
    stage.write("a.json", "web-1")
    stage.write("b.json", "db-1")
    stage.watch.take([stage.files("*.json", role="old")])
    stage.names()
    (stage.folder / "a.json").write_text("[")
    pattern = (f"{stage.folder}/*.json",)
    stage.watch.take([Source(("other-*",), pattern, labels={"role": "new"}, quorum=Quorum(2, 3))])
    assert stage.names() == ["web-1", "db-1"]
    web, db = (stage.watch.found()[name][1] for name in ("web-1", "db-1"))
    assert {(each.via, each.quorum) for each in (web, db)} == {(("other-*",), Quorum(2, 3))}
    assert (dict(web.labels), dict(db.labels)) == ({"role": "old"}, {"role": "new"})


def test_what_was_kept_without_its_files(stage: Stage) -> None:
    """Targets that an earlier Helen kept stay as a whole while one file is broken, as that file's are among them."""
    stage.write("a.json", "web-1")
    (stage.folder / "b.json").write_text("[")
    source = stage.files("*.json")
    rows = [["web-1", "web-1", {}, None, ""], ["db-1", "db-1", {}, 22, ""]]
    stage.store.text = json.dumps({source.key: rows})
    stage.watch = again_from(stage, source)
    assert stage.names() == ["web-1", "db-1"] and "b.json: no list of" in stage.watch.faults()[0]
    stage.write("b.json", "db-2")
    assert (stage.names(), stage.watch.faults()) == (["web-1", "db-2"], [])


def test_what_is_no_regular_file(stage: Stage) -> None:
    """A pipe without a writer, and a device without an end, hold up nothing, and leave nothing open."""
    stage.write("a.json", "web-1")
    os.mkfifo(stage.folder / "b.json")
    (stage.folder / "c.json").symlink_to("/dev/zero")
    (stage.folder / "d.json").mkdir()
    stage.watch.take([stage.files("*.json")])
    assert stage.names() == ["web-1"]
    (fault,) = stage.watch.faults()
    assert fault.count("it is no regular file, but a pipe, a socket or a device") == 2
    assert fault.count("d.json: it can't be read: Is a directory") == 1
    opened = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        stage.names()
    assert len(os.listdir("/proc/self/fd")) == opened


def test_targets_of_one_name(stage: Stage) -> None:
    """The first target of a name counts, and it is told how many are left out; one that is written twice is one."""
    stage.write("a.json", "web_1:80", "web-1:80", "WEB-1:80", "db-1")
    stage.write("b.json", "db-1")
    stage.watch.take([stage.files("*.json")])
    assert stage.names() == ["web-1-80", "db-1"] and stage.watch.found()["web-1-80"][1].address == "web_1"
    said = "several of its targets have the name web-1-80: the first of each counts, 2 more are left out"
    assert stage.watch.faults() == [f"{stage.folder}/*.json: {said}"]
    stage.write("b.json", "db_1")
    stage.names()
    assert "have 2 names such as db-1: the first of each counts, 3 more are left out" in stage.watch.faults()[0]
    stage.write("a.json", "web-1:80")
    assert (stage.names(), stage.watch.faults()) == (["web-1-80", "db-1"], [])


def test_one_name_in_two_sources(stage: Stage) -> None:
    """The first source's name counts, and the other is logged once; one place that both name is no fault."""
    stage.answer = [("Web-1.example.org", 80), ("web-2.example.org", 80)]
    stage.write("a.json", "web-1.example.org:80", "http://web-2.example.org:80/health")
    sources = [stage.files("a.json"), Source(("probe-*",), srv="_http._tcp.example.org")]
    stage.watch.take(sources)
    with capturedLogs() as logged:
        for _ in range(3):
            stage.names()
    (second,) = stage.watch.faults()
    other = f"web-2.example.org-80 is left out, since another target of {stage.folder}/a.json has that name"
    assert second == f"SRV _http._tcp.example.org: {other}"
    assert [each["said"] for each in logged if "said" in each] == [other]
    assert stage.watch.found()["web-2.example.org-80"][1].given == "http://web-2.example.org:80/health"
    stage.write(
        "a.json", "10.0.0.1:80", "http://web-1.example.org:80", "http://web-2.example.org:80", "https://web-3:80"
    )
    stage.answer.append(("web-3", 80))
    stage.now += 60.0
    for _ in range(3):
        stage.names()
    assert "has that name, and so have 2 further ones" in stage.watch.faults()[0]
    stage.watch.take(sources[1:])
    stage.names()
    assert stage.watch.faults() == []
