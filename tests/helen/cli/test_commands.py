"""Tests the `helen` command against a real Helen with a real agent: text, JSON and exit status."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from helen_running import Running, a_fleet_of_one, pulse, wait_until

from groundwork.terminal import styled
from helen.assignments.assignments_text import read
from helen.assignments.schedule import CheckTable
from helen.cli.assign import changes_of, warnings_of, without_default
from helen.cli.base.ages import ago, every
from helen.cli.main import main
from helen.keys.signing_keys import make_private

pytestmark = pytest.mark.integration


class Shell:
    """Run `helen ...` with HELEN_STATE set to that Helen."""

    def __init__(self, fleet: Running) -> None:
        self.fleet = fleet
        self.runner = CliRunner(env={"HELEN_STATE": str(fleet.state), "HELEN_URL": None, "HELEN_TOKEN": None})

    def __call__(self, *words: str, status: int = 0) -> Result:
        result = self.runner.invoke(main, words, prog_name="helen")
        assert result.exit_code == status, (result.output, result.stderr, result.exception)
        return result

    def unless_unknown(self, *words: str) -> str:
        """Return the output, or nothing while Helen knows nothing of the check: an evaluation is on disk a little
        later."""
        result = self.runner.invoke(main, words, prog_name="helen")
        assert (result.exit_code, result.output.startswith("Error: nothing is known of")) in {(0, False), (3, True)}
        return "" if result.exit_code else result.stdout

    def json(self, *words: str, status: int = 0) -> Any:
        return json.loads(self(*words, "--output", "json", status=status).stdout)


@pytest.fixture(scope="module")
def helen(fleet: Running) -> Shell:
    return Shell(fleet)


# ---------------------------------------------------------------------------------------------- without a Helen


@pytest.mark.parametrize("words", [["token"], ["certificate", "web-9", "--out", "out"], ["agents"], ["push"]])
def test_no_helen_runs(tmp_path: Path, words: list[str]) -> None:
    """Without a Helen each command ends with 1 and says how to start one."""
    os.chdir(tmp_path)
    result = CliRunner().invoke(main, [*words, "--state", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert f"no Helen runs on {tmp_path / 'none'}: start it with `twistd -n helen --state" in result.output


def test_which_helen() -> None:
    """Without --state and --url a command is a usage error that names the option."""
    result = CliRunner(env={"HELEN_STATE": None, "HELEN_URL": None}).invoke(main, ["agents"])
    assert (result.exit_code, "no Helen is named: give --state DIR" in result.output) == (2, True)


@pytest.mark.parametrize("url", ["127.0.0.1:4167", "ftp://x", "http://", "http://x:y", "http://x:99999"])
def test_a_bad_url(url: str) -> None:
    """A bad URL is a usage error that shows the form of a good one."""
    result = CliRunner().invoke(main, ["agents", "--url", url])
    assert (result.exit_code, "write http://HOST:PORT" in result.output) == (2, True)


def test_nothing_answers_at_the_url() -> None:
    """A URL where nothing answers is an error that names it."""
    result = CliRunner().invoke(main, ["agents", "--url", "http://127.0.0.1:9", "--token", "x"])
    assert (result.exit_code, "nothing answers at http://127.0.0.1:9" in result.output) == (1, True)


def test_a_folder_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state folder that cannot be read is left to the connection, whose error ends the command with 1."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    result = CliRunner().invoke(main, ["agents", "--state", str(tmp_path)])
    assert (result.exit_code, "no Helen runs on" in result.output) == (1, True)


def test_which_helen_keys_rotate_means(tmp_path: Path) -> None:
    """--state may stand before or behind `rotate`, and counts instead of the environment."""
    runner = CliRunner(env={"HELEN_STATE": str(tmp_path / "env"), "HELEN_URL": None})
    for words in (
        ["keys", "rotate", "--state", str(tmp_path / "said")],
        ["keys", "--state", str(tmp_path / "said"), "rotate"],
    ):
        result = runner.invoke(main, words)
        assert (result.exit_code, f"no Helen runs on {tmp_path / 'said'}:" in result.output) == (1, True)


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR turns colours off, on terminals too."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert styled("ok", fg="green") != "ok"
    monkeypatch.setenv("NO_COLOR", "1")
    assert styled("ok", fg="green") == "ok"


def test_intervals_as_they_are_written() -> None:
    """An interval is written in the largest unit that fits."""
    assert every(2_592_001.0) == "2592001s"
    assert [every(each) for each in (None, 0.5, 5.0, 60.0, 90.0, 300.0, 7200.0, 86_400.0)] == [
        "", "0.5s", "5s", "1m", "90s", "5m", "2h", "1d",
    ]  # fmt: skip


def test_leaving_the_default_set() -> None:
    """The agents that leave the default set are those that only a new entry covers; without a default set there are
    none."""
    agents = [{"name": name, "labels": {}} for name in ("db-1", "web-1", "web-2")]
    old, new = '[[assign]]\ncheck = "a"\nagents = ["web-1"]\n', '[[assign]]\ncheck = "b"\nagents = ["web-*"]\n'
    assert without_default("", read(new), agents) == ["web-1", "web-2"]
    assert without_default(old, read(old + new), agents) == ["web-2"]
    assert without_default("default_set = false\n", read(new), agents) == []
    assert without_default("no TOML", read(new), agents) == []


TABLES = {name: CheckTable(name, 60.0) for name in ("a", "b", "c")} | {"rare": CheckTable("rare")}
ONE = '[[assign]]\ncheck = "a"\nagents = ["web-*"]\n'


@pytest.mark.parametrize(
    ("before", "wanted", "changes"),
    [
        ("", ONE, [("web-1", [], ["b", "c"], True)]),
        ("", '[[assign]]\ncheck = "*"\n', []),
        ("", '[[assign]]\ncheck = "*"\n' + ONE, []),
        ('[[assign]]\ncheck = "*"\n', '[[assign]]\ncheck = "*"\n' + ONE, []),
        ("", ONE + '[[assign]]\ncheck = "rare"\n',
         [("db-1", ["rare"], ["a", "b", "c"], True), ("web-1", ["rare"], ["b", "c"], True)]),
        (ONE, "", [("web-1", ["b", "c"], [], False)]),
        ("default_set = false\n", "default_set = false\n" + ONE, [("web-1", ["a"], [], False)]),
    ],
)  # fmt: skip
def test_what_an_assignment_changes(before: str, wanted: str, changes: list[Any]) -> None:
    """The changes of an assignment are the checks each agent gains and loses; hosts have none, other entries still
    count (J9)."""
    kinds = {"db-1": "agent", "nas": "host", "web-1": "agent"}
    agents = [{"name": name, "labels": {}, "kind": kind} for name, kind in kinds.items()]
    found = changes_of(before, read(wanted), TABLES, agents)
    assert [tuple(each) for each in found] == changes
    assert len(warnings_of(found)) == (1 if any(left and lost for _, _, lost, left in changes) else 0)


def test_a_path_that_fits_no_socket(tmp_path: Path) -> None:
    """A state folder with too long a path for a socket is reported as one where no Helen runs."""
    state = tmp_path / ("x" * 120)
    state.mkdir()
    result = CliRunner().invoke(main, ["agents", "--state", str(state)])
    assert (result.exit_code, "no Helen runs on" in result.output) == (1, True)


def test_help_is_quick_to_import() -> None:
    """The help is printed without an import of Twisted, cryptography or tomlkit."""
    code = "import sys, helen.cli.main; print(sorted({'twisted', 'cryptography', 'tomlkit'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# ---------------------------------------------------------------------------------------------- who may be an agent


def test_token(helen: Shell) -> None:
    """`helen token` prints the line for the other machine, the safer way on standard error, and the parts as JSON
    (F46)."""
    said = helen("token", "--agent", "web-7")
    line = said.stdout.strip()
    assert "--join-file FILE" in said.stderr and "--join -" in said.stderr
    assert line.startswith(f"equus --server {helen.fleet.run['agents']} --join ")
    assert line.endswith(" --name web-7")
    made = helen.json("token", "--ttl", "5m")
    assert made["join"] == f"equus --server {helen.fleet.run['agents']} --join {made['token']}"
    assert made["ttl"] == 300.0


def test_bad_tokens(helen: Shell) -> None:
    """A token with a bad name or time is a usage error with Helen's sentence."""
    assert "'A B' is no name for an agent" in helen("token", "--agent", "A B", status=2).output
    assert "'x' is not a duration" in helen("token", "--ttl", "x", status=2).output


