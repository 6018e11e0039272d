"""Tests that Helen answers promtool and Grafana's Prometheus data source, and a limited token for its agents alone."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from helen_running import Running, wait_until
from real_peers import program
from web_client import Answer, Web, ask

pytestmark = pytest.mark.integration

PASSIVE = """
[hosts.web-1]
labels = { team = "shop", dc = "north" }
[hosts.web-2]
labels = { team = "shop", dc = "south" }
[hosts.vault-9]
labels = { team = "bank" }
[[check]]
host = "web-1"
id = "disk"
[[check]]
host = "web-2"
id = "disk"
[[check]]
host = "vault-9"
id = "safe"
"""
FORM = "application/x-www-form-urlencoded"


class Stage:
    """Run Helen with passive results of three hosts, and a token limited to two of them."""

    def __init__(self, folder: Path) -> None:
        (folder / "state").mkdir(mode=0o700)
        (folder / "state" / "passive.toml").write_text(PASSIVE)
        self.helen = Running(folder).up()
        self.web = Web(self.helen)
        made = ask(self.helen, "POST", "/api/v1/web-tokens", {"name": "shop", "scopes": ["read"], "on": ["team=shop"]})
        self.limited: str = made.json["token"]
        for value in (41.5, 42.25):
            self.report("web-1", "disk", "ok", value)
        self.report("web-2", "disk", "warning", 93.0)
        self.report("vault-9", "safe", "critical", 7.0)
        wait_until(lambda: len(self.instant("helen_state")) == 3, "all series")

    def report(self, host: str, check: str, status: str, value: float) -> None:
        metrics = [{"name": "used", "value": value, "unit": "%", "labels": {"path": "/"}},
                   {"name": "sent", "value": value * 1000, "unit": "B", "kind": "counter"}]  # fmt: skip
        given = {"host": host, "check": check, "status": status, "metrics": metrics}
        assert ask(self.helen, "POST", "/api/v1/passive/results", given).status == 201

    def form(self, path: str, token: str = "", **given: Any) -> Answer:
        """Ask by POST with a form, as Grafana does."""
        headers = {"content_type": FORM} | ({"authorization": f"Bearer {token}"} if token else {})
        return self.web.ask("POST", f"/api/v1/{path}", urlencode(given, doseq=True).encode(), **headers)

    def get(self, path: str, token: str = "", **given: Any) -> Answer:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return self.web.ask("GET", f"/api/v1/{path}?{urlencode(given, doseq=True)}", **headers)

    def instant(self, query: str, token: str = "") -> list[Any]:
        answer = self.form("query", token, query=query)
        assert answer.status == 200, answer.raw
        return list(answer.json["data"]["result"])

    def promtool(self, *words: str, token: str = "", fails: int = 0) -> str:
        """Return what promtool prints, asked of this Helen; SERVER in the words stands for its address."""
        server = f"http://any:{token or self.web.token}@{self.web.host}:{self.web.port}"
        named = [server if word == "SERVER" else word for word in words]
        done = subprocess.run([program("promtool", "prometheus"), "query", *named], capture_output=True, text=True,
                              timeout=60, check=False)  # fmt: skip
        assert done.returncode == fails, (done.stdout, done.stderr)
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("promql"))
    yield made
    made.helen.end()


# ---------------------------------------------------------------------------------------------- promtool


def test_promtool_asks_one_time(stage: Stage) -> None:
    """promtool's instant query works unchanged with a token as the password, and an unknown function is an error."""
    said = stage.promtool("instant", "SERVER", 'used{agent="web-1"}')
    assert said.startswith('used{agent="web-1", check="disk", dc="north", path="/", team="shop"} => 42.25 @[')
    assert stage.promtool("instant", "SERVER", "max by (team) (used)").count("=>") == 2
    assert stage.promtool("instant", "SERVER", "1 + 1").startswith("scalar: 2 @[")
    assert "Helen has no function label_replace() of PromQL" in stage.promtool(
        "instant", "SERVER", 'label_replace(used, "a", "$1", "agent", "(.*)")', fails=1
    )


