"""Implement `helen demo`: a small fleet on this machine, a check that changes while it runs, and an account of it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from groundwork.terminal import echo, styled
from helen.cli.base.session_link import make_link
from helen.cli.local.live_results import LiveResults
from helen.cli.local.processes import TRUSTED, Local, until_stopped
from helen.files.state_dir import make_folder

AGENTS = {"web-1": ["role=web", "site=north"], "web-2": ["role=web", "site=south"], "db-1": ["role=db", "site=north"]}
WATCHED = 6.0  # seconds of results before the push
PATIENCE = 30.0  # seconds that something prompt may take on a busy machine
SPARK_SECONDS = 300.0  # that the pipeline may take, which is some 20 s

ASSIGNMENTS = """# The demo runs a pulse on every agent, and shipped checks where they fit.
[[assign]]
check = "pulse"
every = "1s"

[[assign]]
check = "load"
every = "2s"

[[assign]]
check = "disk"
labels = { role = "db" }
every = "3s"

[[assign]]
check = "memory"
labels = { role = "web" }
every = "3s"
"""

PULSE = """local check = {{
  summary = "Processes that could run at once, as a sentence",
  needs = {{ "load" }},
  timeout = "5s",
}}

function check.run(args, host)
  local load, code, text = host.load()
  if not load then return "unknown", text end
  host.metric("load", load.one, {{ unit = "load" }})
  return "ok", string.format("{words}", load.one)
end

return check
"""


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), help="Keep everything here instead of a temporary folder.")
@click.option("--seconds", type=float, default=WATCHED, show_default=True, help="Seconds of results before the push.")
@click.option("--spark", is_flag=True, help="Fail if the history on Spark, at the end, can't be shown.")
def demo(folder: Path | None, seconds: float, spark: bool) -> None:
    """Start Helen and three agents on this machine: results come in, and a changed check goes live."""
    with tempfile.TemporaryDirectory(prefix="helen-demo-") as temporary:
        local = Local(folder or Path(temporary))
        with until_stopped():
            try:
                start(local)
                began = time.time()
                play(local, seconds)
                show_history(local.state, began, spark)
                say("Your turn: `helen quickstart` keeps a fleet running, and `helen --help` shows what to ask it.")
            except KeyboardInterrupt:
                echo("\nstopped")
            finally:
                local.stop()


def start(local: Local) -> None:
    """Start Helen, write the first pulse.lua, and start the agents."""
    say("A Helen starts on a free port of this machine, with a CA and a signing key of its own.")
    make_folder(local.state)
    (local.state / "assignments.toml").write_text(ASSIGNMENTS)  # before an agent is told to run all shipped checks
    local.start_helen("127.0.0.1:0", "127.0.0.1:0")
    local.wait_for_helen()
    write_pulse(local, "load is %.2f")
    url = make_link(local.client, ("operate", "push"))["url"]
    say(f"It listens on {local.run['agents']}. Look at it in a browser, by a link that is good once, for two minutes:")
    echo(f"    {url}")
    say("Three agents enrol, each with a token that is good once. They label")
    echo(f"themselves, and this Helen was started with --trust-label {' and '.join(TRUSTED)}; usually labels that")
    echo("decide what an agent runs are given by the operator, with the token:")
    for name, labels in AGENTS.items():
        echo(f"    {name}: {', '.join(labels)}")
        local.start_agent(name, labels)


def write_pulse(local: Local, words: str) -> None:
    """Write pulse.lua with this format of its summary, in one rename."""
    new = local.state / "checks" / ".pulse.lua.new"
    new.write_text(PULSE.format(words=words))
    new.rename(local.state / "checks" / "pulse.lua")


def play(local: Local, seconds: float) -> None:
    """Show `seconds` of results, change pulse.lua, and show when each agent runs the new code."""
    live = LiveResults(local.client)
    say("Results, as they come (time, status, agent/check, code, summary):")
    follow(local, live, PATIENCE, lambda: sum(check == "pulse" for _, check in live.codes) == len(AGENTS))
    follow(local, live, seconds)
    links = {agent["name"]: agent["since"] for agent in local.client.get("/api/v1/agents")["agents"]}
    old = {key: code for key, code in live.codes.items() if key[1] == "pulse"}
    say("Now pulse.lua is changed in Helen's folder of checks. No agent restarts or reconnects:")
    pushed = time.monotonic()
    write_pulse(local, "the machine is %.2f busy")
    arrived: dict[str, float] = {}

    def note() -> bool:
        """Note the agents with results of the new code; return True once all have some."""
        for (agent, check), code in live.codes.items():
            if check == "pulse" and code != old.get((agent, check)):
                arrived.setdefault(agent, time.monotonic() - pushed)
        return len(arrived) == len(AGENTS)

    follow(local, live, PATIENCE, note)
    follow(local, live, seconds / 2)
    account(local, links, arrived, live)


def follow(local: Local, live: LiveResults, seconds: float, over: object = None) -> None:
    """Print results for this many seconds, or until `over` returns true."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        live.look()
        local.check_alive()
        if callable(over) and over():
            return
        time.sleep(0.1)


