"""Test the whole agent in memory: what Helen sees of it over several connections."""

import json

import pytest
from twisted.internet.defer import succeed

from equus.agent import TICK
from equus.code.library import hash_of
from equus.link.questions import MAX_ID
from equus.policy import policy
from equus_protocol import messages as m

LOAD = {"id": "load-1", "check": "load", "every": 1, "offset": 0}
EMPTY = m.Schedule(1, b"[]")


def schedule(*entries):
    return m.Schedule(1, json.dumps(entries).encode())


def of_kind(kind, heard):
    return [message for message in heard if isinstance(message, kind)]


def document(message):
    return json.loads(message.blob)


def live(memory_agent, helen, seconds):
    """Let time pass with a living Helen, and return the messages that it heard."""
    heard = []
    for _ in range(int(seconds / 10)):
        memory_agent.clock.advance(10)
        heard += helen.say(m.Pong(MAX_ID))
        memory_agent.writer.work()
    return heard + helen.hear()


def due(memory_agent, seconds=1.0):
    """Let the clock run, and let the sandbox finish all that was started."""
    memory_agent.clock.advance(seconds)
    for run in list(memory_agent.runner.running):
        run.finish()


def test_hello_schedule_loaded(memory_agent, folder, runner):
    """The agent reports after Helen's first message of version 2 which files run, with labels, version and host."""
    memory_agent = memory_agent(checks=folder)
    helen = memory_agent.meet()
    assert helen.hello == [m.Hello(2, "0.1")]
    [loaded] = helen.say(EMPTY)
    report = document(loaded)
    files = {name: hash_of((folder / name).read_bytes()) for name in ("load.lua", "disk.lua", "lib/text.lua")}
    assert report["files"] == {name: {"sha256": sha256, "state": "active"} for name, sha256 in sorted(files.items())}
    assert (report["labels"], report["equus"], report["isolation"]) == ({"role": "web"}, "0.1", "strong")
    assert set(report["host"]) == {"os", "kernel", "arch", "cpus", "memory"}
    assert report["spool"] == {"id": memory_agent.writer.state.id, "depth": 0, "first": 1}
    assert loaded.digest == memory_agent.updater.checks.digest
    assert len(memory_agent.said) == 1 and memory_agent.said[0].endswith("connected to helen.example:4166")


def test_a_check_is_answered_with_what_the_sandbox_says(memory_agent, folder, runner):
    """A check is answered with the sandbox's result; its job has the source, its hash, the libraries and the arguments
    as they came.
    """
    memory_agent = memory_agent(checks=folder)
    helen = memory_agent.meet()
    assert helen.say(m.Check("load", 7, b'{"a": 1}')) == []
    [run] = runner.running
    source = (folder / "load.lua").read_bytes()
    assert (run.job.source, run.job.code, run.job.args) == (source, hash_of(source), b'{"a": 1}')
    assert (run.job.libraries, run.job.pushed, run.job.timeout) == ({"text": b"return {}\n"}, False, None)
    run.finish(summary="fine")
    [result] = helen.hear()
    assert (result.message_id, result.name, document(result)["summary"]) == (7, "load", "fine")


@pytest.mark.parametrize("name", ["nothing", "lib/text", "../checks/load", ".hidden", "load.lua", "prüfung-☃"])
def test_an_unknown_check_is_a_result(memory_agent, folder, name):
    """An unknown check gives a result, because names are looked up in the check set alone."""
    helen = memory_agent(checks=folder).meet()
    [result] = helen.say(m.Check(name, 1, b""))
    assert (document(result)["status"], document(result)["reason"]) == ("unknown", "unknown-check")


def test_a_cancelled_check_says_so_and_an_unknown_id_is_nothing(memory_agent, folder, runner):
    """A cancelled check gives a result, and a cancel of an unknown id none, since both may have crossed."""
    helen = memory_agent(checks=folder).meet()
    helen.say(EMPTY, m.Check("load", 5, b""))
    [result] = helen.say(m.Cancel(5), m.Cancel(6))
    assert (result.message_id, document(result)["reason"]) == (5, "cancelled")


