"""Tests many Helens that are one: what is shared, and what each of them, and each broker, may suffer.

Three brokers, three Helens, sixty agents, and clients that never stop asking, while each process is killed, stopped and
restarted in turn: every request ends, once, by an answer or by a code; agents of a Helen who is dead, or does not move,
report to another within 15 s; nothing that was acknowledged is in no history. By hand with more rounds:
`HELEN_MATRIX_ROUNDS=5 python -m pytest tests/helen/cluster/test_many_helens.py -s`, which prints what each step took.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from helen_running import Running, pulse, wait_until
from many_helens import AGENTS, PATIENCE, Fleet
from mesh_stage import Stage

from helen.cli.base.client import Failed
from helen.cli.base.failures import Missing
from helen.cli.main import main
from helen.journal.verify_many import check_together

pytestmark = pytest.mark.integration
ROUNDS = int(os.environ.get("HELEN_MATRIX_ROUNDS", "1"))
NEWS_SECONDS = 15.0  # in which agents of a dead Helen report to another
CUT_SECONDS = 3.0  # in which a revoked agent is cut at every Helen
SERVED = {"200"}
# What a request may end by while processes die: the agent was between two Helens, or was lost while it was asked;
# nobody answered in time; its broker went down.
LOST = {"404 unknown_agent", "502 worker_lost", "504 deadline", "503 draining", "503 no_broker", "408 expired"}


@pytest.fixture(scope="module")
def fleet(common: Stage) -> Iterator[Fleet]:
    yield Fleet(common)


def helen(running: Running, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--state", str(running.state)], catch_exceptions=False)


def checks(running: Running) -> set[str]:
    return {check["name"] for check in running.client.get("/api/v1/checks")["checks"]}


def windows(running: Running) -> dict[str, str]:
    return {each["id"]: each["author"] for each in running.client.get("/api/v1/windows")["windows"]}


def ready(running: Running) -> str:
    """Return why it isn't ready."""
    try:
        running.client.get("/readyz")
    except Failed as failed:
        return str(failed)
    return ""


# ---------------------------------------------------------------------------------------------- what is shared


def test_fresh_helens_agree_on_keys(fleet: Fleet) -> None:
    """Each Helen made keys of its own, and those of one are everybody's now, so that agents may move."""
    keys = [each.client.get("/api/v1/keys") for each in fleet.helens]
    assert keys[0] == keys[1] == keys[2]
    assert ([key["here"] for key in keys[0]["keys"]], keys[0]["waiting"]) == ([True], False)


def test_a_push_at_one_is_a_push_at_all_and_so_is_the_way_back(fleet: Fleet) -> None:
    """Files are fetched by hash, and lie in the folders of the others, so that a change there builds on them."""
    before = checks(fleet.helens[0])
    fleet.helens[1].client.post("/api/v1/push", {"files": {"new.lua": pulse("new", "1h")}, "rings": "off"}, PATIENCE)
    for other in (fleet.helens[0], fleet.helens[2]):
        wait_until(lambda o=other: "new" in checks(o), "check", PATIENCE)
        assert (other.checks / "new.lua").read_text() == pulse("new", "1h")
    wait_until(fleet.settled, "peace", PATIENCE)
    fleet.helens[2].client.post("/api/v1/push/undo", {})
    wait_until(lambda: checks(fleet.helens[0]) == checks(fleet.helens[1]) == before, "way back", PATIENCE)
    wait_until(fleet.settled, "peace", PATIENCE)


