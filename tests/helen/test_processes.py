"""Tests what only real processes prove: signals, second starts, taken ports, systemd, daemons. Few, since each is a
start.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helen_running import PATIENCE, TWIST, TWISTD, Program, Running, pulse, wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start Helens in tmp_path; they end with the test."""
    started: list[Running] = []

    def one(*options: str, **more: Any) -> Running:
        started.append(Running(tmp_path / more.pop("name", "helen"), *options, **more))
        return started[-1]

    yield one
    for running in started:
        running.end()


@contextlib.contextmanager
def manager(folder: Path) -> Iterator[tuple[dict[str, str], Callable[[], list[str]]]]:
    """Stands for systemd: the variable to start with, and the lines that have come so far."""
    lines: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
        inbox.bind(str(folder / "notify"))
        inbox.setblocking(False)

        def heard() -> list[str]:
            with contextlib.suppress(BlockingIOError):
                while True:
                    lines.extend(inbox.recv(4_096).decode().splitlines())
            return lines

        yield {"NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "400000"}, heard


def test_a_life_under_systemd(start: Callable[..., Running], tmp_path: Path) -> None:
    """Helen says READY once it serves, beats the watchdog, reads all again at SIGHUP, and leaves nothing
    after SIGTERM.
    """
    with manager(tmp_path) as (variables, heard):
        config = tmp_path / "helen.toml"
        config.write_text('minimum_equus = "1.0"\n')
        helen = start("--config", str(config), extra=variables).up()
        wait_until(lambda: "READY=1" in heard(), "READY")
        assert "STATUS=listening on " + helen.run["agents"] in heard()
        assert f"Helen listens on {helen.run['agents']}" in helen.program.said
        wait_until(lambda: heard().count("WATCHDOG=1") > 1, "WATCHDOG")

        (helen.state / "assignments.toml").write_text("[[assign")
        config.write_text(
            'minimum_equus = "2.0"\nretention = "1d"\nsigning_keys = "x.pem"\ninsecure_plaintext = true\n'
        )
        helen.signal(signal.SIGHUP)
        wait_until(lambda: heard().count("READY=1") == 2, "second READY")
        assert [line.partition("=")[0] for line in heard() if line.startswith("RELOADING")] == ["RELOADING"]
        assert "no TOML" in helen.client.get("/api/v1/status")["assignments"]["fault"]
        told = re.findall("only a restart makes it so: (.*)", helen.program.said)
        assert told == ["signing_keys", "insecure_plaintext"]

        helen.signal(signal.SIGTERM)
        assert helen.program.wait() == 0, helen.program.said
        assert "STOPPING=1" in heard()
    assert {"run.json", "control.sock"} & {path.name for path in helen.state.iterdir()} == set()
    assert "Traceback" not in helen.program.said


def test_sigterm_with_connections_of_all_kinds(start: Callable[..., Running]) -> None:
    """SIGTERM ends Helen beside strangers that say nothing, and a client of the API in the middle of a question."""
    helen = start().up()
    host, port = helen.run["agents"].split(":")
    strangers = [socket.create_connection((host, int(port))) for _ in range(50)]
    wait_until(lambda: helen.client.get("/api/v1/status")["agents"]["known"] == 0, "answer")
    helen.signal(signal.SIGTERM)
    assert helen.program.wait() == 0, helen.program.said
    for stranger in strangers:
        stranger.close()
    assert "Traceback" not in helen.program.said


@pytest.mark.adversary(55)
def test_a_second_start_and_a_port_that_is_taken(start: Callable[..., Running], tmp_path: Path) -> None:
    """A second start and a taken port end with one sentence each and status 1, and the first Helen isn't hurt."""
    helen = start().up()
    second = start()
    other = start("--listen", helen.run["agents"], name="other")
    web = start("--web", helen.run["web"], name="web")
    assert [each.program.wait() for each in (second, other, web)] == [1, 1, 1]
    pid = helen.program.process.pid
    said = [line for line in second.program.said.splitlines() if line.startswith("helen: ")]
    assert said == [
        f"helen: The state directory {helen.state} is in use by process {pid}: stop that one, or give another --state."
    ]
    address, web_address = helen.run["agents"], helen.run["web"]
    sentence = "Address already in use. Is another Helen running there?"
    assert f"helen: can't listen on {address}: {sentence}" in other.program.said
    assert f"helen: can't listen on {web_address}: {sentence}" in web.program.said
    assert "Traceback" not in second.program.said + other.program.said + web.program.said
    assert helen.client.get("/api/v1/status")["agents"]["known"] == 0


def test_bad_options(tmp_path: Path) -> None:
    """A bad option ends Helen with a sentence, and with status 1 as twistd has it for usage."""
    program = Program([*TWISTD, "-n", "helen", "--state", str(tmp_path / "s"), "--listen", "x"], tmp_path / "log")
    assert program.wait() == 1
    sentence = "helen: --listen 'x': write HOST:PORT, for example 127.0.0.1:4166 (0: any port)"
    assert program.said == f"{sentence}. `twistd helen --help` lists the options.\n"
    assert not (tmp_path / "s").exists()


def test_sockets_of_systemd(start: Callable[..., Running]) -> None:
    """Helen takes both ports by name, binds none itself, and serves the connections that wait in them."""
    with socket.create_server(("127.0.0.1", 0)) as agents, socket.create_server(("127.0.0.1", 0)) as web:
        addresses = ["{}:{}".format(*each.getsockname()) for each in (agents, web)]
        early = socket.create_connection(web.getsockname())
        early.sendall(b"GET /api/v1/status HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        shell = f'exec 3<&{web.fileno()} 4<&{agents.fileno()}; LISTEN_PID=$$; export LISTEN_PID; exec "$@"'
        runner = ["bash", "-c", shell, "bash", *TWISTD, "-n", "--pidfile="]
        helen = start(
            "--listen", "127.0.0.1:4166", runner=runner, pass_fds=(agents.fileno(), web.fileno()),
            extra={"LISTEN_FDS": "2", "LISTEN_FDNAMES": "web:agents"},
        ).up()  # fmt: skip
        assert [helen.run["agents"], helen.run["web"]] == addresses
        early.settimeout(PATIENCE)
        assert early.recv(100).startswith(b"HTTP/1.1 401 ")
        early.close()


def test_twist(start: Callable[..., Running]) -> None:
    """Twisted's newer runner serves the same plugin, and ends the same way."""
    helen = start(runner=TWIST).up()
    assert helen.client.get("/api/v1/status")["agents"]["known"] == 0
    helen.signal(signal.SIGTERM)
    assert helen.program.wait() == 0, helen.program.said


def test_a_daemon(tmp_path: Path) -> None:
    """twistd forks and returns; a second one is told why not, by status and in its log; SIGTERM ends the first."""
    words = [*TWISTD, f"--pidfile={tmp_path}/d.pid", f"--logfile={tmp_path}/d.log", "helen", "--web", "off"]
    words += ["--listen", "127.0.0.1:0", "--state", str(tmp_path / "state"), "--checks", str(tmp_path / "checks")]
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks/pulse.lua").write_text(pulse())
    first = Program(words, tmp_path / "first.log")
    assert first.wait() == 0, first.said
    run = wait_until(lambda: (tmp_path / "state/run.json").exists(), "run.json") and json.loads(
        (tmp_path / "state/run.json").read_text()
    )
    try:
        assert (tmp_path / "d.pid").read_text().strip() == str(run["pid"])
        again = [word.replace("/d.", "/e.") for word in words]
        second = Program(again, tmp_path / "second.log")
        assert second.wait() == 1
        assert "An error has occurred" in second.said
        assert f"is in use by process {run['pid']}: stop that one" in (tmp_path / "e.log").read_text()
    finally:
        os.kill(run["pid"], signal.SIGTERM)
    wait_until(lambda: not (tmp_path / "d.pid").exists(), "end of the daemon")
    assert not (tmp_path / "state/run.json").exists()


@pytest.mark.adversary(55)
def test_kill_and_start_again(start: Callable[..., Running]) -> None:
    """The remains of a crash (sockets, files half judged) hinder nobody; the published set is there at once."""
    helen = start()
    (helen.checks / "pulse.lua").write_text(pulse())
    helen.up()
    version = wait_until(lambda: helen.client.get("/api/v1/checks")["version"], "published set")
    (helen.state / "lint" / "left").mkdir(parents=True)
    helen.signal(signal.SIGKILL)
    helen.program.wait()
    again = start().up()
    assert again.client.get("/api/v1/checks")["version"] == version
    assert not (helen.state / "lint" / "left").exists()


def test_a_saved_check_is_live_within_seconds(start: Callable[..., Running]) -> None:
    """A check is published whether it is written in place or renamed into place, or its folder is
    replaced meanwhile.
    """
    helen = start().up()

    def published() -> set[str]:
        return {check["name"] for check in helen.client.get("/api/v1/checks")["checks"]}

    (helen.checks / "one.lua").write_text(pulse())
    wait_until(lambda: published() == {"one"}, "set")
    (helen.checks / ".two.tmp").write_text(pulse())
    (helen.checks / ".two.tmp").rename(helen.checks / "two.lua")
    wait_until(lambda: published() == {"one", "two"}, "set")
    helen.checks.rename(helen.folder / "old")
    helen.checks.mkdir()
    (helen.checks / "three.lua").write_text(pulse())
    wait_until(lambda: published() == {"three"}, "set")


@pytest.mark.adversary(53)
def test_a_full_disk(start: Callable[..., Running]) -> None:
    """Acknowledgements stop, Helen serves and says what the trouble is; with room again everything is taken up."""
    helen = start("--insecure-plaintext").up()
    pid = helen.program.process.pid
    no_more = max(path.stat().st_size for path in helen.state.rglob("*") if path.is_file()) + 65_536
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (no_more, resource.RLIM_INFINITY))
    host, port = helen.run["agents"].split(":")
    with socket.create_connection((host, int(port))) as agent:
        blob = b"x" * 1_000_000
        agent.sendall(b"hello 2 x;name=web-1\nreport s 1 cpu 1000000\n" + blob + b"\n")
        wait_until(lambda: helen.client.get("/api/v1/status")["journal"]["trouble"], "trouble")
        assert helen.client.get("/api/v1/agents")["agents"][0]["connected"] is True
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        agent.settimeout(PATIENCE)
        heard = b""
        while b"ack s 1\n" not in heard:
            heard += (more := agent.recv(65_536))
            assert more, f"Helen has ended the connection behind {heard!r}"
        wait_until(lambda: helen.client.get("/api/v1/status")["journal"]["trouble"] is None, "end of the trouble")
