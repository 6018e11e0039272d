"""Tests keys that change while the programs run: each connection reads them anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scale0.broker.sockets import Security
from scale0.config.keys import AuthorizedKeys, KeyFault, Pair, text_of
from scale0.endpoint import connection as connection_module
from scale0.endpoint.effects import State, Target
from scale0.wire.reader import CurveClient, CurveServer, Kind, Network, new_keys
from scale0.worker import Worker
from zerotask.wire import links
from zerotask.wire.links import SocketLink


class Ring:
    """Reads the own pair and the key of the broker `b` from a folder, as Helen does."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.own, self.authorized = folder, Pair(*new_keys()), AuthorizedKeys(folder)

    def security(self, target: Target | None = None) -> CurveClient:
        return CurveClient(self.own.public, self.own.secret, self.authorized.read_key_of("b"))


def write_key(folder: Path, name: str, public: str) -> None:
    (folder / f"{name}.key").write_text(text_of(Pair(public, ""), name, with_secret=False))


@pytest.fixture
def ring(tmp_path, monkeypatch) -> Ring:
    monkeypatch.setattr(connection_module, "KEYS_AGAIN", 0.1)
    monkeypatch.setattr(links, "KEYS_AGAIN", 0.1)
    (tmp_path / "mine").mkdir()
    return Ring(tmp_path / "mine")


@pytest.fixture
def guarded(brokers, tmp_path, ring):
    """Return a broker under CURVE that knows the key of the worker, and a worker that knows the broker's."""
    (tmp_path / "admitted").mkdir()
    write_key(tmp_path / "admitted", "w", ring.own.public)
    pair = Pair(*new_keys())
    write_key(ring.folder, "b", pair.public)
    return brokers.start("b", Security(pair, AuthorizedKeys(tmp_path / "admitted")), address="127.0.0.1")


@pytest.fixture
def worker(pump, guarded, ring) -> Iterator[Worker]:
    worker = Worker(
        pump.reactor, "w", [guarded.sockets.endpoints["backend"]], lambda r: r.body, keys=ring, interval=1.0
    )
    worker.offer("echo")
    worker.startService()
    pump.until(lambda: worker.state is State.ACTIVE)
    yield worker
    worker.stopService()


def test_a_broker_with_a_new_key_is_found_once_its_file_has_it(pump, brokers, guarded, worker, ring, tmp_path):
    """The trouble is told until the file has the new key (F34)."""
    assert worker.connection.trouble == ""
    port = int(guarded.sockets.endpoints["backend"].rpartition(":")[2])
    brokers.stop(guarded)
    pair = Pair(*new_keys())
    security = Security(pair, AuthorizedKeys(tmp_path / "admitted"))
    brokers.start("b", security, address="127.0.0.1", backend_port=port)
    pump.until(lambda: "keys do not match" in worker.connection.trouble)
    write_key(ring.folder, "b", pair.public)
    pump.until(lambda: worker.state is State.ACTIVE)
    assert worker.connection.trouble == ""


def test_a_key_file_that_is_gone_or_faulty_is_named_and_used_once_it_is_mended(pump, guarded, worker, ring):
    """Nothing is called without a key, nor with the old one (F34)."""
    good = (ring.folder / "b.key").read_text()
    for fault in (None, 'curve\n    public-key = "short"\n'):
        (ring.folder / "b.key").unlink()
        if fault is not None:
            (ring.folder / "b.key").write_text(fault)
        worker.connection._watched("disconnected", "")
        pump.until(lambda: "b.key" in worker.connection.trouble)
        assert worker.state is not State.ACTIVE
        (ring.folder / "b.key").write_text(good)
        pump.until(lambda: worker.state is State.ACTIVE)


class Named:
    """Holds a pair, and the key of one broker by its endpoint; for others it has what the network says."""

    def __init__(self, own: Pair, endpoint: str, key: str) -> None:
        self._own, self._known = own, {endpoint: key}

    def security(self, target: Target) -> CurveClient | None:
        key = target.key or self._known.get(target.endpoint, "")
        return CurveClient(self._own.public, self._own.secret, key) if key else None


@pytest.mark.parametrize("how", ["preferred", "USEBROKER"])
def test_a_broker_that_the_network_names_without_a_key_is_not_called_under_curve(pump, guarded, ring, how):
    """Anything may listen there. The trouble names it and what to add, and the given broker is found again."""
    heard: list[str] = []
    trap = Network.of(pump.reactor).socket(Kind.ROUTER, lambda frames, origin: heard.append("a message"))
    trap.watch(lambda event, _: heard.append(event))
    endpoint = trap.bind("tcp://127.0.0.1:0")
    given = guarded.sockets.endpoints["backend"]
    keys = Named(ring.own, given, ring.authorized.read_key_of("b"))
    worker = Worker(pump.reactor, "w", [given], lambda r: r.body, keys=keys, interval=1.0)
    worker.offer("echo")
    worker.startService()
    pump.until(lambda: worker.state is State.ACTIVE)
    connection = worker.connection
    if how == "preferred":
        connection.negotiation.set_known_brokers([{"brokers": [{"identity": "x", "backend": endpoint}]}], "x")
        connection._watched("disconnected", "")
    else:
        connection.negotiation._dial(Target(endpoint, "", "x"), 0.0)
        connection._perform(connection.negotiation._take())
    pump.until(lambda: "group_config names no public_key of the broker x" in connection.trouble)
    assert connection.trouble.startswith(endpoint)
    pump.until(lambda: worker.state is State.ACTIVE)
    assert (connection.negotiation.target.endpoint, heard) == (given, [])
    worker.stopService()
    trap.close()