def test_certificate(helen: Shell, tmp_path: Path) -> None:
    """`helen certificate` writes five files, the key for its owner alone, and replaces an identity only with
    --force."""
    out = tmp_path / "new" / "identity"
    said = helen("certificate", "web-8", "--out", str(out)).stdout
    assert f"--certificate {out}/agent.pem --key {out}/agent.key --ca {out}/ca.pem" in said
    assert {p.name: p.stat().st_mode & 0o777 for p in out.iterdir()} == {
        "agent.key": 0o600, "agent.pem": 0o644, "ca.pem": 0o644, "signing-keys.pem": 0o644, "root.json": 0o644,
    }  # fmt: skip
    held = (out / "agent.key").read_bytes()
    refused = helen("certificate", "web-8", "--out", str(out), status=1).output
    assert "agent.key is there already: --force replaces that identity" in refused
    assert (out / "agent.key").read_bytes() == held
    made = helen.json("certificate", "web-8", "--out", str(out), "--force")
    assert (made["name"], made["folder"], (out / "agent.key").read_bytes() != held) == ("web-8", str(out), True)


def test_certificates_that_cannot_be(helen: Shell, tmp_path: Path) -> None:
    """A certificate with a bad name or folder is refused before Helen is asked."""
    assert "is no name for an agent" in helen("certificate", "A B", "--out", str(tmp_path), status=2).output
    (tmp_path / "file").touch()
    assert "can't be made" in helen("certificate", "web-8", "--out", str(tmp_path / "file/x"), status=1).output


