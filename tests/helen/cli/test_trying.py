"""Tests `helen check` and `helen repl` against a real Helen with a real agent: runs, printed results, and stored
traces."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from helen_running import Running, a_fleet_of_one

from equus.authoring.commands import lint
from equus.authoring.commands import test as run_tests
from equus.capabilities.names import CAPABILITIES
from helen.cli.main import main
from helen.cli.repl import history_path, line_history, statements
from helen.queries import repl_source
from helen.queries.repl_source import Memory, frame, is_open, is_statement, remember

AVERAGE = """local text = require "average"
local check = { summary = "An average", needs = { "load" }, args = { word = { type = "string", default = "load" } } }
function check.run(args, host)
  local load = host.load()
  host.metric(args.word, text.of(load.one, load.five), { unit = "load", warn = "1000", labels = { of = "two" } })
  print("said on the way")
end
return check
"""
LIBRARY = "return { of = function(a, b) return (a + b) / 2 end }\n"


class Shell:
    """Run `helen ...` with HELEN_STATE set to that Helen."""

    def __init__(self, fleet: Running) -> None:
        self.fleet = fleet
        self.runner = CliRunner(env={"HELEN_STATE": str(fleet.state), "HELEN_URL": None, "HELEN_TOKEN": None})

    def __call__(self, *words: str, status: int = 0, typed: str | None = None) -> Result:
        result = self.runner.invoke(main, words, input=typed, prog_name="helen")
        assert result.exit_code == status, (result.output, result.stderr, result.exception)
        return result

    def repl(self, typed: str, status: int = 0) -> Result:
        return self("repl", "--agent", "web-1", typed=typed, status=status)


@pytest.fixture(scope="module")
def helen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Provide a fleet apart from the shared one, whose signing keys another test gives away: Helen itself signs code
    here."""
    with a_fleet_of_one(tmp_path_factory.mktemp("trying")) as running:
        yield Shell(running)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "average.lua").write_text(LIBRARY)
    path = tmp_path / "average.lua"
    path.write_text(AVERAGE)
    return path


# ---------------------------------------------------------------------------------------------- check new


def test_a_new_check(tmp_path: Path) -> None:
    """A new check passes lint and its own tests; the command names the next step and replaces no file of another
    author."""
    runner = CliRunner()
    result = runner.invoke(main, ["check", "new", "queue_depth", "--folder", str(tmp_path / "checks")])
    assert result.exit_code == 0, result.output
    assert f"helen check dry-run {tmp_path / 'checks' / 'queue_depth.lua'} --agent NAME" in result.output
    assert f"files to {tmp_path / 'checks' / 'lua-meta'}\n" in result.output
    assert (tmp_path / "checks" / ".luarc.json").exists()
    linted = runner.invoke(lint, [str(tmp_path / "checks")])
    assert (linted.exit_code, linted.stdout, linted.stderr) == (0, "", "2 files, 0 errors, 0 warnings\n")
    tested = runner.invoke(run_tests, ["queue_depth", "--checks", str(tmp_path / "checks")])
    assert (tested.exit_code, tested.output) == (0, "3 of 3 tests of 1 check pass\n")
    (tmp_path / "checks" / "lua-meta" / "host.lua").write_text("-- my own\n")
    second = runner.invoke(main, ["check", "new", "second", "--folder", str(tmp_path / "checks")])
    assert (second.exit_code, (tmp_path / "checks" / "second.lua").exists()) == (0, True)
    assert "No definitions for editors were written." in second.output
    assert "host.lua was not written by `equus lua-meta`: move it away" in second.stderr
    again = runner.invoke(main, ["check", "new", "queue_depth.lua", "--folder", str(tmp_path / "checks")])
    assert (again.exit_code, "queue_depth.lua exists already" in again.output) == (1, True)


