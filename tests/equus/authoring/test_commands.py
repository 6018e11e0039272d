"""Test equus run, test and lint as commands: what they print, and their exit statuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from equus.main import main

BODIES = {
    "fine": 'host.metric("x", 1, { unit = "B" }) print("long text") return "ok", "all is well"',
    "worried": 'return "warning", "load is high"',
    "broken": 'return "critical", "it is down"',
    "faulty": 'error("on purpose")',
    "counting": 'local n = (host.state.get("n") or 0) + 1 host.state.put("n", n) host.log("run " .. n) '
    'return "ok", tostring(n)',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Write a folder of checks, one for each state, and return it."""
    path = tmp_path_factory.mktemp("checks")
    for name, body in BODIES.items():
        source = f'local check = {{ summary = "{name}", args = {{ say = {{ type = "string" }} }} }}\n'
        (path / f"{name}.lua").write_text(f"{source}function check.run(args, host)\n  {body}\nend\nreturn check\n")
    (path / "tests").mkdir()
    (path / "tests" / "worried.lua").write_text(
        'return { { name = "is", expect = { status = "warning", summary = "load is high" } } }'
    )
    (path / "tests" / "broken.lua").write_text('return {\n  { name = "is not", expect = { status = "ok" } },\n}')
    return path


def equus(*words: str) -> Result:
    """Run the command in this process, which is quicker; tests below run it once as a shell does."""
    return CliRunner().invoke(main, words, prog_name="equus")


