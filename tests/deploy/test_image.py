"""Test the image: each step of its Dockerfile is done in a copy of this Debian, which is then used as a container.

Images can't be pulled where tests run, so the base is this machine's own Debian; the steps are those of the file.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from a_debian import Debian, a_debian
from debian_packages import OLD
from helen_running import wait_until

ROOT = Path(__file__).parents[2]
IMAGE = ROOT / "deploy" / "image"
sys.path.insert(0, str(IMAGE))

from healthy import fault_of_helen, is_held  # noqa: E402


def steps() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile in their order, each with its text."""
    text = re.sub(r"^#.*\n", "", (IMAGE / "Dockerfile").read_text(), flags=re.M).replace("\\\n", " ")
    lines = [line.partition(" ") for line in text.splitlines() if line.strip()]
    return [(name, rest.strip()) for name, _, rest in lines]


STEPS = dict(steps())
ENVIRONMENT = dict(word.split("=", 1) for word in shlex.split(STEPS["ENV"]))


def test_what_the_file_says() -> None:
    """The Dockerfile has one step of each kind, a user that is not root, and commands that no shell has to find
    (20).
    """
    names = [name for name, _ in steps()]
    assert names == "ARG FROM RUN COPY ENV USER VOLUME EXPOSE HEALTHCHECK CMD".split()
    assert STEPS["ARG"] == "BASE=debian:bookworm-slim" and STEPS["FROM"] == "${BASE}"
    assert STEPS["USER"] == "4166:4166"
    assert json.loads(STEPS["VOLUME"]) == ["/data", "/var/lib/equus"]
    assert json.loads(STEPS["CMD"]) == ["twistd", "-n", "--pidfile=", "helen"]
    source, target = STEPS["COPY"].split()
    assert (ROOT / source).is_file() and target == json.loads(STEPS["HEALTHCHECK"].partition(" CMD ")[2])[-1]
    assert ENVIRONMENT["HELEN_STATE"] == "/data/helen"


def test_what_is_not_well(tmp_path: Path) -> None:
    """A missing socket, one without an answer, an answer other than 200 and a state without a process are unhealthy
    (20).
    """
    assert "Helen does not answer on " in fault_of_helen(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "control.sock"))
        listening.listen()
        code = "import sys; sys.path.insert(0, sys.argv[1]); from healthy import *; "
        code += "print(fault_of_helen(Path(sys.argv[2])))"
        words = [sys.executable, "-c", code, str(IMAGE), str(tmp_path)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as asking:
            connection, _ = listening.accept()
            connection.recv(1000)
            connection.sendall(b"HTTP/1.0 503 Service Unavailable\r\n\r\nthe journal can't write")
            connection.close()
            said, _ = asking.communicate(timeout=60)
    assert said == "Helen is not ready: the journal can't write\n"
    assert not is_held(tmp_path)


# ---------------------------------------------------------------------------------------------- as a container


@pytest.fixture
def container(tmp_path: Path, packages: dict[str, list[Path]]) -> Iterator[Debian]:
    """Yield a Debian on which the steps were done, read-only except its volumes and /tmp."""
    with a_debian(tmp_path) as opened:
        dist = opened.shared / "dist"
        dist.mkdir()
        shutil.copyfile(packages[OLD][0], dist / packages[OLD][0].name)
        mount, _, run = STEPS["RUN"].partition(" ")
        assert mount == "--mount=type=bind,source=dist,target=/mnt"
        source, target = STEPS["COPY"].split()
        shutil.copyfile(ROOT / source, opened.shared / "copied")
        opened.script(f"install -D -m 0644 /mnt/test/copied {target}; mount --bind /mnt/test/dist /mnt")
        opened.does("sh", "-c", run)
        volumes = "".join(
            f"mount -t tmpfs -o uid=4166,gid=4166,mode=700 tmpfs {path}\n" for path in json.loads(STEPS["VOLUME"])
        )
        opened.script(f"umount /mnt\n{volumes}mount -t tmpfs tmpfs /tmp\nmount -o remount,ro /\n")
        yield opened


def inside(container: Debian, *words: str, **variables: str) -> list[str]:
    """Return what runs a program as the image's user, with its variables and without any capability."""
    user, group = STEPS["USER"].split(":")
    dropped = [
        "setpriv",
        f"--reuid={user}",
        f"--regid={group}",
        "--clear-groups",
        "--no-new-privs",
        "--bounding-set=-all",
    ]
    values = [f"{name}={value}" for name, value in {**ENVIRONMENT, **variables}.items()]
    return container.words(*dropped, "env", *values, *words)


def health(container: Debian, **variables: str) -> tuple[int, str]:
    """Return what the image's own health check finds."""
    words = json.loads(STEPS["HEALTHCHECK"].partition(" CMD ")[2])
    done = subprocess.run(inside(container, *words, **variables), capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def does(container: Debian, *words: str) -> str:
    done = subprocess.run(inside(container, *words), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.integration
def test_the_image_as_a_container(container: Debian) -> None:
    """Helen and an agent run in the image without root and capabilities, on a read-only root, and its health check is
    right (20).
    """
    assert health(container) == (1, "no process holds /data/helen or /var/lib/equus\n")
    assert subprocess.run(inside(container, "touch", "/opt/x"), capture_output=True).returncode == 1
    log = container.shared / "log"
    with open(log, "w") as out:
        words = inside(container, *json.loads(STEPS["CMD"]), HELEN_LISTEN="127.0.0.1:0", HELEN_WEB="off")
        helen = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        agent = None
        try:
            wait_until(lambda: helen.poll() is not None or health(container)[0] == 0, "healthy Helen", 180)
            assert helen.poll() is None, log.read_text()
            run = json.loads(does(container, "cat", "/data/helen/run.json"))
            join = re.search(r"--join (\S+)", does(container, "helen", "token", "--agent", "node-1"))
            assert join is not None
            of_agent = {"EQUUS_SERVER": run["agents"], "EQUUS_JOIN": join[1], "EQUUS_NAME": "node-1"}
            agent = subprocess.Popen(
                inside(container, "equus", **of_agent), stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
            wait_until(lambda: "node-1" in does(container, "helen", "agents"), "agent", 180)
            assert health(container, HELEN_STATE="/nonexistent") == (0, "")
            container.does("kill", str(run["pid"]))
            assert helen.wait(120) == 0, log.read_text()
            assert health(container, EQUUS_STATE="/nonexistent")[0] == 1
        finally:
            for process in (helen, agent):
                if process is not None:
                    process.kill()
                    process.wait()