def account(local: Local, links: dict[str, float], arrived: dict[str, float], live: LiveResults) -> None:
    """Print the outcome of the push from Helen's own figures.

    Raises SystemExit with 1 if an agent lost its connection, or kept the old code.
    """
    agents = {agent["name"]: agent for agent in local.client.get("/api/v1/agents")["agents"]}
    counts = local.client.get("/api/v1/status")["counts"]
    dropped = [name for name, since in links.items() if agents[name]["since"] != since]
    say("What happened:")
    for name in AGENTS:
        took = f"first result of the new code {arrived[name]:.1f} s after the save" if name in arrived else "still old"
        echo(f"    {name}: {took}")
    echo(f"    connections dropped by the push: {', '.join(dropped) or 'none'}")
    echo(f"    results received: {counts['reports']}; each was on disk before it was acknowledged")
    echo(f"    history: {local.state / 'history'} (Parquet, a file for each 10 s)")
    if len(arrived) < len(AGENTS) or dropped:
        raise SystemExit(1)


def show_history(state: Path, began: float, wanted: bool) -> None:
    """Print the recorded results from the lake; `began` is unix time in seconds.

    Without the extra a hint is printed instead. Raises ClickException then if `wanted`, or if the pipeline hangs.
    """
    if importlib.util.find_spec("pyspark") is None or importlib.util.find_spec("deltalake") is None:
        hint = "`./dev demo --spark` installs it (0.5 GB), and so does pip install 'helen-equus[spark,jre]'"
        if wanted:
            raise click.ClickException(f"the history on Spark needs its extra: {hint}")
        echo(f"    the history on Spark is left out, since its extra is not installed: {hint}")
        return
    say("The same results once more, from the lake. `helen pipeline recent` starts Spark for it, some 10 s:")
    wait_for_segment(state, time.time())
    minutes = max(0.1, (time.time() - began) / 60)
    words = ["-m", "helen.pipeline", "recent", "--state", str(state), "--minutes", f"{minutes:.2f}"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HELEN_")}
    try:
        ended = subprocess.run([sys.executable, *words], env=environment, timeout=SPARK_SECONDS, check=False).returncode
    except subprocess.TimeoutExpired as error:
        raise click.ClickException(f"the pipeline did not end within {SPARK_SECONDS:g} s") from error
    if ended and wanted:
        raise SystemExit(1)


def wait_for_segment(state: Path, since: float) -> None:
    """Wait until a segment is newer than `since`, unix seconds: a segment is open for 10 s."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        segments = (state / "history" / "segments").glob("seg-*.parquet")
        if any(path.stat().st_mtime >= since for path in segments):
            return
        time.sleep(0.2)


def say(text: str) -> None:
    echo(styled(f"\n{text}", bold=True))