def equus_process(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EQUUS_")}
    command = [sys.executable, "-m", "equus.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)


@pytest.mark.parametrize(
    ("check", "status", "output"),
    [
        ("fine", 0, "OK: all is well | x=1B\nlong text\n"),
        ("worried", 1, "WARNING: load is high\n"),
        ("broken", 2, "CRITICAL: it is down\n"),
    ],
)
def test_run_exits_with_the_state(folder, check, status, output):
    """`equus run` exits with the status of the check and prints what a Nagios plugin prints."""
    done = equus_process("run", check, "--checks", str(folder))
    assert (done.returncode, done.stdout) == (status, output)


def test_run_of_a_check_that_breaks(folder):
    """A check that breaks ends as unknown, and the summary names the file and the line."""
    done = equus("run", "faulty", "--checks", str(folder), "--output", "json")
    result = json.loads(done.stdout)
    assert (done.exit_code, result["status"], result["reason"]) == (3, "unknown", "crashed")
    assert "faulty.lua:3: on purpose" in result["summary"]


def test_run_names_what_is_near(folder):
    """An unknown check is reported as UNKNOWN on stdout, where a monitoring core reads, with the name that is near."""
    done = equus("run", "worrid", "--checks", str(folder))
    assert (done.exit_code, done.stdout) == (
        3,
        f"UNKNOWN: there is no check worrid in {folder}; did you mean worried?\n",
    )


@pytest.mark.parametrize(
    "words", [("run",), ("run", "fine", "--nonsense"), ("run", "fine", "--output", "xml"), ("run", "a", "b")]
)
def test_wrong_usage_of_run_is_no_critical(words):
    """Wrong usage of `equus run` exits with 3, not with click's 2, which Nagios reads as critical."""
    assert equus(*words).exit_code == 3


def test_wrong_usage_of_run_in_a_shell():
    """A process of its own exits with 3 as well, and prints the sentence on stderr."""
    done = equus_process("run", "fine", "--nonsense")
    assert (done.returncode, done.stdout) == (3, "")
    assert "--nonsense" in done.stderr


@pytest.mark.parametrize(
    ("flags", "words", "status"),
    [
        (("--policy", "{}"), ("run", "fine"), 3),
        (("--state", "{}"), ("run", "fine"), 3),
        (("--checks", "{}"), ("test",), 2),
        (("--checks", "{}", "--log-level", "debug"), ("lint",), 2),
        (("--policy", "{}"), ("policy", "check"), 2),
        (("--once",), ("run", "fine"), 3),
        (("--server", "a:1", "--server", "b:1"), ("run", "fine"), 3),
    ],
)
def test_a_flag_before_a_subcommand_is_not_passed_over(folder, tmp_path, flags, words, status):
    """A flag before the subcommand is refused, and nothing runs: it is the agent's own or stands in the wrong place
    (F69).
    """
    given = [flag.format(tmp_path) for flag in flags]
    done = equus(*given, *words)
    assert (done.exit_code, done.stdout) == (status, "")
    assert f"{given[0]} before `{words[0]}` is" in done.stderr
    behind = given[0] in ("--policy", "--state", "--checks") and words[0] != "policy"
    assert (f"write it behind: equus {words[0]} {given[0]}" in done.stderr) is behind


def test_run_refuses_bad_arguments_and_folders(folder, tmp_path):
    """Bad arguments, missing folders and faulty policies are each refused with a sentence and status 3."""
    done = equus("run", "fine", "--checks", str(folder), "--args", '{"sya": "x"}')
    assert done.exit_code == 3
    assert done.stdout.startswith('UNKNOWN: there is no argument "sya"')
    gone = equus("run", "fine", "--checks", str(tmp_path / "gone"))
    assert (gone.exit_code, "is not a folder of checks" in gone.stdout) == (3, True)
    (tmp_path / "policy.toml").write_text("nonsense = 1\n")
    policy = equus("run", "fine", "--checks", str(folder), "--policy", str(tmp_path / "policy.toml"))
    assert (policy.exit_code, "nonsense is not a setting" in policy.stdout) == (3, True)


def test_run_of_a_file_with_state_kept(folder, tmp_path):
    """`equus run` takes the path of a check, keeps its state in --state, and writes its log to stderr."""
    for count in (1, 2):
        done = equus("run", str(folder / "counting.lua"), "--state", str(tmp_path))
        assert (done.stdout, done.exit_code) == (f"OK: {count}\n", 0)
        assert f"log: run {count}" in done.stderr


def test_test(folder):
    """`equus test` shows expected and actual of a case that fails, and exits with 1 if any fails."""
    done = equus("test", "worried", "--checks", str(folder))
    assert (done.exit_code, done.stdout) == (0, "1 of 1 tests of 1 check pass\n")
    done = equus("test", "--checks", str(folder))
    assert (done.exit_code, done.stdout) == (
        1,
        f"{folder}/tests/broken.lua:2: broken: is not\n"
        '  status\n    expected "ok"\n    actual   "critical"\n'
        "1 of 2 tests of 2 checks pass\n",
    )
    assert equus("test", "fine", "--checks", str(folder)).exit_code == 2


def test_no_tests_are_no_success(tmp_path):
    """A folder without any test is an error, and not one in which all tests pass."""
    (tmp_path / "disk.lua").write_text('return { summary = "x", run = function() return "ok" end }')
    result = equus("test", "--checks", str(tmp_path))
    assert (result.exit_code, result.output) == (
        1, f"no tests: none of 1 check in {tmp_path} has a file tests/NAME.lua\n",
    )  # fmt: skip


def test_lint_as_text(folder, tmp_path):
    """`equus lint` prints problems as `file:line: message`, and exits with 0 if all of them are warnings."""
    (tmp_path / "a.lua").write_text('return { summary = "a", run = function(args, host) local x = 1 end }\n')
    done = equus("lint", str(tmp_path))
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path}/a.lua:1: warning: x is never used\n")
    (tmp_path / "b.lua").write_text("\nreturn oops\n")
    done = equus("lint", str(tmp_path / "b.lua"))
    assert done.exit_code == 1
    assert f"{tmp_path}/b.lua:2: oops is not defined\n" in done.stdout


def test_lint_runs_the_tests_unless_it_is_told_not_to(folder):
    """`equus lint` reports a failed test as an error of its check, and runs no tests with --no-tests."""
    document = json.loads(equus("lint", "--output", "json", str(folder)).stdout)
    assert [one["text"] for one in document["files"]["broken.lua"]["problems"]] == [
        'test \'is not\' (tests/broken.lua:2) fails: status\n    expected "ok"\n    actual   "critical"'
    ]
    done = equus("lint", "--no-tests", "--output", "json", str(folder))
    assert done.exit_code == 0
    assert set(json.loads(done.stdout)["files"]) == {f"{name}.lua" for name in BODIES}


def test_lint_prints_json_whatever_the_files_hold(tmp_path):
    """`equus lint` prints JSON for bytecode, pipes, bad names, megabytes and folders that are files."""
    (tmp_path / "code.lua").write_bytes(b"\x1bLua\xff\xfe")
    (tmp_path / "deep.lua").write_bytes(b"return " + b"(" * 100_000)
    (tmp_path / "huge.lua").write_bytes(b"-" * 1_048_577)
    (tmp_path / "bad name.lua").write_bytes(b"return 1")
    (tmp_path / "empty.lua").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe.lua")
    (tmp_path / "lib").write_text("a file")
    done = equus("lint", "--output", "json", str(tmp_path))
    files = json.loads(done.stdout)["files"]
    assert done.exit_code == 1
    assert {name: (one["table"], one["problems"][0]["severity"]) for name, one in files.items()} == dict.fromkeys(
        ("code.lua", "deep.lua", "huge.lua", "bad name.lua", "empty.lua", "pipe.lua"), (None, "error")
    )
    gone = equus("lint", "--output", "json", str(tmp_path / "gone"))
    assert (gone.exit_code, json.loads(gone.stdout)["files"]) == (2, {})


def test_a_file_that_is_not_there(tmp_path):
    """A missing file is reported as missing, not as a check that its folder lacks."""
    path = tmp_path / "none.lua"
    done = equus("run", str(path))
    assert (done.exit_code, done.stdout) == (3, f"UNKNOWN: {path} does not exist\n")
    done = equus("lint", str(path))
    assert (done.exit_code, f"Error: {path} does not exist" in done.stderr) == (2, True)
