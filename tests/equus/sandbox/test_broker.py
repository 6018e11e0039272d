"""Test the broker's judgement without processes: policy, budgets, audit log and state."""

import errno
import inspect
import json
import math
import os
import time
from pathlib import Path
from typing import Any

import pytest

from equus.capabilities import registry
from equus.capabilities.calls import Call, CallFailed, Context
from equus.policy.policy import Policy
from equus.sandbox import processes
from equus.sandbox.audit import AUDIT_BYTES, AuditLog
from equus.sandbox.broker import PROGRAMS, AttachedRun, Broker, Usage
from equus.sandbox.frames import CALL
from equus.sandbox.state_store import STATE_LIMIT, StateError, StateStore, StateUnread
from equus.sandbox.value_codec import decode, encode

SEEN: list[tuple[list[Any], Context]] = []


def perform(args: list[Any], policy: Policy, context: Context) -> Any:
    SEEN.append((args, context))
    if args and args[0] == "deny":
        raise CallFailed("denied", "not this one")
    if args and args[0] == "never":
        raise CallFailed("denied", "that is never reached")
    return args[1] if len(args) > 1 else "done"


CALLS = {"figure": Call("host", perform), "read": Call("file", perform)}


def broker(tmp_path: Path, policy: str = "") -> Broker:
    found = Policy.parse(policy.encode(), "p.toml")
    return Broker(CALLS, found, StateStore(tmp_path / "state"), AuditLog(tmp_path / "audit.log"), (str(tmp_path),))


def ask(of: Broker, call: str, *args: Any, usage: Usage | None = None, deadline: float | None = None) -> dict[str, Any]:
    """Make one call of the check `c`, whose run has 10 s left, and return the decoded answer."""
    now = time.monotonic()
    question = CALL.pack(now + 5 if deadline is None else deadline, len(call)) + call.encode() + encode(args)
    return decode(of.answer(AttachedRun("c", "s", now + 10), usage or Usage(), question))


def audited(tmp_path: Path) -> list[dict[str, Any]]:
    path = tmp_path / "audit.log"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_an_answer(tmp_path: Path) -> None:
    """An answer has a value, and the call gets a context with the check, the deadline and the private folders."""
    SEEN.clear()
    deadline = time.monotonic() + 5
    assert ask(broker(tmp_path), "figure", 1, [2], deadline=deadline) == {"value": [2]}
    [(args, context)] = SEEN
    assert args == [1, [2]]
    assert context.check == "c"
    assert context.deadline == deadline
    assert 8_000_000 < context.bytes_left < 8 * 1_048_576
    assert context.private == (str(tmp_path),)


def test_a_worker_cannot_lengthen_its_deadline(tmp_path: Path) -> None:
    """A worker cannot lengthen its deadline beyond that of the agent."""
    SEEN.clear()
    ask(broker(tmp_path), "figure", deadline=1e12)
    assert SEEN[0][1].deadline - time.monotonic() <= 10


def test_every_call_that_starts_a_program_is_looked_through_for_secrets() -> None:
    """Each call that starts a program is searched for secrets, because every user of the host can read a program's
    arguments.
    """
    modules = {call.capability: inspect.getmodule(call.perform) for call in registry.CALLS.values()}
    starts = ("run_program", "run_allowed")
    assert {name for name, module in modules.items() if any(hasattr(module, each) for each in starts)} == set(PROGRAMS)