def test_assignments_and_downtimes(fleet: Fleet) -> None:
    """A change at one Helen is in force at all; its end at another Helen is the end at all."""
    first, second, third = fleet.helens
    text = '[[assign]]\ncheck = "pulse"\nagents = "*"\nevery = "1s"\n'
    third.client.put("/api/v1/assignments", {"text": text})
    window = {"kind": "downtime", "id": "move", "until": time.time() + 3_600, "agents": ["web-*"], "author": "ann"}
    first.client.post("/api/v1/windows", window)
    wait_until(lambda: first.client.get("/api/v1/assignments")["text"] == text, "assignments", PATIENCE)
    wait_until(lambda: windows(second) == windows(third) == {"move": "ann"}, "downtime", PATIENCE)
    second.client.post("/api/v1/windows/move/cancel", {})
    wait_until(lambda: windows(first) == windows(third) == {}, "end of the downtime", PATIENCE)


def test_acknowledgements_notifications_and_the_grace(fleet: Fleet) -> None:
    """Acknowledgements, notifications and the grace that one Helen sets are in force at all; an acknowledgement waits
    for its agent.
    """
    first, second, third = fleet.helens
    text = '[channels.hook]\ntype = "webhook"\nurl = "https://localhost:1/s3cret"\n[route]\nchannels = []\n'
    second.client.put("/api/v1/notifications/file", {"text": text})
    third.client.post("/api/v1/renewals", {"grace": "14d"})
    for other in (first, third):
        wait_until(lambda o=other: (o.state / "notifications.toml").exists(), "notifications", PATIENCE)
        assert other.client.get("/api/v1/notifications/file")["text"] == text
    for other in (first, second):
        wait_until(lambda o=other: o.client.get("/api/v1/renewals")["grace"] == 14 * 86_400, "grace", PATIENCE)
    for broker in fleet.brokers:
        kept = b"".join(path.read_bytes() for path in (broker.folder / "state").rglob("*") if path.is_file())
        assert b"s3cret" not in kept
    first.client.put("/api/v1/notifications/file", {"text": None})
    wait_until(lambda: not any((each.state / "notifications.toml").exists() for each in fleet.helens), "end", PATIENCE)


def test_a_client_of_majordomo_finds_an_agent_at_any_broker(fleet: Fleet) -> None:
    """A client of Majordomo gets an agent's answer at any broker, whichever Helen has it."""
    for number in range(3):
        agent = min(fleet.members(number))
        for broker in fleet.brokers:
            desk = fleet.stage.asker(broker.run["frontend"])
            desk.wait_for(f"equus.{agent}")
            assert json.loads(desk.mdp1(f"equus.{agent}", b"pulse")[0])["status"] == "ok"


def test_a_revoked_agent_is_cut_at_every_helen(fleet: Fleet) -> None:
    """An agent's connection is cut although another Helen is told of the revocation."""
    agent = max(fleet.members(1))
    wait_until(fleet.settled, "peace", PATIENCE)
    fleet.helens[0].client.post(f"/api/v1/agents/{agent}/revoke", {})
    wait_until(lambda: agent not in fleet.members(1), "end of its connection", CUT_SECONDS)
    fleet.revoked.add(agent)


def test_drained(fleet: Fleet) -> None:
    """A drained Helen has given its results away, is not ready before that is undone, and misses no agent."""
    first, since = fleet.helens[0], time.time()
    fleet.fill(0)
    members = fleet.members(0)
    shown = json.loads(helen(first, "drain", "--dry-run", "--output", "json").stdout)
    assert (sorted(shown["others"]), shown["phase"]) == (sorted(fleet.ports[1:]), "off")
    done = helen(first, "drain", "--over", "2s")
    assert (done.exit_code, "This Helen is drained. Agents here: 0" in done.stdout) == (0, True), done.output
    assert "drained" in ready(first)
    fleet.wait_for_news(members, since, (1, 2))
    assert fleet.members(0) == set()
    assert helen(first, "drain", "--undo").exit_code == 0
    assert ready(first) == ""
    assert check_together([each.state for each in fleet.helens]).problems == ()
    wait_until(lambda: not first.client.get(f"/api/v1/states?agent={min(members)}")["states"], "rest", PATIENCE)


