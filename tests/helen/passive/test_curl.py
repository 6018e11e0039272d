"""Tests scripts for Icinga, NRDP and healthchecks.io, with a real curl against a real Helen and an agent."""

from __future__ import annotations

import json

import pytest
from helen_running import wait_until
from outside_stage import Stage

pytestmark = pytest.mark.integration

PASSIVE = """
[[check]]
host = "web-1"
id = "pulse"
[[check]]
host = "web-1"
id = "backup"
"""
XML = """<?xml version='1.0'?><checkresults>
<checkresult type='service' checktype='1'><hostname>NAS</hostname><servicename>vol-1</servicename><state>1</state>
<output>WARN | used=81%;80;90</output></checkresult>
<checkresult type='service' checktype='1'><hostname>nas</hostname><servicename>other</servicename><state>0</state>
<output>OK</output></checkresult></checkresults>"""


def test_declaring(stage: Stage) -> None:
    """A command declares a check and keeps the file's own text; a fault changes nothing."""
    (stage.helen.state / "passive.toml").write_text("# ours\n" + PASSIVE)
    wait_until(lambda: "web-1/backup" in stage.command("passive", "list"), "the file")
    assert "nas/smart may report" in stage.command("passive", "add", "nas/smart", "--stale", "26h", "--label", "a=b")
    stage.command("passive", "add", "nas/vol-*", "--stale", "1h", "--missing", "critical")
    text = (stage.helen.state / "passive.toml").read_text()
    assert text.startswith('# ours\n\n[[check]]\nhost = "web-1"\nid = "pulse"\n')
    assert "equus:x" in stage.command("passive", "add", "nas/equus:x", fails=1)
    assert (stage.helen.state / "passive.toml").read_text() == text
    assert stage.command("passive", "list").splitlines()[1:] == [
        "nas/smart     check  26h          unknown",
        "nas/vol-*     check  1h           critical",
        "web-1/pulse   check  never        unknown",
        "web-1/backup  check  never        unknown",
    ]
    hosts = [line.split()[:4] for line in stage.command("agents").splitlines()]
    assert ["nas", "no", "agent", "a=b"] in hosts
    assert stage.command("status").splitlines()[1] == "agents: 1 connected of 1, and 1 host reports without one"


def test_icinga(stage: Stage) -> None:
    """Icinga's documented script works with the key as the password, and a person is told."""
    key = stage.command("passive", "key", "nas")
    action = f"{stage.web}/v1/actions/process-check-result"
    body = {"type": "Service", "filter": 'host.name=="nas" && service.name=="smart"', "exit_status": 2,
            "plugin_output": "SMART CRITICAL", "performance_data": ["bad=5;1;2"], "check_source": "me"}  # fmt: skip
    words = ["-k", "-u", f"root:{key}", "-H", "Accept: application/json", "-X", "POST", action, "-d"]
    status, said = stage.curl(*words, json.dumps(body))
    told = "Successfully processed check result for object 'nas!smart'."
    assert (status, json.loads(said)) == (200, {"results": [{"code": 200, "status": told}]})
    stage.becomes("nas/smart", "critical")
    latest = stage.latest("nas/smart")
    assert (latest["summary"], [(m["name"], m["crit"]) for m in latest["metrics"]]) == (
        "SMART CRITICAL",
        [("bad", "2")],
    )
    alert = wait_until(
        lambda: [a for d in stage.receiver.documents() for a in d["alerts"] if a["check"] == "smart"], "message"
    )[0]
    labels = {"alertname": "HelenCheck", "agent": "nas", "check": "smart", "severity": "critical", "a": "b"}
    assert (alert["what"], alert["labels"]) == ("problem", labels)

    refused = {
        401: ["-u", "root:wrong", action, "-d", json.dumps(body)],
        404: ["-u", f"root:{key}", f"{action}?service=nas!none", "-d", '{"exit_status": 0, "plugin_output": "x"}'],
        400: ["-u", f"root:{key}", action, "-d", "{"],
    }
    for status, each in refused.items():
        got, said = stage.curl(*each)
        assert (got, json.loads(said)["error"]) == (status, status)


