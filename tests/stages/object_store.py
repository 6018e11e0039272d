"""Serves an object store, and can be told to be slow, or to refuse. Not a test.

    python object_store.py s3|gs|abfs

It listens on loopback at a port of its own choice, which is the first line of its stdout, and ends with its stdin. A
line on stdin is JSON, the faults from now on, and is answered by a line:
{"refuse": share of requests answered 503, "slow": [share, seconds], "dead": true for all of them}.

S3 is moto's server. Azure's is Azurite, Google's is fake-gcs-server, in a process of their own to which requests are
passed on (stored_elsewhere.py).
"""

from __future__ import annotations

import json
import logging
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from stored_elsewhere import HEADERS, an_azure, google, is_resumed
from werkzeug.serving import WSGIRequestHandler, make_server

ANSWER = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class Faults:
    """Passes requests on to an application, or not. `random` is seeded: so many requests meet as many faults."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}
        self.counts = {"requests": 0, "refused": 0, "slow": 0}
        self.application: Any = None
        self._random = random.Random(7)

    def __call__(self, environ: Any, start: Any) -> Any:
        self.counts["requests"] += 1
        share, seconds = self.told.get("slow", (0.0, 0.0))
        if self._random.random() < share:
            self.counts["slow"] += 1
            time.sleep(seconds)
        refuse = 0.0 if is_resumed(environ) else self.told.get("refuse", 0.0)
        if self.told.get("dead") or self._random.random() < refuse:
            self.counts["refused"] += 1
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", str(len(ANSWER)))])
            return [ANSWER]
        return self.application(environ, start)


class Handler(WSGIRequestHandler):
    """Keeps the headers as they came, since Azure's have underscores, and sends no answer late."""

    disable_nagle_algorithm = True

    def make_environ(self) -> Any:
        return {**super().make_environ(), HEADERS: dict(self.headers.items())}

    def handle_expect_100(self) -> bool:
        """Send no answer, as werkzeug answers `Expect: 100-continue` too, and Azure's client takes a second one for the
        last.
        """
        return True


def serve(kind: str, folder: Path) -> None:
    faults = Faults()
    server = make_server("127.0.0.1", 0, faults, threaded=True, request_handler=Handler)
    peer = None
    if kind == "s3":
        faults.application = DomainDispatcherApplication(create_backend_app)
    else:
        peer, faults.application = {"gs": google, "abfs": an_azure}[kind](folder, server.server_port)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    try:
        for line in sys.stdin:
            faults.told = json.loads(line)
            print(json.dumps(faults.counts), flush=True)
    finally:
        if peer is not None:
            peer.end()


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as name:
        serve(sys.argv[1], Path(name))