def test_promtool_asks_a_range(stage: Stage) -> None:
    """promtool's range query gives the values of the last minutes."""
    now = time.time()
    words = ["range", f"--start={now - 60:.0f}", f"--end={now + 60:.0f}", "--step=10s", "SERVER"]
    said = stage.promtool(*words, "sum(used)")
    assert said.startswith("{} =>\n142.25 @[")
    assert stage.promtool(*words, "count(helen_ok == 1)").startswith("{} =>\n1 @[")


def test_promtool_asks_for_series_and_labels(stage: Stage) -> None:
    """promtool lists series and the values of labels, all or those that fit."""
    said = stage.promtool("series", "SERVER", "--match=sent")
    assert sorted(said.splitlines()) == [
        '{__name__="sent", agent="vault-9", check="safe", team="bank"}',
        '{__name__="sent", agent="web-1", check="disk", dc="north", team="shop"}',
        '{__name__="sent", agent="web-2", check="disk", dc="south", team="shop"}',
    ]
    assert stage.promtool("labels", "SERVER", "agent").split() == ["vault-9", "web-1", "web-2"]
    assert stage.promtool("labels", "SERVER", "__name__").split() == ["helen_ok", "helen_state", "sent", "used"]


# ---------------------------------------------------------------------------------------------- Grafana


def test_what_grafana_asks(stage: Stage) -> None:
    """The calls of Grafana's Prometheus data source are answered in its form."""
    healthy = stage.form("query", query="1+1", time="4").json
    assert healthy == {"status": "success", "data": {"resultType": "scalar", "result": [4.0, "2"]}}
    info = stage.get("status/buildinfo").json["data"]
    assert info["version"] == "2.45.0"
    assert info.keys() == {"version", "revision", "branch", "buildUser", "buildDate", "goVersion"}
    now = time.time()
    span = {"start": f"{now - 3600:.0f}", "end": f"{now + 5:.0f}"}
    names = ["__name__", "agent", "check", "dc", "path", "team"]
    assert stage.form("labels", **span).json == {"status": "success", "data": names}
    assert stage.get("labels", **span, **{"match[]": "sent"}).json["data"] == [name for name in names if name != "path"]
    assert stage.get("label/team/values", **span, **{"match[]": "used"}).json["data"] == ["bank", "shop"]
    assert stage.get("metadata", limit=1000).json["data"]["sent"] == [{"type": "counter", "help": "", "unit": "B"}]
    assert stage.get("metadata", metric="used").json["data"] == {"used": [{"type": "gauge", "help": "", "unit": "%"}]}
    assert len(stage.form("series", **span, **{"match[]": ["used", "sent"]}).json["data"]) == 6
    panel = stage.form("query_range", query='used{team=~"shop|bank"}', **span, step="15").json["data"]
    assert panel["resultType"] == "matrix" and len(panel["result"]) == 3
    assert stage.form("query_exemplars", query="used", **span).json == {"status": "success", "data": []}
    assert stage.get("rules").json == {"status": "success", "data": {"groups": []}}
    assert "labels" in stage.get("labels").json  # Helen's own route of this name


def test_a_large_answer_is_packed(stage: Stage) -> None:
    """A large answer is packed for clients that take gzip, and is the same answer."""
    given = {"query": "vector(time())", "start": 0, "end": 100_000, "step": 10}
    packed = stage.web.ask("GET", f"/api/v1/query_range?{urlencode(given)}", accept_encoding="gzip")
    plain = stage.get("query_range", **given)
    assert packed.raw[:2] == b"\x1f\x8b" and len(packed.raw) < len(plain.raw) / 2
    assert len(plain.json["data"]["result"][0]["values"]) == 10_001


# ---------------------------------------------------------------------------------------------- limits


