"""Tests a state directory that can't be written: a start is refused in one sentence, and a running Helen goes on."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helen_running import Running, environment, pulse, wait_until

from helen.cli.base.client import Failed
from helen.files.state_dir import FOLDERS, demand_writable, why_unwritable

ASSIGNED = '[[assign]]\ncheck = "pulse"\n'

# Fails the system calls that write to files below a folder once a file exists: those that were open for writing before
# a filesystem has become read-only.
BROKEN_DISK = """
import os
state, flag, code = os.environ["BROKEN_DISK"].split("|")
def guard(name):
    real = getattr(os, name)
    def call(descriptor, *arguments):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if os.path.exists(flag) and path.startswith(state):
            raise OSError(int(code), os.strerror(int(code)), path)
        return real(descriptor, *arguments)
    setattr(os, name, call)
for name in ("write", "pwrite", "ftruncate"):
    guard(name)
"""


def as_root(request: pytest.FixtureRequest) -> bool:
    """Return True for root, who may mount; else run this test once more, as root of a user namespace."""
    if not os.geteuid():
        return True
    test = f"{request.path}::{request.node.name}"
    words = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-m", "pytest", "-q", test]
    again = subprocess.run(words, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stdout + again.stderr
    return False


class Mounts:
    """Mounts folders for a test, and unmounts them after it."""

    def __init__(self) -> None:
        self._made: list[Path] = []

    def tmpfs(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", folder], check=True)
        self._made.append(folder)

    def read_only(self, folder: Path) -> None:
        """Put a read-only mount of a folder over itself: what is opened from now on can't be written."""
        subprocess.run(["mount", "--bind", folder, folder], check=True)
        self._made.append(folder)
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)

    def writable(self, folder: Path) -> None:
        subprocess.run(["umount", "-l", folder], check=True)
        self._made.remove(folder)

    def end(self) -> None:
        for folder in reversed(self._made):
            subprocess.run(["umount", "-l", folder], check=False)


@pytest.fixture
def mounts() -> Iterator[Mounts]:
    made = Mounts()
    yield made
    made.end()


@pytest.mark.integration
@pytest.mark.parametrize("part", [".", "history/segments"])
def test_a_start_on_a_read_only_state_directory(
    request: pytest.FixtureRequest, mounts: Mounts, tmp_path: Path, part: str
) -> None:
    """A start on a read-only folder ends with one sentence of folder, cause and next step, and works once it is mended
    (F33).
    """
    if not as_root(request):
        return
    mounts.tmpfs(tmp_path / "state")
    first = Running(tmp_path).up()
    first.signal(signal.SIGTERM)
    assert first.program.wait() == 0
    broken = tmp_path / "state" / part
    mounts.read_only(broken)
    (tmp_path / "helen.log").unlink()
    refused = Running(tmp_path)
    assert refused.program.wait() == 1
    said = [line for line in refused.program.said.splitlines() if line.startswith("helen: ")]
    assert said == [
        f"helen: the state directory {tmp_path / 'state'} can't be written (Read-only file system: {broken}), so no"
        " result could be kept. Look at `dmesg`, mend the disk or mount its filesystem for writing again, then start"
        " Helen again. Agents keep their results until then."
    ]
    assert "Traceback" not in refused.program.said
    mounts.writable(broken)
    again = Running(tmp_path).up()
    again.end()
    assert again.program.process.returncode == 0


@pytest.mark.integration
def test_a_first_start_where_nothing_can_be_made(
    request: pytest.FixtureRequest, mounts: Mounts, tmp_path: Path
) -> None:
    """An empty state directory that is read-only ends the start with the same sentence (F33)."""
    if not as_root(request):
        return
    mounts.tmpfs(tmp_path / "state")
    mounts.read_only(tmp_path / "state")
    refused = Running(tmp_path)
    assert refused.program.wait() == 1
    sentence = f"helen: the state directory {tmp_path / 'state'} can't be written (Read-only file system: "
    assert sentence in refused.program.said
    assert "Traceback" not in refused.program.said


