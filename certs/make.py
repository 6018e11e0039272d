#!/usr/bin/env python3
"""Makes certificates by hand, for those who don't enrol by token: a CA, Helen's server certificate, agents' ones.

    python certs/make.py ca                     DIR/ca.pem, DIR/ca.key
    python certs/make.py server HOST ...        DIR/server.pem (certificate and key)
    python certs/make.py agent NAME             DIR/NAME.pem, DIR/NAME.key
    python certs/make.py renew ca|server|NAME   the same again; the old files are kept beside the new

The rules are Helen's own (helen.keys.certificates); keys are 0600; nothing is ever overwritten. certs/README.rst
explains when to use which. It talks to no Helen: what she shall know must be put into STATE/ca.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from groundwork.atomic_write import PRIVATE, PUBLIC, write_durably
from helen.files.state_dir import StateError, make_folder
from helen.keys import ca_files, certificates
from helen.keys.certificates import BadRequest, PrivateKey


class Refused(Exception):
    """What is not done, as one sentence."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status; what was written goes to stdout, a refusal to stderr."""
    chosen = _options().parse_args(arguments)
    try:
        make_folder(chosen.out)
        for path in chosen.make(chosen, time.time()):
            print(path)
    except (Refused, BadRequest, StateError, OSError) as error:
        print(f"make.py: {error}", file=sys.stderr)
        return 1
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make.py", description="Makes certificates for Helen and Equus by hand.")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--out", type=Path, default=Path("."), metavar="DIR", help="where the files are (default: .)")
    kinds = parser.add_subparsers(required=True, metavar="ca | server | agent | renew")
    ca = kinds.add_parser("ca", parents=[common], help="a new CA, for ten years")
    ca.set_defaults(make=make_ca)
    server = kinds.add_parser("server", parents=[common], help="Helen's certificate, for ninety days")
    server.add_argument("hosts", nargs="+", metavar="HOST", help="host names and addresses by which agents reach her")
    server.set_defaults(make=make_server)
    agent = kinds.add_parser("agent", parents=[common], help="an agent's certificate, for seven days")
    agent.add_argument("name", metavar="NAME")
    agent.set_defaults(make=make_agent)
    renew = kinds.add_parser("renew", parents=[common], help="the same again, with a new key (the CA keeps its key)")
    renew.add_argument("what", metavar="ca | server | NAME")
    renew.set_defaults(make=renew_one)
    return parser


def make_ca(chosen: argparse.Namespace, now: float) -> list[Path]:
    """A key and its certificate."""
    path, key_path = _free(chosen.out / "ca.pem"), _free(chosen.out / "ca.key")
    key = ec.generate_private_key(ec.SECP256R1())
    write_durably(key_path, ca_files.key_pem(key), PRIVATE)
    write_durably(path, certificates.pem(certificates.new_ca(key, now)).encode(), PUBLIC)
    return [path, key_path]


def make_server(chosen: argparse.Namespace, now: float) -> list[Path]:
    """Certificate and key in one file, as Helen keeps them."""
    path = _free(chosen.out / "server.pem")
    ca, ca_key = _ca(chosen.out, now)
    key = ec.generate_private_key(ec.SECP256R1())
    made = certificates.server_certificate(ca, ca_key, key.public_key(), chosen.hosts, now)
    write_durably(path, ca_files.key_pem(key) + certificates.pem(made).encode(), PRIVATE)
    return [path]


def make_agent(chosen: argparse.Namespace, now: float) -> list[Path]:
    """Certificate and key as `equus --certificate --key` take them."""
    name = certificates.checked_name(chosen.name)
    if name in ("ca", "server"):
        raise Refused(f"an agent called {name} would get the file names of the {name}: give --out another folder.")
    path, key_path = _free(chosen.out / f"{name}.pem"), _free(chosen.out / f"{name}.key")
    ca, ca_key = _ca(chosen.out, now)
    key = ec.generate_private_key(ec.SECP256R1())
    made = certificates.agent_certificate(ca, ca_key, key.public_key(), name, now)
    write_durably(key_path, ca_files.key_pem(key), PRIVATE)
    write_durably(path, certificates.pem(made).encode(), PUBLIC)
    return [path, key_path]


def renew_one(chosen: argparse.Namespace, now: float) -> list[Path]:
    """Put the old files aside under the day of their end, then make them anew."""
    path = chosen.out / f"{chosen.what}.pem"
    if not path.exists():
        raise Refused(f"{path} is not there: there is nothing to renew.")
    old = ca_files.load_certificates(path)[0]
    if chosen.what == "ca":
        return _renew_ca(path, old, now)
    _ca(chosen.out, now)  # refused before anything is moved
    if chosen.what == "server":
        chosen.hosts = [str(name.value) for name in _names(old)]
        _aside(path, old)
        return make_server(chosen, now)
    chosen.name = certificates.name_in(old)
    for one in (path, path.with_suffix(".key")):
        _aside(one, old)
    return make_agent(chosen, now)


def _renew_ca(path: Path, old: x509.Certificate, now: float) -> list[Path]:
    """The same key and name for ten more years: what it has signed stays good."""
    key = ca_files.load_key(path.with_suffix(".key"))
    if key.public_key() != old.public_key():
        raise Refused(f"{path} is not the certificate of {path.with_suffix('.key')}.")
    _aside(path, old)
    write_durably(path, certificates.pem(certificates.new_ca(key, now)).encode(), PUBLIC)
    return [path]


def _aside(path: Path, old: x509.Certificate) -> None:
    end = datetime.fromtimestamp(certificates.until(old), UTC)
    target = path.with_name(f"{path.stem}.until-{end:%Y%m%dT%H%M%SZ}{path.suffix}")
    path.rename(_free(target))


def _free(path: Path) -> Path:
    if path.exists():
        raise Refused(f"{path} is there already and is not overwritten: renew it, or move it away.")
    return path


def _ca(folder: Path, now: float) -> tuple[x509.Certificate, PrivateKey]:
    if not (folder / "ca.key").exists() or not (folder / "ca.pem").exists():
        raise Refused(f"{folder} has no ca.pem and ca.key: make a CA first (make.py ca --out {folder}).")
    key, certificate = ca_files.load_key(folder / "ca.key"), ca_files.load_certificates(folder / "ca.pem")[0]
    if certificate.public_key() != key.public_key():
        raise Refused(f"{folder}/ca.pem is not the certificate of {folder}/ca.key.")
    return ca_files.checked_ca(certificate, now), key


def _names(certificate: x509.Certificate) -> x509.SubjectAlternativeName:
    return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value


if __name__ == "__main__":
    sys.exit(main())
