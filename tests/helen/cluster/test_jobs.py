"""Tests questions that last: Helen as a node of ZeroTask, `helen run --wait-for-offline` and `helen jobs`."""

from __future__ import annotations

import hashlib
import json
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from helen_running import Running, pulse, wait_until
from mesh_stage import Stage

from helen.cli.base.client import Failed
from helen.cli.main import main

pytestmark = pytest.mark.integration


def helen(running: Running, *words: str) -> Result:
    """Run the command `helen` with these words, and return its result."""
    return CliRunner().invoke(main, [*words, "--state", str(running.state)], catch_exceptions=False)


def known(stage: Stage, running: Running, name: str) -> None:
    """Let an agent connect once and go, so that Helen knows it."""
    agent = stage.agent(running, name)
    wait_until(lambda: is_connected(running, name), f"{name}")
    agent.end()
    wait_until(lambda: not is_connected(running, name), f"departure of {name}")


def is_connected(running: Running, name: str) -> bool:
    return any(a["connected"] for a in running.client.get("/api/v1/agents")["agents"] if a["name"] == name)


def shown(running: Running, job_id: str) -> dict[str, Any]:
    return dict(running.client.get(f"/api/v1/jobs/{job_id}"))


def newest(running: Running) -> dict[str, Any]:
    jobs = running.client.get("/api/v1/jobs")["jobs"]
    return dict(jobs[0]) if jobs else {"counts": counts()}


def counts(**some: int) -> dict[str, int]:
    return dict.fromkeys(("answered", "failed", "refused", "offline", "expired", "open"), 0) | some


@pytest.fixture(scope="module")
def site(common: Stage) -> Iterator[Stage]:
    """Start a Helen with a broker of its own, web-1, and a foreign client of that broker."""
    common.h1 = common.helen("h1", "--embed-zerotask", "--scale0-identity", "h1").up()
    common.web1 = common.agent(common.h1, "web-1")
    run = json.loads((common.h1.state / "zerotask" / "run.json").read_text())
    assert run["listen"].startswith("ipc://")
    common.rpc = common.client(run["listen"])
    wait_until(lambda: is_connected(common.h1, "web-1"), "web-1")
    yield common


def test_answers_stream_in_while_others_are_waited_for(site: Stage) -> None:
    """A connected agent answers at once; one that comes back within the limit is asked then; one that doesn't is
    offline.
    """
    for name in ("app-1", "app-2", "app-3"):
        known(site, site.h1, name)
    site.agent(site.h1, "app-0")
    wait_until(lambda: is_connected(site.h1, "app-0"), "app-0")
    words = ["run", "echo", "--on", "app-*", "--wait-for-offline", "4s", "--output", "json"]
    done: list[Result] = []
    asking = threading.Thread(target=lambda: done.append(helen(site.h1, *words)))
    asking.start()
    wait_until(lambda: newest(site.h1)["counts"]["answered"] == 1, "answer")
    site.agent(site.h1, "app-2")
    asking.join(90.0)
    targets = {target["agent"]: target["outcome"] for target in json.loads(done[0].stdout)["targets"]}
    assert targets == {"app-0": "answered", "app-1": "offline", "app-2": "answered", "app-3": "offline"}
    assert done[0].exit_code == 1
    job = newest(site.h1)
    assert (job["state"], job["counts"]) == ("finished", counts(answered=2, offline=2))
    again = helen(site.h1, "jobs", "follow", job["id"])
    assert again.stdout.splitlines()[-1] == "2 answered, 2 offline"
    assert again.exit_code == 1


def test_cancel_has_a_confirmed_end_and_retry_asks_the_rest(site: Stage) -> None:
    """The agent is told to give up, nobody is unaccounted for, and the new job has those that did not answer."""
    body = {"check": "silence", "on": ["web-1"], "timeout": "60s"}
    job = site.h1.client.post("/api/v1/jobs", body)["id"]
    wait_until(lambda: site.web1.asked[-1:] == [("silence", b"{}")], "question")
    refused = helen(site.h1, "jobs", "retry", job)
    assert (refused.exit_code, "is not over yet" in refused.stderr) == (1, True)
    done = helen(site.h1, "jobs", "cancel", job)
    assert (done.exit_code, done.stdout) == (0, f"{job}: cancelled: 1 expired\n")
    wait_until(lambda: site.web1.cancelled, "cancel")
    new = json.loads(helen(site.h1, "jobs", "retry", job, "--output", "json").stdout)
    assert (new["targets"], new["of"], new["check"]) == (["web-1"], job, "silence")
    assert helen(site.h1, "jobs", "cancel", new["id"]).exit_code == 0
    assert helen(site.h1, "jobs", "follow", "nobody").exit_code == 3
    assert new["id"] in helen(site.h1, "jobs", "list").stdout