def test_revoke(helen: Shell, tmp_path: Path) -> None:
    """`helen revoke` counts the certificates of an agent, and ends with 3 for an unknown name."""
    helen("certificate", "web-6", "--out", str(tmp_path))
    assert "web-6 is shut out (1 certificate)" in helen("revoke", "web-6").stdout
    assert helen.json("revoke", "web-6") == {"agent": "web-6", "revoked": 0}
    assert "nobody" in helen("revoke", "nobody", status=3).output
    helen("revoke", "a/b", status=3)


def test_forget(helen: Shell, tmp_path: Path) -> None:
    """A revoked agent is listed as such and asked nothing until it is forgotten; a connected one cannot be
    forgotten."""
    helen("certificate", "web-7", "--out", str(tmp_path))
    assert re.search(r"^web-7 +never seen", helen("agents", "--on", "web-7").stdout, re.M)
    helen("revoke", "web-7")
    assert re.search(r"^web-7 +revoked \d", helen("agents", "--on", "web-7").stdout, re.M)
    assert "no agent fits web-7" in helen("run", "pulse", "--on", "web-7", status=3).output
    assert "web-1 is connected: `helen revoke web-1`" in helen("agents", "forget", "web-1", status=1).output
    assert helen("agents", "forget", "web-7").stdout == "forgotten: web-7\n"
    assert "no agent is called 'web-7'" in helen("agents", "forget", "web-7", status=3).output
    helen("agents", "--on", "web-7", status=3)
    helen("certificate", "web-7", "--out", str(tmp_path), "--force")
    helen("agents", "--on", "web-7")
    assert helen.json("agents", "forget", "web-7") == {"forgotten": ["web-7"]}


