"""Test host.program: the whole output of a program that the policy names, as text or as JSON, or an error that says why
not.
"""

import json

import pytest

from equus.policy.policy import Policy
from equus.processes.spawn import close_spawner


@pytest.fixture(autouse=True, scope="module")
def _no_spawner_left():
    """End the process that forks programs after these tests."""
    yield
    close_spawner()


@pytest.fixture
def named(tmp_path):
    """Writes a shell script, and answers a policy that names it `tool`."""

    def write(text: str, more: str = "", arguments: str = "") -> Policy:
        path = tmp_path / "tool"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return Policy.parse(f'[programs.tool]\ncommand = ["{path}"{arguments}]\n{more}'.encode(), None)

    return write


DEVICE = '[programs.tool.slots.device]\ntype = "path"\npaths = ["/dev"]\n'


def test_text(call, named):
    """The answer has the text of both outputs and the exit status, which is no failure."""
    policy = named('echo "of $2: ü"; echo trouble >&2; exit 64', DEVICE, ', "--all", "{device}"')
    answer = call("program", {"name": "tool", "args": {"device": "/dev/sda"}}, policy=policy)
    assert answer.pop("seconds") > 0
    assert answer == {"text": "of /dev/sda: ü\n", "errors": "trouble\n", "exit_status": 64}


def test_json(call, named):
    """JSON is parsed whatever the exit status is, with numbers beyond 64 bits and texts with any character."""
    document = {"a": [1, 2.5, None, True], "big": 10**30, "text": '\u2028\U0001f600 \\ "', "empty": {}}
    policy = named(f"cat <<'END'\n{json.dumps(document)}\nEND\nexit 4")
    answer = call("program", {"name": "tool", "json": True}, policy=policy)
    assert (answer["json"], answer["exit_status"], "text" in answer) == (document, 4, False)


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("echo 'no such device'; exit 2", "(exit status 2): it begins with 'no such device'"),
        ("echo '{\"a\": 1'", "(exit status 0): it begins with '{\"a\": 1'"),
        ("echo '{\"a\": NaN}'", "(exit status 0): it begins with '{\"a\": NaN}'"),
        ("echo 'no disk' >&2; echo more >&2; exit 3", "(exit status 3): it is empty; the program says: no disk"),
        ("exit 0", "(exit status 0): it is empty; the program says nothing"),
        ("printf '\\033[2J\\0'", "(exit status 0): it begins with '\\x1b[2J\\x00'"),
        ("head -c 200000 /dev/zero | tr '\\0' '['", f"(exit status 0): it begins with '{'[' * 60}'"),
        ("printf '1%.0s' $(seq 5000)", f"(exit status 0): it begins with '{'1' * 60}'"),
    ],
)
def test_what_is_no_json(failure, named, script, text):
    """Output that is no JSON fails, and the text has its beginning or the program's error output."""
    expected = ("protocol", f"the output of program tool is not JSON {text}")
    assert failure("program", {"name": "tool", "json": True}, policy=named(script)) == expected


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize(
    ("script", "code", "text"),
    [
        ("yes 0123456789 | head -c 10485760", "too-large", "program tool was killed: it wrote more than 4 MiB"),
        ("yes >&2", "too-large", "program tool was killed: it wrote more than 4 MiB"),
        ("head -c 262145 /dev/zero", "too-large", "program tool wrote 262145 bytes, and this call takes 262144: raise"
         " limit, to at most 1048576"),
        ("echo '{}'; kill -SEGV $$", "failed", "program tool was killed by signal 11"),
    ],
)  # fmt: skip
def test_output_that_is_not_whole(failure, named, script, code, text, as_json):
    """Output that is not whole fails: 10 MB, endless error output, a byte too many, a program that was killed."""
    assert failure("program", {"name": "tool", "json": as_json}, policy=named(script)) == (code, text)


