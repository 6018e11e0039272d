"""An S3-compatible server that can be told to be slow, or to refuse: moto's, in a process of its own. Not a test.

    python object_store.py

It listens on loopback at a port of its own choice, which is the first line of its stdout, and ends with its stdin. A
line on stdin is JSON, the faults from now on, and is answered by a line:
{"refuse": share of requests answered 503, "slow": [share, seconds], "dead": true for all of them}.
"""

from __future__ import annotations

import json
import logging
import random
import sys
import threading
import time
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


class Faults:
    """Passes requests on to an application, or not. `random` is seeded: so many requests meet as many faults."""

    def __init__(self, application: Any) -> None:
        self.told: dict[str, Any] = {}
        self.counts = {"requests": 0, "refused": 0, "slow": 0}
        self._application = application
        self._random = random.Random(7)

    def __call__(self, environ: Any, start: Any) -> Any:
        self.counts["requests"] += 1
        share, seconds = self.told.get("slow", (0.0, 0.0))
        if self._random.random() < share:
            self.counts["slow"] += 1
            time.sleep(seconds)
        if self.told.get("dead") or self._random.random() < self.told.get("refuse", 0.0):
            self.counts["refused"] += 1
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start("503 Slow Down", [("Content-Type", "application/xml")])
            return [b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"]
        return self._application(environ, start)


def main() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    faults = Faults(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, faults, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    for line in sys.stdin:
        faults.told = json.loads(line)
        print(json.dumps(faults.counts), flush=True)


if __name__ == "__main__":
    main()
