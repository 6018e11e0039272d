"""Test the call for TLS servers: it describes any certificate, and says if it is valid."""

import datetime
import ipaddress
import socket
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from equus.capabilities.calls import CallFailed
from equus.capabilities.streams.tls import describe


def certificate(folder, days: int = 30, name: str = "service.example"):
    """Write a self-signed certificate and its key, and return its PEM text and the path."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName(name)])
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(0x3F2A)
        .not_valid_before(now - datetime.timedelta(days=60))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    text = built.public_bytes(serialization.Encoding.PEM)
    encoding = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "c.pem").write_bytes(text + key.private_bytes(*encoding))
    return text.decode(), str(folder / "c.pem")


def tls_server(path: str, before=lambda connection: None):
    """Answer a connection with a few words, then a handshake."""
    settings = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    settings.load_cert_chain(path)

    def act(connection: socket.socket) -> None:
        before(connection)
        with settings.wrap_socket(connection, server_side=True) as wrapped:
            wrapped.recv(1)

    return act


def test_a_certificate_that_nobody_trusts_is_still_described(call, serve, tmp_path):
    """A certificate that is not trusted is described, with the reason beside it."""
    _, path = certificate(tmp_path)
    answer = call("tls", {"host": "127.0.0.1", "port": serve(tls_server(path)), "server_name": "service.example"})
    assert (answer["verified"], answer["verify_error"], answer["version"]) == (
        False,
        "self-signed certificate",
        "TLSv1.3",
    )
    seen = answer["certificate"]
    assert 29.9 < seen["days_left"] <= 30
    assert {
        key: seen[key] for key in ("subject", "common_name", "names", "serial", "key", "signature", "self_signed")
    } == {
        "subject": "CN=service.example",
        "common_name": "service.example",
        "names": ["service.example"],
        "serial": "3f2a",
        "key": "EC secp256r1",
        "signature": "sha256",
        "self_signed": True,
    }
    assert len(seen["fingerprint"]) == 64


def test_a_certificate_of_a_given_authority_is_verified(call, serve, tmp_path):
    """With `ca` a certificate is verified against this authority, instead of the system's."""
    text, path = certificate(tmp_path)
    fields = {"host": "127.0.0.1", "port": serve(tls_server(path)), "server_name": "service.example", "ca": text}
    answer = call("tls", fields)
    assert (answer["verified"], answer["verify_error"]) == (True, "")


@pytest.mark.parametrize(
    ("days", "name", "error"),
    [(-1, "service.example", "certificate has expired"), (30, "other.example", "Hostname mismatch")],
)
def test_verdicts(call, serve, tmp_path, days, name, error):
    """An expired certificate, or one for another name, is described and not verified."""
    text, path = certificate(tmp_path, days)
    fields = {"host": "127.0.0.1", "port": serve(tls_server(path)), "server_name": name, "ca": text}
    answer = call("tls", fields)
    assert answer["verified"] is False
    assert error in answer["verify_error"]
    assert answer["certificate"]["common_name"] == "service.example"


