"""Provide a Helen over a transport in memory, and a sandbox that answers when it is told to."""

import datetime
import hashlib
import ipaddress
import json

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from twisted.internet.defer import maybeDeferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from equus.agent import Agent
from equus.agent_parts import Parts
from equus.code.agent_upgrade import Upgrader
from equus.code.agent_versions import AgentVersions
from equus.code.library import EMPTY_SET, LibraryStore, read_folder
from equus.code.update import CodeSource, Updater
from equus.identity.identity import Identity
from equus.identity.identity_store import IdentityStore
from equus.identity.new_keys import key_pem
from equus.link.connection import Connection
from equus.link.route import Route
from equus.policy.policy import Policy, PolicyInForce
from equus.sessions.membership import Membership
from equus.settings import Settings, parse_server
from equus.spool.spool import Spool
from equus.spool.spool_thread import SpoolThread
from equus_protocol import messages as m
from equus_protocol.conversation import Conversation, Role

DAY = datetime.timedelta(days=1)
WALL = 1_800_000_000.0  # unix seconds when a Clock says 0


class Transport(StringTransport):
    """Remembers how it was ended, and ends at once."""

    ended = None

    def loseConnection(self):
        self.ended = self.ended or "lost"
        super().loseConnection()

    def abortConnection(self):
        self.ended = "aborted"
        self.disconnecting = True

    def resumeProducing(self):
        if not self.disconnecting and self.ended is None:
            super().resumeProducing()


class Ear:
    """Stand in for a Listener, and keep each event."""

    def __init__(self):
        self.events = []

    def accepted(self, connection):
        self.events.append("accepted")

    def heard(self, connection, message):
        self.events.append(message)

    def writable(self, connection):
        self.events.append("writable")

    def lost(self, connection, reason):
        self.events.append("lost")


class Helen:
    """Stand in for Helen at the other end of one Connection."""

    def __init__(self, clock, listener, version=2):
        self.clock = clock
        self.conversation = Conversation(Role.HELEN)
        self.transport = Transport()
        greet = lambda connection: connection.send(m.Hello(version, "0.1"))  # noqa: E731
        self.can_switch = False
        self.equus = Connection(listener, clock, greet, is_secure=False, can_switch=lambda: self.can_switch)
        self.equus.makeConnection(self.transport)

    def say(self, *messages):
        """Send all messages in one segment, and return the answers of this turn."""
        self.say_bytes(b"".join(self.conversation.send(message) for message in messages))
        return self.hear()

    def say_bytes(self, data):
        self.equus.dataReceived(data)

    def hear(self):
        """Return what the agent has said since the last time."""
        self.clock.advance(0)
        self.conversation.feed(self.transport.value())
        self.transport.clear()
        heard = []
        while (message := self.conversation.next_message()) is not None:
            heard.append(message)
        return heard


class FakeRun:
    def __init__(self, runner, job, done):
        self.runner, self.job, self._done = runner, job, done
        self.reason = None

    def finish(self, **document):
        self.runner.running.remove(self)
        self._done(json.dumps({"status": "ok", "check": self.job.check, "code": self.job.code, **document}).encode())

    def cancel(self, reason="cancelled"):
        if self in self.runner.running:
            self.reason = reason
            self.finish(status="unknown", reason=reason)


class FakeRunner:
    """Runs nothing; tests finish what was started. Files with `broken` in them don't compile."""

    isolation, kills, waiting, unbound_secrets = "strong", 0, 0, ()

    def __init__(self):
        self.running, self.inspected, self.stopped = [], [], False

    def run(self, job, done):
        self.running.append(FakeRun(self, job, done))
        return self.running[-1]

    def inspect(self, source, libraries, done):
        self.inspected.append(source)
        if self.stopped:
            done({"error": "cancelled: the agent is stopping", "line": None, "untried": True})
        else:
            done({"error": "'=' expected", "line": 1} if b"broken" in source else {"summary": "good"})

    def reload(self, policy):
        self.policy = policy

    def stop(self):
        self.stopped = True
        for run in list(self.running):
            run.cancel()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ear():
    return Ear()


@pytest.fixture
def runner():
    return FakeRunner()


@pytest.fixture
def meet(clock):
    """Makes a Helen with an agent's connection: meet(listener, version=2)."""
    return lambda listener, version=2: Helen(clock, listener, version)


class HandWriter(SpoolThread):
    """Write the spool without a thread: nothing is durable before `work`."""

    def __init__(self, spool):
        super().__init__(spool, lambda call, *arguments: call(*arguments), self._no)

    def start(self):
        pass

    def work(self):
        while not self._commands.empty():
            self._batch()

    def _no(self, failure):
        raise failure


def at_once(call, *arguments):
    """Stand in for deferToThread without a thread."""
    return maybeDeferred(call, *arguments)


