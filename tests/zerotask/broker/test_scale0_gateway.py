"""Tests `zerotask.broker` in a Scale0 network, and Titanic as the Guide's client uses it, with and without CURVE."""

from __future__ import annotations

import json

import pytest
from patience import Patience
from twisted.internet.defer import fail
from twisted.internet.epollreactor import EPollReactor

from scale0.broker.service import BrokerService
from scale0.broker.sockets import Security
from scale0.client import Client as Scale0Client
from scale0.config.keys import AuthorizedKeys, Pair, text_of
from scale0.endpoint.connection import Keys
from scale0.endpoint.effects import State, Target
from scale0.wire.reader import CurveClient, Kind, Network, new_keys
from scale0.worker import Worker
from zerotask import errors
from zerotask.broker.scale0_gateway import Scale0Network
from zerotask.service import Settings, StartError, ZeroTaskService

PATIENCE = 60.0


class World:
    """Runs a Scale0 broker, a ZeroTask broker in its network, and a client of the network; with a key each, or none."""

    def __init__(self, folder, curve):
        self.folder, self.pairs = folder, {name: Pair(*new_keys()) for name in ("b", "zt", "c", "echo-1")}
        self.security, self.keys = None, dict.fromkeys(self.pairs)
        self.broker_key = self.pairs["b"].public if curve else ""
        if curve:
            (folder / "keys").mkdir()
            for name, pair in self.pairs.items():
                roles = ("zerotask",) if name == "zt" else ()
                (folder / "keys" / f"{name}.key").write_text(text_of(pair, name, with_secret=False, roles=roles))
            self.security = Security(self.pairs["b"], AuthorizedKeys(folder / "keys"))
            self.keys = {name: Keys(pair.public, pair.secret) for name, pair in self.pairs.items()}
        self.reactor = EPollReactor()
        self.reactor.startRunning(installSignalHandlers=False)
        ports = dict.fromkeys(("frontend_port", "backend_port", "peer_port", "config_pub_port"), 0)
        (folder / "broker.json").write_text(
            json.dumps({"identity": "b", "services": "all", "default_heartbeat_interval": 0.2} | ports)
        )
        self.scale0 = BrokerService(self.reactor, folder / "broker.json", folder / "scale0", self.security)
        self.scale0.startService()
        run = self.until(lambda: self._run(folder / "scale0" / "run.json"))
        self.frontend, self.backend = (run[end].replace("*", "127.0.0.1") for end in ("frontend", "backend"))
        self.zerotask = ZeroTaskService(self.settings("zt"), self.reactor)
        self.zerotask.startService()
        self.client = Scale0Client(self.reactor, "c", [self.target(self.frontend)], self.keys["c"])
        self.client.startService()
        self.others = [self.client]

    def target(self, endpoint):
        return Target(endpoint, self.broker_key)

    def settings(self, identity, folder="zt"):
        network = Scale0Network(identity, (self.target(self.backend),), (self.target(self.frontend),), self.keys["zt"])
        return Settings(self.folder / folder, "tcp://127.0.0.1:0", "tcp://127.0.0.1:0", scale0=network)

    @staticmethod
    def _run(path):
        return json.loads(path.read_text()) if path.exists() else None

    def until(self, condition):
        bound = Patience(PATIENCE)
        while not (found := condition()):
            assert bound.lasts(), "it does not come"
            self.reactor.iterate(0.02)
        return found

    def result(self, deferred):
        outcome = []
        deferred.addBoth(outcome.append)
        self.until(lambda: outcome)
        if hasattr(outcome[0], "raiseException"):
            outcome[0].raiseException()
        return outcome[0]

    def ask(self, service, *body):
        return list(self.result(self.client.request(service, *body, timeout=10)).body)

    def call(self, method, /, **params):
        text = json.dumps({"jsonrpc": "2.0", "method": f"zerotask.broker.{method}", "params": params, "id": 1}).encode()
        answer = json.loads(b"".join(self.ask("zerotask.broker", text)))
        return answer["error"]["code"] if "error" in answer else answer["result"]

    def echo(self):
        """Start a worker in the network that answers what it is asked."""
        worker = Worker(
            self.reactor, "echo-1", [self.target(self.backend)], lambda request: request.body, keys=self.keys["echo-1"]
        )
        worker.offer("echo")
        worker.startService()
        self.others.append(worker)

    def end(self):
        self.result(self.zerotask.stopService())
        for service in self.others:
            service.stopService()
        stopped = self.scale0.stopService()
        if stopped is not None:
            self.result(stopped)
        self.result(Network.of(self.reactor).close())
        self.reactor.stop()
        self.reactor.iterate(0)
        self.reactor.iterate(0)


@pytest.fixture(scope="module", params=["null", "curve"])
def world(request, tmp_path_factory):
    one = World(tmp_path_factory.mktemp("world"), request.param == "curve")
    yield one
    one.end()