def test_the_broker_hears_of_each_file_of_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker is given each file of the agent: the state folder, and those that the settings name."""
    started: list[tuple[Any, ...]] = []
    monkeypatch.setattr(processes, "_start", lambda *words: started.append(words))
    processes.Processes.start(None, tmp_path / "state", private=(Path("/srv/secrets.toml"),))
    [settings] = [json.loads(words[2]) for words in started if words[0] == processes.BROKER]
    assert settings["private"] == [str(tmp_path / "state"), "/srv/secrets.toml"]


def test_denials_are_audited(tmp_path: Path) -> None:
    """Denials by the capability, by the call itself and by a fixed rule each have a line in the audit log."""
    of = broker(tmp_path)
    assert ask(of, "read", "/etc/shadow") == {
        "code": "denied",
        "text": 'this host does not grant "file": add to p.toml, section [caps.file]: paths = ["/var/log"]',
    }
    assert ask(of, "figure", "deny") == {
        "code": "denied",
        "text": "not this one; add to p.toml, section [caps.host]: allow = true",
    }
    assert ask(of, "figure", "never") == {"code": "denied", "text": "that is never reached"}
    assert ask(of, "figure", "fine") == {"value": "done"}
    assert [(line["check"], line["call"], line["arguments"]) for line in audited(tmp_path)] == [
        ("c", "read", '["/etc/shadow"]'),
        ("c", "figure", '["deny"]'),
        ("c", "figure", '["never"]'),
    ]
    assert (tmp_path / "audit.log").stat().st_mode & 0o777 == 0o600


def test_the_audit_log_is_bounded(tmp_path: Path) -> None:
    """The audit log has at most two files, of which the older is given up."""
    log = AuditLog(tmp_path / "audit.log")
    for number in range(1600):
        log.denied(float(number), "c", "read", ["x" * 2000], "t" * 5000)
    sizes = [path.stat().st_size for path in sorted(tmp_path.iterdir())]
    assert len(sizes) == 2
    assert all(0 < size <= AUDIT_BYTES for size in sizes)
    assert audited(tmp_path)[-1]["time"] == 1599
    assert log.count == 1600


def test_a_log_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A denial counts although the audit log cannot be written, and a link in its place is not followed."""
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / "audit.log").symlink_to("elsewhere")
    assert ask(broker(tmp_path), "read")["code"] == "denied"
    assert "audit log" in capsys.readouterr().err
    assert (tmp_path / "elsewhere").read_text() == ""


QUESTIONS = {
    "nothing": b"",
    "cut short": CALL.pack(1.0, 6)[:-1],
    "no arguments": CALL.pack(1.0, 6) + b"figure",
    "arguments that are none": CALL.pack(1.0, 6) + b"figure" + b"?",
    "arguments that are no list": CALL.pack(1.0, 6) + b"figure" + encode({"a": 1}),
    "an unknown call": CALL.pack(1.0, 2) + b"no" + encode([]),
    "a name that is no text": CALL.pack(1.0, 2) + b"\xff\xfe" + encode([]),
    "no deadline": CALL.pack(math.nan, 6) + b"figure" + encode([]),
    "a key that is a table": CALL.pack(1.0, 6) + b"figure" + b"a\1\0\0\0" + b"o\1\0\0\0" * 20 + b"n" * 21,
    "too deep": CALL.pack(1.0, 6) + b"figure" + b"a\x01\x00\x00\x00" * 100_000,
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_that_are_none(tmp_path: Path, name: str) -> None:
    """A question that is none is answered with an error, since a worker may send anything."""
    answer = decode(broker(tmp_path).answer(AttachedRun("c", "s", time.monotonic() + 9), Usage(), QUESTIONS[name]))
    assert answer["code"] == "bad-arguments"


def test_budgets(tmp_path: Path) -> None:
    """A run has as many calls and bytes as the policy says, and refused calls count too."""
    of = broker(tmp_path, "[limits]\ncalls = 3\nmoved_mib = 1\n")
    usage = Usage()
    answers = [ask(of, call, usage=usage) for call in ("figure", "read", "figure", "figure")]
    assert [next(iter(answer)) for answer in answers] == ["value", "code", "value", "code"]
    assert answers[3] == {"code": "budget", "text": "this run has made its 3 host calls"}
    usage = Usage()
    assert "value" in ask(of, "figure", 1, "x" * 500_000, usage=usage)
    assert ask(of, "figure", 1, "x" * 500_000, usage=usage)["code"] == "budget"


def test_state(tmp_path: Path) -> None:
    """A state is kept on disk by owner and key, and a damaged file counts as empty."""
    store = StateStore(tmp_path / "s")
    store.put("a", "k", {"n": 1})
    store.put("b", "k", 2)
    again = StateStore(tmp_path / "s")
    assert (again.get("a", "k"), again.get("b", "k"), again.get("a", "x"), again.get("c", "k")) == (
        {"n": 1},
        2,
        None,
        None,
    )
    again.put("a", "k", None)
    assert StateStore(tmp_path / "s").get("a", "k") is None
    for path in (tmp_path / "s").iterdir():
        path.write_bytes(b"\xff{")
    assert StateStore(tmp_path / "s").get("b", "k") is None


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.EACCES, errno.ENOMEM])
def test_a_state_that_cannot_be_opened_now_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """The check would begin anew, and write over what it had: it gets a sentence, and that run stores nothing."""
    StateStore(tmp_path / "s").put("a", "k", 7)
    again, of = StateStore(tmp_path / "s"), broker(tmp_path)
    of.state = again

    def no_descriptor(path: Path) -> bytes:
        raise OSError(code, os.strerror(code), str(path))

    with monkeypatch.context() as without:
        without.setattr(Path, "read_bytes", no_descriptor)
        for act in (lambda: again.get("a", "k"), lambda: again.put("a", "other", 1)):
            with pytest.raises(StateUnread, match=f"host.state cannot be read: {os.strerror(code)}"):
                act()
        usage = Usage()
        refused = {"code": "failed", "text": f"host.state cannot be read: {os.strerror(code)}"}
        assert ask(of, "state.get", "k", usage=usage) == refused
    assert ask(of, "state.put", "k", 1, usage=usage) == refused
    assert (again.get("a", "k"), again.get("a", "other")) == (7, None)


