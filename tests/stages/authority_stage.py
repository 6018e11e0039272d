"""Runs an authority without a reactor: answers of its store's thread wait in an inbox until the test looks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from inbox import Inbox

from helen.identity.authority import Authority
from helen.identity.enrolment_documents import Enrolled
from helen.identity.join_tokens import USUAL_SECONDS
from helen.storage import agent_rows
from helen.storage.database import Store
from helen.storage.token_rows import Terms


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


NOW = float(int(time.time()))  # the TLS library looks at the real clock, so the tests' now is about the real one
DAY = 86_400.0


@attrs.frozen
class Agent:
    """Holds a key with a certificate, as an agent holds them."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def csr_of(key: Any, *names: x509.GeneralName) -> str:
    """Return a signing request that asks for everything an agent shouldn't have."""
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "admin")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("helen"), *names]), critical=False)
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, digest).public_bytes(serialization.Encoding.PEM).decode()


class AuthorityStage:
    """Holds an authority with its store, and enrols agents there in few words."""

    def __init__(self, state: Path, inbox: Inbox, now: float = NOW) -> None:
        self.state, self.wait = state, inbox.wait
        self.store = Store(state, inbox)
        self.authority = Authority.open(state, self.store, self.store.open(now), ["helen.example"], now)

    def token(self, name: str | None = None, now: float = NOW, **more: Any) -> str:
        """Return a new token, with more terms of its own; `ttl` is in seconds."""
        ttl, by = more.pop("ttl", USUAL_SECONDS), more.pop("by", "operator")
        return str(self.wait(self.authority.tokens.make(Terms(name, **more), now, ttl, by)))

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
        """Return who did what to whom and how, the oldest first."""
        entries = reversed(self.wait(self.store.call(agent_rows.audit_page)))
        return [(one.actor, one.action, one.subject, one.detail) for one in entries]

    def store_agents(self) -> tuple[agent_rows.Agent, ...]:
        """Return the agents that Helen would list at its start."""
        found: tuple[agent_rows.Agent, ...] = self.wait(self.store.call(agent_rows.agents))
        return found

    def close(self) -> None:
        if self.store.is_open:
            self.wait(self.store.close())


def agent(key: Any, enrolled: Enrolled) -> Agent:
    return Agent(key, x509.load_pem_x509_certificate(enrolled.certificate.encode()))


@pytest.fixture
def stages(tmp_path: Path, inbox: Inbox) -> Iterator[Callable[..., AuthorityStage]]:
    """Makes open stages, in tmp_path/NAME, and closes them."""
    opened: list[AuthorityStage] = []

    def open_one(name: str = "state", now: float = NOW) -> AuthorityStage:
        opened.append(AuthorityStage(tmp_path / name, inbox, now))
        return opened[-1]

    yield open_one
    for stage in opened:
        stage.close()


@pytest.fixture
def stage(stages: Callable[..., AuthorityStage]) -> AuthorityStage:
    return stages()


@pytest.fixture(scope="session")
def request_of() -> Callable[..., str]:
    return csr_of


@pytest.fixture(scope="session")
def now() -> float:
    return NOW


@pytest.fixture(scope="session")
def make_stage() -> Callable[[Path], AuthorityStage]:
    """Return what makes a stage: a property makes one for each example and closes it itself."""
    return lambda state: AuthorityStage(state, Inbox())