# ---------------------------------------------------------------------------------------------- what it knows


def test_agents(helen: Shell) -> None:
    """`helen agents` prints a line for each agent that fits --on, and ends with 3 if none fits."""
    heading, *lines = helen("agents", "--on", "web-1").stdout.splitlines()
    assert heading.split() == ["AGENT", "LINK", "LABELS", "EQUUS", "ISOLATION", "CHECKS"]
    (words,) = [line.split() for line in lines]
    assert words[0:2] == ["web-1", "connected"]
    assert "role=web" in words
    assert [agent["name"] for agent in helen.json("agents", "--on", "role=web")["agents"]] == ["web-1"]
    refused = helen("agents", "--on", "nothing", status=3)
    assert (refused.stdout, "no agent fits nothing" in refused.stderr) == ("", True)


def test_checks(helen: Shell) -> None:
    """`helen checks` lists the checks with their intervals."""
    assert ["pulse", "1s"] in [line.split()[:2] for line in helen("checks").stdout.splitlines()]
    assert {check["name"] for check in helen.json("checks")["checks"]} >= {"pulse", "endless"}


def test_status(helen: Shell) -> None:
    """`helen status` shows the whole, an agent or a check of it, and ends with 3 for an unknown one."""
    assert "agents: 1 connected of" in helen("status").stdout
    assert helen.json("status")["agents"]["connected"] == 1
    wait_until(lambda: helen.json("status", "web-1")["results"], "result")
    assert "web-1: connected" in helen("status", "web-1").stdout
    assert "OK for " in helen("status", "web-1/pulse").stdout
    assert helen.json("status", "web-1/pulse")["status"] == "ok"
    assert "no agent is called 'nobody'" in helen("status", "nobody", status=3).output
    assert "web-1 runs no check 'nope'" in helen("status", "web-1/nope", status=3).output


def test_over_http_with_the_token(helen: Shell) -> None:
    """A command over HTTP with the token gives the same; without it the error says where the token lies."""
    url = f"http://{helen.fleet.run['web']}"
    token = (helen.fleet.state / "web.token").read_text()
    assert helen.json("status", "--url", url, "--token", token)["agents"]["connected"] == 1
    assert "it lies in STATE/web.token" in helen("status", "--url", url, "--token", "x", status=1).output
    assert "Helen wants a token: give --token" in helen("status", "--url", url, status=1).output


# ---------------------------------------------------------------------------------------------- run


def test_run(helen: Shell) -> None:
    """`helen run` prints an outcome for every target, with control characters escaped."""
    said = helen("run", "pulse", "--on", "web-1", "--args", '{"word": "x\\u001b[2Jy"}').stdout
    assert said == "web-1: OK x\\x1b[2Jy\n1 answered\n"
    (target,) = helen.json("run", "pulse", "--on", "role=web")["targets"]
    assert (target["agent"], target["outcome"], target["result"]["status"]) == ("web-1", "answered", "ok")


def test_run_where_not_all_answer(helen: Shell, tmp_path: Path) -> None:
    """A run with agents that are offline or too slow ends with 1 and names their outcomes."""
    helen("certificate", "away", "--out", str(tmp_path))
    assert helen.json("run", "pulse", "--on", "web-1", "--on", "away", status=1)["targets"][0] == {
        "agent": "away", "outcome": "offline", "result": None, "why": "not connected"
    }  # fmt: skip
    slow = helen("run", "endless", "--on", "web-1", "--timeout", "500ms", status=1).stdout
    assert slow == "web-1: EXPIRED no answer in time\n1 expired\n"


