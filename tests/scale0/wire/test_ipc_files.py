"""Tests scale0.wire.ipc_files: files of ipc endpoints end with the socket that was bound to them."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from scale0.wire.ipc_files import IpcFiles
from scale0.wire.reader import Kind, Network


def test_a_socket_removes_its_files_when_it_is_closed(network: Network, tmp_path: Path) -> None:
    """A closed socket removes each file that it was bound to; a name in no folder and a port have none."""
    router = network.socket(Kind.ROUTER, lambda frames, origin: None)
    ends = [f"ipc://{tmp_path}/ä.sock", f"ipc://{tmp_path}/b.sock", "tcp://127.0.0.1:0"]
    assert [router.bind(end) for end in ends][:2] == ends[:2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.sock", "ä.sock"]
    router.close()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_libzmq_chose_goes_with_its_folder(
    network: Network, pump: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket bound to `ipc://*` leaves neither its file nor the folder that libzmq made for it."""
    for name in ("TMPDIR", "TEMPDIR", "TMP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)  # where the folder is then; the path of another could be too long for a socket
    router = network.socket(Kind.ROUTER, lambda frames, origin: None)
    file = Path(router.bind("ipc://*").removeprefix("ipc://")).absolute()
    assert file.is_socket()
    router.close()
    pump.until(lambda: not file.parent.exists())


def test_a_socket_that_only_connects_removes_nothing(network: Network, tmp_path: Path) -> None:
    """A socket that only connects leaves the file, which is another's."""
    router, dealer = (network.socket(kind, lambda frames, origin: None) for kind in (Kind.ROUTER, Kind.DEALER))
    dealer.connect(router.bind(f"ipc://{tmp_path}/a.sock"))
    dealer.close()
    assert [path.name for path in tmp_path.iterdir()] == ["a.sock"]
    router.close()


@pytest.mark.parametrize("endpoint", ["ipc://@name", "tcp://127.0.0.1:5555", "inproc://x"])
def test_endpoints_without_a_file_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    """A file in the working directory stays that has the name of such an endpoint."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "@name").write_text("")
    files = IpcFiles()
    files.note(endpoint)
    files.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["@name"]


def test_a_file_that_another_has_bound_since_stays(tmp_path: Path) -> None:
    """A broker that took the place of this one keeps its socket."""
    path, files = tmp_path / "a.sock", IpcFiles()
    with socket.socket(socket.AF_UNIX) as ours, socket.socket(socket.AF_UNIX) as theirs:
        ours.bind(str(path))
        files.note(f"ipc://{path}")
        path.unlink()
        theirs.bind(str(path))
        files.remove()
        assert path.exists()
        files.note(f"ipc://{path}")
        files.remove()
        assert not path.exists()