@pytest.mark.parametrize("name", ["../x", "lib/x", "", ".x", "a b", "x" * 64])
def test_names_that_no_check_has(tmp_path: Path, name: str) -> None:
    """A name that no check can have is a usage error, and nothing is written."""
    result = CliRunner().invoke(main, ["check", "new", name, "--folder", str(tmp_path)])
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder that cannot be written is an error with a sentence."""
    (tmp_path / "tests").write_text("a file")
    result = CliRunner().invoke(main, ["check", "new", "x", "--folder", str(tmp_path)])
    assert (result.exit_code, "can't be written" in result.output) == (1, True)


# ---------------------------------------------------------------------------------------------- check dry-run


def test_a_dry_run(helen: Shell, file: Path) -> None:
    """A dry run runs the local file with its library on the agent, and shows state, metrics, output and cost."""
    shown = helen("check", "dry-run", str(file), "--agent", "web-1", "--args", '{"word": "mean"}').stdout
    assert re.match(r"web-1: OK mean [\d.]+ load \(of two\)\n +METRIC +VALUE +UNIT +WARN +CRIT +LABELS\n", shown), shown
    assert re.search(r"\n    mean +[\d.]+ +load +1000 +of=two\n    \| said on the way\n    took \d", shown)
    assert shown.endswith("nothing is kept\n1 answered\n")


def test_nothing_is_stored(helen: Shell, file: Path) -> None:
    """A dry run leaves no check, result, state or history, neither with Helen nor with the agent."""
    client, before = helen.fleet.client, helen.fleet.client.get("/api/v1/status")
    helen("check", "dry-run", str(file), "--on", "role=web", "--output", "json")
    assert "average" not in [each["name"] for each in client.get("/api/v1/checks")["checks"]]
    agent = client.get("/api/v1/agents/web-1")
    assert {result["check_id"] for result in agent["results"]} <= {"pulse", "endless", "equus"}
    assert client.get("/api/v1/status")["manifest"] == before["manifest"]
    assert b"average" not in b"".join(path.read_bytes() for path in (helen.fleet.state / "journal").glob("*.wal"))
    assert not list(helen.fleet.folder.glob("web-1/checks-state/*"))
    assert len(list((helen.fleet.folder / "web-1" / "library" / "objects").iterdir())) == 2


def test_a_fault_shows_its_line(helen: Shell, file: Path) -> None:
    """A fault of a dry run shows the line of the local file, for code that does not compile and for code that breaks
    off."""
    file.write_text(AVERAGE.replace("host.load()", "host.load())"))
    shown = helen("check", "dry-run", str(file), "--agent", "web-1", status=1).stdout
    assert "web-1: UNKNOWN average.lua:4: unexpected symbol near ')'" in shown
    assert re.search(r"\n    reason: load-error\n.*\n    >    4    local load = ", shown, re.S), shown
    file.write_text(AVERAGE.replace("load.one", "load.one.two"))
    shown = helen("check", "dry-run", str(file), "--agent", "web-1", status=1).stdout
    assert re.search(r"reason: crashed\n.*\n    >    5 ", shown, re.S), shown


def test_lint_speaks_as_well(helen: Shell, file: Path) -> None:
    """A dry run prints lint's findings as well, which concern code that the run may not have reached."""
    file.write_text(AVERAGE.replace("  print(", "  if not load then nonsense() end\n  print("))
    result = helen("check", "dry-run", str(file), "--agent", "web-1")
    assert f"{file}:6: error: " in result.stderr and "nonsense" in result.stderr
    [note] = json.loads(helen("check", "dry-run", str(file), "--agent", "web-1", "--output", "json").stdout)["lint"]
    assert note in result.stderr


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["{}"], 2, "no agent is named: give --agent NAME, or --on PATTERN"),
        (["{}", "--agent", "web-9"], 3, "no agent fits web-9"),
        (["{}", "--agent", "web-1", "--args", "[]"], 2, "write a JSON object"),
        (["{}", "--agent", "web-1", "--args", '{"speed": 1}'], 1, 'there is no argument "speed"'),
        (["{}", "--agent", "web-1", "--key", "/nowhere"], 1, "/nowhere"),
        (["/none.lua", "--agent", "web-1"], 2, "does not exist"),
    ],
)
def test_dry_runs_that_cannot_be(helen: Shell, file: Path, words: list[str], status: int, sentence: str) -> None:
    """A dry run that cannot be done says what is wrong, with a status by the kind of fault."""
    result = helen("check", "dry-run", *(word.replace("{}", str(file)) for word in words), status=status)
    assert sentence in result.output