def test_run_of_an_unknown_check(helen: Shell) -> None:
    """A run of a check that Helen does not know ends with 3 and names similar ones; agents are asked all the same."""
    result = helen("run", "pules", "--on", "web-1", status=3)
    assert "no check is called 'pules'. Did you mean pulse?" in result.output
    assert "no check is called 'zzz'. `helen checks` lists them." in helen("run", "zzz", "--on", "*", status=3).output
    assert helen.json("run", "pules", "--on", "web-1", status=3)["targets"][0]["outcome"] == "answered"


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["pulse"], 2, "Missing option '--on'"),
        (["pulse", "--on", "x*"], 3, "no agent fits x*"),
        (["pulse", "--on", "*", "--args", "{"], 2, "--args: this is no JSON"),
        (["pulse", "--on", "*", "--args", "[]"], 2, "write a JSON object"),
        (["pulse", "--on", "*", "--timeout", "x"], 2, "'x' is not a duration"),
        (["pulse", "--on", "*", "--timeout", "2h"], 2, "at most 3600 s"),
        (["a b", "--on", "*"], 2, "no check can be called 'a b'"),
    ],
)
def test_run_that_cannot_be(helen: Shell, words: list[str], status: int, sentence: str) -> None:
    """A run with bad usage ends with 2, and one of a missing agent or check with 3."""
    assert sentence in helen("run", *words, status=status).output


def test_a_bad_argument(helen: Shell) -> None:
    """A bad argument is a result like any other, in which the agent names it."""
    (target,) = helen.json("run", "pulse", "--on", "web-1", "--args", '{"wrod": "x"}')["targets"]
    assert (target["result"]["status"], target["result"]["reason"]) == ("unknown", "bad-arguments")
    assert "wrod" in target["result"]["summary"]


# ---------------------------------------------------------------------------------------------- push


def test_push_and_undo(helen: Shell, tmp_path: Path) -> None:
    """A push at once is watched until its agents run it; an undo goes back, and `helen checks` says why."""
    path = tmp_path / "pushed.lua"
    path.write_text(pulse("one", "1h"))
    before = helen.json("checks")["version"]
    dry = helen("push", str(path), "--dry-run").stdout
    assert (dry.splitlines()[:2], helen.json("checks")["version"]) == (
        ["pushed.lua: fine", "ring 1 (1%): 1 agent: web-1"], before
    )  # fmt: skip
    said = helen("push", str(path), "--rings", "off").stdout
    version = helen.json("checks")["version"]
    assert f"version {version}: 1 of 1 agents run it" in said
    assert helen.json("run", "pushed", "--on", "web-1")["targets"][0]["result"]["summary"] == "one"
    back = helen.json("push", "--undo")
    assert (back["version"], back["loaded"], back["agents"]) == (version + 1, 1, 1)
    assert "pushed" not in {check["name"] for check in helen.json("checks")["checks"]}
    assert "there is nothing to undo" in helen("push", "--undo", status=1).output
    checks = helen("checks")
    assert f"pushed.lua: it was taken back with version {version} (undone by operator); the version" in checks.stderr


def test_push_of_something_broken(helen: Shell, tmp_path: Path) -> None:
    """A push of a broken check names file and line, ends with 1 and writes nothing."""
    path = tmp_path / "broken.lua"
    path.write_text("return {\n  summary = \n}\n")
    assert "broken.lua:3:" in helen("push", str(path), status=1).output
    assert not (helen.fleet.checks / "broken.lua").exists()


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["none.lua"], 2, "does not exist"),
        (["--canary", "0%"], 2, "is no share of the agents"),
        (["--undo", "--dry-run"], 2, "--undo takes the whole set back"),
        (["--rings", "5"], 2, "'5' is no share of the agents"),
        (["--rings", "off", "--canary", "1%"], 2, "--canary is short for --rings"),
        (["--gate", "errors"], 2, "write a share"),
        (["--key", "none.key"], 1, "none.key cannot be read"),
    ],
)
def test_push_that_cannot_be(helen: Shell, words: list[str], status: int, sentence: str) -> None:
    """A push with bad options or files is refused before anything is sent."""
    assert sentence in helen("push", *words, status=status).output