def test_results_die_with_their_connection(memory_agent, folder, runner):
    """The end of a connection cancels its runs, and the next connection hears nothing of them."""
    memory_agent = memory_agent(checks=folder)
    helen = memory_agent.meet()
    helen.say(m.Check("load", 1, b""))
    [run] = runner.running
    memory_agent.part(helen)
    assert (runner.running, run.reason) == ([], "cancelled")
    assert memory_agent.meet().hello == [m.Hello(2, "0.1")]


@pytest.mark.adversary(58)
def test_a_report_is_sent_once_it_is_on_disk_and_again_until_it_is_acked(memory_agent, folder):
    """Reports are sent in order once they are on disk, after `loaded`, and again from the first without an ack."""
    memory_agent = memory_agent(checks=folder)
    helen = memory_agent.meet()
    helen.say(schedule(LOAD))
    for _ in range(3):
        due(memory_agent)
    assert helen.hear() == []
    memory_agent.writer.work()
    reports = helen.hear()
    spool = memory_agent.writer.state.id
    assert [(r.spool, r.sequence, r.check) for r in reports] == [(spool, n, "load-1") for n in (1, 2, 3)]
    helen.say(m.Ack(spool, 2))
    memory_agent.writer.work()
    memory_agent.part(helen)
    again = memory_agent.meet()
    loaded, *sent = again.say(EMPTY)
    assert document(loaded)["spool"] == {"id": spool, "depth": 1, "first": 3}
    assert sent == reports[2:]


def test_acks_of_another_spool_and_of_nothing_do_no_harm(memory_agent, folder):
    """An ack of another spool, or of sequence 0, does no harm."""
    memory_agent = memory_agent(checks=folder)
    helen = memory_agent.meet()
    helen.say(schedule(LOAD))
    helen.say(m.Ack("another", 5), m.Ack(memory_agent.writer.state.id, 0))
    due(memory_agent)
    memory_agent.writer.work()
    assert [report.sequence for report in helen.hear()] == [1]


def test_an_ack_of_what_never_was_starts_a_new_spool_which_is_announced(memory_agent, folder):
    """An ack beyond the last sequence begins a new spool, which is announced, because the old numbers are used up."""
    memory_agent = memory_agent(checks=folder)
    helen = memory_agent.meet()
    helen.say(schedule(LOAD))
    old = memory_agent.writer.state.id
    due(memory_agent)
    memory_agent.writer.work()
    assert [report.sequence for report in helen.hear()] == [1]
    helen.say(m.Ack(old, 100))
    memory_agent.writer.work()
    heard = helen.hear()
    memory_agent.writer.work()
    heard += helen.hear()
    new = memory_agent.writer.state.id
    assert new != old
    assert document(heard[0])["spool"] == {"id": new, "depth": 1, "first": 1}
    assert [(r.spool, r.sequence) for r in heard[1:]] == [(new, 1)]


def test_no_more_is_in_flight_than_the_window(memory_agent, folder, runner):
    """At most a window of reports is on the way, and the rest waits for an ack."""
    memory_agent = memory_agent(checks=folder)
    helen = memory_agent.meet()
    helen.say(schedule(LOAD))
    for _ in range(8):
        memory_agent.clock.advance(1)
        runner.running[0].finish(output="x" * 100_000)
        memory_agent.writer.work()
    sent = [report.sequence for report in of_kind(m.Report, helen.hear())]
    assert sent == [1, 2, 3]  # the last one may reach beyond it
    heard = helen.say(m.Ack(memory_agent.writer.state.id, 2))
    assert [report.sequence for report in of_kind(m.Report, heard)] == [4, 5]


