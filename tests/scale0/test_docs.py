"""Tests docs/scale0.rst: its example runs, and its commands exist."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import zmq

from scale0.ctl import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scale0.rst").read_text()


@pytest.fixture
def example() -> str:
    """Return the text of greet.py."""
    block = re.search(r"``greet\.py``::\n\n((?:    .*\n|\n)+)", PAGE)
    assert block is not None
    return textwrap.dedent(block[1])


def test_the_example_prints_what_the_page_says(pump, brokers, tmp_path, example):
    """The example runs as it stands on the page, but for the ports of this test's broker."""
    ends = brokers.start().sockets.endpoints
    text = example.replace("tcp://127.0.0.1:5555", ends["frontend"]).replace("tcp://127.0.0.1:5556", ends["backend"])
    (tmp_path / "greet.py").write_text(text)
    running = subprocess.Popen([sys.executable, tmp_path / "greet.py"], stdout=subprocess.PIPE, text=True)
    pump.until(lambda: running.poll() is not None)
    assert running.stdout is not None
    printed = running.stdout.read().strip()
    running.stdout.close()
    assert (running.returncode, printed) == (0, "200 [b'hello', b'world']")
    assert f"prints ``{printed}``" in PAGE


def test_the_first_configuration_is_one(brokers):
    (text,) = re.findall(r"echo '(\{.*\})' > broker\.json", PAGE)
    assert brokers.start(**json.loads(text) | {"frontend_port": 0, "backend_port": 0}).broker.state == "active"


def test_the_page_lists_each_command_of_scale0ctl():
    """A command that asks a broker is in a table of the page, and each other one where it is needed."""
    assert {name for name in main.commands if f"``{name}``" not in PAGE and f"scale0ctl {name}" not in PAGE} == set()


@pytest.mark.parametrize("page", ["scale0", "zerotask"])
def test_the_pages_tell_to_choose_no_routing_id(page):
    """Pages tell it, and our own sockets choose none: a half open connection would keep the new one out (F81)."""
    assert "Choose no routing id" in (ROOT / "docs" / f"{page}.rst").read_text()
    sources = [*(ROOT / page).rglob("*.py"), *(ROOT / "scale0" / "wire").rglob("*.py")]
    assert not [path for path in sources if re.search(r"zmq\.(ROUTING_ID|IDENTITY)\b", path.read_text())]


def test_a_peer_that_calls_again_under_its_own_routing_id_is_not_heard(brokers, pump):
    """A peer with its own routing id is not heard again, as the page says; without one it is heard at once (F81)."""
    end = brokers.start().sockets.endpoints["frontend"]
    context, sockets, answered = zmq.Context(), [], []
    try:
        for name in (b"mine", b"mine", None):
            socket = context.socket(zmq.DEALER)
            sockets.append(socket)
            socket.set(zmq.LINGER, 0)
            if name is not None:
                socket.set(zmq.ROUTING_ID, name)
            socket.connect(end)
            socket.send_multipart([b"MDPC02", b"\1", b"mmi.service", b"tea"])
            if len(sockets) == 2:
                pump.sit(0.3)  # in which it would be answered
            else:
                pump.until(lambda socket=socket: socket.poll(0))
            answered.append(bool(socket.poll(0)))
    finally:
        for socket in sockets:
            socket.close()
        context.term()
    assert answered == [True, False, True]
