"""`helen token`, `helen certificate`, `helen revoke`: who may be an agent."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from helen.cli.client import Client
from helen.cli.options import for_a_helen, output, print_json


@click.command()
@click.option("--agent", metavar="NAME", help="The only agent that may use it.")
@click.option("--ttl", default="1h", show_default=True, help="How long it is good for.")
@output
@for_a_helen
def token(client: Client, agent: str | None, ttl: str, as_json: bool) -> None:
    """Print the line that makes a machine an agent: it holds a token that is good once."""
    made = client.post("/api/v1/tokens", {"agent": agent, "ttl": ttl})
    join = f"equus --server {made['address']} --join {made['token']}"
    join += f" --name {shlex.quote(agent)}" if agent else ""
    if as_json:
        print_json(made | {"join": join})
    else:
        click.echo(join)


@click.command()
@click.argument("name")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for agent.pem, agent.key, ca.pem.")
@output
@for_a_helen
def certificate(client: Client, name: str, out: Path, as_json: bool) -> None:
    """Make an identity for NAME without a token. The private key is made here and goes nowhere."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name[:64])])
    csr = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    issued = client.post("/api/v1/certificates", {"name": name, "csr": csr.public_bytes(Encoding.PEM).decode()})
    out.mkdir(parents=True, exist_ok=True)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    for file, content, mode in (
        ("agent.key", pem, 0o600),
        ("agent.pem", issued["certificate"], 0o644),
        ("ca.pem", issued["ca"], 0o644),
        ("signing-keys.pem", issued["signing_keys"], 0o644),
    ):
        _write(out / file, content, mode)
    words = ["equus", "--server", issued["address"], "--certificate", str(out / "agent.pem")]
    words += ["--key", str(out / "agent.key"), "--ca", str(out / "ca.pem"), "--state", "DIR"]
    if as_json:
        print_json({"name": name, "folder": str(out), "renew_after": issued["renew_after"], "run": shlex.join(words)})
    else:
        click.echo(f"Wrote the identity of {name} into {out}. On its machine:\n{shlex.join(words)}")


def _write(path: Path, content: str, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(descriptor, mode)
        file.write(content)


@click.command()
@click.argument("name")
@output
@for_a_helen
def revoke(client: Client, name: str, as_json: bool) -> None:
    """Shut NAME out: its certificates are worth nothing from now on, and its connection ends."""
    done = client.post(f"/api/v1/agents/{name}/revoke")
    if as_json:
        print_json(done)
    else:
        click.echo(f"{name} is shut out ({done['revoked']} certificates). `helen certificate {name}` lets it back in.")
