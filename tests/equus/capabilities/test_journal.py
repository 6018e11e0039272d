"""Test host.journal with entries of a real journal, written by systemd-journal-remote, and with a journalctl
that lies.
"""

import json
import subprocess

import pytest

from equus.capabilities.programs import journal
from equus.policy.policy import Policy
from equus.processes.spawn import close_spawner

SEES_ALL = Policy.parse(b'[caps.journal]\nunits = ["*"]\n', None)
WRITER = "/lib/systemd/systemd-journal-remote"
BEGIN = 1_700_000_000


@pytest.fixture(autouse=True, scope="module")
def _no_spawner_left():
    """End the process that forks programs after these tests."""
    yield
    close_spawner()


def entries_of(
    first: int, count: int, unit: str = "nginx.service", priority: int = 6, **more: str
) -> list[dict[str, str]]:
    """Return entries a second apart, with messages that are numbered from `first` on."""
    return [
        {"__REALTIME_TIMESTAMP": f"{(BEGIN + at) * 1_000_000}", "__MONOTONIC_TIMESTAMP": f"{at + 1}000000",
         "_BOOT_ID": "0" * 31 + "1", "_SYSTEMD_UNIT": unit,
         "_PID": "12", "PRIORITY": str(priority), "SYSLOG_IDENTIFIER": "nginx", "MESSAGE": f"message {at}"} | more
        for at in range(first, first + count)
    ]  # fmt: skip


@pytest.fixture
def written(tmp_path):
    """Appends entries to the journal of a root, in a file of its own each time, and answers the root."""

    def write(*listed: dict[str, str]) -> str:
        folder = tmp_path / "root" / "var" / "log" / "journal"
        folder.mkdir(parents=True, exist_ok=True)
        text = "".join("".join(f"{name}={value}\n" for name, value in one.items()) + "\n" for one in listed)
        command = [WRITER, "-o", str(folder / f"{len(list(folder.iterdir()))}.journal"), "-"]
        subprocess.run(command, input=text.encode(), check=True, timeout=30, capture_output=True)
        return str(tmp_path / "root")

    return write


def test_from_the_end_on(call, written):
    """The first call has no entry, and each further one has the new entries of the unit once."""
    root = written(*entries_of(0, 3))
    first = call("journal", {"unit": "nginx"}, policy=SEES_ALL, root=root)
    assert (first["entries"], first["more"]) == ([], False)
    nothing = call("journal", {"unit": "nginx", "cursor": first["cursor"]}, policy=SEES_ALL, root=root)
    assert nothing == first
    written(*entries_of(3, 2), *entries_of(5, 1, unit="ssh.service"))
    answer = call("journal", {"unit": "nginx", "cursor": first["cursor"]}, policy=SEES_ALL, root=root)
    assert answer["entries"] == [
        {"at": BEGIN + at, "message": f"message {at}", "unit": "nginx.service", "identifier": "nginx", "pid": 12,
         "priority": "info"} for at in (3, 4)
    ]  # fmt: skip
    assert call("journal", {"unit": "nginx", "cursor": answer["cursor"]}, policy=SEES_ALL, root=root)["entries"] == []


def test_in_pieces(call, written):
    """A journal is read in several calls while `more` is true, and no entry is lost or comes twice."""
    root = written(*entries_of(0, 25))
    cursor, seen, calls = f"@{BEGIN - 1}", [], 0
    for _ in range(10):
        answer = call("journal", {"cursor": cursor, "limit": 10}, policy=SEES_ALL, root=root)
        cursor, calls = answer["cursor"], calls + 1
        seen += [one["message"] for one in answer["entries"]]
        if not answer["more"]:
            break
    assert (seen, calls) == ([f"message {at}" for at in range(25)], 3)