def test_the_schedule_runs_without_a_helen_and_after_a_restart(memory_agent, folder, runner):
    """The schedule is on disk and runs without a Helen after a restart, and its results wait in the spool."""
    first = memory_agent(checks=folder)
    first.meet().say(schedule(LOAD))
    first.close()
    second = memory_agent(checks=folder)
    due(second)
    second.writer.work()
    assert second.writer.state.depth == 1
    helen = second.meet()
    assert [report.check for report in of_kind(m.Report, helen.say(schedule(LOAD)))] == ["load-1"]


def test_a_schedule_that_is_none_changes_nothing_and_is_told(memory_agent, folder):
    """A faulty schedule changes nothing, the old one goes on, and the next `loaded` says why."""
    memory_agent = memory_agent(checks=folder)
    helen = memory_agent.meet()
    helen.say(schedule(LOAD), m.Schedule(2, b"{}"))
    due(memory_agent)
    memory_agent.writer.work()
    [report] = helen.hear()
    [loaded] = helen.say(m.Reload())
    assert report.check == "load-1"
    assert document(loaded)["schedule"] == ["the schedule is not a list but dict"]


def test_reload_reads_the_folder_again(memory_agent, folder, runner):
    """Reload reads new, changed, removed and broken files, and does not try again the files that it tried before."""
    memory_agent = memory_agent(checks=folder)
    helen = memory_agent.meet()
    helen.say(EMPTY)
    tried = len(runner.inspected)
    (folder / "disk.lua").unlink()
    (folder / "load.lua").write_text("broken")
    (folder / "swap.lua").write_text(lua := "return {}")
    [loaded] = helen.say(m.Reload())
    files = document(loaded)["files"]
    assert files["swap.lua"] == {"sha256": hash_of(lua.encode()), "state": "active"}
    assert files["load.lua"]["state"] == "refused"
    assert files["load.lua"]["error"] == "line 1: '=' expected"
    assert set(files) == {"load.lua", "swap.lua", "lib/text.lua"}
    assert len(runner.inspected) == tried + 2
    helen.say(m.Reload())
    assert len(runner.inspected) == tried + 2


@pytest.mark.adversary(38)
def test_a_running_check_keeps_its_code(memory_agent, folder, runner):
    """A running check keeps its code, and the next one runs the new code."""
    memory_agent = memory_agent(checks=folder)
    helen = memory_agent.meet()
    helen.say(EMPTY, m.Check("load", 1, b""))
    (folder / "load.lua").write_text("return {}")
    helen.say(m.Reload(), m.Check("load", 2, b""))
    assert [run.job.source for run in runner.running] != [b"return {}"] * 2
    assert runner.running[1].job.source == b"return {}"


def test_an_update_makes_one_report_and_no_digest_of_the_policy(memory_agent, folder, monkeypatch):
    """An update makes the content of `loaded` once, and the policy is hashed once for all updates."""
    memory_agent = memory_agent(checks=folder)
    helen = memory_agent.meet()
    helen.say(EMPTY)
    made, hashed, report, dump = [], [], memory_agent.agent.services.load_report, policy.asdict
    monkeypatch.setattr(memory_agent.agent.services, "load_report", lambda: made.append(1) or report())
    monkeypatch.setattr(policy, "asdict", lambda *given, **more: hashed.append(1) or dump(*given, **more))
    for number in range(5):
        (folder / "load.lua").write_text(f"return {{ {number} }}")
        [loaded] = helen.say(m.Reload())
        assert document(loaded)["files"]["load.lua"]["state"] == "active"
    assert (len(made), hashed) == (5, [])
    memory_agent.agent.reread(lambda: policy.Policy.parse(b"[caps.host]\nallow = false\n", None))
    [loaded] = helen.hear()
    assert document(loaded)["policy"] == policy.Policy.parse(b"[caps.host]\nallow = false\n", None).digest


def test_version_1_reloads_on_the_same_connection_and_says_nothing_of_it(memory_agent, folder, runner):
    """Over version 1 a reload takes effect on the same connection without a report."""
    memory_agent = memory_agent(checks=folder)
    memory_agent.route.ended(0.0, error="unsupported-protocol-version")
    helen = memory_agent.meet()
    assert helen.hello == [m.Hello(1, "0.1")]
    (folder / "load.lua").write_text("return {}")
    assert helen.say(m.Reload(), m.Check("load", 1, b"")) == []
    assert runner.running[0].job.source == b"return {}"