@pytest.mark.integration
@pytest.mark.parametrize("mended", [True, False])
def test_a_running_helen_whose_disk_becomes_read_only(
    request: pytest.FixtureRequest, mounts: Mounts, tmp_path: Path, mended: bool
) -> None:
    """A running Helen goes on, acknowledges nothing, tells why, and takes all once the disk can be written (F33)."""
    if not as_root(request):
        return
    state, flag = tmp_path / "state", tmp_path / "broken"
    mounts.tmpfs(state)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(BROKEN_DISK)
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "pulse.lua").write_text(pulse())
    (state / "assignments.toml").write_text(ASSIGNED)
    extra = {"PYTHONPATH": str(tmp_path / "site"), "BROKEN_DISK": f"{state}|{flag}|{errno.EROFS}"}
    helen = Running(tmp_path, extra=extra).up()
    agent = helen.agent("web-1")
    try:
        wait_until(lambda: acknowledged(helen) > 1, "acknowledged result")
        mounts.read_only(state)
        flag.touch()
        words = (
            rf"{re.escape(str(state))}/journal/wal-\d{{8}}\.log can't be written \(Read-only file system\): results are"
        )
        wait_until(lambda: re.match(words, trouble(helen) or ""), "trouble")
        stands = acknowledged(helen)
        with pytest.raises(Failed, match=r"journal: .* can't be written"):
            helen.client.get("/readyz")
        assert "can't be written (Read-only file system)" in said_by_status(helen)
        helen.signal(signal.SIGHUP)
        with pytest.raises(Failed, match="can't be written: Read-only file system"):
            helen.client.put("/api/v1/assignments", {"text": ASSIGNED + "# more\n", "dry_run": False})
        before = helen.client.get("/api/v1/status")["journal"]["backlog"]
        wait_until(lambda: helen.client.get("/api/v1/status")["journal"]["backlog"] > before, "further result")
        assert acknowledged(helen) == stands
        if mended:
            flag.unlink()
            mounts.writable(state)
            wait_until(lambda: trouble(helen) is None and acknowledged(helen) > stands, "acknowledged result")
            assert helen.client.get("/readyz")["status"] in ("pass", "warn")
        helen.signal(signal.SIGTERM)
        assert helen.program.wait() == 0, helen.program.said
        assert "Traceback" not in helen.program.said
        assert len(re.findall(words, helen.program.said)) == 1
    finally:
        agent.end()
        helen.end()


def trouble(helen: Running) -> str | None:
    found: str | None = helen.client.get("/api/v1/status")["journal"]["trouble"]
    return found


def acknowledged(helen: Running) -> int:
    """Return how many acknowledgements have left."""
    return int(helen.client.get("/api/v1/status")["counts"]["acks"])


def said_by_status(helen: Running) -> str:
    """Return the troubles that `helen status` tells."""
    words = [sys.executable, "-c", "from helen.cli.main import main; main()", "status", "--state", str(helen.state)]
    return subprocess.run(words, capture_output=True, text=True, check=True, env=environment()).stderr


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.EROFS, "Look at `dmesg`, mend the disk or mount its filesystem for writing again"),
        (errno.EIO, "Look at `dmesg`, mend the disk or mount its filesystem for writing again"),
        (errno.ENODEV, "Look at `dmesg`, mend the disk or mount its filesystem for writing again"),
        (errno.ENOSPC, "Free some space"),
        (errno.EDQUOT, "Free some space"),
        (errno.EACCES, f"chown it to the user that Helen runs as ({os.geteuid()}), or start Helen as its owner"),
    ],
)
def test_the_sentence_has_cause_place_and_next_step(code: int, advice: str) -> None:
    """The sentence tells cause, place and next step by the error, for any file below the folder (F33)."""
    error = OSError(code, os.strerror(code), "/srv/helen/journal/lock")
    sentence = why_unwritable(Path("/srv/helen"), error)
    assert sentence is not None
    assert sentence.startswith(
        f"the state directory /srv/helen can't be written ({os.strerror(code)}: /srv/helen/journal/lock), so no result"
        f" could be kept. {advice}"
    )
    assert sentence.endswith(" Agents keep their results until then.")


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EROFS, "Read-only file system", "/etc/helen/keys"),  # of another folder
        OSError(errno.ENOENT, "No such file", "/srv/helen/x"),
        OSError(errno.EADDRINUSE, "Address in use"),
        ValueError("no error of a disk"),
    ],
)
def test_other_errors_are_not_of_the_state_directory(error: Exception) -> None:
    """An error of another place has no sentence about the state directory."""
    assert why_unwritable(Path("/srv/helen"), error) is None


@pytest.mark.parametrize("part", FOLDERS)
@pytest.mark.parametrize("code", [errno.EROFS, errno.EIO, errno.ENOSPC])
def test_each_folder_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, code: int) -> None:
    """A read-only or failing folder is named, a full one is not; nothing is left behind (F33)."""
    for name in FOLDERS:
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    demand_writable(tmp_path)
    real = os.open

    def broken(path: Path, *rest: int) -> int:
        if Path(path).parent == tmp_path / part:
            raise OSError(code, os.strerror(code), str(path))
        return real(path, *rest)

    monkeypatch.setattr("os.open", broken)
    if code == errno.ENOSPC:
        demand_writable(tmp_path)
    else:
        with pytest.raises(OSError, match=os.strerror(code)) as caught:
            demand_writable(tmp_path)
        assert caught.value.filename == str(tmp_path / part)
    monkeypatch.undo()
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []
