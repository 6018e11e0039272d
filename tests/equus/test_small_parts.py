"""Test parts that are too small for a file of their own: log lines, the lock, learnt servers, facts, folders, the
spool's thread.
"""

import errno
import json
import logging
import os
import stat
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import Logger, LogLevel, LogPublisher, formatEvent, globalLogPublisher
from twisted.python.failure import Failure

from equus import health, host, state_lock
from equus.code.library import LibraryError, read_folder
from equus.document_writer import DocumentWriter
from equus.link import server_list
from equus.logs import MAX_LINE, LineObserver, TwistedHandler, escape
from equus.policy import file_ownership
from equus.sandbox.state_store import StateStore
from equus.sessions.session import encode_report
from equus.settings import Server
from equus.spool import spool_folders
from equus.spool.memory_spool import MemorySpool
from equus.spool.spool import Spool
from equus.spool.spool_thread import MAX_WAITING, SpoolThread
from equus_protocol.codec import MAX_BLOB


def logged(level=LogLevel.info, for_journal=False, namespace="equus.test"):
    lines = []
    log = Logger(namespace, observer=LogPublisher(LineObserver(lines.append, for_journal, level)))
    return log, lines


def test_a_line_has_time_level_and_text():
    """A log line has time, level and text, and a line below the level is not written."""
    log, lines = logged()
    log.debug("not this")
    log.error("{what} is wrong", what="something")
    assert len(lines) == 1
    assert lines[0][10] == "T" and lines[0].endswith("Z error    something is wrong\n")


def test_the_journal_gets_priorities():
    """A line for the journal begins with its priority, and has no time, because the journal adds it."""
    log, lines = logged(LogLevel.debug, for_journal=True)
    log.debug("a")
    log.info("b")
    log.warn("c")
    log.error("d")
    log.critical("e")
    assert lines == ["<7>a\n", "<6>b\n", "<4>c\n", "<3>d\n", "<2>e\n"]


@pytest.mark.adversary(15)
def test_nobody_writes_lines_of_his_own():
    """Text of a peer is escaped in a log line, and each line of a traceback has its prefix."""
    log, lines = logged(for_journal=True)
    log.info("{text}", text="a\x1b[31mb\r\x85ü☃")
    assert lines == ["<6>a\\x1b[31mb\\r\\x85ü☃\n"]
    log.failure("it broke", failure=Failure(ValueError("why")))
    assert all(line.startswith("<2>") for line in lines[1].splitlines())
    assert "ValueError: why" in lines[1]


def test_a_line_ends_somewhere():
    """A long log line is cut, and says how long it was."""
    assert escape("x" * MAX_LINE) == "x" * MAX_LINE
    assert escape("x" * (MAX_LINE + 1)) == "x" * MAX_LINE + f"... ({MAX_LINE + 1} characters)"


@pytest.mark.parametrize(("level", "shown"), [(LogLevel.info, 1), (LogLevel.debug, 2)])
def test_twisteds_chatter_is_for_debugging(level, shown):
    """Twisted's messages are logged on level debug, and its warnings always."""
    log, lines = logged(level, namespace="twisted.application")
    log.info("Starting factory")
    log.warn("something is odd")
    assert len(lines) == shown


def test_one_agent_per_state_folder(tmp_path):
    """A second agent with the same state folder is refused with the process id of the first, and may start once that
    has ended.
    """
    lock = state_lock.take(tmp_path / "state")
    with pytest.raises(state_lock.StateInUse, match=rf"running already \(process {os.getpid()}\)"):
        state_lock.take(tmp_path / "state")
    lock.release()
    state_lock.take(tmp_path / "state").release()


def test_a_state_folder_that_can_not_be_made_is_told(tmp_path):
    """A state folder below a file is refused with a sentence."""
    (tmp_path / "file").write_text("")
    with pytest.raises(state_lock.StateInUse, match="cannot be used"):
        state_lock.take(tmp_path / "file" / "state")


def test_learnt_servers_are_read(authority):
    """Learnt servers are read with their address, the name in the certificate, and a CA of their own."""
    pem = authority.pem.decode()
    blob = json.dumps(
        [{"address": "10.0.0.1", "name": "h.example", "ca": pem}, {"address": "b:2", "ca": "no"}]
    ).encode()
    assert server_list.parse(blob) == (Server("10.0.0.1", 4166, "h.example", pem), Server("b", 2, "b"))


@pytest.mark.parametrize(
    "blob", [b"", b"{}", b"[1]", b'[{"address": 1}]', b'[{"address": "a b"}]', b"[{}]", b"[" * 9999]
)
def test_a_list_of_servers_that_is_none_is_refused(tmp_path, blob):
    """A list of servers that is none is refused when it arrives, and is read as empty from disk."""
    with pytest.raises(server_list.ServersRefused):
        server_list.parse(blob)
    (tmp_path / server_list.FILE).write_bytes(blob)
    assert server_list.load(tmp_path) == ()


