"""Run the runner under Twisted's own reactor, with timers and signals as in the agent, for test_reactor.py."""

import json
import os
import signal
import sys
from pathlib import Path

from equus.sandbox.processes import Processes

processes = Processes.start(registry="calls_for_tests", python_path=(Path(__file__).parent / "registry",))

from twisted.internet import reactor  # noqa: E402 - the sandbox's processes come before Twisted, as in equus/main.py

from equus.policy.policy import Policy  # noqa: E402
from equus.sandbox.job import Job  # noqa: E402
from equus.sandbox.runner import Runner  # noqa: E402

COUNT = 60
results: list[dict[str, object]] = []
runner = Runner(reactor, processes, Policy.load())


def source(body: str) -> bytes:
    """Return the source of a check with this body."""
    return f"return {{ summary = 's', needs = {{'host'}}, run = function(args, host) {body} end }}".encode()


def done(blob: bytes) -> None:
    """Keep a result; after the last one, end the reactor."""
    results.append(json.loads(blob))
    if len(results) == COUNT // 2:
        os.kill(processes.zygote.pid, signal.SIGKILL)
    if len(results) == COUNT + 2:
        runner.stop()
        reactor.callLater(0, reactor.stop)


def begin() -> None:
    """Run sixty good checks, an endless one, and one that only the limit of memory ends."""
    for number in range(COUNT):
        runner.run(Job(str(number), source(f"return 'ok', host.echo({number})[1] .. ''")), done)
    runner.run(Job("endless", source("while true do end"), timeout=0.4), done)
    runner.run(Job("greedy", source("local s = 'x' while true do s = s .. s end"), args=b" " * 900_000 + b"{}"), done)


reactor.callWhenRunning(begin)
reactor.run()
leftovers = [reader for reader in reactor.getReaders() if "sandbox" in type(reader).__module__]
json.dump({"results": results, "leftovers": len(leftovers), "kills": runner.kills}, sys.stdout)
