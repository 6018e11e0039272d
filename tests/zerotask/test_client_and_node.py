"""The client and the node on Twisted, with a broker in the same process: over no socket, and over one that is lost."""

from __future__ import annotations

import time

import pytest
from twisted.internet import defer
from twisted.internet.epollreactor import EPollReactor

from scale0.keys import AuthorizedKeys, Pair
from scale0.reader import CurveClient, Network, SocketError, new_keys
from zerotask import errors
from zerotask.client import Client
from zerotask.errors import RpcError, TaskFailed
from zerotask.links import SocketLink
from zerotask.node import Node
from zerotask.rpc import Rpc
from zerotask.service import Settings, StartError, ZeroTaskService

PATIENCE = 20.0


class World:
    """A reactor turned by hand, a broker on it, and what is stopped at the end."""

    def __init__(self, folder):
        self.folder, self.reactor = folder, EPollReactor()
        self.reactor.startRunning(installSignalHandlers=False)
        self.stops = []
        self.service = self.broker()

    def broker(self, listen="tcp://127.0.0.1:0", **settings):
        service = ZeroTaskService(
            Settings(self.folder / "state", listen, "tcp://127.0.0.1:0", **settings), self.reactor
        )
        service.startService()
        return service

    def try_broker(self, listen):
        """libzmq gives up the former socket's port in its own time."""
        try:
            return self.broker(listen)
        except StartError as error:
            assert "in use" in str(error)
            return None

    def until(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert time.monotonic() < deadline, "it does not come"
            self.reactor.iterate(0.01)
        return found

    def result(self, deferred):
        outcome = []
        deferred.addBoth(outcome.append)
        self.until(lambda: outcome)
        if hasattr(outcome[0], "raiseException"):
            outcome[0].raiseException()
        return outcome[0]

    def client(self, link=None, name="c"):
        client = Client(link or self.service.local_link(), self.reactor, name)
        client.start()
        self.stops.append(client.stop)
        return client

    def node(self, run, link=None, name="n", methods=("m",), slots=1, cancel=lambda task_id: None):
        served = {method: {} for method in methods}
        node = Node(link or self.service.local_link(), self.reactor, name, served, run, cancel, slots)
        node.start()
        self.stops.append(lambda: node.stop(wait=0.1))
        return node

    def end(self):
        for stop in reversed(self.stops):
            self.result(stop())
        self.result(self.service.stopService())
        self.result(Network.of(self.reactor).close())
        self.reactor.stop()
        self.reactor.iterate(0)
        self.reactor.iterate(0)


@pytest.fixture
def world(tmp_path):
    one = World(tmp_path)
    yield one
    one.end()


def test_a_task_without_a_socket(world):
    client = world.client()
    world.node(lambda work, tell: defer.succeed([work.method, work.params, work.attempt]))
    task = world.result(client.submit("m", {"a": 1}))
    assert world.result(client.wait(task, 10)) == ["m", {"a": 1}, 1]
    assert world.result(client.status(task))["state"] == "finished"
    assert world.result(client.cancel(task)) is False


def test_submitting_the_same_task_twice_is_submitting_it_once(world):
    client = world.client()
    assert world.result(client.submit("m", [1], "t")) == world.result(client.submit("m", [1], "t")) == "t"
    with pytest.raises(RpcError) as refusal:
        world.result(client.submit("m", [2], "t"))
    assert refusal.value.code == errors.TASK_TAKEN


def test_failures_reach_the_client_as_they_were_meant(world):
    """TaskFailed with its code; any other exception as FUNCTION_RAISED; what cannot be stored is a failure too."""
    ends = {
        "code": lambda: defer.fail(TaskFailed(12, "no", {"x": 1}, retry=False)),
        "bug": lambda: defer.fail(ZeroDivisionError("by zero")),
        "deep": lambda: defer.succeed(eval("[" * 70 + "]" * 70)),
        "odd": lambda: defer.succeed(object()),
    }
    client = world.client()
    world.node(lambda work, tell: ends[work.params[0]]())
    told = {}
    for name in ends:
        task = world.result(client.submit("m", [name], max_attempts=1))
        with pytest.raises(TaskFailed) as failure:
            world.result(client.wait(task, 10))
        told[name] = failure.value.code, failure.value.data
    raised = errors.FUNCTION_RAISED, None
    assert told == {"code": (12, {"x": 1}), "bug": raised, "deep": raised, "odd": raised}


def test_waiting_ends_when_time_is_up(world):
    client = world.client()
    task = world.result(client.submit("m"))
    with pytest.raises(RpcError) as refusal:
        world.result(client.wait(task, 0.3))
    assert refusal.value.code == errors.NOT_FINISHED


def test_a_cancelled_task_is_cancelled_at_its_node(world):
    client, running, cancelled = world.client(), {}, []

    def run(work, tell):
        running[work.id] = defer.Deferred()
        return running[work.id]

    def cancel(task_id):
        cancelled.append(task_id)
        running[task_id].errback(TaskFailed(errors.CANCELLED, "cancelled", retry=False))

    world.node(run, cancel=cancel)
    task = world.result(client.submit("m"))
    world.until(lambda: running)
    assert world.result(client.cancel(task)) is True
    world.until(lambda: cancelled)
    assert cancelled == [task]


def test_no_more_work_than_slots(world):
    client, running, most = world.client(), {}, []

    def run(work, tell):
        running[work.id] = defer.Deferred()
        most.append(len(running))
        world.reactor.callLater(0.01, lambda: running.pop(work.id).callback(None))
        return running[work.id]

    world.node(run, slots=3)
    tasks = world.result(defer.gatherResults([client.submit("m") for _ in range(20)]))
    world.result(defer.gatherResults([client.wait(task, 10) for task in tasks]))
    assert max(most) == 3


def test_a_broker_that_starts_again_is_found_again(world):
    """Work that went on meanwhile is adopted, its result taken, and its client is answered: no second attempt."""
    listen, runs, running = world.service.listen, [], defer.Deferred()

    def run(work, tell):
        runs.append(work.attempt)
        return running

    client = world.client(SocketLink(world.reactor, listen))
    node = world.node(run, SocketLink(world.reactor, listen))
    task = world.result(client.submit("m"))
    world.until(lambda: runs)
    world.result(world.service.stopService())
    connected = []
    node.on_connected = lambda: connected.append(True)
    world.service = world.until(lambda: world.try_broker(listen))
    waiting = client.wait(task, 15)
    world.until(lambda: connected)
    running.callback("done")
    assert world.result(waiting) == "done"
    assert runs == [1]


def test_a_node_that_stops_gives_back_what_it_holds(world):
    client, begun = world.client(), []

    def run(work, tell):
        begun.append(work.id)
        return defer.Deferred()

    first = world.node(run, name="first")
    task = world.result(client.submit("m"))
    world.until(lambda: begun)
    world.result(first.stop(wait=0.05))
    world.node(lambda work, tell: defer.succeed(work.attempt), name="second")
    assert world.result(client.wait(task, 10)) == 2


def test_under_curve_only_those_in_the_folder_get_in(world, tmp_path):
    (public, secret), (mine, my_secret), (theirs, their_secret) = new_keys(), new_keys(), new_keys()
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "me.key").write_text(f'metadata\n    identity = "me"\ncurve\n    public-key = "{mine}"\n')
    world.result(world.service.stopService())
    world.service = world.broker(pair=Pair(public, secret), keys=AuthorizedKeys(keys))
    listen = world.service.listen
    me, stranger = (
        Rpc(SocketLink(world.reactor, listen, CurveClient(*pair, public)), world.reactor)
        for pair in ((mine, my_secret), (theirs, their_secret))
    )
    me.start(), stranger.start()
    assert world.result(me.call("client_connect", ["me"], timeout=5)) == "me"
    with pytest.raises(errors.NoAnswer):
        world.result(stranger.call("client_connect", ["me"], timeout=0.7))
    (keys / "me.key").unlink()
    world.until(lambda: not world.service.settings.keys.names)
    with pytest.raises(errors.NoAnswer):
        world.result(me.call("client_connect", ["me"], timeout=0.7))
    me.close(), stranger.close()


def test_without_keys_only_this_machine_is_served(tmp_path):
    for endpoint in ("tcp://0.0.0.0:0", "tcp://*:0", "tcp://192.0.2.1:0", "tcp://[::]:0"):
        with pytest.raises(StartError, match="only loopback"):
            ZeroTaskService(Settings(tmp_path, endpoint), None).startService()
    with pytest.raises(SocketError, match="beyond this machine only with CURVE"):
        SocketLink(None, "tcp://192.0.2.1:5555").open(lambda text: None, lambda: None)