def test_a_ttl_ends(stage: Stage) -> None:
    """A ttl says when the next result is due, and the file's deadline counts again after that."""
    key = stage.command("passive", "key", "nas")
    action = f"{stage.web}/v1/actions/process-check-result?service=nas!smart"
    stage.curl("-u", f"x:{key}", action, "-d", '{"exit_status": 0, "plugin_output": "OK", "ttl": 1}')
    stage.becomes("nas/smart", "unknown (stale)")
    reason = "it was expected within 1 s (by its ttl)"  # is told once it is on disk, a moment after the state itself
    wait_until(lambda: reason in stage.command("explain", "nas/smart"), "reason")
    stage.curl("-u", f"x:{key}", action, "-d", '{"exit_status": 0, "plugin_output": "OK"}')
    stage.becomes("nas/smart", "ok")


def test_nrdp(stage: Stage) -> None:
    """NRDP takes XML and JSON; a check that isn't declared is named, and hinders no other."""
    key = stage.command("passive", "key", "nas")
    words = ["-d", f"token={key}", "-d", "cmd=submitcheck", "--data-urlencode"]
    status, said = stage.curl(*words, f"XMLDATA={XML}", f"{stage.web}/nrdp/")
    assert (status, "<status>0</status>" in said, "1 checks processed. 1 refused: nothing" in said) == (200, True, True)
    stage.becomes("nas/vol-1", "warning")
    result = {"hostname": "nas", "servicename": "vol-2", "state": "0", "output": "OK"}
    document = json.dumps({"checkresults": [{"checkresult": {"type": "service"}, **result}]})
    status, said = stage.curl(*words, f"JSONDATA={document}", f"{stage.web}/nrdp/")
    done = {"status": 0, "message": "OK", "meta": {"output": "1 checks processed."}}
    assert (status, json.loads(said)) == (200, {"result": done})
    stage.becomes("nas/vol-2", "ok")
    for wrong, message in (("token=x", "BAD TOKEN"), ("a=b", "NO TOKEN")):
        _, said = stage.curl("-d", wrong, *words[2:], f"XMLDATA={XML}", f"{stage.web}/nrdp/")
        assert f"<status>-1</status>\n<message>{message}" in said


def test_what_an_agent_runs_is_its_own(stage: Stage) -> None:
    """Another check of the same name is beside it, and is not away when the agent is."""
    key = stage.command("passive", "key", "web-1")
    report = ["-H", f"Authorization: Bearer {key}", f"{stage.web}/api/v1/passive/results", "-d"]
    status, said = stage.curl(*report, '{"host": "web-1", "check": "pulse", "status": "critical"}')
    assert (status, "is run by the agent web-1" in said) == (409, True)
    status, _ = stage.curl(*report, '{"host": "web-1", "check": "backup", "status": "warning", "summary": "late"}')
    assert status == 201
    stage.becomes("web-1/backup", "warning")
    other = stage.command("passive", "key", "nas")
    status, _ = stage.curl(
        "-H", f"Authorization: Bearer {other}", *report[2:], '{"host": "web-1", "check": "backup", "status": "ok"}'
    )
    assert status == 401
    assert stage.command("run", "pulse", "--on", "*").splitlines() == ["web-1: OK hello", "1 answered"]


def test_twice_is_once(stage: Stage) -> None:
    """A result with a known id counts once, over a restart too; the last one is known after it."""
    key = stage.command("passive", "key", "*")
    words = ["-H", f"Authorization: Bearer {key}", "-H", "Idempotency-Key: k1"]
    body = '{"host": "nas", "check": "vol-3", "status": "ok", "summary": "fine"}'
    got = [stage.curl(*words, f"{stage.web}/api/v1/passive/results", "-d", body)[0] for _ in range(2)]
    stage.again()
    got.append(stage.curl(*words, f"{stage.web}/api/v1/passive/results", "-d", body)[0])
    assert got == [201, 200, 200]
    assert (stage.state("nas/vol-3"), stage.latest("nas/vol-3")["summary"]) == ("ok", "fine")
    assert (stage.state("nas/vol-1"), stage.state("web-1/backup")) == ("warning", "warning")
    count = stage.helen.client.get("/api/v1/status")["counts"]["passive"]
    assert count == 0  # of this Helen


