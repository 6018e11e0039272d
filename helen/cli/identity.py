"""`helen token`, `helen certificate`, `helen revoke`: who may be an agent."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from urllib.parse import quote

import click
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from helen.certificates import BadRequest, checked_name
from helen.cli.client import Client, Failed
from helen.cli.options import for_a_helen, output, print_json
from helen.statedir import PRIVATE, PUBLIC, write_whole


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
@click.option("--force", is_flag=True, help="Replace an identity that lies in --out already.")
@output
@for_a_helen
def certificate(client: Client, name: str, out: Path, force: bool, as_json: bool) -> None:
    """Make an identity for NAME without a token. The private key is made here and goes nowhere."""
    check_place(name, out, force)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    csr = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    issued = client.post("/api/v1/certificates", {"name": name, "csr": csr.public_bytes(Encoding.PEM).decode()})
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    try:
        for file, content, mode in (
            ("agent.key", pem, PRIVATE),
            ("agent.pem", issued["certificate"], PUBLIC),
            ("ca.pem", issued["ca"], PUBLIC),
            ("signing-keys.pem", issued["signing_keys"], PUBLIC),
            ("root.json", issued.get("root"), PUBLIC),
        ):
            if content:
                write_whole(out / file, content.encode(), mode)
    except OSError as error:
        raise Failed(f"{out} can't be written: {error.strerror}. Make room, and ask again with --force") from error
    words = ["equus", "--server", issued["address"], "--certificate", str(out / "agent.pem")]
    words += ["--key", str(out / "agent.key"), "--ca", str(out / "ca.pem"), "--state", "DIR"]
    if as_json:
        print_json({"name": name, "folder": str(out), "renew_after": issued["renew_after"], "run": shlex.join(words)})
    else:
        click.echo(f"Wrote the identity of {name} into {out}. On its machine:\n{shlex.join(words)}")


def check_place(name: str, out: Path, force: bool) -> None:
    """Whatever would fail fails before Helen is asked: a certificate that nobody can keep is of no use."""
    try:
        checked_name(name)
    except BadRequest as error:
        raise click.BadParameter(str(error), param_hint="NAME") from error
    held = [file for file in ("agent.key", "agent.pem") if (out / file).exists()]
    if held and not force:
        raise Failed(f"{out / held[0]} is there already: --force replaces that identity, another --out keeps it")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failed(f"{out} can't be made: {error.strerror}") from error
    if not os.access(out, os.W_OK):
        raise Failed(f"{out} can't be written: give another --out")


@click.command()
@click.argument("name")
@output
@for_a_helen
def revoke(client: Client, name: str, as_json: bool) -> None:
    """Shut NAME out: its certificates are worth nothing from now on, and its connection ends."""
    done = client.post(f"/api/v1/agents/{quote(name, safe='')}/revoke")
    if as_json:
        print_json(done)
    else:
        click.echo(f"{name} is shut out ({done['revoked']} certificates). `helen certificate {name}` lets it back in,")
        click.echo(f"`helen agents forget {name}` takes it off the lists.")
