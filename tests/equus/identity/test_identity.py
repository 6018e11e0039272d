"""Test certificates, keys and tokens on disk: those that are accepted or refused, and crashes while they are saved."""

import datetime
import json
import os

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from twisted.internet.defer import ensureDeferred, maybeDeferred

from equus.identity.identity import Identity, IdentityError, Token, default_name
from equus.identity.identity_store import IdentityStore, read_identity
from equus.identity.new_keys import key_pem, make_key, signing_request
from equus.identity.signing_keys import read_signing_keys
from equus.sessions.enrolment import Enrolment
from equus_protocol import messages as m
from equus_protocol.manifest import key_id

DAY = datetime.timedelta(days=1)
SIGNERS = [Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32).public_key() for n in (1, 2)]
EMPTY = m.Schedule(1, b"[]")


def pem_of(*keys):
    return b"".join(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo) for key in keys)


@pytest.fixture
def files(tmp_path, authority):
    """Write certificate, key and CA of agent web-1 as `helen certificate` does, and return their paths."""
    certificate, key = authority.agent("web-1")
    paths = [tmp_path / name for name in ("agent.pem", "agent.key", "ca.pem")]
    for path, content in zip(paths, (certificate, key, authority.pem), strict=True):
        path.write_bytes(content)
        path.chmod(0o600)
    return paths


def test_three_files_are_an_identity(files):
    """Three files are read as an identity, and its name is that of the SAN URI."""
    assert read_identity(*files).name == "web-1"


@pytest.mark.adversary(31)
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_key_that_others_can_read_is_refused(files, mode):
    """A key that others can read is refused, with the command that mends it."""
    files[1].chmod(mode)
    with pytest.raises(IdentityError, match=f"chmod 600 {files[1]}"):
        read_identity(*files)


@pytest.mark.parametrize(
    ("number", "content", "sentence"),
    [
        (0, b"", "can't be read as PEM"),
        (1, b"-----BEGIN PRIVATE KEY-----\n", "can't be read as PEM"),
        (2, b"nothing", "holds no certificate"),
        (2, b"-----BEGIN CERTIFICATE-----\nbm90aGluZw==\n-----END CERTIFICATE-----\n", "holds no certificate"),
        (2, b"x" * 300_000, "not one of the agent's PEM files"),
        (0, None, "cannot read"),
        (1, None, "cannot read"),
    ],
)
def test_files_that_are_no_good_are_named(files, number, content, sentence):
    """A file that cannot be used is refused with its fault."""
    if content is None:
        files[number].unlink()
    else:
        files[number].write_bytes(content)
    with pytest.raises(IdentityError, match=sentence):
        read_identity(*files)


def test_a_key_of_another_certificate_is_refused(files, authority):
    """A key that belongs to another certificate is refused."""
    files[1].write_bytes(authority.agent("web-1")[1])
    with pytest.raises(IdentityError, match="does not belong"):
        read_identity(*files)


def test_the_common_name_will_do(authority):
    """The common name counts where the certificate has no SAN URI."""
    assert Identity.of(*authority.issue([]), authority.pem, "test").name == "somebody"


def test_a_certificate_that_names_no_agent_is_refused(authority):
    """A certificate that names no agent, such as a server's, is refused."""
    key = make_key()
    certificate = authority._sign(x509.Name([]), key.public_key(), [x509.DNSName("helen.example")])
    with pytest.raises(IdentityError, match="names no agent"):
        Identity.of(certificate.public_bytes(Encoding.PEM), key_pem(key), authority.pem, "test")


def test_a_certificate_out_of_its_time_has_a_sentence(authority):
    """A certificate that is not valid yet or no longer has a sentence that says so, and a valid one has none."""
    now = datetime.datetime.now(datetime.UTC).timestamp()
    expired = authority.identity("web-1", start=-2 * DAY, end=-DAY)
    future = authority.identity("web-1", start=DAY, end=2 * DAY)
    assert "expired on" in expired.trouble(now)
    assert "clock right" in future.trouble(now)
    assert authority.identity("web-1").trouble(now) is None


def test_renewal_is_due_at_two_thirds_with_a_tenth_of_jitter(authority):
    """A renewal is due at two thirds of the certificate's own life, a tenth of them earlier or later."""
    identity = authority.identity("web-1", start=-DAY, end=6 * DAY)
    life = identity.not_after - identity.not_before
    parts = [(identity.renew_at(jitter) - identity.not_before) / life for jitter in (-1, 0, 1)]
    assert parts == pytest.approx([0.6, 0.6667, 0.7333], abs=0.001)


@pytest.mark.parametrize("text", ["", "abc", "a" * 64, "a" * 64 + ".", "g" * 64 + ".secret", "a" * 64 + ".sec ret"])
def test_what_is_no_token_is_told(text):
    """A text that is no token, such as half of one, is refused."""
    with pytest.raises(IdentityError, match="not a token"):
        Token.parse(text)


def test_a_token_keeps_its_secret_out_of_logs():
    """The text of a token for logs has no secret."""
    assert "secret" not in repr(Token.parse("A" * 64 + ".secret"))


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("Web-1.Example.COM", "web-1.example.com"),
        ("über", "ber"),
        ("...", "agent"),
        ("a..b", "a.b"),
        ("x" * 80, "x" * 63),
    ],
)
def test_a_name_is_made_of_the_hosts(host, name):
    """A legal name of an agent is made of any host name."""
    assert default_name(host) == name


# ---------------------------------------------------------------------------------------------------- the store


