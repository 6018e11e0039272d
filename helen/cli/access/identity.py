"""Implement `helen certificate` and `helen revoke`, which admit agents and shut them out."""

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

from groundwork.atomic_write import PRIVATE, PUBLIC, write_durably
from groundwork.counts import count
from groundwork.terminal import echo
from helen.cli.base.client import Client, Failed
from helen.cli.base.options import for_a_helen, output, print_json
from helen.keys.certificates import BadRequest, checked_name


@click.command()
@click.argument("name")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for agent.pem, agent.key, ca.pem.")
@click.option("--force", is_flag=True, help="Replace the identity that is in --out already.")
@output
@for_a_helen
def certificate(client: Client, name: str, out: Path, force: bool, as_json: bool) -> None:
    """Make an identity for NAME without a token. The private key is made here and isn't sent.

    Exit status 1: an identity is there already, or the folder can't be written.
    """
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
                write_durably(out / file, content.encode(), mode)
    except OSError as error:
        raise Failed(f"{out} can't be written: {error.strerror}. Make room, and ask again with --force") from error
    words = ["equus", "--server", issued["address"], "--certificate", str(out / "agent.pem")]
    words += ["--key", str(out / "agent.key"), "--ca", str(out / "ca.pem"), "--state", "DIR"]
    if as_json:
        print_json({"name": name, "folder": str(out), "renew_after": issued["renew_after"], "run": shlex.join(words)})
    else:
        echo(f"Wrote the identity of {name} into {out}. On its machine:\n{shlex.join(words)}")


def check_place(name: str, out: Path, force: bool) -> None:
    """Find out whether the identity could be written, before Helen issues a certificate in vain.

    Raises BadParameter if the name is bad, and Failed if the folder holds an identity or can't be written.
    """
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
    """Shut NAME out: its certificates are no longer accepted, and its connection ends.

    Exit status 3: no agent has that name.
    """
    done = client.post(f"/api/v1/agents/{quote(name, safe='')}/revoke")
    if as_json:
        print_json(done)
    else:
        echo(
            f"{name} is shut out ({count(done['revoked'], 'certificate')}). `helen certificate {name}` lets it back in,"
        )
        echo(f"`helen agents forget {name}` takes it off the lists.")
