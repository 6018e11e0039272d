"""What is too small for a file of its own: log lines, the lock, learnt servers, facts, folders, the writer's thread."""

import json
import logging
import os
import threading

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import Logger, LogLevel, LogPublisher, formatEvent, globalLogPublisher
from twisted.python.failure import Failure

from equus import health, host, servers, state_lock
from equus.durable import Keeper
from equus.library import LibraryError, read_folder
from equus.logs import MAX_LINE, Lines, ToTwisted, escape
from equus.settings import Server
from equus.spool import Spool
from equus.spool_writer import MAX_WAITING, SpoolWriter
from equus.talk import encode_report
from equus_protocol.codec import MAX_BLOB


def logged(level=LogLevel.info, for_journal=False, namespace="equus.test"):
    lines = []
    log = Logger(namespace, observer=LogPublisher(Lines(lines.append, for_journal, level)))
    return log, lines


def test_a_line_has_time_level_and_text():
    """Below the level: nothing."""
    log, lines = logged()
    log.debug("not this")
    log.error("{what} is wrong", what="something")
    assert len(lines) == 1
    assert lines[0][10] == "T" and lines[0].endswith("Z error    something is wrong\n")


def test_the_journal_gets_priorities():
    """It has the time itself."""
    log, lines = logged(LogLevel.debug, for_journal=True)
    log.debug("a")
    log.info("b")
    log.warn("c")
    log.error("d")
    log.critical("e")
    assert lines == ["<7>a\n", "<6>b\n", "<4>c\n", "<3>d\n", "<2>e\n"]


def test_nobody_writes_lines_of_his_own():
    """A peer's text is escaped; a traceback is many lines, each with its prefix."""
    log, lines = logged(for_journal=True)
    log.info("{text}", text="a\x1b[31mb\r\x85ü☃")
    assert lines == ["<6>a\\x1b[31mb\\r\\x85ü☃\n"]
    log.failure("it broke", failure=Failure(ValueError("why")))
    assert all(line.startswith("<2>") for line in lines[1].splitlines())
    assert "ValueError: why" in lines[1]


def test_a_line_ends_somewhere():
    """And says how long it was."""
    assert escape("x" * MAX_LINE) == "x" * MAX_LINE
    assert escape("x" * (MAX_LINE + 1)) == "x" * MAX_LINE + f"... ({MAX_LINE + 1} characters)"


@pytest.mark.parametrize(("level", "shown"), [(LogLevel.info, 1), (LogLevel.debug, 2)])
def test_twisteds_chatter_is_for_debugging(level, shown):
    """Its warnings are not."""
    log, lines = logged(level, namespace="twisted.application")
    log.info("Starting factory")
    log.warn("something is odd")
    assert len(lines) == shown


def test_one_agent_per_state_folder(tmp_path):
    """The second is told who has it; when the first has gone, the folder is free."""
    fd = state_lock.take(tmp_path / "state")
    with pytest.raises(state_lock.StateInUse, match=rf"running already \(process {os.getpid()}\)"):
        state_lock.take(tmp_path / "state")
    os.close(fd)
    os.close(state_lock.take(tmp_path / "state"))


def test_a_state_folder_that_can_not_be_made_is_told(tmp_path):
    """A file is in the way."""
    (tmp_path / "file").write_text("")
    with pytest.raises(state_lock.StateInUse, match="cannot be used"):
        state_lock.take(tmp_path / "file" / "state")


def test_learnt_servers_are_read(authority):
    """Address, the name in the certificate, a CA of their own."""
    pem = authority.pem.decode()
    blob = json.dumps(
        [{"address": "10.0.0.1", "name": "h.example", "ca": pem}, {"address": "b:2", "ca": "no"}]
    ).encode()
    assert servers.parse(blob) == (Server("10.0.0.1", 4166, "h.example", pem), Server("b", 2, "b"))


@pytest.mark.parametrize(
    "blob", [b"", b"{}", b"[1]", b'[{"address": 1}]', b'[{"address": "a b"}]', b"[{}]", b"[" * 9999]
)
def test_a_list_of_servers_that_is_none_is_refused(tmp_path, blob):
    """On the wire, and on disk, where it is as good as nothing."""
    with pytest.raises(servers.ServersRefused):
        servers.parse(blob)
    (tmp_path / servers.FILE).write_bytes(blob)
    assert servers.load(tmp_path) == ()


def test_the_host_has_facts():
    """Plain values that JSON can carry."""
    facts = json.loads(json.dumps(host.facts()))
    assert facts["cpus"] >= 1 and facts["memory"] > 10_000_000 and facts["kernel"].startswith("Linux")
    assert host.resident_bytes() > 1_000_000


def test_a_refused_set_is_a_warning():
    """Everything else is for thresholds at Helen's."""
    figures = dict.fromkeys(("runs", "late", "skipped", "missed", "killed"), 0)
    well = health.Health("0.1", figures, [], 3, 0, 0, 0, 0, 1, 1.0, "c", "p", "strong", 0, None)
    assert health.document(well, 5.0)["status"] == "ok"
    for change in ({"refused": 2}, {"trouble": {"reason": "expired", "text": "it expired"}}):
        changed = health.Health(**{**{f: getattr(well, f) for f in health.Health.__slots__ if f[0] != "_"}, **change})
        assert health.document(changed, 5.0)["status"] == "warning"