def test_pings(stage: Stage) -> None:
    """Begin, end, fail, statuses, with a body and without; nobody else's URL is found."""
    url = stage.command("ping", "new", "nightly", "--every", "1d", "--grace", "1h")
    assert stage.curl(url) == (200, "OK\n")
    stage.becomes("pings/nightly", "ok")
    assert stage.curl(f"{url}/start?rid=1") == (200, "OK\n")
    assert stage.curl("--data-raw", "a & b\nlines", f"{url}/3?rid=1") == (200, "OK\n")
    stage.becomes("pings/nightly", "critical")
    latest = stage.latest("pings/nightly")
    assert (latest["summary"], latest["took_ms"] > 0) == ("exit status 3: a & b", True)
    assert stage.curl("-I", url)[0] == 200
    stage.becomes("pings/nightly", "ok")
    assert stage.curl("-d", "x", f"{url}/log") == (200, "OK\n")
    assert stage.curl(f"{url}/fail") == (200, "OK\n")
    stage.becomes("pings/nightly", "critical")
    named = json.loads(stage.command("ping", "url", "nightly", "--output", "json"))["named"]
    assert stage.curl(f"{stage.web}{named}/0") == (200, "OK\n")
    stage.becomes("pings/nightly", "ok")
    token = (stage.helen.state / "web.token").read_text().strip()
    assert stage.curl("-H", f"Authorization: Bearer {token}", f"{stage.web}/ping/nightly") == (200, "OK\n")
    for wrong in ("/ping/nightly", f"/ping/{'0' * 8}-0000-4000-8000-{'0' * 12}", f"{named}/x", "/ping/x/nightly"):
        assert stage.curl(stage.web + wrong) == (404, "not found\n")
    control = ("--unix-socket", str(stage.helen.state / "control.sock"))
    assert stage.curl(*control, "http://localhost/ping/none") == (404, "not found\n")
    assert stage.curl(*control, "http://localhost/ping/nightly") == (200, "OK\n")
    fresh = stage.command("ping", "rotate", "nightly")
    assert (stage.curl(url)[0], stage.curl(fresh)[0]) == (404, 200)


def test_a_ping_that_is_missing_is_told(stage: Stage) -> None:
    """A missing ping is told by its deadline, also when it began and doesn't end; the next one is the recovery."""
    url = stage.command("ping", "new", "often", "--every", "1s", "--grace", "1s")
    stage.curl(url)
    stage.becomes("pings/often", "critical (stale)")
    assert "pings/often    1s     1s     critical" in stage.command("ping", "list").splitlines()
    stage.curl(f"{url}/start")
    assert stage.told("often", "problem")["labels"]["severity"] == "critical"
    stage.command("ping", "remove", "often")
    wait_until(lambda: stage.state("pings/often") is None, "end of it")


def test_too_much_is_told_so(stage: Stage) -> None:
    """Each limit is told with the time when it may again; strangers who guess have one, too."""
    url = stage.command("ping", "new", "mad", "--every", "1h")
    assert stage.curl(*[url] * 31)[0] == 429  # one connection: 30 at once, and one more
    guesses = {stage.curl(f"{stage.web}/ping/guess")[0] for _ in range(25)}
    assert guesses == {404, 429}


def test_what_is_removed_is_closed(stage: Stage) -> None:
    """A host without a check is nobody, and what was told of it is closed."""
    for what in ("nas/smart", "nas/vol-*"):
        stage.command("passive", "remove", what)
    assert "is not declared" in stage.command("passive", "remove", "nas/smart", fails=3)
    wait_until(lambda: stage.state("nas/vol-1") is None, "end of it")
    assert stage.told("vol-1", "closed")["status"] == "warning"
    before = (stage.helen.state / "passive.toml").read_text()
    (stage.helen.state / "passive.toml").write_text("x = 1")
    wait_until(lambda: "'x' is no setting here" in stage.command("passive", "list"), "fault")
    assert stage.state("web-1/backup") == "warning"
    (stage.helen.state / "passive.toml").write_text(before)