QUICK = ("--canary", "50%", "--gate", "window=500ms", "--gate", "results=1")


def test_push_ring_by_ring(helen: Shell, tmp_path: Path) -> None:
    """A push by rings is watched to its end; a worse version is taken back with its reason, and the local file
    stays."""
    path = tmp_path / "ringed.lua"
    path.write_text(pulse("ring"))
    said = helen("push", str(path), *QUICK).stdout
    assert "goes to 50%, 100%; new: ringed.lua" in said
    assert "ring 1 of 2 (50%): 1 of 1 agents run it" in said
    assert "is for all agents: it has passed all its rings" in said
    path.write_text(pulse("ring").replace('return "ok", args.word', 'return "critical", "no such mount"'))
    lines = [
        json.loads(line) for line in helen("push", str(path), *QUICK, "--output", "json", status=1).stdout.splitlines()
    ]
    events = [line["event"] for line in lines]
    assert (events[:2], events[-2:]) == (["begin", "ring"], ["undone", "end"])
    why = "ringed: 1 of 1 agents went from ok to bad or back (100.0 %, the limit is 5.0 %)"
    why += "; web-1: critical, no such mount"
    assert (lines[-1]["why"], lines[-1]["state"], lines[-1]["by_itself"]) == (why, "undone", True)
    assert why in helen("rollout", "status").stdout
    assert f"ringed.lua: it was taken back with version {lines[-1]['version']} ({why})" in helen("checks").stderr
    told = wait_until(lambda: helen.unless_unknown("explain", "Helen/rollout"), "explanation of the mail's own line")
    assert "was taken back" in told  # (J11)
    explained = helen("explain", "web-1/ringed").stdout
    assert f"version {lines[-1]['version']} was taken back: {why}" in explained
    assert "held back: problem, critical because of" in explained


