"""Tests the client and the node on Twisted with a broker in the same process: without a socket, and over one that is
lost.
"""

from __future__ import annotations

import time

import pytest
from patience import Patience
from twisted.internet import defer
from twisted.internet.epollreactor import EPollReactor

from groundwork.awake_clock import AwakeClock
from scale0.config.keys import AuthorizedKeys, Pair
from scale0.wire.reader import CurveClient, Network, SocketError, new_keys
from zerotask import errors
from zerotask.client import Client
from zerotask.errors import RpcError, TaskFailed
from zerotask.node.node import Node
from zerotask.service import Settings, StartError, ZeroTaskService
from zerotask.wire import methods
from zerotask.wire.calls import Rpc
from zerotask.wire.links import SocketLink

PATIENCE = 60.0


class World:
    """Holds a reactor turned by hand, a broker on it, and what is stopped at the end."""

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
        bound = Patience(PATIENCE)
        while not (found := condition()):
            assert bound.lasts(), "it does not come"
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
    """TaskFailed keeps its code; any other exception comes as FUNCTION_RAISED, and so does a result that cannot be
    stored.
    """
    ends = {
        "code": lambda: defer.fail(TaskFailed(12, "no", {"x": 1}, retry=False)),
        "bug": lambda: defer.fail(ZeroDivisionError("by zero")),
        "deep": lambda: defer.succeed(eval("[" * 70 + "]" * 70)),
        "odd": lambda: defer.succeed(object()),
        "nan": lambda: defer.succeed([1.0, {"x": float("nan")}]),
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
    assert told == {"code": (12, {"x": 1}), "bug": raised, "deep": raised, "odd": raised, "nan": raised}


@pytest.mark.parametrize("params", [[float("inf")], {"a": [float("nan")]}, [object()]])
def test_params_that_are_no_json_are_refused(world, params):
    """Params that are no JSON are refused as INVALID_PARAMS, and not changed into null (F79)."""
    with pytest.raises(RpcError) as refusal:
        world.result(world.client().submit("m", params))
    assert refusal.value.code == errors.INVALID_PARAMS


@pytest.mark.parametrize("state", ["queued", "finished", "cancelled before"])
def test_cancelling_again_after_a_lost_answer_tells_what_the_first_try_did(world, monkeypatch, state):
    """The second cancel is told that the first one ended the task, unless the task had ended otherwise."""
    client = world.client()
    task = world.result(client.submit("m"))
    if state == "finished":
        world.node(lambda work, tell: defer.succeed(1))
        world.result(client.wait(task, 10))
    once, lost = client._once, []

    async def loses_the_first_answer(method, params):
        answer = await once(method, params)
        if method == "client_task_cancel" and not lost:
            lost.append(answer)
            raise errors.NoAnswer("lost")
        return answer

    if state == "cancelled before":
        assert world.result(client.cancel(task)) is True
        assert world.result(client.cancel(task)) is False
    monkeypatch.setattr(client, "_once", loses_the_first_answer)
    assert world.result(client.cancel(task)) is (state != "finished")


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
    """Work that went on meanwhile is adopted, its result taken, and its client answered without a second attempt."""
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
    node.on_connected.subscribe(lambda: connected.append(True))
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


@pytest.mark.parametrize("most", [1, 3])
def test_work_that_deploys_interrupt_is_done_in_the_end(world, most):
    """Work comes to its end although nodes leave in order, which costs no attempt (F62)."""
    client, begun = world.client(), []

    def run(work, tell):
        begun.append(work.attempt)
        return defer.Deferred() if len(begun) < 6 else defer.succeed("done")

    task = world.result(client.submit("m", max_attempts=most))
    for number in range(5):
        node = world.node(run, name="n")
        world.until(lambda number=number: len(begun) == number + 1)
        world.result(node.stop(wait=0.0))
    world.node(run, name="n")
    assert world.result(client.wait(task, 10)) == "done"


def test_a_wait_for_running_work_can_be_ended(world):
    """A second signal ends the wait, and the running task is given back (F62)."""
    client, begun = world.client(), []

    def run(work, tell):
        begun.append(work.id)
        return defer.Deferred()

    node = world.node(run)
    task = world.result(client.submit("m"))
    world.until(lambda: begun)
    stopped = node.stop(wait=3600.0)
    assert not stopped.called
    node.stop_waiting()
    world.result(stopped)
    assert world.result(client.status(task))["state"] == "queued"


def test_a_broker_that_stood_still_judges_nobody_by_that(world, log_lines):
    """A broker that stood still leaves the task its one attempt, and its result counts (F6)."""
    client, running, asleep = world.client(), [], [0.0]
    world.service._awake = AwakeClock(lambda: time.monotonic() + asleep[0])

    def run(work, tell):
        running.append(defer.Deferred())
        return running[-1]

    connected = []
    node = world.node(run)
    node.on_connected.subscribe(lambda: connected.append(True))
    task = world.result(client.submit("m", max_attempts=1))
    world.until(lambda: running)
    for stall in (9.0, 3_600.0):
        asleep[0] += stall
        told = len(log_lines)
        world.until(lambda told=told: len(log_lines) > told)
        assert world.result(client.status(task))["state"] in ("assigned", "running")
    assert len(connected) == 1 and all("stood still" in line for line in log_lines)
    running[0].callback("whole")
    assert world.result(client.wait(task, 10)) == "whole"


@pytest.mark.parametrize("socket", [False, True])
def test_a_node_whose_broker_stops_as_well_does_not_wait_for_its_answer(world, monkeypatch, socket):
    """A node stops at once if its broker stops with it or has stopped before: there is none that could answer."""
    monkeypatch.setattr("zerotask.node.node.LEAVE_WAIT", 3600.0)
    link = SocketLink(world.reactor, world.service.listen) if socket else None
    connected = []
    node = world.node(lambda work, tell: defer.Deferred(), link)
    node.on_connected.subscribe(lambda: connected.append(True))
    world.until(lambda: connected)
    stopped = world.service.stopService()
    world.result(node.stop(wait=0.0))
    world.result(stopped)
    world.stops.clear()
    world.service = world.broker()


def test_work_that_waits_holds_no_slot(world):
    """Work that waits leaves its slot to other work, after a reconnection as well, until it goes on itself (F58)."""
    client, running = world.client(), {}

    def run(work, tell):
        running[work.id] = defer.Deferred()
        if work.params:
            node.set_waiting(work.id, True)
        return running[work.id]

    node = world.node(run, slots=2)
    waiting = [world.result(client.submit("m", ["waits"])) for _ in range(5)]
    world.until(lambda: len(running) == 5)
    node._renewed()
    busy = [world.result(client.submit("m")) for _ in range(3)]
    world.until(lambda: len(running) == 7)
    running.pop(busy[0]).callback(1)
    world.until(lambda: len(running) == 7)
    node.set_waiting(waiting[0], False), node.set_waiting("unknown", True)
    running.pop(busy[1]).callback(2)
    later = world.result(client.submit("m"))
    world.result(client.status(later))
    assert later not in running
    for task in waiting:
        running.pop(task).callback("late")
    assert world.result(client.wait(waiting[0], 10)) == "late"
    world.until(lambda: later in running)
    for task in (busy[2], later):
        running.pop(task).callback(3)
    assert world.result(client.wait(later, 10)) == 3


def test_a_broker_that_knows_no_waiting_counts_the_slot(world, monkeypatch):
    """A broker of an earlier version counts the slot of a task that waits (F58)."""
    monkeypatch.delitem(methods.METHODS, "node_task_waits")
    client, running = world.client(), {}

    def run(work, tell):
        running[work.id] = defer.Deferred()
        node.set_waiting(work.id, True)
        return running[work.id]

    node = world.node(run, slots=1)
    first, second = (world.result(client.submit("m")) for _ in range(2))
    world.until(lambda: first in running and not node._waits)
    running[first].callback(1)
    world.until(lambda: second in running)
    running[second].callback(2)
    assert world.result(client.wait(second, 10)) == 2


def test_a_refused_node_says_so_once(world, monkeypatch, log_lines):
    """A node whose name is another's logs one line, until it is taken or refused for another reason (F78)."""
    tries = []
    first = world.node(lambda work, tell: defer.Deferred(), name="same")
    connected = []
    first.on_connected.subscribe(lambda: connected.append(True))
    world.until(lambda: connected)
    second = Node(world.service.local_link(), world.reactor, "same", {"m": {}}, lambda w, t: None, lambda t: None)
    joins = second._try_to_join
    monkeypatch.setattr(second, "_try_to_join", lambda: (tries.append(True), joins())[1])
    second.start()
    world.stops.append(second.stop)
    world.until(lambda: len(tries) > 3)
    (said,) = [line for line in log_lines if "same" in line]
    assert "in use" in said


@pytest.mark.adversary(60)
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
    assert world.result(me.call("client_connect", ["me"], timeout=60)) == "me"
    with pytest.raises(errors.NoAnswer):
        world.result(stranger.call("client_connect", ["me"], timeout=0.7))
    (keys / "me.key").unlink()
    world.until(lambda: not world.service.settings.keys.names)
    with pytest.raises(errors.NoAnswer):
        world.result(me.call("client_connect", ["me"], timeout=0.7))
    me.close(), stranger.close()
    reads = world.service._key_reads
    world.result(world.service.stopService())
    assert (reads.running, world.service._ticks.running) == (False, False)  # the folder may be gone by then
    world.service = world.broker()


def test_without_keys_only_this_machine_is_served(tmp_path):
    for endpoint in ("tcp://0.0.0.0:0", "tcp://*:0", "tcp://192.0.2.1:0", "tcp://[::]:0"):
        with pytest.raises(StartError, match="only loopback"):
            ZeroTaskService(Settings(tmp_path, endpoint), None).startService()
    with pytest.raises(SocketError, match="beyond this machine only with CURVE"):
        SocketLink(None, "tcp://192.0.2.1:5555").open(lambda text: None, lambda: None)
