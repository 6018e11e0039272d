"""Copy a file with scp, through Helen to an agent and to a local sshd, in one run: rates, and CPU of all sides.

    sudo python bench/scp.py --mib 100

A real Helen, a real agent whose policy lets root in, OpenSSH's scp, and an sshd of this program's own on loopback.
The exit status is 1 where the rate is less than a quarter of sshd's.
CPU is user and system time: of Helen, of the agent with its SSH server, or of sshd with its children; and of the
caller's side (scp, ssh, helen tunnel).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from attrs import frozen
from meter import cpu_of

from equus.processes.process import PR_SET_CHILD_SUBREAPER, prctl
from helen.cli.local.processes import Local

POLICY = '[shell]\nallow = true\nusers = ["root"]\nauthorized_keys = "{keys}"\n'
TUNNEL = "from helen.cli.main import main; main()"
SSHD = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/keys
PidFile none
PermitRootLogin yes
StrictModes no
UsePAM no
Subsystem sftp {sftp}
"""
SFTP = next(filter(os.path.exists, ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server")), "")
PORT = 42_022
BAR = 0.25  # of sshd's rate
READY_SECONDS = 60.0


@frozen
class Copied:
    """Return the seconds of one copy, and CPU seconds by side."""

    seconds: float
    cpu: dict[str, float]

    def shown(self, what: str, mib: int) -> str:
        sides = "   ".join(f"{side} {used:5.2f} s" for side, used in self.cpu.items())
        return f"{what:14} {mib / self.seconds:7.1f} MiB/s   CPU: {sides}"


def keygen(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)


def copy(folder: Path, words: list[str], sides: dict[str, Callable[[], float]]) -> Copied:
    """Copy the file there with scp and these options, and compare it."""
    there = folder / "there"
    there.unlink(missing_ok=True)
    before = {side: used() for side, used in sides.items()} | {"caller": ours()}
    began = time.monotonic()
    options = ["-F", "none", "-i", str(folder / "id"), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", *words]
    subprocess.run(["scp", "-q", *options, str(folder / "sent"), f"root@web-1:{there}"], check=True)
    seconds = time.monotonic() - began
    time.sleep(5.0)  # until the SSH server of the agent has ended, so that its CPU counts
    with contextlib.suppress(ChildProcessError):  # `helen tunnel`, which ssh does not wait for
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    cpu = {side: used() - before[side] for side, used in {**sides, "caller": ours}.items()}
    for name in ("sent", "there"):
        assert digest(folder / name) == digest(folder / "sent"), "the copy differs"
    return Copied(seconds, cpu)


def ours() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def wait_for(what: Callable[[], bool], name: str) -> None:
    until = time.monotonic() + READY_SECONDS
    while not what():
        if time.monotonic() > until:
            raise SystemExit(f"no {name} within {READY_SECONDS:g} s")
        time.sleep(0.1)


def through_helen(folder: Path, local: Local) -> Copied:
    (folder / "policy.toml").write_text(POLICY.format(keys=folder / "keys"))
    token = local.client.post("/api/v1/tokens", {"agent": "web-1"})["token"]
    words = [sys.executable, "-m", "equus", "--server", local.run["agents"], "--state", str(folder / "web-1")]
    words = [sys.executable, "-c", "from equus.main import main; main()", *words[3:]]
    words += ["--join", token, "--name", "web-1", "--policy", str(folder / "policy.toml")]
    with (
        open(folder / "web-1.log", "wb") as log,
        subprocess.Popen(words, stdout=log, stderr=log) as agent,
    ):
        try:
            known = ["--state", str(local.state), "--known-hosts", str(folder / "known")]
            ssh = [sys.executable, "-c", TUNNEL, "ssh", *known, "root@web-1", "-F", "none", "-i", str(folder / "id")]
            ssh += ["-o", "BatchMode=yes", "true"]
            wait_for(lambda: subprocess.run(ssh, capture_output=True, check=False).returncode == 0, "login")
            way = f"{sys.executable} -c '{TUNNEL}' tunnel %n --state {local.state}"
            options = {"ProxyCommand": way, "UserKnownHostsFile": folder / "known", "HostKeyAlias": "web-1.helen"}
            sides = {"Helen": lambda: cpu_of(local.run["pid"]), "agent": lambda: cpu_of(agent.pid)}
            return copy(folder, [word for each in options.items() for word in ("-o", "{}={}".format(*each))], sides)
        finally:
            agent.terminate()


def by_sshd(folder: Path) -> Copied:
    (folder / "sshd_config").write_text(SSHD.format(port=PORT, folder=folder, sftp=SFTP))
    keygen(folder / "host")
    Path("/run/sshd").mkdir(exist_ok=True)
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
    assert sshd, "sshd is missing: apt-get install openssh-server"
    with subprocess.Popen([sshd, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=subprocess.DEVNULL) as server:
        try:
            options = {"UserKnownHostsFile": "/dev/null", "StrictHostKeyChecking": "no", "Hostname": "127.0.0.1"}
            words = ["-P", str(PORT), *(word for each in options.items() for word in ("-o", "{}={}".format(*each)))]
            time.sleep(1.0)
            return copy(folder, words, {"sshd": lambda: cpu_of(server.pid)})
        finally:
            server.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=100)
    mib = parser.parse_args().mib
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keygen(folder / "id")
        (folder / "keys").write_text((folder / "id.pub").read_text())
        with open(folder / "sent", "wb") as file:
            for _ in range(mib):
                file.write(os.urandom(1_048_576))
        local = Local(folder / "local")
        try:
            local.start_helen("127.0.0.1:0", "off")
            local.wait_for_helen()
            far = through_helen(folder, local)
        finally:
            local.stop()
        near = by_sshd(folder)
    print(far.shown("through Helen", mib))
    print(near.shown("local sshd", mib))
    total = sum(far.cpu.values()), sum(near.cpu.values())
    rate = near.seconds / far.seconds
    print(f"rate {rate:.0%} of sshd's, the bar is {BAR:.0%}; CPU {total[0] / total[1]:.1f} x sshd's")
    raise SystemExit(0 if rate >= BAR else 1)


if __name__ == "__main__":
    main()
