"""Tests TLS of --web: a pair of PEM files, read again when they change; plain HTTP off loopback is reported."""

from __future__ import annotations

import datetime
import hashlib
import http.client
import json
import os
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from helen_running import Running, wait_until
from web_client import ask

from helen.files.state_dir import StateError
from helen.ports import is_loopback
from helen.settings.settings import SettingsError, gather, read
from helen.web.connections.web_tls import HSTS, WebTLS


def make_pair(folder: Path, name: str = "localhost", password: bytes | None = None) -> tuple[Path, Path]:
    """Write a self-signed certificate, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
    made = made.not_valid_after(now + datetime.timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), False)
    lock = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    files = (folder / "web.crt", folder / "web.key")
    for path, content in zip(
        files,
        (
            made.sign(key, hashes.SHA256()).public_bytes(pem),
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, lock),
        ),
        strict=True,
    ):
        new = path.with_suffix(".new")
        new.write_bytes(content)
        os.replace(new, path)
    return files  # fmt: skip


@pytest.mark.parametrize("fault", ["no file", "no PEM", "another key", "a password", "swapped"])
def test_a_pair_that_is_none(tmp_path: Path, fault: str) -> None:
    """A pair of files that cannot be used is refused by a sentence that names them, without a prompt."""
    cert, key = make_pair(tmp_path, password=b"x" if fault == "a password" else None)
    if fault == "no file":
        key.unlink()
    elif fault == "no PEM":
        cert.write_text("nothing")
    elif fault == "another key":
        old = key.read_bytes()
        make_pair(tmp_path)
        key.write_bytes(old)
    pair = (key, cert) if fault == "swapped" else (cert, key)
    with pytest.raises(StateError, match=r"--web-tls: .*web\.key") as refused:
        WebTLS(pair)
    assert ("can't be read: No such file" in str(refused.value)) is (fault == "no file")


def test_the_setting(tmp_path: Path) -> None:
    """--web-tls is two files with a comma between, relative to the working folder."""
    found = read(gather({"state": str(tmp_path), "web-tls": "a.pem, /b/c.pem"}, {}, None))
    assert found.web_tls == (Path.cwd() / "a.pem", Path("/b/c.pem"))
    for wrong in ("a.pem", "a,b,c", ",", "a,"):
        with pytest.raises(SettingsError, match="write CERT,KEY"):
            read(gather({"state": str(tmp_path), "web-tls": wrong}, {}, None))


@pytest.mark.parametrize(
    ("address", "wanted"),
    [("127.0.0.1:1", True), ("127.9.9.9:1", True), ("[::1]:1", True), ("localhost:1", True), ("0.0.0.0:1", False),
     ("[::]:1", False), ("192.0.2.1:1", False), ("helen.example:1", False)],
)  # fmt: skip
def test_loopback(address: str, wanted: bool) -> None:
    """A bound address is loopback, or not."""
    assert is_loopback(address) is wanted


# ---------------------------------------------------------------------------------------------- a real one


@pytest.fixture(scope="module")
def helen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = make_pair(folder)
    running = Running(folder, "--web-tls", f"{cert},{key}").up()
    yield running
    running.end()


def connect(helen: Running) -> http.client.HTTPSConnection:
    context = ssl.create_default_context(cafile=str(helen.folder / "web.crt"))
    port = int(helen.run["web"].rpartition(":")[2])
    return http.client.HTTPSConnection("localhost", port, timeout=60, context=context)


def shown_certificate(helen: Running) -> bytes:
    """Return the hash of the certificate that a new connection gets."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, _, port = helen.run["web"].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as raw, context.wrap_socket(raw) as wrapped:
        return hashlib.sha256(wrapped.getpeercert(binary_form=True) or b"").digest()


def on_disk(helen: Running) -> bytes:
    der = ssl.PEM_cert_to_DER_cert((helen.folder / "web.crt").read_text())
    return hashlib.sha256(der).digest()


