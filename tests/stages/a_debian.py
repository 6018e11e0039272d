"""Copies this machine's Debian to install into: an overlay in a mount namespace, which ends with the test.

Nothing that a test installs there is on the machine afterwards, and nothing of it runs outside the test's processes. In
turn nothing of Helen or Equus that the machine has is in it, so a test finds the same Debian after `equus` ran here.
Root is needed for it, as it is for the servers that other tests install.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]
# The overlay has the filesystem of / alone: a checkout that is a mount of its own is added to it.
HOLDER = """set -e
mount -t tmpfs -o mode=755 tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
mount -t tmpfs tmpfs "$1/root/run"
for name in helen equus; do
    rm -rf "$1/root/etc/$name" "$1/root/opt/$name" "$1/root/var/lib/$name" "$1/root/var/lib/private/$name"
    if chroot "$1/root" getent passwd "$name" > /dev/null; then chroot "$1/root" userdel "$name"; fi
done
mkdir "$1/root/mnt/test"
mount --bind "$2" "$1/root/mnt/test"
if [ ! -e "$1/root$3/setup.cfg" ]; then
    mkdir -p "$1/root$3"
    mount --rbind "$3" "$1/root$3"
    mount -o remount,bind,ro "$1/root$3"
fi
echo ready
exec sleep infinity
"""


@attrs.frozen
class Debian:
    """Is a copy of this machine's Debian; `shared` is a folder of the test, /mnt/test inside."""

    holder: int
    root: Path
    shared: Path

    def words(self, *command: str) -> list[str]:
        """Return what runs a command in it, for processes that the test keeps."""
        inside = [
            "env",
            "-i",
            "PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
            "DEBIAN_FRONTEND=noninteractive",
            "LC_ALL=C.UTF-8",
        ]
        return ["nsenter", f"--target={self.holder}", "--mount", "--pid", "chroot", str(self.root), *inside, *command]

    def tried(self, *command: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in it to its end; `text` is its standard input."""
        return subprocess.run(self.words(*command), capture_output=True, text=True, input=text or "", timeout=600)

    def does(self, *command: str, text: str | None = None) -> str:
        """Return what a command prints, which must succeed."""
        done = self.tried(*command, text=text)
        assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    def script(self, lines: str) -> str:
        """Return what a shell script prints, of which each line must succeed."""
        return self.does("sh", "-eu", "-s", text=lines)


@contextlib.contextmanager
def a_debian(folder: Path) -> Iterator[Debian]:
    """Open one whose changes lie in memory, and end all that runs in it."""
    place, shared = folder / "debian", folder / "shared"
    place.mkdir()
    shared.mkdir()
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", HOLDER, "sh"]
    words += [str(place), str(shared), str(ROOT)]
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            said = holder.stdout.readline()
            assert said == "ready\n", said + holder.stdout.read()
            [child] = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
            yield Debian(int(child), place / "root", shared)
        finally:
            holder.kill()
