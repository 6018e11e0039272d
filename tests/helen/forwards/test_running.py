"""Tests a real Helen that forwards to a receiver of HTTP: it is killed twice, and every result of its
history arrives.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from forward_stage import Receiver
from helen_running import Running, pulse, wait_until
from web_client import ask

from helen.cli.base.failures import Missing
from helen.cli.main import main

pytestmark = pytest.mark.integration
SETTINGS = """
[forwards.lake]
type = "influx"
url = "{url}/write"
bearer = {{ file = "{secret}" }}
on = "role=web"
begin = "oldest"
"""


@pytest.fixture
def helens() -> Iterator[list[Running]]:
    made: list[Running] = []
    yield made
    for each in made:
        each.end()


def started(helens: list[Running], folder: Path) -> Running:
    helens.append(Running(folder))
    return helens[-1].up()


def killed(helen: Running) -> None:
    helen.signal(signal.SIGKILL)
    helen.program.wait()


def run(helen: Running, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, [*words, "--state", str(helen.state)])
    return done.exit_code, done.output


def stored(folder: Path) -> set[int]:
    """Return the times of all results of `pulse` in segments, in nanoseconds, as the forward writes them."""
    found = set()
    for path in sorted((folder / "state/history/segments").glob("seg-*.parquet")):
        for row in pq.read_table(path, columns=["started", "took_ms", "summary", "received"]).to_pylist():
            if row["summary"] == "hello":
                ended = int(row["started"].timestamp() * 1e6 + 0.5) + round(row["took_ms"] * 1_000)
                found.add(min(ended, int(row["received"].timestamp() * 1e6 + 0.5)) // 1_000 * 1_000_000)
    return found


def seen(helen: Running) -> int:
    with suppress(Missing):
        return len(helen.client.get("/api/v1/recent?agent=web-1&check=pulse&limit=10")["results"])
    return 0  # nothing is known of it yet


def sent(receiver: Receiver) -> list[int]:
    lines = [line for line in receiver.lines() if line.startswith("pulse,")]
    return [int(line.rsplit(" ", 1)[1]) for line in lines]


def whole(receiver: Receiver, folder: Path) -> list[int]:
    """Return all times that were sent, once they are those that are stored."""
    found = sent(receiver)
    return found if set(found) == stored(folder) else []


def test_two_kills_lose_nothing(tmp_path: Path, helens: list[Running]) -> None:
    """The receiver has no room at first; the commands, /readyz and /metrics tell how it stands."""
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "pulse.lua").write_text(pulse())
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "secret").write_text("s3cr3t-token\n")
    with Receiver() as receiver:
        receiver.reply = lambda request: (503, {}, b"no room for s3cr3t-token")
        text = SETTINGS.format(url=receiver.url, secret=tmp_path / "secret")
        (tmp_path / "state" / "forwards.toml").write_text(text)
        first = started(helens, tmp_path)
        agent = first.agent("web-1", "role=web")
        try:
            wait_until(lambda: seen(first) >= 3, "three results")
        finally:
            agent.end()
        killed(first)
        second = started(helens, tmp_path)
        wait_until(lambda: receiver.got, "request")
        (shown,) = second.client.get("/api/v1/forwards")["forwards"]
        wait_until(lambda: second.client.get("/api/v1/forwards")["forwards"][0]["failed"], "failed try")
        status, said = run(second, "forwards")
        assert status == 0 and "503 Service Unavailable: no room for ****" in said and "s3cr3t" not in said
        assert re.search(r"lake +influx +http://127.0.0.1:[0-9]+/\*\*\*\* ", said)
        assert shown["settings"]["on"] == ["role=web"] and shown["sent"] == 0
        killed(second)
        receiver.reply = lambda request: (204, {}, b"")
        third = started(helens, tmp_path)
        found = wait_until(lambda: whole(receiver, tmp_path), "all results")
        assert len(found) == len(set(found)) >= 3
        assert receiver.taken[0].headers["authorization"] == "Bearer s3cr3t-token"
        assert "role=web" in receiver.lines()[0]
        figures(third)
        changed_by_clients(third, tmp_path)


def figures(helen: Running) -> None:
    """Return what Helen says of a forward that is well."""

    def even() -> dict[str, Any] | None:
        (shown,) = helen.client.get("/api/v1/forwards")["forwards"]
        return shown if shown["behind"] == 0 and shown["sent"] and not shown["lag"] else None

    shown = wait_until(even, "end of the forward")
    assert (shown["lag"], shown["error"], shown["refused"], shown["lost"]) == (0.0, None, 0, 0)

    def is_same() -> bool:  # something may be sent between two requests
        page = ask(helen, "GET", "/metrics").raw.decode()
        return f'helen_forward_sent_total{{forward="lake"}} {(even() or {}).get("sent")}\n' in page

    wait_until(is_same, "figure")
    assert helen.client.get("/readyz?verbose=1")["checks"]["forwards"] == [{"status": "pass"}]


def changed_by_clients(helen: Running, folder: Path) -> None:
    """Check that a faulty file is refused whole, a sound one is in force at once, and nothing is sent without one."""
    (folder / "bad.toml").write_text("[forwards.x]\n")
    status, said = run(helen, "forwards", "--file", str(folder / "bad.toml"))
    assert status == 1 and "forwards.x: type is missing" in said
    (folder / "good.toml").write_text('[forwards.other]\ntype = "graphite"\nurl = "tcp://127.0.0.1:9"\n')
    assert run(helen, "forwards", "--file", str(folder / "good.toml"), "--dry-run") == (0, "fine\n")
    assert run(helen, "forwards", "--file", str(folder / "good.toml")) == (0, "the file is in force\n")
    status, said = run(helen, "forwards", "--output", "json")
    assert [each["name"] for each in json.loads(said)["forwards"]] == ["other"]
    (folder / "state" / "forwards.toml").write_text("[forwards]\nx = 1\n")
    wait_until(lambda: "forwards.toml is not used: forwards.x: write" in run(helen, "status")[1], "fault")
    assert run(helen, "forwards")[0] == 1
    helen.client.put("/api/v1/forwards/file", {"text": None})
    assert "\nNothing is sent to other systems. `helen forwards --file FILE`" in run(helen, "forwards")[1]
