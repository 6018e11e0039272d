"""Tests certs/make.py: what it makes works over real TLS, and it overwrites nothing."""

from __future__ import annotations

import re
import runpy
import ssl
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from helen.keys import ca_files, certificates

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "certs" / "make.py"
MAIN = runpy.run_path(str(SCRIPT))["main"]
DAY = 86_400.0


def make(folder: Path, *words: str) -> int:
    return int(MAIN([*words, "--out", str(folder)]))


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    folder = tmp_path / "pki"
    for words in (["ca"], ["server", "helen.example", "127.0.0.1"], ["agent", "web-1"]):
        assert make(folder, *words) == 0
    return folder


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificates(path.read_bytes())[0]


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> bytes | None:
    """Shake hands in memory by Python's own TLS, and return the certificate that the client has shown."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [server.wrap_bio(up, down, server_side=True), client.wrap_bio(down, up, server_hostname=host)]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    client_end, server_end = ends[1], ends[0]
    client_end.write(b"hello")
    assert server_end.read() == b"hello"
    return server_end.getpeercert(binary_form=True)


def contexts(pki: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pki / "server.pem")
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_cert_chain(pki / "web-1.pem", pki / "web-1.key")
    for context in (server, client):
        context.load_verify_locations(pki / "ca.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    return server, client


@pytest.mark.parametrize("host", ["helen.example", "127.0.0.1"])
def test_a_handshake(pki: Path, host: str) -> None:
    """Another TLS than ours accepts both ends, by host name and by address."""
    der = shake_hands(*contexts(pki), host)
    assert der is not None
    assert certificates.name_in(x509.load_der_x509_certificate(der)) == "web-1"


def test_a_handshake_after_renewals(pki: Path) -> None:
    """An agent's certificate of before is good under the renewed CA; so are renewed ones."""
    assert make(pki, "renew", "ca") == 0
    assert shake_hands(*contexts(pki), "helen.example")
    for what in ("server", "web-1"):
        assert make(pki, "renew", what) == 0
    assert shake_hands(*contexts(pki), "127.0.0.1")


def test_another_host(pki: Path) -> None:
    """A name that was not given is refused."""
    with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for 'other\.example'"):
        shake_hands(*contexts(pki), "other.example")


def test_an_agent_is_no_server(pki: Path) -> None:
    """An attacker on an agent cannot play Helen with its certificate."""
    server, client = contexts(pki)
    server.load_cert_chain(pki / "web-1.pem", pki / "web-1.key")
    client.check_hostname = False
    with pytest.raises(ssl.SSLCertVerificationError, match=r"(?i)purpose"):
        shake_hands(server, client, "web-1")


def test_files_and_modes(pki: Path) -> None:
    """A file that holds a key is the owner's alone."""
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in pki.iterdir()}
    private, public = 0o600, 0o644
    assert modes == {
        "ca.key": private,
        "ca.pem": public,
        "server.pem": private,
        "web-1.key": private,
        "web-1.pem": public,
    }


@pytest.mark.parametrize("words", [["ca"], ["server", "other.example"], ["agent", "web-1"]])
def test_nothing_is_overwritten(pki: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A second call is refused, and every file is as it was."""
    before = {path: path.read_bytes() for path in pki.iterdir()}
    assert make(pki, *words) == 1
    assert "is there already and is not overwritten" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in pki.iterdir()}


@pytest.mark.parametrize(
    "what, kept", [("ca", {"ca.pem"}), ("server", {"server.pem"}), ("web-1", {"web-1.pem", "web-1.key"})]
)
def test_renewal_keeps_the_old(pki: Path, what: str, kept: set[str]) -> None:
    """A renewal keeps old files under the time of their end; names stay, keys are new but for the CA's."""
    before = {name: (pki / name).read_bytes() for name in kept}
    old = certificate(pki / f"{what}.pem")
    assert make(pki, "renew", what) == 0
    aside = {path.name: path.read_bytes() for path in pki.iterdir() if ".until-" in path.name}
    assert {re.sub(r"\.until-\d{8}T\d{6}Z", "", name): content for name, content in aside.items()} == before
    new = certificate(pki / f"{what}.pem")
    assert (new.subject, new.serial_number == old.serial_number) == (old.subject, False)
    assert (new.public_key() == old.public_key()) is (what == "ca")


BAD = {
    "a bad name": (["agent", "No"], "no name for an agent"),
    "a name that is a file": (["agent", "ca"], "give --out another folder"),
    "a bad host": (["server", "a b"], "neither a host name"),
    "nothing to renew": (["renew", "web-9"], "there is nothing to renew"),
}


@pytest.mark.parametrize("title", BAD)
def test_what_is_refused(tmp_path: Path, title: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong call ends with one sentence and exit status 1, and makes no file."""
    assert make(tmp_path, "ca") == 0
    words, sentence = BAD[title]
    assert make(tmp_path, *words) == 1
    assert sentence in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ca.key", "ca.pem"]


def test_without_a_ca(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence says what to do first."""
    assert make(tmp_path, "agent", "web-1") == 1
    assert f"make a CA first (make.py ca --out {tmp_path})" in capsys.readouterr().err


def test_the_script_itself(tmp_path: Path) -> None:
    """The script runs as the README says, and prints what it wrote."""
    command = [sys.executable, str(SCRIPT), "ca", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path / 'ca.pem'}\n{tmp_path / 'ca.key'}\n"


def test_helen_takes_them(pki: Path, stages: Callable[..., Any], tmp_path: Path, now: float) -> None:
    """Helen takes the CA as its own, and the agent's certificate in admitted/, as the README says."""
    folder = tmp_path / "state" / "ca"
    (folder / "admitted").mkdir(parents=True)
    for name in ("ca.pem", "ca.key"):
        (pki / name).rename(folder / name)
    web = certificate(pki / "web-1.pem")
    (pki / "web-1.pem").rename(folder / "admitted" / "web-1.pem")
    stage = stages()
    stage.wait(stage.authority.refresh(now))
    assert stage.authority.identify(web, now).name == "web-1"
    assert stage.authority.material.ca == ca_files.load_certificates(folder / "ca.pem")[0]


def test_no_private_key_in_the_repository() -> None:
    """No file that git tracks holds a private key; the words of code that looks for them are no key."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    block = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{16}")
    paths = [ROOT / name.decode() for name in listed.split(b"\0") if name]
    assert len(paths) > 10
    assert [path for path in paths if path.is_file() and block.search(path.read_bytes())] == []