@pytest.mark.parametrize("endpoint, called", [("tcp://127.0.0.1:9", True), ("tcp://192.0.2.1:9", False)])
def test_a_network_on_this_machine_without_curve_goes_on_though_there_is_a_pair(pump, endpoint, called):
    """A network of this machine goes on without CURVE; beyond it nothing is called without."""
    keys = connection_module.Keys(*new_keys())
    connection = connection_module.Connection(
        pump.reactor, "backend", "w", ["tcp://127.0.0.1:8"], *[lambda *_: None] * 3, keys=keys
    )
    if called:
        assert connection._security_for(Target(endpoint)) is None
    else:
        with pytest.raises(KeyFault, match="names no public_key of the broker there"):
            connection._security_for(Target(endpoint))
    assert connection._security_for(Target("tcp://127.0.0.1:8")) is None


def test_a_worker_whose_key_was_taken_away_calls_again_with_its_new_one(pump, guarded, worker, ring, tmp_path):
    """A refusal is for good as long as its key is the same (F34)."""
    new = Pair(*new_keys())
    write_key(tmp_path / "admitted", "w", new.public)
    pump.until(lambda: worker.state is State.STOPPED)
    assert "401" in worker.connection.trouble
    pump.sit(0.5)
    assert worker.state is State.STOPPED
    ring.own = new
    pump.until(lambda: worker.state is State.ACTIVE)
    assert worker.connection.trouble == ""


def test_a_stopped_worker_looks_for_no_keys(pump, guarded, worker, ring, tmp_path):
    """A stopped worker stays stopped although its keys change (F34)."""
    write_key(tmp_path / "admitted", "w", new_keys()[0])
    pump.until(lambda: worker.state is State.STOPPED)
    worker.stopService()
    ring.own = Pair(*new_keys())
    pump.sit(0.3)
    assert worker.state is State.STOPPED


# ----------------------------------------------------------------------- the folder of authorized keys


@pytest.mark.parametrize(
    "files, found",
    [
        ({"b.key": ("b", 1)}, 1),
        ({"b.pub.key": ("b", 1)}, 1),
        ({"b.key": ("", 1)}, 1),
        ({"b.key": ("b", 1), "b.pub.key": ("b", 2)}, 1),
        ({"other.key": ("b", 1)}, 1),
        ({"other.key": ("b", 1), "b.key": ("other", 2)}, 1),
        ({"b.key": ("other", 1)}, None),
        ({"x.key": ("x", 1)}, None),
        ({}, None),
    ],
)
def test_the_key_of_a_name_is_read_as_the_folder_names_it(tmp_path, files, found):
    """The key is read from the same file that the start took it from, with its content of now (F34)."""
    pairs = {number: new_keys()[0] for number in (1, 2)}
    again = {number: new_keys()[0] for number in (1, 2)}

    def write(keys: dict[int, str]) -> None:
        for file, (identity, number) in files.items():
            (tmp_path / file).write_text(text_of(Pair(keys[number], ""), identity, with_secret=False))

    write(pairs)
    folder = AuthorizedKeys(tmp_path)
    write(again)
    if found is None:
        with pytest.raises(KeyFault, match=r"b\.key has to be there"):
            folder.read_key_of("b")
    else:
        assert folder.key_of("b") == pairs[found] and folder.read_key_of("b") == again[found]
    with pytest.raises(KeyFault):
        folder.read_key_of("../b")


# ------------------------------------------------------------------------------------- ZeroTask's link


def serve(pump, pair: Pair, admitted: set[str], at: str = "tcp://127.0.0.1:*"):
    network = Network.of(pump.reactor)
    network.admit("tasks", lambda caller: caller.key in admitted)
    heard: list[bytes] = []
    socket = network.socket(
        Kind.ROUTER, lambda frames, _: heard.append(frames[-1]), domain="tasks", security=CurveServer(pair.secret)
    )
    return socket, socket.bind(at), heard


def test_a_link_of_zerotask_takes_new_keys_of_both_ends(pump, ring):
    """The link takes new keys of the broker, and its own, which the broker did not know at first; it tells the trouble
    meanwhile (F34).
    """
    pair, admitted = Pair(*new_keys()), set()
    socket, end, heard = serve(pump, pair, admitted)
    write_key(ring.folder, "b", pair.public)
    renewed: list[int] = []
    link = SocketLink(pump.reactor, end, ring.security)
    link.open(lambda text: None, lambda: renewed.append(1))
    pump.until(lambda: "keys do not match" in link.trouble)
    admitted.add(ring.own.public)
    pump.until(lambda: renewed)
    assert link.trouble == "" and link.send(b"one")
    pump.until(lambda: heard == [b"one"])
    socket.close()
    pump.until(lambda: "was lost" in link.trouble)
    pair = Pair(*new_keys())
    socket, _, heard = serve(pump, pair, admitted, end)
    pump.until(lambda: "keys do not match" in link.trouble)
    (ring.folder / "b.key").unlink()
    pump.until(lambda: "b.key has to be there" in link.trouble)
    write_key(ring.folder, "b", pair.public)
    ring.own = Pair(*new_keys())
    admitted.add(ring.own.public)
    pump.until(lambda: len(renewed) == 2)
    assert link.trouble == "" and link.send(b"two")
    pump.until(lambda: heard == [b"two"])
    link.close()
    assert not [call for call in pump.reactor.getDelayedCalls() if "_look_at_keys" in str(call)]