def test_the_host_has_facts():
    """Facts of the host are plain values that JSON can carry."""
    facts = json.loads(json.dumps(host.facts()))
    assert facts["cpus"] >= 1 and facts["memory"] > 10_000_000 and facts["kernel"].startswith("Linux")
    assert host.resident_bytes() > 1_000_000


def test_a_refused_set_is_a_warning():
    """A refused file or manifest makes the self-report a warning, and other figures leave it ok."""
    figures = dict.fromkeys(("runs", "late", "skipped", "missed", "killed"), 0)
    well = health.Health("0.1", figures, [], 3, 0, 0, 0, 0, 1, 1.0, "c", "p", "strong", 0, None)
    assert health.document(well, 5.0)["status"] == "ok"
    for change in ({"refused": 2}, {"trouble": {"reason": "expired", "text": "it expired"}}):
        changed = health.Health(**{**{f: getattr(well, f) for f in health.Health.__slots__ if f[0] != "_"}, **change})
        assert health.document(changed, 5.0)["status"] == "warning"


def test_secrets_without_destinations_are_told():
    """Secrets without destinations are named in the output of the self-report, which stays ok (F42)."""
    figures = dict.fromkeys(("runs", "late", "skipped", "missed", "killed"), 0)
    told = health.Health(
        "0.1", figures, [], 3, 0, 0, 0, 0, 1, 1.0, "c", "p", "strong", 0, None, unbound_secrets=["db", "redis"]
    )
    document = health.document(told, 5.0)
    assert (document["status"], document["output"]) == (
        "ok",
        "secret db has no `to`: it goes to any address\nsecret redis has no `to`: it goes to any address\n",
    )


def test_results_in_memory_are_critical():
    """Results in memory make the self-report critical, because they are lost if the agent ends (F33)."""
    figures = dict.fromkeys(("runs", "late", "skipped", "missed", "killed"), 0)
    for refused in (0, 2):
        told = health.Health(
            "0.1", figures, [], 3, 7, 0, 0, 0, 1, 1.0, "c", "p", "strong", refused, None, "Stale handle"
        )
        document = health.document(told, 5.0)
        assert document["status"] == "critical"
        assert "can't be written (Stale handle): results are in memory" in document["summary"]


def test_a_folder_that_can_not_be_used_is_told(tmp_path):
    """A missing folder of checks, or one with a file that is too large, is refused with a sentence."""
    with pytest.raises(LibraryError, match="cannot read"):
        read_folder(tmp_path / "gone")
    (tmp_path / "great.lua").write_bytes(b" " * 1_048_577)
    with pytest.raises(LibraryError, match=r"great\.lua has more than"):
        read_folder(tmp_path)


def test_a_great_load_report_loses_its_errors_and_nothing_else():
    """A load report that is too long for a blob leaves out the errors of its files, and nothing else."""
    files = {f"check-{n}.lua": {"sha256": "a" * 64, "state": "refused", "error": "e" * 300} for n in range(5_000)}
    blob = encode_report({"files": files, "labels": {}})
    assert len(blob) <= MAX_BLOB
    assert json.loads(blob)["files"]["check-1.lua"] == {"sha256": "a" * 64, "state": "refused"}


def test_a_document_writer_writes_one_at_a_time_and_the_newest_last(tmp_path):
    """A document writer writes one document at a time and the newest last, and leaves out those that were overtaken."""
    written, waiting = [], []

    def defer(call, path, data):
        written.append(data)
        waiting.append(Deferred())
        return waiting[-1]

    failed = []
    writer = DocumentWriter(defer, lambda path, failure: failed.append(failure.getErrorMessage()))
    for data in (b"1", b"2", b"3"):
        writer.write(tmp_path / "file", data)
    assert written == [b"1"]
    waiting[0].errback(OSError("full"))
    assert (written, failed) == ([b"1", b"3"], ["full"])
    waiting[1].callback(None)
    writer.write(tmp_path / "file", b"4")
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
    """The writer's thread reports which records are durable, reads them back, and does all its work before it stops."""
    reactor, changes = Reactor(), []
    writer = SpoolThread(Spool(tmp_path), reactor.call_from_thread, None)
    writer.changed.subscribe(lambda: changes.append(writer.state))
    writer.start()
    writer.append("load", b"{}")
    while not changes or changes[-1].last < 1:
        reactor.turn()
    found = []
    writer.read(writer.state.id, 0, 1000, found.extend)
    while not found:
        reactor.turn()
    assert (found[0].sequence, found[0].blob) == (1, b"{}")
    for _ in range(500):
        writer.append("load", b"x")
    writer.acknowledge(writer.state.id, 1)
    writer.acknowledge("another", 400)
    assert writer.stop(10)
    reactor.turn()
    assert (writer.state.first, writer.state.last, writer.is_behind) == (2, 501, False)