def test_only_what_is_asked_for(call, written):
    """The call gives the entries of a unit, of a priority, of the kernel, or of all units."""
    root = written(
        *entries_of(0, 1, priority=3),
        *entries_of(1, 1, priority=4),
        *entries_of(2, 1, unit="ssh.service", priority=2),
        *entries_of(3, 1, unit="", _TRANSPORT="kernel", SYSLOG_IDENTIFIER="kernel", PRIORITY="3"),
    )

    def found(**wanted: str) -> list[str]:
        answer = call("journal", {"cursor": f"@{BEGIN - 1}"} | wanted, policy=SEES_ALL, root=root)
        return [one["message"][-1] for one in answer["entries"]]

    assert found() == ["0", "1", "2", "3"]
    assert found(priority="err") == ["0", "2", "3"]
    assert found(unit="nginx.service") == ["0", "1"]
    assert found(unit="nginx", priority="err") == ["0"]
    assert found(unit="kernel") == ["3"]
    assert found(unit="none.service") == []


def test_a_journal_that_has_more_than_an_answer_takes(call, written, monkeypatch):
    """journalctl is stopped at the limit, and the next call goes on behind the last whole entry."""
    monkeypatch.setattr(journal, "OUTPUT_BYTES", 4096)
    root = written(*entries_of(0, 40))
    answer = call("journal", {"cursor": f"@{BEGIN - 1}"}, policy=SEES_ALL, root=root)
    taken = len(answer["entries"])
    assert 0 < taken < 40 and answer["more"]
    rest = call("journal", {"cursor": answer["cursor"]}, policy=SEES_ALL, root=root)
    assert rest["entries"][0]["message"] == f"message {taken}"


def test_since(call, said):
    """Without a cursor, `since` asks journalctl for that many seconds of the past."""
    root = said('for word in "$@"; do case $word in --since=*) echo "$word" >&2;; esac; done; exit 3')
    with pytest.raises(Exception, match=r"journalctl: --since=@\d{10}\.\d{6}"):
        call("journal", {"since": 3600}, policy=SEES_ALL, root=root)


@pytest.fixture
def said(tmp_path, monkeypatch):
    """Puts a script in place of journalctl, and answers a root that has a journal."""

    def write(text: str) -> str:
        path = tmp_path / "journalctl"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        monkeypatch.setattr(journal, "JOURNALCTL", str(path))
        (tmp_path / "root" / "run" / "log" / "journal").mkdir(parents=True, exist_ok=True)
        return str(tmp_path / "root")

    return write


CURSOR = "s=" + "ab" * 16 + ";i=1f;b=" + "0" * 32 + ";m=1;t=60a24181e4000;x=92f8b1fa511de5bb"


def line(**fields: object) -> str:
    return json.dumps({"__CURSOR": CURSOR, "__REALTIME_TIMESTAMP": "1700000000250000"} | fields)


@pytest.mark.parametrize(
    ("fields", "entry"),
    [
        ({"MESSAGE": "plain"}, {"message": "plain"}),
        ({"MESSAGE": [255, 0, 65]}, {"message": "\ufffd\0A"}),
        ({"MESSAGE": ["one", "two"]}, {"message": "one"}),
        ({"MESSAGE": [[104, 105], "two"]}, {"message": ""}),
        ({"MESSAGE": "x" * 5000}, {"message": "x" * 2048}),
        ({"MESSAGE": None}, {"message": "(a message without a text, or one that is longer than journalctl prints)"}),
        ({"MESSAGE": {"a": 1}, "PRIORITY": 3, "_PID": [1]}, {"message": ""}),
        ({"MESSAGE": "m", "PRIORITY": "9", "_PID": "x"}, {"message": "m"}),
        ({"MESSAGE": "m", "_SYSTEMD_UNIT": "init.scope", "UNIT": "a.service"}, {"message": "m", "unit": "a.service"}),
        ({"MESSAGE": "m", "_SYSTEMD_UNIT": "b.service", "UNIT": "a.service"}, {"message": "m", "unit": "b.service"}),
        (
            {"MESSAGE": "m", "_COMM": "cron", "PRIORITY": "0"},
            {"message": "m", "identifier": "cron", "priority": "emerg"},
        ),
    ],
)
def test_fields_of_any_type(call, said, fields, entry):
    """A field of any type that a program has logged gives an entry with a text."""
    root = said(f"cat <<'END'\n{line(**fields)}\nEND")
    answer = call("journal", {"cursor": CURSOR}, policy=SEES_ALL, root=root)
    assert answer == {"entries": [{"at": 1_700_000_000.25} | entry], "cursor": CURSOR, "more": False}


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ("echo 'Hint: You are currently not seeing messages from other users' >&2", "failed", "group systemd-journal"),
        (
            "echo 'No journal files were opened due to insufficient permissions.' >&2; exit 1",
            "failed",
            "systemd-journal",
        ),
        ("echo 'Failed to seek to cursor: Invalid argument' >&2; exit 1", "failed", "journalctl: Failed to seek"),
        ("exit 7", "failed", "journalctl: exit status 7"),
        ("kill -9 $$", "failed", "journalctl: exit status -9"),
        ("echo '{\"MESSAGE\": '", "protocol", "a line of journalctl is not JSON"),
        ("echo '{\"MESSAGE\": 1}'", "protocol", "a line of journalctl has no cursor"),
        ("yes | tr -d '\\n' | head -c 5000000", "too-large", "longer than 1048576 bytes"),
        ("sleep 300", "timeout", "journalctl did not answer within 0.3 s"),
    ],
)
def test_a_journal_that_cannot_be_read(failure, said, monkeypatch, script, code, words):
    """A journal that cannot be read is a failure, never an empty answer, which a check would take for silence."""
    monkeypatch.setattr(journal, "JOURNALCTL_SECONDS", 0.3 if code == "timeout" else 60.0)
    found, text = failure("journal", {"cursor": CURSOR}, policy=SEES_ALL, root=said(script))
    assert (found, words in text) == (code, True), text