def test_a_state_on_a_disk_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk fails, a check goes on with an empty state in memory, and the file stays for a start after the
    repair.
    """
    StateStore(tmp_path / "s").put("a", "k", 7)
    again = StateStore(tmp_path / "s")

    def failing(path: Path) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    with monkeypatch.context() as broken:
        broken.setattr(Path, "read_bytes", failing)
        assert again.get("a", "k") is None
    again.put("a", "k", 8)
    assert again.get("a", "k") == 8
    assert StateStore(tmp_path / "s").get("a", "k") == 7


def test_a_state_that_ends_with_its_run(tmp_path: Path) -> None:
    """A state of a single run begins empty, is seen by that run alone, and leaves nothing on disk."""
    of, now = broker(tmp_path), time.monotonic()
    of.state.put("c", "k", "of the check")

    def asked(run: AttachedRun, *args: Any) -> Any:
        call = "state.put" if len(args) > 1 else "state.get"
        question = CALL.pack(now + 5, len(call)) + call.encode() + encode(list(args))
        return decode(of.answer(run, Usage(), question))["value"]

    runs = [AttachedRun("c", None, now + 10) for _ in range(2)]
    assert asked(runs[0], "k") is None
    asked(runs[0], "k", 1)
    assert [asked(run, "k") for run in runs] == [1, None]
    assert of.state.get("c", "k") == "of the check"
    assert len(list((tmp_path / "state").iterdir())) == 1


@pytest.mark.parametrize(("size", "fits"), [(STATE_LIMIT - 8, True), (STATE_LIMIT - 7, False)])
def test_the_size_of_a_state(size: int, fits: bool) -> None:
    """A state takes 64 KiB as JSON, and no byte more."""
    store = StateStore(None)
    if fits:
        store.put("a", "k", "x" * size)
        assert store.get("a", "k") == "x" * size
    else:
        with pytest.raises(StateError, match="holds 65536 bytes"):
            store.put("a", "k", "x" * size)
        assert store.get("a", "k") is None


@pytest.mark.parametrize(("key", "fits"), [("k", True), ("k" * 128, True), ("k" * 129, False), ("", False)])
def test_keys_of_a_state(key: str, fits: bool) -> None:
    """A key of a state is a text of 1 to 128 characters."""
    if fits:
        StateStore(None).put("a", key, 1)
    else:
        with pytest.raises(StateError, match="key"):
            StateStore(None).put("a", key, 1)


def test_old_states_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old states are removed, so that a schedule that changes for years does not fill the disk."""
    monkeypatch.setattr("equus.sandbox.state_store.MOST_FILES", 3)
    store = StateStore(tmp_path)
    for number in range(5):
        store.put(f"owner{number}", "k", number)
    StateStore(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_a_state_that_goes_while_the_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that disappears while the folder is read, a dangling link and a folder do no harm."""
    monkeypatch.setattr("equus.sandbox.state_store.MOST_FILES", 1)
    StateStore(tmp_path).put("owner", "k", 1)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    really = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda folder: iter([*really(folder), folder / "gone.123"]))
    store = StateStore(tmp_path)
    store.put("another", "k", 2)
    assert store.get("another", "k") == 2


def test_state_can_be_taken_away(tmp_path: Path) -> None:
    """The policy can take away the state, as any other capability."""
    of = broker(tmp_path, "[caps.state]\nallow = false\n")
    assert ask(of, "state.put", "k", 1)["code"] == "denied"
    assert ask(broker(tmp_path), "state.put", 1)["code"] == "bad-arguments"