def test_a_writer_that_is_behind_says_so(tmp_path):
    """A writer with MAX_WAITING bytes to write says that it is behind."""
    spool = Spool(tmp_path)
    writer = SpoolThread(spool, lambda *_: None, None)
    writer.append("load", b"x" * MAX_WAITING)
    assert writer.is_behind
    spool.close()


def settle(reactor, writer, done):
    while not done():
        reactor.turn()


def every(reactor, writer, after=0):
    """Return all reports after a sequence, as the writer reads them."""
    found = []
    writer.read(writer.state.id, after, 10**9, lambda records: found.append(records))
    settle(reactor, writer, lambda: found)
    return [(record.sequence, record.check, record.blob) for record in found[0]]


@pytest.mark.parametrize("code", [errno.EROFS, errno.EIO, errno.EUCLEAN, errno.ESTALE, errno.ENODEV])
@pytest.mark.parametrize("step", ["append", "sync", "acknowledge", "read"])
def test_a_disk_that_fails_is_replaced_by_memory(tmp_path, monkeypatch, step, code):
    """A disk that fails at any call is replaced by memory under a new id, and reports keep their order (F33)."""
    reactor, spool = Reactor(), Spool(tmp_path)
    writer = SpoolThread(spool, reactor.call_from_thread, None, falls_back=True)
    writer.start()
    old = writer.state.id
    for number in range(3):
        writer.append("load", b"%d" % number)
    settle(reactor, writer, lambda: writer.state.last == 3)
    writer.acknowledge(old, 1)
    settle(reactor, writer, lambda: writer.state.first == 2)
    place, name = (spool_folders, "write_cursor") if step == "acknowledge" else (spool, step)
    monkeypatch.setattr(place, name, lambda *_, **__: (_ for _ in ()).throw(OSError(code, os.strerror(code))))
    if step == "read":
        writer.read(old, 1, 1000, lambda records: None)
    elif step == "acknowledge":
        writer.acknowledge(old, 2)
    writer.append("load", b"new")
    settle(reactor, writer, lambda: writer.state.id != old and writer.state.last)
    assert writer.state.fault == os.strerror(code)
    kept = {"read": [], "acknowledge": [b"2"]}.get(step, [b"1", b"2"])  # a disk that can't be read keeps what it has
    expected = [*kept, b"new"]
    assert [blob for _, _, blob in every(reactor, writer)] == expected
    writer.acknowledge(writer.state.id, len(expected) - 1)
    writer.append("load", b"later")
    settle(reactor, writer, lambda: writer.state.last == len(expected) + 1 and writer.state.depth == 2)
    assert [blob for _, _, blob in every(reactor, writer, len(expected) - 1)] == [b"new", b"later"]
    assert writer.stop(10)


def test_another_failure_than_that_of_the_disk_is_none_to_go_on_from(tmp_path, monkeypatch):
    """An error that is none of the disk is not replaced by memory, because a fault of the agent must be seen."""
    reactor, failures = Reactor(), []
    spool = Spool(tmp_path)
    writer = SpoolThread(spool, reactor.call_from_thread, failures.append, falls_back=True)
    monkeypatch.setattr(spool, "sync", lambda: (_ for _ in ()).throw(OSError(errno.EBADF, "Bad file descriptor")))
    writer.start()
    writer.append("load", b"{}")
    reactor.turn()
    assert [failure.errno for failure in failures] == [errno.EBADF]
    spool.close()


def test_a_full_spool_in_memory_drops_the_oldest_and_says_which():
    """A full spool in memory drops the oldest and puts a gap in their place, as the one on disk does (F33)."""
    spool = MemorySpool("why", cap=1000)
    for number in range(1, 31):
        spool.append("load", b"%02d" % number + b"x" * 80)
    assert (spool.first, spool.last, spool.size <= 1000) == (1, 30, True)
    gap, *kept = spool.read(0, 10**6)
    document = json.loads(gap.blob)
    assert (gap.check, document["from"], document["to"], document["gap"]) == (
        "equus:gap",
        1,
        gap.sequence,
        "spool-full",
    )
    assert [record.sequence for record in kept] == list(range(gap.sequence + 1, 31))
    assert spool.depth == len(kept) + 1
    assert [record.sequence for record in spool.read(0, 1)] == [gap.sequence]
    spool.acknowledge(gap.sequence)
    assert (spool.depth, spool.read(0, 10**6)) == (len(kept), kept)
    spool.acknowledge(10**6)
    assert (spool.depth, spool.size, spool.first) == (0, 0, 31)