def test_with_the_key(helen: Shell, file: Path) -> None:
    """A dry run signed with the agents' key is passed on by Helen, and one signed with another key is refused."""
    key = helen.fleet.state / "signing.key"
    assert "1 answered" in helen("check", "dry-run", str(file), "--agent", "web-1", "--key", str(key)).stdout
    other = helen.fleet.state / "online.key"
    result = helen("check", "dry-run", str(file), "--agent", "web-1", "--key", str(other), status=1)
    assert "0 good signature(s) of known keys, 1 needed. `helen keys` lists" in result.output


def test_names_of_the_protocol_are_no_checks(helen: Shell) -> None:
    """A run of a name of the protocol is refused, since an order has a way of its own with an audit."""
    result = helen("run", "equus:once", "--on", "web-1", status=2)
    assert "such names are the protocol's own" in result.output


# ---------------------------------------------------------------------------------------------- repl


def test_lines(helen: Shell) -> None:
    """The repl prints values as Lua writes them, keeps names and functions for later lines, and makes host calls."""
    shown = helen.repl(
        "1 + 1, 'a\\n', nil, true\n"
        "load = host.load()\n"
        "load.cpus > 0\n"
        "function twice(n)\n  return 2 * n\nend\n"
        "twice(21)\n"
        "t = { 1, 2.5, name = 'x', deep = { {} } }\n"
        "t\n"
        "for i = 1, 2 do\n  print(i)\nend\n"
        "host.file.read('/etc/shadow')\n"
        "load = nil\n"
        "load\n"
    ).output  # fmt: skip
    expected = (
        '2  "a\\10"  nil  true\ntrue\n42\n{ 1, 2.5, deep = { {} }, name = "x" }\n1\n2\n'
        'nil  "denied"  "this host does not grant \\"file\\": '
    )
    assert shown.startswith(expected), shown
    assert shown.endswith("\nnil\n")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("local a\n:quit\n1\n", ""),
        ("x = (\n)\n", "line 2: unexpected symbol near ')'\n"),
        ("do local a = nil\na.b = 1 end\n", "line 2: attempt to index a nil value (local 'a')\n"),
        ("print('before') error('mine')\n", "before\nline 1: mine\n"),
        ("x y\n", "line 1: syntax error near 'y'\n"),
        (":nonsense\n", ":nonsense is unknown: :help lists the commands\n"),
    ],
)  # fmt: skip
def test_faults(helen: Shell, typed: str, said: str) -> None:
    """A fault in the repl has the typed line's number, and ends a script with 1."""
    assert helen.repl(typed, status=0 if not said else 1).output == said


def test_what_is_not_kept(helen: Shell) -> None:
    """The repl names values that cannot be kept; `:vars` shows the kept ones and `:forget` drops them."""
    shown = helen.repl("a = 1; b = coroutine.create(print)\n:vars\n:forget\n:vars\na\n:help\n").output
    assert shown.startswith("not kept for the next line: b\na = 1\nnil\nLua runs on web-1, in its sandbox"), shown


def test_each_line_is_in_the_audit(helen: Shell) -> None:
    """Each line of the repl is in Helen's database for the audit."""
    helen.repl("'a line for the audit'\n")
    database = (helen.fleet.state / "helen.db").read_bytes() + (helen.fleet.state / "helen.db-wal").read_bytes()
    assert b"a line for the audit" in database