def test_a_folder_that_can_not_be_used_is_told(tmp_path):
    """Gone, or with a file that no check may be."""
    with pytest.raises(LibraryError, match="cannot read"):
        read_folder(tmp_path / "gone")
    (tmp_path / "great.lua").write_bytes(b" " * 1_048_577)
    with pytest.raises(LibraryError, match=r"great\.lua has more than"):
        read_folder(tmp_path)


def test_a_great_load_report_loses_its_errors_and_nothing_else():
    """5,000 files with an error each don't fit into a blob."""
    files = {f"check-{n}.lua": {"sha256": "a" * 64, "state": "refused", "error": "e" * 300} for n in range(5_000)}
    blob = encode_report({"files": files, "labels": {}})
    assert len(blob) <= MAX_BLOB
    assert json.loads(blob)["files"]["check-1.lua"] == {"sha256": "a" * 64, "state": "refused"}


def test_a_keeper_writes_one_at_a_time_and_the_newest_last(tmp_path):
    """What was overtaken while it waited is never written."""
    written, waiting = [], []

    def defer(call, path, data):
        written.append(data)
        waiting.append(Deferred())
        return waiting[-1]

    failed = []
    keeper = Keeper(defer, lambda path, failure: failed.append(failure.getErrorMessage()))
    for data in (b"1", b"2", b"3"):
        keeper.keep(tmp_path / "file", data)
    assert written == [b"1"]
    waiting[0].errback(OSError("full"))
    assert (written, failed) == ([b"1", b"3"], ["full"])
    waiting[1].callback(None)
    keeper.keep(tmp_path / "file", b"4")
    assert written == [b"1", b"3", b"4"]


class Reactor:
    """Collects what a thread wants to be called, and waits for it."""

    def __init__(self):
        self.came = threading.Condition()
        self.calls = []

    def call_from_thread(self, call, *arguments):
        with self.came:
            self.calls.append((call, arguments))
            self.came.notify()

    def turn(self):
        with self.came:
            assert self.came.wait_for(lambda: self.calls, 10)
            calls, self.calls = self.calls, []
        for call, arguments in calls:
            call(*arguments)


def test_the_writer_tells_what_is_durable_and_reads_it_back(tmp_path):
    """In its own thread; stopping does all that was asked."""
    reactor, changes = Reactor(), []
    writer = SpoolWriter(Spool(tmp_path), reactor.call_from_thread, lambda: changes.append(writer.standing), None)
    writer.start()
    writer.append("load", b"{}")
    while not changes or changes[-1].last < 1:
        reactor.turn()
    found = []
    writer.read(writer.standing.id, 0, 1000, found.extend)
    while not found:
        reactor.turn()
    assert (found[0].sequence, found[0].blob) == (1, b"{}")
    for _ in range(500):
        writer.append("load", b"x")
    writer.acknowledge(writer.standing.id, 1)
    writer.acknowledge("another", 400)
    assert writer.stop(10)
    reactor.turn()
    assert (writer.standing.first, writer.standing.last, writer.is_behind) == (2, 501, False)


def test_a_writer_that_is_behind_says_so(tmp_path):
    """Then no further run is started."""
    spool = Spool(tmp_path)
    writer = SpoolWriter(spool, lambda *_: None, lambda: None, None)
    writer.append("load", b"x" * MAX_WAITING)
    assert writer.is_behind
    spool.close()


def test_a_disk_that_fails_is_told_once_and_ends_it(tmp_path, monkeypatch):
    """After a failed fsync nobody knows what is on the disk."""
    reactor, failures = Reactor(), []
    spool = Spool(tmp_path)
    writer = SpoolWriter(spool, reactor.call_from_thread, lambda: None, failures.append)

    def broken():
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(spool, "sync", broken)
    writer.start()
    writer.append("load", b"{}")
    reactor.turn()
    assert [str(failure) for failure in failures] == ["[Errno 5] Input/output error"]
    assert writer.stop(10)
    spool.close()


def test_what_the_sandbox_logs():
    """It speaks to the standard library; its lines come out as all others, a failure with its traceback."""
    events = []
    globalLogPublisher.addObserver(events.append)
    log = logging.Logger("equus.sandbox")
    log.addHandler(ToTwisted())
    try:
        log.error("the %s has ended {not a field}", "zygote")
        try:
            1 / 0  # noqa: B018
        except ZeroDivisionError:
            log.exception("it failed")
    finally:
        globalLogPublisher.removeObserver(events.append)
    told = [(event["log_level"], event["log_namespace"], formatEvent(event)) for event in events]
    assert told == [
        (LogLevel.error, "equus.sandbox", "the zygote has ended {not a field}"),
        (LogLevel.critical, "equus.sandbox", "it failed"),
    ]
    assert events[1]["log_failure"].type is ZeroDivisionError