def test_what_is_saved_is_loaded(tmp_path, authority):
    """An identity that is saved is loaded again, and no other user can read its key."""
    store, identity = IdentityStore(tmp_path), authority.identity("web-1")
    assert store.load() is None
    store.save(identity)
    assert store.load() == identity
    assert store.key.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("step", range(1, 5))
def test_a_crash_while_saving_leaves_one_whole_identity(tmp_path, authority, monkeypatch, step):
    """A crash after any of the renames leaves the old pair or the new one, never half of each."""
    store, old, new = IdentityStore(tmp_path), authority.identity("web-1"), authority.identity("web-1")
    store.save(old)
    honest, renamed = os.replace, []

    def crash(source, target):
        if len(renamed) == step - 1:
            raise KeyboardInterrupt
        renamed.append(target)
        honest(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", crash)
        patch.setattr("pathlib.os.replace", crash)
        with pytest.raises(KeyboardInterrupt):
            store.save(new)
    assert IdentityStore(tmp_path).load() == (new if step == 4 else old)
    assert IdentityStore(tmp_path).load() == (new if step == 4 else old)


def test_signing_keys_are_read_by_their_ids():
    """Several signing keys in one text are read by their ids, and keys of other kinds are refused."""
    assert read_signing_keys(pem_of(*SIGNERS)).keys() == {key_id(key) for key in SIGNERS}
    with pytest.raises(IdentityError, match="not an Ed25519"):
        read_signing_keys(pem_of(make_key().public_key()))


# ---------------------------------------------------------------------------------------------------- enrolment


class Exchange:
    """Ask for a certificate as one agent, with a token or with an old certificate, and answer as Helen."""

    def __init__(self, meet, ear, store):
        self.helen = meet(ear)
        self.helen.hear()
        self.helen.say(EMPTY)
        self.enrolment = Enrolment(store, maybeDeferred)
        self.outcome = []

    def ask(self, work):
        ensureDeferred(work).addBoth(self.outcome.append)
        [request] = self.helen.hear()
        return request

    def answer(self, request, blob):
        self.helen.say(m.Enrolled(request.message_id, blob))
        return self.outcome[0]


@pytest.fixture
def exchange(meet, ear, tmp_path):
    return Exchange(meet, ear, IdentityStore(tmp_path))


def csr_in(request):
    return json.loads(request.blob)["csr"]


def test_joining_keeps_identity_and_signing_keys(exchange, authority, tmp_path):
    """Joining sends the token and a request, and the identity and the signing keys of the answer are kept on disk."""
    token = Token.parse(f"{authority.sha256}.secret")
    request = exchange.ask(exchange.enrolment.join(exchange.helen.equus, "web-1", token))
    assert (request.name, json.loads(request.blob)["token"]) == ("web-1", token.text)
    identity = exchange.answer(request, authority.answer(csr_in(request), signing_keys=pem_of(SIGNERS[0])))
    store = IdentityStore(tmp_path)
    assert store.load() == identity
    assert store.signing_keys().keys() == {key_id(SIGNERS[0])}


def test_the_name_in_the_certificate_counts(exchange, authority):
    """The name in the certificate counts, because a token may be bound to another one than was asked for."""
    request = exchange.ask(
        exchange.enrolment.join(exchange.helen.equus, "web-1", Token.parse(f"{authority.sha256}.secret"))
    )
    assert exchange.answer(request, authority.answer(csr_in(request), name="db-1")).name == "db-1"


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda a, o, csr: o.answer(csr), "another CA"),
        (lambda a, o, csr: a.answer(signing_request("web-1", make_key())), "does not belong"),
        (lambda a, o, csr: b"", "can't be read"),
        (lambda a, o, csr: b"[]", "can't be read"),
        (lambda a, o, csr: b'{"certificate": 1, "ca": 2}', "must be texts"),
        (lambda a, o, csr: b"[" * 60_000, "can't be read"),
    ],
)
def test_an_answer_that_is_no_good_is_not_kept(exchange, authority, other_authority, tmp_path, spoil, sentence):
    """An answer with another CA, with a certificate for another key or without sense is refused, and nothing is
    saved.
    """
    request = exchange.ask(
        exchange.enrolment.join(exchange.helen.equus, "web-1", Token.parse(f"{authority.sha256}.secret"))
    )
    failure = exchange.answer(request, spoil(authority, other_authority, csr_in(request)))
    assert failure.check(IdentityError) and sentence in str(failure.value)
    assert IdentityStore(tmp_path).load() is None


def test_renewal_brings_a_new_key_and_needs_no_token(exchange, authority, tmp_path):
    """A renewal brings a new key under the same name, and the pinned signing keys stay, although Helen sends others."""
    store, held = IdentityStore(tmp_path), authority.identity("web-1")
    store.save(held)
    store.pin(pem_of(SIGNERS[0]))
    request = exchange.ask(exchange.enrolment.renew(exchange.helen.equus, held))
    assert (request.name, set(json.loads(request.blob))) == ("web-1", {"csr"})
    renewed = exchange.answer(request, authority.answer(csr_in(request), signing_keys=pem_of(*SIGNERS)))
    assert (store.load(), renewed.key != held.key) == (renewed, True)
    assert store.signing_keys().keys() == {key_id(SIGNERS[0])}


def test_a_renewal_for_another_name_is_not_used(exchange, authority, tmp_path):
    """A renewal for another name is refused, because Helen may not change an identity."""
    store, held = IdentityStore(tmp_path), authority.identity("web-1")
    store.save(held)
    request = exchange.ask(exchange.enrolment.renew(exchange.helen.equus, held))
    failure = exchange.answer(request, authority.answer(csr_in(request), name="db-1"))
    assert failure.check(IdentityError)
    assert store.load() == held