def test_the_agent_reports_its_own_health_every_minute_once_somebody_reads_it(memory_agent, folder):
    """The agent reports its own health each minute once a schedule has come, since a Helen of version 1 reads no
    reports.
    """
    memory_agent = memory_agent(checks=folder)
    memory_agent.clock.advance(TICK)
    memory_agent.writer.work()
    assert memory_agent.writer.state.last == 0
    helen = memory_agent.meet()
    helen.say(EMPTY)
    [report] = of_kind(m.Report, live(memory_agent, helen, TICK))
    health = document(report)
    assert (report.check, health["status"], health["check"]) == ("equus", "ok", "equus")
    figures = {metric["name"]: metric["value"] for metric in health["metrics"]}
    assert (figures["spool_depth"], figures["runs"], figures["info"]) == (0, 0, 1)
    assert figures["resident"] > 1_000_000


def test_skipped_and_late_runs_reach_helen(memory_agent, folder, runner):
    """A run that did not happen is counted in the self-report, and its entry is named."""
    memory_agent = memory_agent(checks=folder)
    helen = memory_agent.meet()
    helen.say(schedule(LOAD))
    health = document(of_kind(m.Report, live(memory_agent, helen, TICK))[0])
    figures = {metric["name"]: metric["value"] for metric in health["metrics"]}
    assert figures["runs"] == 1
    assert figures["skipped_runs"] + figures["missed_runs"] == TICK - 1
    assert health["output"] == f"load-1: {TICK - 1:.0f} runs did not happen\n"


def test_servers_are_kept_and_tried_after_ours(memory_agent, folder):
    """Servers that Helen lists are kept on disk, and tried after the configured ones."""
    memory_agent = memory_agent(checks=folder)
    helen = memory_agent.meet()
    listed = b'[{"address": "other.example:4166", "name": "other"}, {"address": "helen.example:4166"}]'
    helen.say(EMPTY, m.Servers(2, listed), m.Servers(3, b"nonsense"))
    assert [server.address for server in memory_agent.route.servers] == ["helen.example:4166", "other.example:4166"]
    assert memory_agent.route.servers[1].verify == "other"
    assert (memory_agent.state / "servers.json").read_bytes() == listed


def test_stopping_kills_says_goodbye_and_keeps_no_false_results(memory_agent, folder, runner):
    """A stop kills the running checks and keeps none of their results, which would be wrong findings about the host."""
    memory_agent = memory_agent(checks=folder)
    helen = memory_agent.meet()
    helen.say(schedule(LOAD))
    memory_agent.clock.advance(1)
    memory_agent.agent._dialler.stop = lambda: succeed(None)
    memory_agent.writer.stop = lambda within: True
    ended = []
    memory_agent.agent.stop().addCallback(ended.append)
    memory_agent.writer.work()
    assert (runner.stopped, helen.transport.ended, len(ended)) == (True, "lost", 1)
    assert memory_agent.writer.state.last == 0


def test_an_error_from_helen_goes_to_the_route(memory_agent, folder):
    """An error from Helen goes to the route, so that its `retry-after` is the least wait."""
    memory_agent = memory_agent(checks=folder)
    helen = memory_agent.meet()
    helen.say_bytes(b"error overloaded;retry-after=40\n")
    memory_agent.part(helen)
    assert 40 <= memory_agent.route.delay <= 41


def test_before_its_first_set_has_come_an_agent_reports_no_unknown_checks(memory_agent, runner):
    """Runs before the first check set count as missed, and give no results."""
    memory_agent = memory_agent()
    helen = memory_agent.meet()
    helen.say(schedule(LOAD))
    reports = of_kind(m.Report, live(memory_agent, helen, TICK - 1))
    assert (reports, runner.running) == ([], [])