def test_a_rollout_is_steered(helen: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C leaves a rollout alone; a second push is refused; it can be paused, resumed, replaced and undone, once
    each."""
    path = tmp_path / "steered.lua"
    path.write_text(pulse("one"))

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("helen.cli.rollout.time.sleep", interrupted)
        said = helen("push", str(path), "--canary", "50%", status=130)
    assert "the rollout goes on: `helen rollout watch` shows it" in said.stderr
    path.write_text(pulse("other"))
    assert "is on its way, ring 1 of 2 (50%): wait for it" in helen("push", str(path), status=1).output
    assert "is paused" in helen("rollout", "pause").stdout
    assert "is paused already" in helen("rollout", "pause", status=1).output
    assert helen.json("rollout", "resume", "--dry-run")["state"] == "paused"
    assert helen.json("rollout", "resume")["state"] == "open"
    path.write_text(pulse("two"))
    assert "`helen rollout watch` shows progress" in helen("push", str(path), "--replace", "--detach").stdout
    assert helen.json("rollout", "undo")["why"] == "undone by operator"
    assert "no rollout is under way" in helen("rollout", "undo", status=1).output
    assert helen("rollout", "watch", status=1).stdout.startswith("version ")


# ---------------------------------------------------------------------------------------------- keys


@pytest.fixture
def with_its_own_keys(tmp_path: Path) -> Iterator[Shell]:
    """Provide a Helen and an agent for this test alone, since other tests sign with the keys of the shared one."""
    with a_fleet_of_one(tmp_path / "fleet") as fleet:
        yield Shell(fleet)


def test_keys(with_its_own_keys: Shell, tmp_path: Path) -> None:
    """Keys are shown, renewed by Helen, and replaced by two kept elsewhere that must both sign; the agent follows
    each time."""
    helen = with_its_own_keys
    before = helen.json("keys")
    assert (before["version"], before["threshold"], before["waiting"]) == (1, 1, False)
    assert f"{before['keys'][0]['id']}  held by Helen" in helen("keys").stdout
    own = helen.json("keys", "rotate")
    assert (own["version"], own["waiting"]) == (2, False)
    assert own["keys"][0]["id"] != before["keys"][0]["id"]
    wait_for_the_agent(helen)
    paths = [tmp_path / "anna.key", tmp_path / "bert.key"]
    for path in paths:
        make_private(path)
    new = [word for path in paths for word in ("--new", str(path))]
    said = helen("keys", "rotate", *new, "--threshold", "2").stdout
    assert "root 3; 2 of 2 keys must sign" in said
    assert "held elsewhere" in said and "held by Helen" not in said
    wait_for_the_agent(helen)
    path = tmp_path / "twice.lua"
    path.write_text(pulse("twice", "1h"))
    one = ["--key", str(paths[0])]
    files = [str(file) for file in helen.fleet.checks.glob("*.lua") if file.name != path.name] + [str(path)]
    assert "say --first" in helen("push", str(path), *one, status=1).output
    assert "which is not the file that you gave" in helen("push", str(path), *one, "--first", status=1).output
    first = helen("push", *files, *one, "--first", status=1)
    assert "1 good signature(s) of pinned keys, 2 needed" in first.output
    both = [*one, "--key", str(paths[1]), "--first"]
    assert "1 of 1 agents run it" in helen("push", *files, *both, "--rings", "off").stdout
    assert helen.json("run", "twice", "--on", "web-1")["targets"][0]["result"]["summary"] == "twice"
    assert "not enough of the signing keys lie here" in helen("keys", "rotate", status=1).output
    stranger = tmp_path / "mallory.key"
    make_private(stranger)
    refused = helen("keys", "rotate", "--key", str(stranger), "--new", str(stranger), "--first", status=1).output
    assert "not signed by the keys that are held" in refused
    back = helen.json("keys", "rotate", *one, "--key", str(paths[1]), "--new", str(paths[0]), "--threshold", "1")
    assert (back["version"], back["waiting"]) == (4, False)
    wait_for_the_agent(helen)


def wait_for_the_agent(helen: Shell) -> None:
    """Wait until the agent runs the newest set, without a problem."""
    wait_until(lambda: helen.json("status", "web-1")["current"], "agent that runs the newest set")


# ---------------------------------------------------------------------------------------------- assign


def test_assign(helen: Shell, tmp_path: Path) -> None:
    """`helen assign` shows, adds, removes and replaces entries of the file, whose comments stay."""
    path = helen.fleet.state / "assignments.toml"
    assert "# no assignments" in helen("assign").stdout
    path.write_text("# mine\n")
    wait_until(lambda: helen.json("assign")["text"] == "# mine\n", "file")
    helen("assign", "pulse", "--on", "web-*", "--on", "role=web", "--every", "1s", "--args", '{"word": "assigned"}')
    assert path.read_text().startswith("# mine\n")
    schedule = helen.json("status", "web-1")["schedule"]
    assert [(e["id"], e["every"], e["args"]) for e in schedule] == [("pulse", 1.0, {"word": "assigned"})]
    wait_until(lambda: helen.json("status", "web-1/pulse")["summary"] == "assigned", "result of the new schedule")
    before = path.read_text()
    planned = helen("assign", "endless", "--on", "web-1", "--dry-run")
    assert ("web-1: +endless" in planned.stdout, path.read_text()) == (True, before)
    assert helen.json("assign", "endless", "--on", "web-1", "--dry-run")["changes"][0]["gains"] == ["endless"]
    warned = helen("assign", "nope", "--on", "none")
    assert "warning: no published check is called nope" in warned.stderr
    assert helen.json("assign", "nope", "--remove")["revision"] > 1
    assert "no entry for nope" in helen("assign", "nope", "--remove", status=3).output
    assert "no entry for nope" in helen("assign", "--id", "nope", "--remove", status=3).output
    empty = tmp_path / "empty.toml"
    empty.touch()
    helen("assign", "--file", str(empty))
    assert path.read_text() == ""


BY_LABEL = """
[[defaults]]
args = { word = "all" }
[[defaults]]
check = "pulse"
labels = { role = "web" }
args = { word = "web" }
[[assign]]
check = "pulse"
every = "1s"
"""


def test_where_the_values_of_a_check_come_from(helen: Shell, tmp_path: Path) -> None:
    """An agent runs a check with the value for its label; --explain names the place of each value and those it
    replaces."""
    wanted = tmp_path / "by_label.toml"
    wanted.write_text(BY_LABEL)
    helen("assign", "--file", str(wanted))
    wait_until(lambda: helen.json("status", "web-1/pulse")["summary"] == "web", "result with the value of the label")
    assert helen("assign", "--explain", "web-1/pulse").stdout.splitlines() == [
        "web-1/pulse is the check pulse, by [[assign]] number 1",
        "  every = 1 s: [[assign]] number 1",
        "  timeout = 10 s: the check's own",
        '  args.word = "web": [[defaults]] number 2 (role=web), over [[defaults]] number 1',
    ]
    shown = helen.json("assign", "--explain", "web-1/pulse")
    assert (shown["check"], shown["settings"][0]["from"]) == ("pulse", "[[assign]] number 1")
    assert shown["args"] == [
        {"name": "word", "value": "web", "from": "[[defaults]] number 2 (role=web)", "over": ["[[defaults]] number 1"]}
    ]
    assert "web-1 is not to run nope; it runs pulse" in helen("assign", "--explain", "web-1/nope", status=3).output
    assert "no agent is called 'web-9'" in helen("assign", "--explain", "web-9/pulse", status=3).output
    assert "write AGENT/CHECK" in helen("assign", "--explain", "web-1", status=2).output
    wanted.write_text('[[defaults]]\ncheck = "pulse"\nargs = { wort = "web" }\n')
    assert 'takes an argument "wort"' in helen("assign", "--file", str(wanted), status=2).output
    wanted.write_text("")
    helen("assign", "--file", str(wanted))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["pulse", "--every", "x"], "every: 'x' is not a duration"),
        (["pulse", "--args", "{"], "--args: this is no JSON"),
        (["pulse", "--args", "[]"], "write a JSON object"),
        (["pulse", "--args", '{"a": null}'], "TOML can't write null"),
        (["a b"], "check is 'a b'"),
        (["pulse", "--overlap", "both"], "'both' is not one of"),
        (["--remove"], "--remove needs a CHECK"),
        (["pulse", "--args", '{"nonsense": 1}'], 'pulse: there is no argument "nonsense"; this check takes word'),
        (["pulse", "--args", '{"word": 7}', "--dry-run"], 'the argument "word" must be a string'),
        (["*", "--args", '{"speed": 1}'], 'there is no argument "speed"'),
    ],
)
def test_assign_that_cannot_be(helen: Shell, words: list[str], sentence: str) -> None:
    """An assignment that cannot be used ends with 2, and the file stays as it is."""
    before = helen.json("assign")
    assert sentence in helen("assign", *words, status=2).output
    assert helen.json("assign") == before


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-3.0, "0s"), (0.4, "0s"), (119.4, "119s"), (119.6, "2m"), (7_169.0, "119m"), (7_199.9, "2h"), (7_200.0, "2h"),
        (9_000.0, "2h"), (170_999.0, "47h"), (171_001.0, "2d"), (259_200.0, "3d"),
    ],
)  # fmt: skip
def test_a_time_is_said_in_the_largest_unit_of_which_there_are_two(seconds: float, said: str) -> None:
    """A time is written in the largest unit of which there are two, also right below a unit."""
    assert ago(1_000_000.0 + seconds, 1_000_000.0) == said