@pytest.mark.parametrize("code", [errno.EROFS, errno.EIO, errno.ENOSPC])
def test_a_state_folder_that_cannot_be_written_is_locked_all_the_same(tmp_path, monkeypatch, code):
    """A state folder that cannot be written is locked with or without its lock file, and a second agent is refused
    (F33).
    """
    real = os.open

    def broken(path, flags, *more, **options):
        if flags & (os.O_RDWR | os.O_CREAT):
            raise OSError(code, os.strerror(code))
        return real(path, flags, *more, **options)

    for made in (False, True):
        if made:
            (tmp_path / "lock").write_text("17\n")
        monkeypatch.setattr(os, "open", broken)
        lock = state_lock.take(tmp_path)
        with pytest.raises(state_lock.StateInUse, match="running already"):
            state_lock.take(tmp_path)
        lock.release()
        monkeypatch.undo()


def test_a_disk_that_fails_is_told_once_and_ends_it(tmp_path, monkeypatch):
    """A disk that fails is reported once and ends the writer, because after a failed fsync the content of the disk is
    unknown.
    """
    reactor, failures = Reactor(), []
    spool = Spool(tmp_path)
    writer = SpoolThread(spool, reactor.call_from_thread, failures.append)

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
    """Lines that the sandbox logs by the standard library are logged as all others, a failure with its traceback."""
    events = []
    globalLogPublisher.addObserver(events.append)
    log = logging.Logger("equus.sandbox")
    log.addHandler(TwistedHandler())
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


@pytest.mark.parametrize("code", [errno.EROFS, errno.EIO])
def test_the_state_of_checks_lasts_as_long_as_the_agent_on_a_disk_that_fails(tmp_path, monkeypatch, code):
    """The state of checks lasts as long as the agent on a disk that fails, and what was stored before is read (F33)."""
    StateStore(tmp_path / "states").put("entry", "cursor", "1")

    def broken(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    for name in ("mkdir", "write_text", "unlink"):
        monkeypatch.setattr(Path, name, broken)
    store = StateStore(tmp_path / "states")
    assert store.get("entry", "cursor") == "1"
    store.put("entry", "cursor", "2")
    assert store.get("entry", "cursor") == "2"


# ---------------------------------------------------------------------------------------------- the state folder


@pytest.mark.parametrize(
    ("state", "parent", "word"),
    [(0o700, 0o755, ""), (0o755, 0o755, ""), (0o777, 0o755, "can be written by others"), (0o770, 0o755, "mode 0770"),
     (0o702, 0o755, "mode 0702"), (0o700, 0o777, "can be written by others"), (0o700, 0o1777, "")],
)  # fmt: skip
@pytest.mark.parametrize("is_link", [False, True])
def test_who_may_write_into_the_state_folder(tmp_path, state, parent, word, is_link):
    """A state folder that others can write, or one below such a folder, is refused, because it holds keys and code."""
    above = tmp_path / "above"
    folder = above / "state"
    folder.mkdir(parents=True)
    folder.chmod(state)
    above.chmod(parent)
    named = folder
    if is_link:
        named = tmp_path / "link"
        named.symlink_to(folder)
    if word:
        with pytest.raises(state_lock.StateInUse, match=word):
            state_lock.prepare(named)
    else:
        state_lock.prepare(named)


def test_a_state_folder_is_made_and_belongs_to_us(tmp_path, monkeypatch):
    """A state folder is made for its user alone, and one of another user is refused."""
    state_lock.prepare(tmp_path / "a" / "b")
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    monkeypatch.setattr(file_ownership, "trusted_owners", lambda: frozenset({65_000}))
    with pytest.raises(state_lock.StateInUse, match="belongs to user"):
        state_lock.prepare(tmp_path / "a" / "b")


@pytest.mark.parametrize(
    ("uid", "group", "members", "is_own"),
    [(1000, "anna", [], True), (1000, "anna", ["anna"], True), (1000, "anna", ["bert"], False),
     (1000, "users", [], False), (0, "anna", [], False)],
)  # fmt: skip
def test_a_group_of_ones_own(tmp_path, monkeypatch, uid, group, members, is_own):
    """The group that a host makes for one user may write the state folder, and a group with other members may not."""
    gid = tmp_path.stat().st_gid
    monkeypatch.setattr("pwd.getpwuid", lambda number: SimpleNamespace(pw_uid=uid, pw_name="anna"))
    monkeypatch.setattr("grp.getgrgid", lambda number: SimpleNamespace(gr_gid=gid, gr_name=group, gr_mem=members))
    assert file_ownership.own_group() == ({gid} if is_own else set())
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(0o770)
    assert (file_ownership.ownership_fault(folder, groups=file_ownership.own_group()) is None) is is_own