def signed(name: str, days: float, by=None, names=(), is_authority: bool = True):
    """Return a certificate and its key; `by` is the (certificate, key) that signs it, or None for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), datetime.datetime.now(datetime.UTC)
    issuer, signer = (by[0].subject, by[1]) if by else (subject, key)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=60))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(list(names)), critical=False)
    return builder.sign(signer, hashes.SHA256()), key


def pem(*certificates) -> str:
    return "".join(one.public_bytes(serialization.Encoding.PEM).decode() for one in certificates)


def serving(folder, key, *chain) -> str:
    """Write what a server sends, with its key; answer the path."""
    encoding = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "chain.pem").write_text(pem(*chain) + key.private_bytes(*encoding).decode())
    return str(folder / "chain.pem")


NAME = x509.DNSName("service.example")
NO_NAMES = {
    "no SAN": ((), "service.example", "Hostname mismatch"),
    "an address only": ((x509.IPAddress(ipaddress.ip_address("127.0.0.1")),), "service.example", "Hostname mismatch"),
    "a mail address only": ((x509.RFC822Name("a@service.example"),), "service.example", "Hostname mismatch"),
    "a URI only": ((x509.UniformResourceIdentifier("https://x.example"),), "service.example", "Hostname mismatch"),
    "a name for an address": ((x509.DNSName("127.0.0.1"),), "127.0.0.1", "IP address mismatch"),
}  # fmt: skip


@pytest.mark.parametrize(("names", "asked", "error"), NO_NAMES.values(), ids=NO_NAMES)
def test_the_common_name_is_no_name(call, failure, serve, tmp_path, names, asked, error):
    """A certificate with the name in its common name alone is not verified, neither by host.tls nor by
    host.http (F19).
    """
    root = signed("root", 900)
    leaf, key = signed(asked, 300, root, names, is_authority=False)
    port = serve(tls_server(serving(tmp_path, key, leaf)))
    answer = call("tls", {"host": "127.0.0.1", "port": port, "server_name": asked, "ca": pem(root[0])})
    assert (answer["verified"], error in answer["verify_error"]) == (False, True)
    fields = {"url": f"https://127.0.0.1:{port}/", "server_name": asked, "ca": pem(root[0])}
    code, text = failure("http", fields)
    assert (code, error in text) == ("tls", True)


@pytest.mark.parametrize(
    ("days", "verified"),
    [((300, 2, 900), True), ((300, 40, 30), True), ((300, -2, 900), False), ((-1, -2, 900), False)],
)
def test_the_chain_is_described(call, serve, tmp_path, days, verified):
    """The chain is described from the server to its authority, verified or not, and other certificates that were sent
    are left out (F19, F85).
    """
    root = signed("root", days[2])
    middle = signed("middle", days[1], root)
    leaf, key = signed("service.example", days[0], middle, [NAME], is_authority=False)
    other, _ = signed("other", 1)
    port = serve(tls_server(serving(tmp_path, key, leaf, middle[0], other)))
    fields = {"host": "127.0.0.1", "port": port, "server_name": "service.example", "ca": pem(root[0])}
    answer = call("tls", fields)
    assert answer["verified"] is verified
    expected = [("service.example", days[0]), ("middle", days[1]), ("root", days[2])][: 3 if verified else 2]
    assert [(one["common_name"], round(one["days_left"])) for one in answer["chain"]] == expected
    assert answer["chain"][0] == answer["certificate"]


def test_a_chain_that_turns_in_a_circle(call, serve, tmp_path):
    """A chain that leads back to itself ends before it repeats a certificate (F19)."""
    one, two = signed("one", 30), signed("two", 30)
    first = signed("one", 30, two)
    second = signed("two", 30, one)
    leaf, key = signed("service.example", 30, first, [NAME], is_authority=False)
    port = serve(tls_server(serving(tmp_path, key, leaf, first[0], second[0])))
    answer = call("tls", {"host": "127.0.0.1", "port": port, "server_name": "service.example"})
    assert [each["common_name"] for each in answer["chain"]] == ["service.example", "one", "two"]


def smtp(connection: socket.socket) -> None:
    connection.sendall(b"220-mx\r\n220 mx ESMTP\r\n")
    assert connection.recv(100).startswith(b"EHLO")
    connection.sendall(b"250-mx\r\n250 STARTTLS\r\n")
    assert connection.recv(100) == b"STARTTLS\r\n"
    connection.sendall(b"220 go\r\n")


def imap(connection: socket.socket) -> None:
    connection.sendall(b"* OK hi\r\n")
    assert connection.recv(100) == b"a1 STARTTLS\r\n"
    connection.sendall(b"a1 OK go\r\n")


def imap_with_untagged_lines(connection: socket.socket) -> None:
    connection.sendall(b"* OK hi\r\n")
    assert connection.recv(100) == b"a1 STARTTLS\r\n"
    connection.sendall(b"* CAPABILITY IMAP4rev1\r\n* OK [ALERT] soon down\r\na1 OK go\r\n")


def pop3(connection: socket.socket) -> None:
    connection.sendall(b"+OK hi\r\n")
    assert connection.recv(100) == b"STLS\r\n"
    connection.sendall(b"+OK go\r\n")


def postgresql(connection: socket.socket) -> None:
    assert connection.recv(8) == bytes.fromhex("0000000804d2162f")
    connection.sendall(b"S")


@pytest.mark.parametrize("protocol", [smtp, imap, imap_with_untagged_lines, pop3, postgresql])
def test_starttls(call, serve, tmp_path, protocol):
    """STARTTLS follows each protocol's own greeting and command before the handshake."""
    text, path = certificate(tmp_path)
    port = serve(tls_server(path, protocol))
    fields = {
        "host": "127.0.0.1",
        "port": port,
        "server_name": "service.example",
        "ca": text,
        "starttls": protocol.__name__.partition("_")[0],
    }
    assert call("tls", fields)["verified"] is True


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"* OK fine\r\na1 NO not now\r\n", '"a1 NO not now" where "a1 OK" was due'),
        (b"* more\r\n" * 200, "endless answer"),
        (b"a2 OK\r\n", '"a2 OK" where "a1 OK" was due'),
    ],
)
def test_imap_that_will_not(failure, serve, answer, text):
    """The text of the failure quotes IMAP's own answer, and not a line before it."""

    def refuse(connection: socket.socket) -> None:
        connection.sendall(b"* OK hi\r\n")
        connection.recv(100)
        connection.sendall(answer)
        connection.recv(1)

    code, said = failure("tls", {"host": "127.0.0.1", "port": serve(refuse), "starttls": "imap"})
    assert code == "protocol"
    assert text in said


@pytest.mark.parametrize(
    ("greeting", "text"),
    [
        (b"554 no\r\n", '"554 no" where 220 was due'),
        (b"x" * 10_000, "no greeting"),
        (b"220-x\r\n" * 200, "endless answer"),
    ],
)
def test_a_greeting_of_something_else(failure, serve, greeting, text):
    """Another greeting fails with its text, and an endless one ends at a limit."""
    port = serve(lambda connection: connection.sendall(greeting))
    code, said = failure("tls", {"host": "127.0.0.1", "port": port, "starttls": "smtp", "timeout": 50})
    assert code == "protocol"
    assert text in said


def test_a_server_that_speaks_no_tls(failure, serve):
    """A server that speaks no TLS fails with the code `tls`."""
    port = serve(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    assert failure("tls", {"host": "127.0.0.1", "port": port})[0] == "tls"


def test_a_handshake_that_never_ends(failure, serve):
    """The time limit covers the handshake."""
    port = serve(lambda connection: connection.recv(1) and connection.recv(100_000) and connection.recv(1))
    assert failure("tls", {"host": "127.0.0.1", "port": port, "timeout": 0.2})[0] == "timeout"


def test_authorities_that_are_none(failure):
    """Text that holds no authorities is a wrong argument, and no fault of the server."""
    assert failure("tls", {"host": "127.0.0.1", "port": 1, "ca": "nonsense"})[0] == "bad-arguments"


@pytest.mark.parametrize("der", [b"", b"\x30\x03\x02\x01\x01", b"\xff" * 500])
def test_a_certificate_that_cannot_be_read(der):
    """A certificate that cannot be read is a fault of the peer, reported in a sentence."""
    with pytest.raises(CallFailed, match="the certificate cannot be read") as caught:
        describe(der)
    assert caught.value.code == "protocol"