@pytest.mark.integration
def test_a_session_over_tls(helen: Running) -> None:
    """A session over TLS has links, cookies and Origin of HTTPS, and HSTS."""
    url = ask(helen, "POST", "/api/v1/sessions/links", {"name": "anna"}).json["url"]
    port = helen.run["web"].rpartition(":")[2]
    base, _, key = url.partition("#")
    assert base == f"https://localhost:{port}/login"
    statuses = []
    for origin in (f"http://localhost:{port}", f"https://localhost:{port}"):
        connection = connect(helen)
        connection.request("POST", "/login", json.dumps({"key": key}), {"origin": origin})
        answer = connection.getresponse()
        statuses.append(answer.status)
        assert answer.headers["strict-transport-security"] == HSTS
        cookie = answer.headers["set-cookie"]
        connection.close()
    assert statuses == [403, 200]
    value, _, marks = cookie.partition("; ")
    assert value.startswith("__Host-helen=")
    assert marks == "Path=/; HttpOnly; SameSite=Strict; Max-Age=604800; Secure"
    connection = connect(helen)
    connection.request("GET", "/api/v1/me", None, {"cookie": value})
    assert json.loads(connection.getresponse().read())["actor"] == "operator/anna"
    connection.close()


@pytest.mark.integration
def test_a_renewed_certificate(helen: Running) -> None:
    """A renewed certificate is used by new connections; a pair that cannot be used is reported, and the old one
    stays."""
    live = connect(helen)
    live.request("GET", "/healthz")
    live.getresponse().read()
    before = on_disk(helen)
    assert shown_certificate(helen) == before
    (helen.folder / "web.crt").write_text("half")
    helen.signal(signal.SIGHUP)
    wait_until(lambda: "The certificate of before stays in use" in helen.program.said, "complaint")
    assert shown_certificate(helen) == before
    make_pair(helen.folder)
    helen.signal(signal.SIGHUP)
    wait_until(lambda: shown_certificate(helen) == on_disk(helen) != before, "new certificate")
    live.request("GET", "/healthz")
    assert live.getresponse().status == 200
    live.close()
    assert helen.program.said.count("stays in use") == 1


@pytest.mark.integration
def test_urls_of_pings(helen: Running) -> None:
    """URLs of pings have the scheme of HTTPS."""
    text = '[[ping]]\nid = "nightly"\nevery = "1h"\ngrace = "1h"\n'
    assert ask(helen, "PUT", "/api/v1/passive", {"text": text}).status == 200
    found = ask(helen, "GET", "/api/v1/passive/pings/pings/nightly").json
    assert (found["scheme"], found["web"]) == ("https", helen.run["web"])


@pytest.mark.integration
def test_old_tls_is_refused(helen: Running) -> None:
    """A plain HTTP request to the TLS port gets no HTTP answer."""
    host, _, port = helen.run["web"].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b"HTTP/1." not in raw.recv(1_000)


@pytest.mark.integration
@pytest.mark.parametrize(("more", "warns"), [([], True), (["--web-plain"], False)])
def test_plain_http_for_others(tmp_path: Path, more: list[str], warns: bool) -> None:
    """Plain HTTP for other machines is reported at each start unless --web-plain, and tokens work."""
    helen = Running(tmp_path, "--web", "0.0.0.0:0", *more).up()
    try:
        wait_until(lambda: "the HTTP API is on http://0.0.0.0:" in helen.program.said, "address")
        port = int(helen.run["web"].rpartition(":")[2])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        token = (helen.state / "web.token").read_text().strip()
        connection.request("GET", "/api/v1/status", None, {"authorization": f"Bearer {token}"})
        assert connection.getresponse().status == 200
        connection.close()
        wait_until(lambda: ask(helen, "GET", "/healthz").status == 200, "answer")
        assert ("speaks plain HTTP to other machines" in helen.program.said) is warns
    finally:
        helen.end()