class MemoryAgent:
    """Hold an Agent in memory, and connect it to one Helen after the other."""

    def __init__(self, clock, runner, state, identity=None, has_upgrader=False, newest=None, **settings):
        state.mkdir(exist_ok=True)
        self.clock, self.runner, self.state = clock, runner, state
        self.wall = lambda: WALL + clock.seconds()
        self.said, self.finished, self.is_closed = [], [], False
        settings.setdefault("insecure_plaintext", True)
        self.settings = Settings((parse_server("helen.example"),), state, labels={"role": "web"}, **settings)
        self.identities = IdentityStore(state)
        self.route = Route(self.settings.servers)
        self.writer = HandWriter(Spool(state / "spool"))
        store = LibraryStore(state)
        folder = self.settings.checks
        held = None if folder else store.load()
        checks = read_folder(folder) if folder else (held.checks if held else EMPTY_SET)
        read = (lambda: read_folder(folder)) if folder else None
        self.membership = Membership(self.settings, identity, self.identities, lambda: self.wall(), at_once)
        self.policy = PolicyInForce(Policy.parse(b"", None))
        upgrader = Upgrader(AgentVersions(state), "0.1", self.policy, at_once) if has_upgrader else None
        self.updater = Updater(
            CodeSource(checks, store, held, read), runner.inspect, self.membership.trusted_keys, self.policy, upgrader,
            self.wall, at_once, clock.seconds,
        )  # fmt: skip
        parts = Parts(
            clock, self.wall, runner, self.writer, self.updater, self.policy, self.membership, self.route, "0.1",
            self.said.append, lambda *end: self.finished.append(end), at_once, newest=newest,
        )  # fmt: skip
        self.agent = Agent(self.settings, parts)
        self.agent._dialler.start = lambda: None  # nobody is dialled here
        self.agent.start()

    def meet(self):
        """Return the next Helen, which has heard hello."""
        helen = Helen.__new__(Helen)
        helen.clock, helen.conversation, helen.transport = self.clock, Conversation(Role.HELEN), Transport()
        helen.equus = self.agent._make_connection()
        helen.equus.makeConnection(helen.transport)
        helen.hello = helen.hear()
        return helen

    def meet_in_clear(self):
        """Return a Helen whose TLS handshake is only claimed, because other tests make a real one."""
        helen = self.meet()
        helen.equus.handshakeCompleted()
        helen.hello = helen.hear()
        return helen

    def part(self, helen):
        helen.equus.connectionLost()

    def close(self):
        for call in list(self.clock.getDelayedCalls()):  # the clock's own list gets shorter meanwhile
            call.cancel()
        if not self.is_closed:
            self.writer.work()
            self.writer._spool.close()
        self.is_closed = True


@pytest.fixture
def memory_agent(clock, runner, tmp_path):
    """Makes an agent: memory_agent(checks=FOLDER, ...)."""
    memory_agents = []

    def make(**settings):
        memory_agents.append(MemoryAgent(clock, runner, tmp_path / "state", **settings))
        return memory_agents[-1]

    yield make
    for made in memory_agents:
        made.close()


def lua(text):
    return f'return {{ summary = "{text}", run = function() return "ok" end }}\n'


@pytest.fixture
def folder(tmp_path):
    """Write a folder with two checks and a library, and return it."""
    folder = tmp_path / "checks"
    (folder / "lib").mkdir(parents=True)
    (folder / "load.lua").write_text(lua("load"))
    (folder / "disk.lua").write_text(lua("disk"))
    (folder / "lib" / "text.lua").write_text("return {}\n")
    (folder / ".hidden.lua").write_text("broken")
    return folder


class Authority:
    """Sign certificates for the tests as a CA."""

    def __init__(self, name="test CA"):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._sign(self.name, self.key.public_key(), [], is_ca=True)
        self.pem = self.certificate.public_bytes(Encoding.PEM)
        self.sha256 = hashlib.sha256(self.certificate.public_bytes(Encoding.DER)).hexdigest()

    def _sign(self, subject, public_key, sans, start=-DAY, end=DAY, is_ca=False, purposes=()):
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(public_key)
        builder = builder.serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now + start).not_valid_after(now + end)
        builder = builder.add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        if sans:
            builder = builder.add_extension(x509.SubjectAlternativeName(sans), critical=False)
        if purposes:
            builder = builder.add_extension(x509.ExtendedKeyUsage(list(purposes)), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def issue(self, sans, key=None, **life):
        """Return a certificate and its key as PEM."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody")])
        return self._sign(subject, key.public_key(), sans, **life).public_bytes(Encoding.PEM), key_pem(key)

    def server(self, *names, **life):
        return self.issue([_general_name(name) for name in names], **life)

    def agent(self, name, **life):
        return self.issue([x509.UniformResourceIdentifier(f"urn:equus:agent:{name}")], **life)

    def identity(self, name, **life):
        certificate, key = self.agent(name, **life)
        return Identity.of(certificate, key, self.pem, "test")

    def answer(self, csr, name=None, signing_keys=b""):
        """Return Helen's answer to `enrol`."""
        request = x509.load_pem_x509_csr(csr.encode())
        sans = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        if name is not None:
            sans = [x509.UniformResourceIdentifier(f"urn:equus:agent:{name}")]
        certificate = self._sign(request.subject, request.public_key(), list(sans)).public_bytes(Encoding.PEM)
        document = {"certificate": certificate.decode(), "ca": self.pem.decode(), "renew_after": 0}
        return json.dumps({**document, "signing_keys": signing_keys.decode()}).encode()


def _general_name(name):
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


@pytest.fixture(scope="session")
def authority():
    return Authority()


@pytest.fixture(scope="session")
def other_authority():
    """Make an authority of the same name, as an attacker would have it."""
    return Authority()
