"""Test the call for the agent's own certificate: it describes the newest one, and never a key."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from equus.capabilities import certificate
from equus.capabilities.calls import CallFailed, Context
from equus.capabilities.registry import CALLS
from equus.policy.policy import Policy

DAY = timedelta(days=1)


def write(path: Path, name: str, begins: datetime, days: float) -> Path:
    """Write a self-signed certificate of this name, and return its path."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(77)
        .not_valid_before(begins)
        .not_valid_after(begins + days * DAY)
        .sign(key, hashes.SHA256())
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return path


def ask(*paths: Path) -> dict:
    context = Context("test", time.monotonic() + 5, certificates=tuple(map(str, paths)))
    return CALLS["certificate"].perform([], Policy.parse(b"", None), context)


def test_the_newest_counts(tmp_path):
    """The newest certificate counts in any order of the paths, and a missing file is passed over."""
    now = datetime.now(UTC)
    old = write(tmp_path / "named.pem", "web-1", now - 5 * DAY, 7)
    new = write(tmp_path / "agent.pem", "web-1", now - DAY, 7)
    for paths in ((old, new), (new, old), (tmp_path / "none.pem", new)):
        answer = ask(*paths)
        assert answer["common_name"] == "web-1"
        assert answer["days_left"] == pytest.approx(6, abs=0.01)
        assert answer["left_percent"] == pytest.approx(600 / 7, abs=0.1)
    assert ask(old)["left_percent"] == pytest.approx(200 / 7, abs=0.1)


def test_one_that_has_ended(tmp_path):
    """A certificate that has ended has negative days and a negative share of its time left."""
    answer = ask(write(tmp_path / "agent.pem", "web-1", datetime.now(UTC) - 14 * DAY, 7))
    assert answer["days_left"] == pytest.approx(-7, abs=0.01)
    assert answer["left_percent"] == pytest.approx(-100, abs=0.1)


def test_none(tmp_path):
    """A command line, or an agent without TLS, has no certificate, and the call fails as unsupported."""
    for paths in ((), (tmp_path / "agent.pem",)):
        with pytest.raises(CallFailed) as caught:
            ask(*paths)
        assert caught.value.code == "unsupported"


@pytest.mark.parametrize("content", [b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_a_file_that_holds_none(tmp_path, content):
    """A file without a readable certificate is named in the error."""
    path = tmp_path / "agent.pem"
    path.write_bytes(content)
    with pytest.raises(CallFailed) as caught:
        ask(path)
    assert (caught.value.code, caught.value.text) == ("failed", f"{path} holds no certificate that can be read")


def test_a_file_of_any_size(tmp_path):
    """No more than PEM_BYTES of a file are read: a certificate before that limit is found, one behind it is not."""
    made = write(tmp_path / "agent.pem", "web-1", datetime.now(UTC), 7).read_bytes()
    (tmp_path / "agent.pem").write_bytes(made + b"#" * certificate.PEM_BYTES)
    assert ask(tmp_path / "agent.pem")["common_name"] == "web-1"
    (tmp_path / "agent.pem").write_bytes(b"#" * certificate.PEM_BYTES + made)
    with pytest.raises(CallFailed):
        ask(tmp_path / "agent.pem")


def test_the_issuers_in_the_file_are_told(tmp_path):
    """The issuers in the newest file are listed, and the certificate ends when the first of them does."""
    now = datetime.now(UTC)
    old = write(tmp_path / "named.pem", "web-1", now - 5 * DAY, 7)
    old.write_bytes(old.read_bytes() + write(tmp_path / "x.pem", "Old CA", now - DAY, 2).read_bytes())
    new = write(tmp_path / "agent.pem", "web-1", now - DAY, 7)
    assert ask(old, new)["chain"] == []
    pieces = [write(tmp_path / "y.pem", name, now - DAY, days).read_bytes() for name, days in (("Sub", 2), ("CA", 9))]
    new.write_bytes(new.read_bytes() + b"".join(pieces))
    answer = ask(old, new)
    assert answer["common_name"] == "web-1"
    assert [(one["common_name"], round(one["days_left"])) for one in answer["chain"]] == [("Sub", 1), ("CA", 8)]
