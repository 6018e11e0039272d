"""What `helen quickstart` lays out before anything runs, so that Helen and the agent can start at the same moment.

A CA, a signing key and an identity for the local agent, as Helen and `helen certificate` would make them; and the first
few checks, so that the first set is judged in no time. The other checks follow once that one is live (`complete`).
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

import helen_checks
from helen import ca_folder, certificates, signing
from helen.statedir import PUBLIC, Lock, write_whole

FIRST = ("load.lua", "memory.lua", "uptime.lua")  # quick to judge, quick to run, and granted by every policy
_FILLING = ".filling"  # in the folder of checks while the others are still to come


def provision(state: Path, agent: Path, name: str, listen: str) -> None:
    """Blocking. Raises StateError, with its sentence, if a Helen runs there already."""
    lock = Lock(state)
    try:
        fill_first(state / "checks")
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


def fill_first(folder: Path) -> None:
    """The first few, if there is no folder yet."""
    if folder.exists():
        return
    (folder / "lib").mkdir(parents=True)
    (folder / _FILLING).touch()
    for name in (*FIRST, *(f"lib/{path.name}" for path in Path(helen_checks.FOLDER, "lib").glob("*.lua"))):
        shutil.copyfile(helen_checks.FOLDER / name, folder / name)


def complete(folder: Path) -> None:
    """All others, unless they came before: what somebody has deleted since stays deleted."""
    if not (folder / _FILLING).exists():
        return
    for source in sorted(Path(helen_checks.FOLDER).rglob("*.lua")):
        target = folder / source.relative_to(helen_checks.FOLDER)
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(source, target.with_name(f".{target.name}.new"))
            target.with_name(f".{target.name}.new").rename(target)
    (folder / _FILLING).unlink()
