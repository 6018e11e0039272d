"""The health check of the image: Helen answers /readyz on its control socket; or an agent holds its state.

It asks what runs in this container, by the state that is there, and needs neither a port nor a token.
Exit status: 0 healthy, 1 not.
"""

from __future__ import annotations

import fcntl
import http.client
import os
import socket
import sys
from pathlib import Path

SECONDS = 5.0


class Control(http.client.HTTPConnection):
    """A connection to the control socket of a state directory."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=SECONDS)
        self._path = str(path)

    def connect(self) -> None:
        """Connect to the socket. Raises OSError."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(SECONDS)
        self.sock.connect(self._path)


def fault_of_helen(state: Path) -> str:
    """Return what /readyz says is wrong, or "" if Helen takes results."""
    connection = Control(state / "control.sock")
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        text = answer.read(2000).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        return f"Helen does not answer on {state / 'control.sock'}: {error}"
    finally:
        connection.close()
    return "" if answer.status == 200 else f"Helen is not ready: {text}"


def is_held(state: Path) -> bool:
    """Return whether a process holds the lock of a state directory."""
    try:
        with open(state / "lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def main() -> int:
    helen, equus = (Path(os.environ.get(name, "/nonexistent")) for name in ("HELEN_STATE", "EQUUS_STATE"))
    if is_held(helen):
        fault = fault_of_helen(helen)
    else:
        fault = "" if is_held(equus) else f"no process holds {helen} or {equus}"
    if fault:
        print(fault)
    return int(bool(fault))


if __name__ == "__main__":
    sys.exit(main())
