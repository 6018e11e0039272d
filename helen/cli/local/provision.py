"""Make CA, signing key and the local agent's identity before anything runs, so that both can start at the same time.

They are made as Helen and `helen certificate` would make them.
"""

from __future__ import annotations

import time
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from groundwork.atomic_write import PUBLIC, write_durably
from helen.cli.local import first_checks
from helen.files.state_dir import Lock
from helen.keys import ca_files, certificates, signing_keys


def provision(state: Path, agent: Path, name: str, listen: str) -> None:
    """Fill the state of a Helen and of one agent; blocks. Raises StateError if a Helen runs there already."""
    lock = Lock(state)
    try:
        first_checks.fill(state / "checks")
        if not (agent / "agent.pem").exists():
            make_identity(state, agent, name, listen)
    finally:
        lock.release()


def make_identity(state: Path, agent: Path, name: str, listen: str) -> None:
    """Write an identity that Helen's CA has signed, and admit it by Helen's folder, which is read before it listens."""
    now = time.time()
    material = ca_files.prepare(state / "ca", ca_files.server_hosts(("localhost",), listen), now)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = certificates.agent_certificate(material.ca, material.ca_key, key.public_key(), name, now)
    pem = certificates.pem(certificate).encode()
    write_durably(state / "ca" / "admitted" / f"{name}.pem", pem, PUBLIC)
    agent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_durably(agent / "ca.pem", certificates.pem(*material.bundle).encode(), PUBLIC)
    write_durably(agent / "signing-keys.pem", signing_keys.load(state).pem().encode(), PUBLIC)
    write_durably(agent / "agent.key", ca_files.key_pem(key))
    write_durably(agent / "agent.pem", pem, PUBLIC)  # last: if it exists, all of them do