def test_the_limit(call, failure, named):
    """The limit is the caller's, up to 1 MiB, and longer output fails as too large."""
    policy = named("head -c 300000 /dev/zero | tr '\\0' a")
    assert call("program", {"name": "tool", "limit": 300_000}, policy=policy)["text"] == "a" * 300_000
    assert failure("program", {"name": "tool", "limit": 299_999}, policy=policy)[0] == "too-large"
    assert failure("program", {"name": "tool", "limit": 1_048_577}, policy=policy)[0] == "bad-arguments"
    too_long = named("head -c 1048577 /dev/zero")
    text = "program tool wrote 1048577 bytes, and this call takes 1048576: ask the program for less"
    assert failure("program", {"name": "tool", "limit": 1_048_576}, policy=too_long) == ("too-large", text)


@pytest.mark.parametrize(
    ("asked", "policys", "said"), [(0.2, "30s", "0.2 s"), (20, "200ms", "0.2 s"), (None, "0.3s", "0.3 s")]
)
def test_a_program_that_hangs(failure, named, asked, policys, said):
    """The shorter of both time limits counts, and a child that holds the output open does not lengthen it."""
    policy = named("sleep 300 & trap '' TERM; while :; do sleep 0.05; done", f'timeout = "{policys}"\n')
    arguments = {"name": "tool"} | ({} if asked is None else {"timeout": asked})
    assert failure("program", arguments, policy=policy) == ("timeout", f"program tool timed out after {said}")


def test_a_run_that_has_no_time_left(failure, named):
    """A run that has no time left starts no program and fails as a timeout."""
    assert failure("program", {"name": "tool"}, policy=named("echo"), seconds=-1.0)[0] == "timeout"


@pytest.mark.adversary(41)
@pytest.mark.parametrize("value", ["-x", "/etc/passwd", "/dev/../etc/passwd", "/dev/a\nb", "x" * 100_000, 5, [1]])
def test_slots_take_only_what_their_type_says(failure, named, value):
    """A slot refuses options, other files and line ends before anything runs."""
    policy = named("echo ran", DEVICE, ', "{device}"')
    code, text = failure("program", {"name": "tool", "args": {"device": value}}, policy=policy)
    assert code == "bad-arguments"
    assert text.startswith("host.program: program tool: device ")


@pytest.mark.parametrize("arguments", [{}, {"name": ""}, {"name": "tool", "args": "x"}, {"name": "tool", "arg": {}}])
def test_arguments_that_are_wrong(failure, named, arguments):
    """A missing name, slots that are no table, and a misspelt argument are refused."""
    assert failure("program", arguments, policy=named("echo ran"))[0] == "bad-arguments"


def test_only_what_the_policy_names(failure, call, named):
    """Only a program that the policy names runs: no other name, no path, and none that [caps.program] leaves out."""
    policy = named("echo ran")
    code, text = failure("program", {"name": "smartctl"}, policy=policy)
    assert (code, text) == (
        "denied",
        "the host's policy names no program smartctl: add [programs.smartctl] with its command there (then"
        " [caps.program] grants it)",
    )
    assert failure("program", {"name": "/bin/sh"}, policy=policy)[0] == "denied"
    code, text = failure("program", {"name": "tool"}, policy=named("echo ran", '[caps.program]\nnames = ["other"]\n'))
    assert code == "denied"
    assert text.endswith('section [caps.program]: names = ["tool"]')
    assert call("program", {"name": "tool", "args": []}, policy=policy)["text"] == "ran\n"


@pytest.mark.adversary(43)
def test_a_program_that_others_can_change(failure, named, tmp_path):
    """A program that other users can change is not run, and the text says so."""
    policy = named("echo ran")
    (tmp_path / "tool").chmod(0o777)
    code, text = failure("program", {"name": "tool"}, policy=policy)
    assert code == "denied"
    assert text.startswith("program tool is never run like this: ")


def test_a_program_that_is_not_there(failure, named, tmp_path):
    """A missing program or an unknown user fails with a sentence that names it."""
    policy = named("echo ran", 'user = "nobody-of-that-name"\n')
    expected = ("failed", "program tool: this host has no user nobody-of-that-name")
    assert failure("program", {"name": "tool"}, policy=policy) == expected
    policy = named("echo ran")
    (tmp_path / "tool").unlink()
    code, text = failure("program", {"name": "tool"}, policy=policy)
    assert code == "failed"
    assert text.startswith("program tool cannot be started: ")
