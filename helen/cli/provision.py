"""What `helen quickstart` lays out before anything runs, so that Helen and the agent can start at the same moment.

A CA, a signing key and an identity for the local agent, as Helen and `helen certificate` would make them.
"""

from __future__ import annotations

import time
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from helen import ca_folder, certificates, signing
from helen.cli import first_checks
from helen.statedir import PUBLIC, Lock, write_whole


def provision(state: Path, agent: Path, name: str, listen: str) -> None:
    """Blocking. Raises StateError, with its sentence, if a Helen runs there already."""
    lock = Lock(state)
    try:
        first_checks.fill(state / "checks")
        if not (agent / "agent.pem").exists():
            make_identity(state, agent, name, listen)
    finally:
        lock.release()


def make_identity(state: Path, agent: Path, name: str, listen: str) -> None:
    """Signed by Helen's CA and admitted by way of its folder; she reads that before she accepts anybody."""
    now = time.time()
    material = ca_folder.prepare(state / "ca", ca_folder.server_hosts(("localhost",), listen), now)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = certificates.agent_certificate(material.ca, material.ca_key, key.public_key(), name, now)
    pem = certificates.pem(certificate).encode()
    write_whole(state / "ca" / "admitted" / f"{name}.pem", pem, PUBLIC)
    agent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(agent / "ca.pem", certificates.pem(*material.bundle).encode(), PUBLIC)
    write_whole(agent / "signing-keys.pem", signing.load(state).pem().encode(), PUBLIC)
    write_whole(agent / "agent.key", ca_folder.key_pem(key))
    write_whole(agent / "agent.pem", pem, PUBLIC)  # last: its being there says that all of them are