def state_of(fleet: Fleet, name: str, numbers: Iterable[int] = (0, 1)) -> Any:
    """Return the check `sick` of an agent, at that one of these Helens that has it."""
    for number in numbers:
        if name in fleet.members(number):
            with contextlib.suppress(Failed, Missing):
                return fleet.helens[number].client.get(f"/api/v1/states/{name}/sick")
    return {"status": "nowhere", "told": "nothing"}


def ack(fleet: Fleet, number: int, name: str, owner: str | None) -> bool:
    """Acknowledge `sick` at one Helen, None: take that back; False if it can't be done there, or not yet."""
    path, said = ("/api/v1/acks/clear", {}) if owner is None else ("/api/v1/acks", {"owner": owner})
    try:
        fleet.helens[number].client.post(path, {"agent": name, "check": "sick", **said})
    except (Failed, Missing):
        return False
    return True


@contextlib.contextmanager
def sick_agent(fleet: Fleet, name: str) -> Iterator[None]:
    """Run a real agent at the last Helen, whose check `sick` is critical."""
    first = fleet.helens[2]
    sick = pulse("sick", "1s").replace('return "ok"', 'return "critical"')
    first.client.post("/api/v1/push", {"files": {"sick.lua": sick}, "rings": "off"}, PATIENCE)
    before = first.client.get("/api/v1/assignments")["text"]
    text = f'[[assign]]\ncheck = "sick"\nagents = "{name}"\nevery = "1s"\nattempts = 1\n'
    first.client.put("/api/v1/assignments", {"text": before + text})
    wait_until(fleet.settled, "peace", PATIENCE)
    agent = first.agent(name)
    try:
        yield
    finally:
        agent.end()
    first.client.put("/api/v1/assignments", {"text": before})
    first.client.post("/api/v1/push/undo", {})
    wait_until(fleet.settled, "peace", PATIENCE)


def test_an_acknowledgement_goes_with_its_agent(fleet: Fleet) -> None:
    """An acknowledgement counts at the Helen to which its agent goes, nobody is told there, and it ends for all."""
    first, name = fleet.helens[2], "sick-1"
    with sick_agent(fleet, name):
        wait_until(lambda: ack(fleet, 2, name, "kim"), "problem", PATIENCE)
        wait_until(fleet.settled, "peace", PATIENCE)
        assert helen(first, "drain", "--over", "2s").exit_code == 0
        wait_until(lambda: state_of(fleet, name)["status"] == "critical", "result there", PATIENCE)
        found = state_of(fleet, name)
        assert (found["acknowledged"]["owner"], found["told"]) == ("kim", "ok")
        assert helen(first, "drain", "--undo").exit_code == 0
        assert sum(ack(fleet, number, name, None) for number in (0, 1)) == 1  # one of them has it
        wait_until(lambda: state_of(fleet, name)["told"] == "critical", "problem there", PATIENCE)


@pytest.mark.long
def test_a_helen_that_is_down_while_one_is_set_and_cleared(fleet: Fleet) -> None:
    """The Helen holds an older acknowledgement, and lets the agent's problem be told when the agent comes to it."""
    name = "sick-2"
    with sick_agent(fleet, name):
        wait_until(lambda: ack(fleet, 2, name, "kim"), "problem", PATIENCE)
        wait_until(fleet.settled, "peace", PATIENCE)
        for number in (0, 1):
            fleet.helens[number].end()
        assert all(ack(fleet, 2, name, owner) for owner in (None, "ann", None))
        for number in (0, 1):
            fleet.revive(number)
        for number in (0, 1):
            fleet.wait_for(number)
        wait_until(fleet.settled, "peace", PATIENCE)
        assert helen(fleet.helens[2], "drain", "--over", "2s").exit_code == 0
        wait_until(lambda: state_of(fleet, name)["told"] == "critical", "problem there", PATIENCE)
        assert state_of(fleet, name)["acknowledged"] is None
        assert helen(fleet.helens[2], "drain", "--undo").exit_code == 0


