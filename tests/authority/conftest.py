"""An authority without a reactor: what its store's thread sends back waits in an inbox until the test looks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import attrs
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from twisted.internet.defer import Deferred

from helen import records
from helen.authority import Authority
from helen.enrolment import Enrolled
from helen.store import Store

PATIENCE = 20.0  # seconds; only a broken thread comes near it


class Inbox:
    """Stands for reactor.callFromThread; `wait` turns it until a Deferred has fired."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...]]] = SimpleQueue()

    def __call__(self, function: Callable[..., Any], *args: Any) -> None:
        self._calls.put((function, args))

    def wait(self, deferred: Deferred[Any]) -> Any:
        """The Deferred's value; its failure is raised."""
        outcome: list[Any] = []
        deferred.addBoth(outcome.append)
        while not outcome:
            function, args = self._calls.get(timeout=PATIENCE)
            function(*args)
        if hasattr(outcome[0], "raiseException"):
            outcome[0].raiseException()
        return outcome[0]


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


NOW = float(int(time.time()))  # the TLS library looks at the real clock, so the tests' now is about the real one
DAY = 86_400.0


@attrs.frozen
class Agent:
    """A key with a certificate, as an agent holds them."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def csr_of(key: Any, *names: x509.GeneralName) -> str:
    """A signing request that asks for everything an agent shouldn't have."""
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "admin")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("helen"), *names]), critical=False)
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, digest).public_bytes(serialization.Encoding.PEM).decode()


class House:
    """An authority with its store, and the short ways to enrol somebody there."""

    def __init__(self, state: Path, inbox: Inbox, now: float = NOW) -> None:
        self.state, self.wait = state, inbox.wait
        self.store = Store(state, inbox)
        self.authority = Authority.open(state, self.store, self.store.open(now), ["helen.example"], now)

    def token(self, name: str | None = None, now: float = NOW, **more: Any) -> str:
        return str(self.wait(self.authority.make_token(now, name, **more)))

    def enrol(
        self, name: str, token: str | None = None, key: Any = None, address: str = "10.0.0.7", now: float = NOW
    ) -> Agent:
        key = key or ec.generate_private_key(ec.SECP256R1())
        token = self.token(name, now) if token is None else token
        return agent(key, self.wait(self.authority.enrol(name, token, csr_of(key), address, now)))

    def renew(self, held: Agent, name: str, key: Any = None, now: float = NOW) -> Agent:
        key = key or ec.generate_private_key(ec.SECP256R1())
        identity = self.authority.identify(held.certificate, now)
        return agent(key, self.wait(self.authority.renew(identity, name, csr_of(key), "10.0.0.7", now)))

    def audit(self) -> list[tuple[str, str, str, str]]:
        """Who did what to whom and how, the oldest first."""
        entries = reversed(self.wait(self.store.call(records.audit_page)))
        return [(one.actor, one.action, one.subject, one.detail) for one in entries]

    def close(self) -> None:
        if self.store.is_open:
            self.wait(self.store.close())


def agent(key: Any, enrolled: Enrolled) -> Agent:
    return Agent(key, x509.load_pem_x509_certificate(enrolled.certificate.encode()))


@pytest.fixture
def houses(tmp_path: Path, inbox: Inbox) -> Iterator[Callable[..., House]]:
    """Makes open houses, in tmp_path/NAME, and closes them."""
    opened: list[House] = []

    def open_one(name: str = "state", now: float = NOW) -> House:
        opened.append(House(tmp_path / name, inbox, now))
        return opened[-1]

    yield open_one
    for house in opened:
        house.close()


@pytest.fixture
def house(houses: Callable[..., House]) -> House:
    return houses()


@pytest.fixture(scope="session")
def request_of() -> Callable[..., str]:
    return csr_of


@pytest.fixture(scope="session")
def now() -> float:
    return NOW


@pytest.fixture(scope="session")
def make_house() -> Callable[[Path], House]:
    """For properties, which make a house for each example and close it themselves."""
    return lambda state: House(state, Inbox())
