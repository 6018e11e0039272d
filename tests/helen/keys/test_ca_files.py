"""Tests helen.keys.ca_files: what is made, what is kept, what is renewed, and what is refused with which sentence."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from groundwork.atomic_write import write_durably
from helen.files.state_dir import KeyExposed, StateError
from helen.keys import ca_files, certificates
from helen.keys.ca_files import CAUnusable

T0 = 1_800_000_000.0
DAY = 86_400.0
HOSTS = ("localhost", "127.0.0.1")


def test_the_first_start(tmp_path: Path) -> None:
    """A first start makes a CA, a server certificate, and keys for the owner alone."""
    made = ca_files.prepare(tmp_path / "ca", HOSTS, T0)
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "ca").iterdir() if path.is_file()}
    assert files == {"ca.key": 0o600, "ca.pem": 0o644, "server.pem": 0o600}
    assert made.bundle == (made.ca,)
    assert certificates.is_issued_by(made.server, made.ca)
    assert isinstance(made.ca_key.public_key().curve, ec.SECP256R1)  # type: ignore[union-attr]


def test_later_starts_change_nothing(tmp_path: Path) -> None:
    """Later starts use the same files until two thirds of the server certificate's life are over."""
    first = ca_files.prepare(tmp_path, HOSTS, T0)
    for now in (T0, T0 + 59 * DAY, T0 + 60 * DAY - 1):
        again = ca_files.prepare(tmp_path, HOSTS, now)
        assert (again.ca, again.server) == (first.ca, first.server)


@pytest.mark.parametrize(
    "hosts, now",
    [
        (HOSTS, T0 + 60 * DAY),
        (HOSTS, T0 + 400 * DAY),
        (HOSTS, T0 - 2 * DAY),
        ((*HOSTS, "helen.example"), T0),
        (("localhost",), T0),
    ],
)
def test_the_server_certificate_is_renewed(tmp_path: Path, hosts: tuple[str, ...], now: float) -> None:
    """The certificate is renewed when due, when the clock went back behind it, or when a name came or went, with a new
    key.
    """
    first = ca_files.prepare(tmp_path, HOSTS, T0)
    second = ca_files.prepare(tmp_path, hosts, now)
    assert second.ca == first.ca
    assert second.server.public_key() != first.server.public_key()
    assert certificates.until(second.server) == now + 90 * DAY
    assert ca_files.prepare(tmp_path, hosts, now).server == second.server


def test_the_order_of_names_is_nothing(tmp_path: Path) -> None:
    """The same names in another order are no reason to renew."""
    first = ca_files.prepare(tmp_path, HOSTS, T0)
    assert ca_files.prepare(tmp_path, HOSTS[::-1], T0).server == first.server


def test_another_ca_renews_the_server_certificate(tmp_path: Path) -> None:
    """An operator who swaps ca.key and ca.pem gets a server certificate of the new one."""
    first = ca_files.prepare(tmp_path / "a", HOSTS, T0)
    other = ca_files.prepare(tmp_path / "b", HOSTS, T0)
    for name in ("ca.key", "ca.pem"):
        (tmp_path / "b" / name).rename(tmp_path / "a" / name)
    (tmp_path / "a" / "trusted" / "old.pem").write_text(certificates.pem(first.ca))
    made = ca_files.prepare(tmp_path / "a", HOSTS, T0)
    assert made.bundle == (other.ca, first.ca)
    assert certificates.is_issued_by(made.server, other.ca)


def test_a_crash_between_key_and_certificate(tmp_path: Path) -> None:
    """A key that is there without its certificate is used."""
    first = ca_files.prepare(tmp_path, HOSTS, T0)
    (tmp_path / "ca.pem").unlink()
    second = ca_files.prepare(tmp_path, HOSTS, T0)
    assert second.ca.public_key() == first.ca.public_key()


def test_an_operators_own_key(tmp_path: Path) -> None:
    """An Ed25519 key that lies there before the first start becomes the CA's."""
    key = ed25519.Ed25519PrivateKey.generate()
    write_durably(tmp_path / "ca.key", ca_files.key_pem(key))
    made = ca_files.prepare(tmp_path, HOSTS, T0)
    assert made.ca.public_key() == key.public_key()
    assert certificates.is_issued_by(made.server, made.ca)


def drop_key(folder: Path) -> None:
    (folder / "ca.key").unlink()


def open_key(folder: Path) -> None:
    (folder / "ca.key").chmod(0o640)


def open_server_key(folder: Path) -> None:
    (folder / "server.pem").chmod(0o644)