def test_an_agent_that_is_not_there(helen: Shell) -> None:
    """A repl with an unknown agent ends with 3 before anything is typed."""
    result = helen("repl", "--agent", "web-9", status=3, typed="1\n")
    assert "no agent is called 'web-9'" in result.output


# ---------------------------------------------------------------------------------------------- its parts


def test_all_capabilities_are_asked_for() -> None:
    """The repl asks for all capabilities, since the policy of a host decides which it grants."""
    assert set(repl_source.CAPABILITIES) == set(CAPABILITIES)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("x = 1", True), ("for i = 1, 2 do", False), ("for i = 1, 2 do print(i) end", True), ("if x then", False),
        ("if x then y() elseif z then w() end", True), ("f(", False), ("t = {", False), ("t = { '}' }", True),
        ("'end' -- do", True), ("--[[ open", True), ("[[ long", False), ("[==[ ]] ]==]", True), ("repeat", False),
        ("repeat until x", True), ("function f() return function() end end", True), ("while x do do end", False),
        ("x = end", True), ("a[1]", True), ("t[", False), ("ending, done", True),
    ],
)  # fmt: skip
def test_whether_more_has_to_follow(text: str, whole: bool) -> None:
    """A line is open while blocks, brackets or long strings are; words in strings and comments do not count."""
    assert is_open(text) is not whole


@pytest.mark.parametrize(
    ("line", "statement"),
    [("x = 1", True), ("x == 1", False), ("x.y[1] = 2", True), ("a, b = 1, 2", True), ("local x", True), ("f()", False),
     ("function f() end", True), ("endless", False), ("  if x then end", True), ("x <= 1", False)],
)  # fmt: skip
def test_what_is_no_expression(line: str, statement: bool) -> None:
    """A statement is told from an expression by its beginning, so that it is not tried twice."""
    assert is_statement(line) is statement


def test_what_goes_along_with_a_line() -> None:
    """Kept values and definitions stand before a line, and places in messages count from the line itself."""
    memory, lost = remember(Memory(), "function f() end", '=a=1;b=*;c=?;f=*;t={["x"]="\\059"};9=1')
    assert (memory.values, memory.functions, lost) == (
        {"a": "1", "t": '{["x"]="\\059"}'}, {"f": "function f() end"}, ["b", "c"],
    )  # fmt: skip
    framed = frame("error('x')", memory, False)
    assert framed.source.splitlines()[framed.offset] == "error('x')"
    assert framed.place(f"repl.lua:{framed.offset + 1}: x") == "line 1: x"
    kept, _ = remember(memory, "1", "=f=*")
    assert (kept.values, kept.functions) == ({}, {"f": "function f() end"})


def test_what_is_typed_becomes_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Typed lines become statements: an open block goes on until it is closed, an empty line comes, or the input
    ends."""
    typed = iter(["1", "", "if x then", "  y()", "end", "f(", "", "2", "g("])
    monkeypatch.setattr("helen.cli.repl.read_line", lambda prompt, is_terminal: next(typed, None))
    assert list(statements("web-1", True)) == ["1", "if x then\n  y()\nend", "f(\n", "2", "g("]


def test_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The repl's history is a file that only its owner can read, or none."""
    monkeypatch.setenv("HELEN_REPL_HISTORY", str(tmp_path / "deep" / "history"))
    with line_history():
        pass
    assert os.stat(tmp_path / "deep" / "history").st_mode & 0o777 == 0o600
    monkeypatch.setenv("HELEN_REPL_HISTORY", "")
    assert history_path() is None
    monkeypatch.delenv("HELEN_REPL_HISTORY")
    monkeypatch.setenv("XDG_STATE_HOME", "/s")
    assert history_path() == Path("/s/helen-repl")
