"""Tests a worker that others wrote, unmodified: majortomo's from PyPI serves requests through our broker."""

from __future__ import annotations

import subprocess
import sys

from scale0.client import Client

# RFC 18 with a leading empty frame, which is what this worker sends and insists upon. In its own process: it blocks.
WORKER = """
import sys
from majortomo import Worker
worker = Worker(sys.argv[1], b"echo")
worker.connect()
for _ in range(3):
    client, frames = worker.wait_for_request()
    worker.send_reply_partial(client, [b"part"])
    worker.send_reply_final(client, [b"re", *frames])
worker.close()
"""


def test_majortomos_worker_serves_our_client(pump, brokers):
    """A worker of majortomo sends partial and final replies to our client three times, and leaves cleanly."""
    broker = brokers.start()
    client = Client(pump.reactor, "desk", [broker.sockets.endpoints["frontend"]])
    client.startService()
    worker = subprocess.Popen([sys.executable, "-c", WORKER, broker.sockets.endpoints["backend"]])
    try:
        for number in range(3):
            parts: list[list[bytes]] = []
            asked = client.request("echo", b"%d" % number, b"", on_partial=lambda body, parts=parts: parts.append(body))
            pump.until(lambda asked=asked: asked.called)
            assert (list(pump.result(asked).body), [list(p) for p in parts]) == (
                [b"re", b"%d" % number, b""],
                [[b"part"]],
            )
        pump.until(lambda: worker.poll() is not None)
        pump.until(lambda: not broker.broker.routing.knows("echo"))
    finally:
        worker.kill()
        worker.wait()
        client.stopService()