def test_a_foreign_client_asks_the_fleet(site: Stage) -> None:
    """The method equus.check takes patterns and names, and gives one outcome for each; a wrong question is refused for
    good.
    """
    asked = {"agents": ["web-*", "ghost-1"], "check": "echo", "args": {"word": 1}}
    result = site.rpc.result(site.rpc.submit("equus.check", asked))
    assert {each["agent"]: each["outcome"] for each in result["targets"]} == {"web-1": "answered", "ghost-1": "offline"}
    assert result["counts"] == {"answered": 1, "failed": 0, "refused": 0, "offline": 1, "expired": 0}
    assert result["targets"][1]["result"]["summary"] == "web-1 {'word':1}"
    denied = site.rpc.result(site.rpc.submit("equus.check", {"agents": ["web-1"], "check": "denied"}))
    assert denied["counts"]["refused"] == 1
    error = site.rpc.result(site.rpc.submit("equus.check", {"agents": ["none*"], "check": "echo"}))
    assert (error["code"], "no agent fits none*" in error["message"]) == (-32602, True)


def test_partial_statuses(site: Stage) -> None:
    """The task of an open question tells how far it has come."""
    task = site.rpc.submit("equus.check", [["web-1", "ghost-1"], "echo", {}, 4_000_000_000])
    assert "at most 30 days" in site.rpc.result(task)["message"]
    task = site.rpc.submit("equus.check", {"agents": ["web-1"], "check": "silence", "timeout": 20})
    wait_until(lambda: site.rpc.status(task)["status"] == "asking", "partial status")
    status = site.rpc.status(task)
    assert (status["state"], status["detail"]["counts"]) == ("running", counts(open=1))
    assert site.rpc.call("client_task_cancel", client_id=site.rpc.name, task_id=task) is True


def test_a_push_as_a_task(site: Stage) -> None:
    """A push as a task is judged and published; a broken one is refused for good, with file and line.

    It passes through rings as a push does where no other are named, and who submitted it is in the audit (F37).
    """
    for loose in ({"rings": "off"}, {"rings": "100%"}, {"canary": "99%"}, {"gates": {"errors": "100%"}}):
        error = site.rpc.result(site.rpc.submit("equus.push", {"files": {"pulse.lua": pulse()}, **loose}))
        assert "`helen push` may do so" in error["message"]
    result = site.rpc.result(site.rpc.submit("equus.push", {"files": {"pulse.lua": pulse()}}))
    assert result["version"] is not None
    audit = site.h1.client.get("/api/v1/audit")["audit"]
    assert [(each["actor"], each["subject"], each["address"]) for each in audit if each["action"] == "push"] == [
        (f"zerotask:{site.rpc.name}", "pulse.lua", "ZeroTask")
    ]
    assert "pulse" in [check["name"] for check in site.h1.client.get("/api/v1/checks")["checks"]]
    error = site.rpc.result(site.rpc.submit("equus.push", {"files": {"bad.lua": "local"}}))
    assert (error["code"], "bad.lua" in error["message"]) == (-32000, True)


SOURCE = "return { summary = 'how full', run = function(args) return { status = 'ok' } end }"


def written(stage: Stage, name: str = "disk.lua") -> str:
    file = stage.folder / name
    file.write_text(SOURCE)
    return str(file)


def test_a_file_of_mine_runs_once(site: Stage) -> None:
    """A file of the caller's own runs with an order that is good while an answer may come, and under no
    check's name.
    """
    done = helen(site.h1, "run", "--source", written(site), "--on", "web-1", "--args", '{"path": "/"}')
    assert (done.exit_code, done.stdout) == (0, "web-1: OK disk {'path': '/'}\n1 answered\n"), done.stderr
    [order] = site.web1.orders.values()
    assert (order["on"], order["expires"] - order["created"]) == (["web-1"], pytest.approx(330.0))
    for words in (["run", "--on", "web-1"], ["run", "disk", "--source", written(site), "--on", "web-1"]):
        assert "give either a CHECK or --source FILE" in helen(site.h1, *words).stderr
    error = site.rpc.result(site.rpc.submit("equus.check", {"agents": ["web-1"], "check": "equus:once"}))
    assert (error["code"], "the protocol's own" in error["message"]) == (-32602, True)
    with pytest.raises(Failed, match="the protocol's own"):
        site.h1.client.post("/api/v1/jobs", {"check": "equus:once", "on": "web-1"})


