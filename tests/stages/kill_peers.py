"""Runs the nodes and clients of a kill run: each writes what it saw to a log of its own, a JSON object a
line.

python kill_peers.py node BROKER NAME LOG
    python kill_peers.py client BROKER NAME LOG COUNT

A client submits tasks NAME-0 ... NAME-(COUNT-1), whose ids say what their results must be. Started again after a kill
it submits again what it has no acknowledgement of, and goes on waiting for what it has no end of.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater, react

from zerotask.client import Client
from zerotask.errors import RpcError, TaskFailed
from zerotask.node.node import Node
from zerotask.wire.links import SocketLink

LANES = 24  # tasks of one client in flight
ATTEMPTS = 50  # of one task: kills must not use them up
WAIT = 120.0  # seconds for one result
BAD_EVERY = 40  # every so many tasks one that is to fail for good
BAD_CODE = 4711
SLOTS = 4


class Log:
    """Writes lines that are with the kernel before anything else happens, so that kill -9 takes none back."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def say(self, **said: Any) -> None:
        os.write(self._file, json.dumps(said).encode() + b"\n")


def expected(task_id: str) -> int:
    """Return the result of a good task."""
    return sum(task_id.encode())


def is_bad(task_id: str) -> bool:
    return int(task_id.rpartition("-")[2]) % BAD_EVERY == BAD_EVERY - 1


def node(broker: str, name: str, log: str) -> None:
    lines = Log(log)

    async def work(work: Any) -> int:
        lines.say(ran=work.id, attempt=work.attempt)
        await deferLater(reactor, random.random() * 0.02)
        if is_bad(work.id):
            raise TaskFailed(BAD_CODE, "as it should", retry=False)
        return expected(work.params[0])

    def run(piece: Any, tell: Any) -> Deferred[Any]:
        return Deferred.fromCoroutine(work(piece))

    one = Node(SocketLink(reactor, broker), reactor, name, {"sum": {}}, run, lambda task_id: None, SLOTS)
    one.on_connected.subscribe(lambda: lines.say(connected=name))
    reactor.callWhenRunning(one.start)
    reactor.run()


def client(broker: str, name: str, log: str, count: str) -> None:
    known = [json.loads(line) for line in Path(log).read_text().splitlines()] if Path(log).exists() else []
    acknowledged, ended = ({line[key] for line in known if key in line} for key in ("acknowledged", "ended"))
    todo = [f"{name}-{number}" for number in range(int(count)) if f"{name}-{number}" not in ended]
    lines = Log(log)

    async def lane(one: Client) -> None:
        while todo:
            task_id = todo.pop(0)
            if task_id not in acknowledged:
                await one.submit("sum", [task_id], task_id, patience=WAIT, max_attempts=ATTEMPTS)
                lines.say(acknowledged=task_id)
            lines.say(ended=task_id, outcome=await outcome(one, task_id))

    async def outcome(one: Client, task_id: str) -> Any:
        try:
            return ["finished", await one.wait(task_id, WAIT)]
        except TaskFailed as failed:
            return ["failed", failed.code]
        except RpcError as error:
            return ["error", error.code]

    async def whole() -> None:
        one = Client(SocketLink(reactor, broker), reactor, name)
        one.start()
        await gatherResults([Deferred.fromCoroutine(lane(one)) for _ in range(LANES)], consumeErrors=True)
        await one.stop()

    react(lambda _: Deferred.fromCoroutine(whole()))


if __name__ == "__main__":
    {"node": node, "client": client}[sys.argv[1]](*sys.argv[2:])