def test_a_host_without_a_journal(failure, plant, monkeypatch):
    """A host without a folder of the journal, or without journalctl, is reported as unsupported."""
    assert failure("journal", {}, policy=SEES_ALL, root=plant({"/x": ""}))[0] == "unsupported"
    monkeypatch.setattr(journal, "JOURNALCTL", "/does/not/exist")
    root = plant({"/var/log/journal/x": ""})
    assert failure("journal", {}, policy=SEES_ALL, root=root)[0] == "unsupported"


def test_a_journal_without_an_entry(call, said):
    """A journal without an entry gives a time as its cursor, from which the next call goes on."""
    root = said("echo '-- No entries --'")
    first = call("journal", {}, policy=SEES_ALL, root=root)
    assert first["entries"] == [] and first["cursor"].startswith("@")
    assert call("journal", {"cursor": first["cursor"]}, policy=SEES_ALL, root=root)["cursor"] == first["cursor"]


@pytest.mark.adversary(41)
@pytest.mark.parametrize(
    "arguments",
    [{"unit": "--file=/etc/shadow"}, {"unit": "a*"}, {"unit": "a b"}, {"unit": ""}, {"unit": 5}, {"priority": "3"},
     {"priority": "err..debug"}, {"cursor": "--all"}, {"cursor": "s=1"}, {"cursor": CURSOR + "\n"}, {"cursor": "@-1"},
     {"since": -1}, {"since": 700_000}, {"limit": 0}, {"limit": 2001}, {"lines": 5}, {"cursor": CURSOR + " --merge"}],
)  # fmt: skip
def test_arguments_that_are_wrong(failure, said, arguments):
    """Wrong arguments are refused, so that no option, pattern or second word reaches journalctl."""
    assert failure("journal", arguments, policy=SEES_ALL, root=said("echo ran >&2; exit 1"))[0] == "bad-arguments"


@pytest.mark.parametrize(
    ("units", "asked", "is_read"),
    [
        ('["nginx.service"]', {"unit": "nginx"}, True),
        ('["nginx.service"]', {"unit": "ssh"}, False),
        ('["nginx.service"]', {}, False),
        ('["nginx.service"]', {"unit": "kernel"}, False),
        ('["pg*"]', {"unit": "pg@1.service"}, True),
        ('["a*", "b*"]', {}, False),
        ('["kernel"]', {"unit": "kernel"}, True),
        ('["*"]', {}, True),
    ],
)
def test_units_need_a_grant(call, failure, said, units, asked, is_read):
    """A unit is read if its name or a pattern is granted; the whole journal needs a star."""
    policy = Policy.parse(f"[caps.journal]\nunits = {units}\n".encode(), None)
    root = said("true")
    if is_read:
        assert call("journal", asked, policy=policy, root=root)["entries"] == []
    else:
        code, text = failure("journal", asked, policy=policy, root=root)
        assert code == "denied"
        assert "section [caps.journal]: units = [" in text
