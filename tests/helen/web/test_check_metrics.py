"""Tests /metrics/checks of a real Helen with a real agent: an entry's exports, for as long as they are true."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from helen_running import Running, wait_until
from real_peers import program
from web_client import Web, ask

METRICS = """local check = { summary = "Measures", needs = {}, every = "1s", args = {} }
function check.run(args, host)
  host.metric("used", 91.5, { unit = "%", labels = { path = "/" } })
  host.metric("sent", 7, { unit = "B", kind = "counter" })
  return "ok", "measured"
end
return check
"""
ASSIGN = '[judge]\naway = "1s"\n\n[[assign]]\ncheck = "figures"\nexport = ["us*"]\n'
OPEN = "application/openmetrics-text; version=1.0.0"


@pytest.mark.integration
def test_what_an_entry_exports(tmp_path: Path) -> None:
    """An entry exports nothing without `export`; promtool accepts the page, a limited token sees its agents, an
    absent agent is gone."""
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "figures.lua").write_text(METRICS)
    helen = Running(tmp_path).up()
    agents = [helen.agent("web-1", "team=shop"), helen.agent("db-1")]
    try:
        web = Web(helen)

        def page(query: str = "", **headers: str) -> str:
            answer = web.ask("GET", f"/metrics/checks{query}", **headers)
            assert answer.status == 200, answer.raw
            return answer.raw.decode()

        def series(query: str = "", **headers: str) -> list[str]:
            return [line for line in page(query, **headers).splitlines() if line.startswith("check_")]

        wait_until(lambda: len(helen.client.get("/api/v1/results")["results"]) == 2, "results")
        assert series() == []
        assert ask(helen, "PUT", "/api/v1/assignments", {"text": ASSIGN}).status == 200
        used = 'check_used_percent{agent="%s",check="figures",path="/"%s} 91.5'
        both = [used % ("db-1", ""), used % ("web-1", ',team="shop"')]
        wait_until(lambda: series() == both, "series")
        assert series("?on=web-*") == both[1:] and series("?on=team=shop") == both[1:]
        said = page(accept=OPEN)
        assert "# UNIT check_used_percent percent\n" in said and said.endswith("# EOF\n")
        checked = subprocess.run([program("promtool", "prometheus"), "check", "metrics"], input=page(), text=True,
                                 capture_output=True, timeout=60, check=False)  # fmt: skip
        assert checked.returncode == 0 and checked.stderr == "", checked.stderr
        made = ask(helen, "POST", "/api/v1/web-tokens", {"name": "shop", "scopes": ["metrics"], "on": ["team=shop"]})
        assert series(authorization=f"Bearer {made.json['token']}") == both[1:]
        agents[1].end()
        wait_until(lambda: series() == both[1:], "absence of db-1")
        refused = ask(helen, "PUT", "/api/v1/assignments", {"text": '[[assign]]\ncheck = "x"\nexport = "used"'})
        assert refused.problem[0] == 400 and "export is a list of at most 50 names or patterns" in refused.problem[2]
    finally:
        for agent in agents:
            agent.end()
        helen.end()