def test_a_limited_token_sees_its_agents_alone(stage: Stage) -> None:
    """A limited token sees its agents alone in every answer of the query API."""
    given = {"match[]": '{agent=~".+"}'}
    for answer in (
        stage.form("query", stage.limited, query='{agent=~".+"}'), stage.form("series", stage.limited, **given),
        stage.form("query_range", stage.limited, query="used", start=time.time() - 60, end=time.time(), step=5),
        stage.form("labels", stage.limited), stage.get("label/agent/values", stage.limited),
        stage.get("label/team/values", stage.limited), stage.get("label/check/values", stage.limited),
        stage.get("metadata", stage.limited), stage.form("query", stage.limited, query="used[5m]"),
    ):  # fmt: skip
        assert answer.status == 200
        assert b"vault" not in answer.raw and b"bank" not in answer.raw and b"safe" not in answer.raw
    assert stage.instant('used{agent="vault-9"}', stage.limited) == []
    assert [each["value"][1] for each in stage.instant("count(helen_state)", stage.limited)] == ["2"]
    assert stage.get("label/agent/values", stage.limited).json["data"] == ["web-1", "web-2"]


BAD = {
    "no question": ({"query": ""}, 400, "`query` is a question in PromQL"),
    "no PromQL": ({"query": "sum("}, 400, "no PromQL: unclosed left parenthesis"),
    "an endless one": ({"query": "1" + "+1" * 3_000}, 400, "a question has at most 5000 characters"),
    "a deep one": ({"query": "(" * 2_000 + "1" + ")" * 2_000}, 400, "at most 100 brackets of a kind"),
    "a regex bomb": ({"query": 'used{agent=~"(((a{200}){200}){200})b"}'}, 400, "can't be used|no PromQL"),
    "an expression that looks ahead": ({"query": 'used{agent=~"(?=a)b"}'}, 400, "no PromQL"),
    "a century": ({"query": "rate(used[900y])"}, 400, "longer than 10 years"),
    "a subquery": ({"query": "max_over_time(used[5m:1m])"}, 422, "Helen has no subqueries of PromQL"),
    "an aggregation": ({"query": "quantile(0.5, used)"}, 422, "Helen has no aggregation quantile of PromQL"),
    "a time": ({"query": "used", "time": "yesterday"}, 400, "`time` is unix seconds, or a date"),
    "a year": ({"query": "used", "time": "1e17"}, 400, "`time` is a time from 1970 to 9999"),
    "a resolution": ({"query": "used", "resolution": "m7"}, 400, "`resolution` is one of raw"),
}


@pytest.mark.parametrize(("given", "status", "said"), BAD.values(), ids=BAD)
def test_what_can_not_be_answered(stage: Stage, given: dict[str, Any], status: int, said: str) -> None:
    """A wrong query is refused in Prometheus' form with a sentence."""
    answer = stage.form("query", **given)
    assert (answer.status, answer.json["status"]) == (status, "error")
    assert answer.json["errorType"] == ("bad_data" if status == 400 else "execution")
    assert re.search(said, answer.json["error"]), answer.json


def test_what_no_range_can_be(stage: Stage) -> None:
    """A range with too many steps, no step, no end or a reversed one is refused with a sentence."""
    for given, said in (
        ({"start": 0, "end": 4_000_000_000, "step": 15}, "exceeded maximum resolution of 11000 points"),
        ({"start": 0, "end": 10, "step": 0}, "`step` is a duration of a millisecond or more"),
        ({"start": 10, "end": 0, "step": 1}, "`end` is before `start`"),
        ({"start": 0, "step": 1}, "`end` is missing"),
    ):
        answer = stage.form("query_range", query="used", **given)
        assert answer.status == 400 and said in answer.json["error"], answer.json
    body = urlencode({"query": "x" * 70_000}).encode()
    answer = stage.web.ask("POST", "/api/v1/query", body, content_type=FORM)
    assert (answer.status, answer.json["error"]) == (400, "a form has at most 65536 bytes")
    assert json.loads(stage.form("query", query="used", time="2026-11-29T12:00:00+01:00").raw)["status"] == "success"