# ---------------------------------------------------------------------------------------------- what they suffer


@pytest.mark.long
def test_each_is_killed_stopped_and_restarted_in_turn(fleet: Fleet) -> None:
    took: dict[str, float] = {}
    fleet.moved.clear()
    clients = fleet.start_clients()
    for turn in range(3 * ROUNDS):
        number, following, last = (each % 3 for each in range(turn, turn + 3))
        began = time.monotonic()
        fleet.wait_for(following)  # it was ended in the turn before
        fleet.fill(number)
        took[f"{turn}: h{number} stopped"] = stop_her_and_try_a_broker(fleet, number)
        fleet.fill(following)
        took[f"{turn}: h{following} killed"] = fleet.leave_her(following, signal.SIGKILL)
        fleet.revive(following)
        fleet.wait_for(following)  # else all would be with the one who is left
        fleet.fill(last)
        took[f"{turn}: h{last} ended"] = fleet.leave_her(last, signal.SIGTERM)
        assert fleet.helens[last].program.wait() == 0
        fleet.revive(last)
        print(f"turn {turn}: {time.monotonic() - began:.1f} s")
    print(json.dumps(took, indent=1), "agents that had to go:", fleet.moved)
    fleet.wait_for(last)
    wait_until(fleet.settled, "network that has settled", PATIENCE)
    wait_until(fleet.know_each_other, "word of those who have said nothing since", PATIENCE)
    clients.process.terminate()
    assert clients.wait() == 0
    judge_requests(json.loads(clients.said.splitlines()[-1]))
    found = check_together([each.state for each in fleet.helens])
    print(found.results, "results,", found.repeated, "with two Helens")
    assert found.problems == ()
    assert found.results > AGENTS * 10
    assert min(fleet.moved[how] for how in (signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM)) >= AGENTS // 4
    assert {name: seconds for name, seconds in took.items() if seconds > NEWS_SECONDS} == {}


def stop_her_and_try_a_broker(fleet: Fleet, number: int) -> float:
    """Stop a Helen, and try a broker meanwhile."""
    members, since, began = fleet.members(number), time.time(), time.monotonic()
    fleet.moved[signal.SIGSTOP] += len(members)
    others = [other for other in range(3) if other != number]
    took: list[float] = []

    def listen() -> None:
        fleet.wait_for_news(members, since, others)
        took.append(time.monotonic() - began)

    fleet.helens[number].signal(signal.SIGSTOP)
    listening = threading.Thread(target=listen)
    listening.start()
    fleet.try_broker(number)
    listening.join()
    fleet.helens[number].signal(signal.SIGCONT)
    fleet.wait_for(number)
    return took[0]


def judge_requests(told: dict[str, Any]) -> None:
    """Fail unless each request ended once: well, or by a code that says what happened."""
    print(told)
    assert sum(told["ended"].values()) == told["asked"]
    assert told["twice"] == []
    assert set(told["ended"]) <= SERVED | LOST
    assert told["ended"]["200"] > told["asked"] / 4


@pytest.mark.long
def test_what_is_in_force_outlives_all_brokers(fleet: Fleet) -> None:
    """A restarted Helen goes on with what it has; its changes are told when there is a broker again."""
    for broker in fleet.brokers:
        broker.program.process.kill()
        broker.program.wait()
    fleet.helens[0].end()
    fleet.revive(0)
    fleet.helens[0].up()
    assert "pulse" in checks(fleet.helens[0])
    fleet.helens[0].client.post(
        "/api/v1/push", {"files": {"alone.lua": pulse("alone", "1h")}, "rings": "off"}, PATIENCE
    )
    assert "alone" in checks(fleet.helens[0])
    for broker in fleet.brokers:
        broker.again()
    wait_until(lambda: "alone" in checks(fleet.helens[1]), "check that was pushed without a broker", PATIENCE)
    assert (fleet.brokers[0].folder / "state" / "documents" / "checks.document").exists()