def test_a_file_of_mine_runs_when_they_come_back(site: Stage) -> None:
    """A file is signed for the whole wait; a retry is another order with the same file; a wait of days is refused."""
    known(site, site.h1, "lib-1")
    source = ["run", "--source", written(site), "--on", "lib-*", "--timeout", "10", "--wait-for-offline"]
    assert "is signed for a day at most" in helen(site.h1, *source, "2d").stderr
    first = helen(site.h1, *source, "1s")
    assert (first.exit_code, first.stdout) == (1, "lib-1: OFFLINE it did not come back in time\n1 offline\n")
    job = newest(site.h1)
    assert (job["check"], job["code"]) == ("disk", hashlib.sha256(SOURCE.encode()).hexdigest())
    lib1 = site.agent(site.h1, "lib-1")
    wait_until(lambda: is_connected(site.h1, "lib-1"), "lib-1")
    again = json.loads(helen(site.h1, "jobs", "retry", job["id"], "--output", "json").stdout)
    assert helen(site.h1, "jobs", "follow", again["id"]).stdout == "lib-1: OK disk {}\n1 answered\n"
    [order] = lib1.orders.values()
    assert (order["expires"] - order["created"], list(order["files"])) == (pytest.approx(311.0), ["disk.lua"])
    assert f"disk ({job['code'][:12]})" in helen(site.h1, "jobs", "list").stdout


def test_a_question_survives_restarts(stage: Stage) -> None:
    """A killed Helen goes on with a broker elsewhere, and agents that had answered are not asked again."""
    run_file, _ = stage.zerotask()
    wait_until(run_file.exists, "broker")
    options = ["--zerotask", json.loads(run_file.read_text())["listen"], "--scale0-identity", "h1"]
    first = stage.helen("h1", *options).up()
    known(stage, first, "web-2")
    here = stage.agent(first, "web-1")
    wait_until(lambda: is_connected(first, "web-1"), "web-1")
    body = {"check": "echo", "on": ["web-*"], "wait_for_offline": "1h"}
    job = first.client.post("/api/v1/jobs", body)["id"]
    kept = first.state / "jobs" / f"{job}.ndjson"
    wait_until(lambda: kept.exists() and '"answered"' in kept.read_text(), "answer that is kept")
    first.signal(signal.SIGKILL)
    first.program.wait()
    second = stage.helen("h1", *options).up()
    again = stage.agent(second, "web-1")
    wait_until(lambda: shown(second, job)["counts"] == counts(answered=1, open=1), "counts")
    stage.agent(second, "web-2")
    lines = list(second.client.stream(f"/api/v1/jobs/{job}/follow", None, 60.0))
    assert lines[0] == {"job": job, "targets": 2, "check": "echo"}
    assert {each["agent"]: each["outcome"] for each in lines[1:-1] if "agent" in each} == {
        "web-1": "answered", "web-2": "answered",
    }  # fmt: skip
    assert lines[-1] == {"state": "finished", "why": None, "counts": counts(answered=2)}
    assert (here.asked, again.asked) == ([("echo", b"{}")], [])


def test_an_open_question_keeps_nobody_from_stopping(stage: Stage) -> None:
    """SIGTERM ends a Helen with the broker in its process within 5 s, and the question goes on when it is back."""
    options = ["--embed-zerotask", "--scale0-identity", "h1"]
    first = stage.helen("h1", *options).up()
    known(stage, first, "web-1")
    job = first.client.post("/api/v1/jobs", {"check": "echo", "on": "web-1", "wait_for_offline": "1h"})["id"]
    wait_until(lambda: shown(first, job)["state"] in ("assigned", "running"), "claim")
    first.signal(signal.SIGTERM)
    began = time.monotonic()
    assert first.program.wait() == 0, first.program.said
    assert time.monotonic() - began < 20.0
    second = stage.helen("h1", *options).up()
    stage.agent(second, "web-1")
    lines = list(second.client.stream(f"/api/v1/jobs/{job}/follow", None, 60.0))
    assert lines[-1] == {"state": "finished", "why": None, "counts": counts(answered=1)}