def strange_key(folder: Path) -> None:
    write_durably(folder / "ca.key", ca_files.key_pem(ec.generate_private_key(ec.SECP256R1())))


def locked_key(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    form, locked = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"word")
    write_durably(folder / "ca.key", key.private_bytes(serialization.Encoding.PEM, form, locked))


def garbage_certificate(folder: Path) -> None:
    (folder / "ca.pem").write_text("nothing")


def leaf_in_trusted(folder: Path) -> None:
    (folder / "trusted" / "x.pem").write_text(certificates.pem(ca_files.prepare(folder, HOSTS, T0).server))


def garbage_in_trusted(folder: Path) -> None:
    (folder / "trusted" / "x.pem").write_text("nothing")


UNUSABLE = {
    drop_key: r"ca\.pem is there but its key is not: put .*ca\.key back",
    open_key: r"chmod 600 .*ca\.key",
    open_server_key: r"chmod 600 .*server\.pem",
    strange_key: r"ca\.pem is not the certificate of .*ca\.key",
    locked_key: r"ca\.key is no unencrypted private key",
    garbage_certificate: r"ca\.pem holds no certificate",
    leaf_in_trusted: r"CN=Helen is no CA certificate",
    garbage_in_trusted: r"x\.pem holds no certificate",
}


@pytest.mark.parametrize("spoil", UNUSABLE)
def test_what_cannot_be_used(tmp_path: Path, spoil: object) -> None:
    """A file that cannot be used is named by a sentence, and no file is changed to mend it."""
    ca_files.prepare(tmp_path, HOSTS, T0)
    spoil(tmp_path)  # type: ignore[operator]
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(StateError, match=UNUSABLE[spoil]):  # type: ignore[index]
        ca_files.prepare(tmp_path, HOSTS, T0)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_an_expired_ca(tmp_path: Path) -> None:
    """An expired CA signs nothing, as nobody would believe it."""
    ca_files.prepare(tmp_path, HOSTS, T0)
    with pytest.raises(CAUnusable, match="has expired"):
        ca_files.prepare(tmp_path, HOSTS, T0 + 3650 * DAY)


def test_a_bad_name(tmp_path: Path) -> None:
    """A bad name is refused with the option's name."""
    with pytest.raises(CAUnusable, match=re.escape("--name: 'bücher.example' is neither")):
        ca_files.prepare(tmp_path, ["bücher.example"], T0)


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    """A log line with the material in it holds no key."""
    assert "key" not in repr(ca_files.prepare(tmp_path, HOSTS, T0)).lower()


@pytest.mark.parametrize(
    "names, listen, hosts",
    [
        ([], "0.0.0.0", ("box", "localhost", "127.0.0.1", "::1")),
        (["helen.example"], "192.0.2.7", ("helen.example", "box", "192.0.2.7", "localhost", "127.0.0.1", "::1")),
        (["localhost"], "::", ("localhost", "box", "127.0.0.1", "::1")),
        ([], "2001:db8::7", ("box", "2001:db8::7", "localhost", "127.0.0.1", "::1")),
    ],
)
def test_the_names_of_a_server(
    monkeypatch: pytest.MonkeyPatch, names: list[str], listen: str, hosts: tuple[str, ...]
) -> None:
    """The certificate has the names given, the machine's own, the address if it is one, and the loopback."""
    monkeypatch.setattr("socket.gethostname", lambda: "Box")
    assert ca_files.server_hosts(names, listen) == hosts


def test_a_host_name_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a name that is no host name starts with the others."""
    monkeypatch.setattr("socket.gethostname", lambda: "my box!")
    assert ca_files.server_hosts([], "") == ("localhost", "127.0.0.1", "::1")


def test_several_certificates_in_one_file(tmp_path: Path) -> None:
    """trusted/ takes bundles; Helen's own CA among them is not counted twice."""
    own = ca_files.prepare(tmp_path / "a", HOSTS, T0)
    others = [certificates.new_ca(ec.generate_private_key(ec.SECP256R1()), T0) for _ in range(2)]
    (tmp_path / "a" / "trusted" / "all.pem").write_text(certificates.pem(*others, own.ca))
    assert ca_files.prepare(tmp_path / "a", HOSTS, T0).bundle == (own.ca, *others)
    assert isinstance(own.ca, x509.Certificate)


def test_key_exposed_is_a_state_error() -> None:
    """A key that others can read raises a StateError, the one class whose sentence the tap prints."""
    assert issubclass(KeyExposed, StateError) and issubclass(CAUnusable, StateError)