@pytest.mark.integration
def test_a_task_from_birth_to_result_through_the_network(world):
    """Clients and nodes share the connection there, so a node says who it is."""
    assert world.call("client_connect", client_id="c") == "c"
    assert world.call("client_new_task", client_id="c", method="m", params=[1], task_id="t") == "t"
    assert world.call("node_connect", node_id="n") == "n"
    assert world.call("node_task_request", task_id="t") == errors.NODE_UNKNOWN
    assert world.call("node_task_request", task_id="t", node_id="n") == {"method": "m", "params": [1], "id": "t"}
    assert world.call("task_status", node_id="n", task_id="t", status="half") is True
    assert world.call("node_task_finished", task_id="t", task_result=[2], node_id="n") is True
    assert world.call("client_task_result", client_id="c", task_id="t") == [2]
    assert world.call("tasks") == errors.UNAUTHORISED


@pytest.mark.integration
@pytest.mark.parametrize("method", ["equus.push", "equus.check", "equus.check.h1", "mdp:equus.web-1"])
def test_nothing_of_helens_is_asked_through_the_network(world, method):
    """Refuse Helen's methods as tasks and as stored requests of the network, whose callers have no names (F37)."""
    world.call("client_connect", client_id="thief")
    params = {"files": {"pwn.lua": "return 1"}, "rings": "off"}
    assert world.call("client_new_task", client_id="thief", method=method, params=params) == errors.UNAUTHORISED
    assert world.call("node_connect", node_id="n2", methods=[method.removeprefix("mdp:")]) == errors.UNAUTHORISED
    assert world.ask("titanic.request", method.removeprefix("mdp:").encode(), b"x") == [b"400"]


@pytest.mark.integration
def test_what_wants_no_answer_gets_none(world):
    assert world.ask("zerotask.broker", b'{"jsonrpc":"2.0","method":"x"}') in ([], [b""])
    (answer,) = world.ask("zerotask.broker", b"no json")
    assert json.loads(answer)["error"]["code"] == errors.PARSE


@pytest.mark.integration
def test_titanic_says_when_the_broker_does_not_take_a_request(world, monkeypatch):
    """Titanic answers 500, the Guide's code for that, while the broker's disk is in trouble."""
    refused = errors.RpcError(errors.STORING_FAILED, "the disk is full")
    monkeypatch.setattr(world.zerotask._gateway._tasks, "submit", lambda *args, **options: fail(refused))
    assert world.ask("titanic.request", b"echo", b"Hello") == [b"500"]


@pytest.mark.integration
def test_titanic_as_the_guides_client_uses_it(world):
    """An RFC 7 client gets 200 and a UUID, then 300 until a worker has answered, then 200; after the
    close it gets 400.
    """
    inbox = []
    mine = world.pairs["c"]
    security = CurveClient(mine.public, mine.secret, world.broker_key) if world.broker_key else None
    hear = lambda frames, origin: inbox.append(frames)  # noqa: E731
    socket = Network.of(world.reactor).socket(Kind.DEALER, hear, security=security)
    socket.connect(world.frontend)

    def ask(service, *body):
        socket.send([b"", b"MDPC01", service, *body])
        frames = world.until(lambda: inbox and inbox.pop(0))
        assert frames[:3] == [b"", b"MDPC01", service]
        return frames[3:]

    status, uuid = ask(b"titanic.request", b"echo", b"Hello", b"\xff\x00world")
    assert status == b"200" and len(uuid) == 32
    assert ask(b"titanic.reply", uuid) == [b"300"]
    world.echo()
    answered = []

    def has_answer():
        answered[:] = ask(b"titanic.reply", uuid.upper())
        return answered[0] == b"200"

    world.until(has_answer)
    assert answered == [b"200", b"Hello", b"\xff\x00world"]
    assert ask(b"titanic.close", uuid) == [b"200"]
    assert ask(b"titanic.reply", uuid) == [b"400"]
    assert ask(b"titanic.close", uuid) == [b"200"]
    assert ask(b"titanic.reply", b"nonsense") == [b"400"]
    assert ask(b"titanic.request", b"") == [b"400"]
    socket.close()


@pytest.mark.integration
def test_a_key_is_good_for_its_own_identity_alone(world):
    """A key under any other identity is refused on both connections for good; without keys no name is bound."""
    other = ZeroTaskService(world.settings("another", "other"), world.reactor)
    other.startService()
    links = other._gateway.worker.connection, other._gateway.network.connection
    wanted = State.STOPPED if world.broker_key else State.ACTIVE
    world.until(lambda: {link.state for link in links} == {wanted})
    world.result(other.stopService())


def test_beyond_this_machine_a_network_takes_curve(tmp_path):
    """Refuse to start on a network of other machines unless there are a pair of ours and a key that is to be proved
    there.
    """
    pair, key = Keys(*new_keys()), new_keys()[0]
    for keys, proved in ((None, ""), (pair, ""), (None, key)):
        target = Target("tcp://192.0.2.1:5556", proved)
        settings = Settings(tmp_path, scale0=Scale0Network("zt", (target,), (target,), keys))
        with pytest.raises(StartError, match=r"192\.0\.2\.1:5556: beyond this machine only with CURVE"):
            ZeroTaskService(settings, None).startService()
