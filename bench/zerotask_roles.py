"""Runs the processes of bench/zerotask.py: nodes, the client that keeps tasks in flight, the one that fills the
queue.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults, succeed
from twisted.internet.task import deferLater, react

from zerotask.client import Client
from zerotask.node.node import Node
from zerotask.wire.calls import Rpc
from zerotask.wire.links import SocketLink

TEXT = "x" * 32
CHILDREN = 4  # of one node; more would only queue for two cores
WARM = 5  # tasks of each lane before the clock starts
FILL_WINDOW = 1_000  # submissions in flight while the queue is filled


def node(endpoint: str, name: str, slots: str) -> None:
    """Run a node whose function is called in its own process: what the broker costs, and no child."""

    def run(work: Any, tell: Any) -> Deferred[Any]:
        return succeed(work.params)

    one = Node(SocketLink(reactor, endpoint), reactor, name, {"echo": {}}, run, lambda task_id: None, int(slots))
    reactor.callWhenRunning(one.start)
    reactor.run()


def node_with_children(endpoint: str, name: str, slots: str) -> None:
    """Run a node with worker processes, as users start it."""
    here = Path(__file__)
    command = [str(Path(sys.executable).with_name("zerotask")), "node", "--broker", endpoint, "--name", name]
    environment = os.environ | {"PYTHONPATH": "", "PYTHONSAFEPATH": "1"}
    os.chdir(here.parent / "zerotask_functions")
    os.execve(command[0], [*command, "--module", "echo", "--slots", str(min(int(slots), CHILDREN))], environment)


def client(endpoint: str, control: str, tasks: str, window: str, nodes: str) -> None:
    """`window` tasks in flight, each submitted, waited for and its result fetched; prints the rate."""

    async def all_nodes_are_up() -> None:
        rpc = Rpc(SocketLink(reactor, control), reactor)
        rpc.start()
        while (await rpc.call("broker_status", []))["nodes"] < int(nodes):
            await deferLater(reactor, 0.1)
        rpc.close()

    async def some(one: Client, count: int) -> None:
        for _ in range(count):
            assert await one.wait(await one.submit("echo", [TEXT]), 60) == [TEXT]

    async def work(one: Client) -> None:
        await all_nodes_are_up()
        await gatherResults([Deferred.fromCoroutine(some(one, WARM)) for _ in range(int(window))])
        lanes, count = int(window), int(tasks) // int(window)
        begin = time.monotonic()
        await gatherResults([Deferred.fromCoroutine(some(one, count)) for _ in range(lanes)])
        print(lanes * count / (time.monotonic() - begin))

    _as_client(endpoint, work)


def filler(endpoint: str, tasks: str) -> None:
    async def work(one: Client) -> None:
        for start in range(0, int(tasks), FILL_WINDOW):
            await gatherResults([one.submit("none", [number]) for number in range(start, start + FILL_WINDOW)])

    _as_client(endpoint, work)


def _as_client(endpoint: str, work: Callable[[Client], Awaitable[None]]) -> None:
    async def whole() -> None:
        one = Client(SocketLink(reactor, endpoint), reactor)
        one.start()
        await work(one)
        await one.stop()

    react(lambda _: Deferred.fromCoroutine(whole()))


if __name__ == "__main__":
    {"node": node, "node-with-children": node_with_children, "client": client, "filler": filler}[sys.argv[1]](
        *sys.argv[2:]
    )
