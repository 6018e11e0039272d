"""Tests helen.keys.certificates: names, keys, requests, and what each kind of certificate says."""

from __future__ import annotations

import base64
import datetime
import re
from collections.abc import Callable
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import example, given
from hypothesis import strategies as st

from helen.keys import certificates
from helen.keys.certificates import BadRequest

T0 = 1_800_000_000.0
DAY = 86_400.0
KEY = ec.generate_private_key(ec.SECP256R1())
CA = certificates.new_ca(KEY, T0)

GOOD_NAMES = ["a", "0", "web-1", "db.example.org", "a_b", "x" * 63, "1-", "a.b-c_d"]
BAD_NAMES = ["", "x" * 64, "Web", "-a", ".a", "_a", "a..b", "a/b", "../x", "a b"]
BAD_NAMES += ["a\n", "a\0", "\u00e4", "\u0430", "a\u202e", "*", "\u0663"]


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_names_that_agents_may_have(name: str) -> None:
    """A name that an agent may have goes into a certificate and comes out the same."""
    made = certificates.agent_certificate(CA, KEY, KEY.public_key(), name, T0)
    assert certificates.name_in(made) == name


@pytest.mark.adversary(15)
@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_they_may_not(name: str) -> None:
    """A name that no agent may have is refused with a sentence in which nothing of it can harm a terminal."""
    with pytest.raises(BadRequest) as refusal:
        certificates.checked_name(name)
    assert str(refusal.value).isprintable()


@given(st.text(max_size=70) | st.from_regex(r"[a-z0-9._-]{0,66}", fullmatch=True))
def test_the_rule_for_names(name: str) -> None:
    """A name has 1 to 63 of [a-z0-9._-], with a letter or digit first and no two dots in a row."""
    letters = set("abcdefghijklmnopqrstuvwxyz0123456789")
    good = 1 <= len(name) <= 63 and set(name) <= letters | set("._-") and name[0] in letters and ".." not in name
    try:
        assert certificates.checked_name(name) == name
        accepted = True
    except BadRequest:
        accepted = False
    assert accepted is good


def lifetimes(certificate: x509.Certificate) -> tuple[float, float]:
    """Return from when and until when a certificate counts, in days around T0."""
    return (certificates.since(certificate) - T0) / DAY, (certificates.until(certificate) - T0) / DAY


def extensions(certificate: x509.Certificate) -> dict[str, tuple[bool, Any]]:
    return {one.oid._name: (one.critical, one.value) for one in certificate.extensions}


def usage(**true: bool) -> x509.KeyUsage:
    names = "digital_signature content_commitment key_encipherment data_encipherment key_agreement"
    names += " key_cert_sign crl_sign encipher_only decipher_only"
    return x509.KeyUsage(**(dict.fromkeys(names.split(), False) | true))


def test_what_an_agents_certificate_says() -> None:
    """An agent's certificate has seven days, one name, client use only, and not a word of the agent's own choosing."""
    public = ec.generate_private_key(ec.SECP384R1()).public_key()
    made = certificates.agent_certificate(CA, KEY, public, "web-1", T0)
    assert lifetimes(made) == (-1, 7)
    assert made.subject.rfc4514_string() == "CN=web-1"
    assert extensions(made) == {
        "subjectKeyIdentifier": (False, x509.SubjectKeyIdentifier.from_public_key(public)),
        "basicConstraints": (True, x509.BasicConstraints(False, None)),
        "keyUsage": (True, usage(digital_signature=True)),
        "extendedKeyUsage": (False, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])),
        "authorityKeyIdentifier": (False, x509.AuthorityKeyIdentifier.from_issuer_public_key(KEY.public_key())),
        "subjectAltName": (
            False,
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier("urn:equus:agent:web-1")]),
        ),
    }
    assert certificates.is_issued_by(made, CA)


def test_what_the_ca_says() -> None:
    """The CA lasts ten years, signs certificates, and has no CA below it."""
    assert lifetimes(CA) == (-1, 3650)
    assert extensions(CA) == {
        "subjectKeyIdentifier": (False, x509.SubjectKeyIdentifier.from_public_key(KEY.public_key())),
        "basicConstraints": (True, x509.BasicConstraints(True, 0)),
        "keyUsage": (True, usage(key_cert_sign=True, crl_sign=True)),
    }
    assert re.fullmatch("CN=Helen CA [0-9a-f]{16}", CA.subject.rfc4514_string())
    assert (
        certificates.new_ca(KEY, T0 + DAY).subject
        == CA.subject
        != certificates.new_ca(ec.generate_private_key(ec.SECP256R1()), T0).subject
    )


def test_what_the_servers_certificate_says() -> None:
    """A server's certificate lasts ninety days, is for a server only, and has each name once; addresses stand as
    addresses.
    """
    hosts = ["helen.example", "127.0.0.1", "HELEN.example.", "[::1]", "fe80::1%eth0", "xn--bcher-kva.example"]
    made = certificates.server_certificate(CA, KEY, KEY.public_key(), hosts, T0)
    assert lifetimes(made) == (-1, 90)
    found = extensions(made)
    assert [str(name.value) for name in found["subjectAltName"][1]] == [
        "helen.example",
        "127.0.0.1",
        "::1",
        "fe80::1",
        "xn--bcher-kva.example",
    ]
    assert found["subjectAltName"][1].get_values_for_type(x509.DNSName) == ["helen.example", "xn--bcher-kva.example"]
    assert found["extendedKeyUsage"] == (False, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]))


@pytest.mark.parametrize("host", ["", "a b", "bücher.example", "-a.example", "a..b", "*.example", "x" * 64, "a\n"])
def test_host_names_that_are_none(host: str) -> None:
    """A host name that is none is refused before it becomes a certificate that no agent would accept."""
    with pytest.raises(BadRequest, match="neither a host name"):
        certificates.server_names([host])


def test_nothing_outlives_its_ca() -> None:
    """An agent's certificate that is made three days before the CA's end is for three days."""
    end = T0 + 3650 * DAY
    made = certificates.agent_certificate(CA, KEY, KEY.public_key(), "web-1", end - 3 * DAY)
    assert certificates.until(made) == end


def test_renewal_is_due_at_two_thirds() -> None:
    """A renewal is due at two thirds of the time between issue and end."""
    assert certificates.renew_after(T0, T0 + 9 * DAY) == T0 + 6 * DAY


SANS = {
    "two agents": ["urn:equus:agent:a", "urn:equus:agent:b"],
    "none": [],
    "no agent": ["urn:equus:helen:a"],
    "a name that may not be": ["urn:equus:agent:../a"],
    "an upper-case scheme": ["URN:equus:agent:a"],
}


def with_san(*names: x509.GeneralName) -> x509.Certificate:
    builder = x509.CertificateBuilder(CA.subject, CA.subject, KEY.public_key(), 1)
    builder = builder.not_valid_before(datetime.datetime(2026, 1, 1)).not_valid_after(datetime.datetime(2027, 1, 1))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(KEY, hashes.SHA256())


@pytest.mark.parametrize("title", SANS)
def test_names_in_foreign_certificates(title: str) -> None:
    """A foreign certificate has exactly one agent URI and nothing beside it, or no name; the CN is never looked at."""
    with pytest.raises(BadRequest):
        certificates.name_in(with_san(*map(x509.UniformResourceIdentifier, SANS[title])))


def test_a_name_beside_a_host(now: float) -> None:
    """A certificate that is a server's as well is nobody's."""
    agent = x509.UniformResourceIdentifier("urn:equus:agent:a")
    with pytest.raises(BadRequest):
        certificates.name_in(with_san(agent, x509.DNSName("helen")))


GOOD_KEYS = {
    "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
    "RSA 2048": lambda: rsa.generate_private_key(65_537, 2_048),
}
BAD_KEYS = {
    "P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "P-224": lambda: ec.generate_private_key(ec.SECP224R1()),
    "secp256k1": lambda: ec.generate_private_key(ec.SECP256K1()),
    "RSA 1024": lambda: rsa.generate_private_key(65_537, 1_024),
}


@pytest.mark.parametrize("kind", GOOD_KEYS)
def test_keys_that_are_certified(kind: str, request_of: Callable[..., str]) -> None:
    """The public half of such a key comes out of its request."""
    key = GOOD_KEYS[kind]()
    assert certificates.key_of_request(request_of(key)) == key.public_key()


@pytest.mark.parametrize("kind", BAD_KEYS)
def test_keys_that_are_not(kind: str, request_of: Callable[..., str]) -> None:
    """A key is refused that is too weak, or of a kind that TLS peers do not all speak."""
    with pytest.raises(BadRequest, match="the key must be P-256"):
        certificates.key_of_request(request_of(BAD_KEYS[kind]()))


@pytest.mark.parametrize("key", [ed448.Ed448PrivateKey.generate().public_key(), "text", None])
def test_what_is_no_key_of_ours(key: Any) -> None:
    """Other kinds are refused, whatever they are."""
    with pytest.raises(BadRequest):
        certificates.checked_key(key)


def tampered(request_of: Callable[..., str]) -> str:
    """Return a request with the public key of one and the signature of another."""
    der = bytearray(x509.load_pem_x509_csr(request_of(KEY).encode()).public_bytes(serialization.Encoding.DER))
    der[-1] ^= 1
    return x509.load_der_x509_csr(bytes(der)).public_bytes(serialization.Encoding.PEM).decode()


def test_a_request_signed_by_somebody_else(request_of: Callable[..., str]) -> None:
    """A request that somebody else has signed is refused, since a host that asks must hold the key."""
    with pytest.raises(BadRequest):
        certificates.key_of_request(tampered(request_of))


BAD_REQUESTS = {
    "nothing": "",
    "text": "hello",
    "a certificate": certificates.pem(CA),
    "an empty block": "-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n",
    "half of it": "-----BEGIN CERTIFICATE REQUEST-----\nMIIB\n-----END CERTIFICATE REQUEST-----\n",
    "a lone surrogate": "\ud800",
    "too much": "x" * 16_385,
}


@pytest.mark.parametrize("title", BAD_REQUESTS)
def test_what_is_no_request(title: str) -> None:
    """A text that is no request is refused with a sentence, never with a traceback."""
    with pytest.raises(BadRequest):
        certificates.key_of_request(BAD_REQUESTS[title])


GOOD_REQUEST = (
    x509.CertificateSigningRequestBuilder()
    .subject_name(CA.subject)
    .add_extension(x509.SubjectAlternativeName([x509.DNSName("helen")]), critical=False)
    .sign(KEY, hashes.SHA256())
    .public_bytes(serialization.Encoding.DER)
)


def says_the_same(data: bytes) -> bool:
    """Where the signature's last bits are zero, its bit string may be said to end before them."""
    try:
        request = x509.load_der_x509_csr(data)
    except (ValueError, x509.InvalidVersion):
        return False
    good = x509.load_der_x509_csr(GOOD_REQUEST)
    return (request.tbs_certrequest_bytes, request.signature) == (good.tbs_certrequest_bytes, good.signature)


@example([(9, 1)])  # a version that X.509 doesn't have: an error of its own kind
@given(st.lists(st.tuples(st.integers(0, len(GOOD_REQUEST) - 1), st.integers(1, 255)), min_size=1, max_size=4))
def test_mutated_requests(changes: list[tuple[int, int]]) -> None:
    """A request with some bytes changed is refused; no change makes it good, none raises anything else."""
    data = bytearray(GOOD_REQUEST)
    for position, mask in changes:
        data[position] ^= mask
    if says_the_same(bytes(data)):  # two changes of one byte took each other back, say
        return
    block = f"-----BEGIN CERTIFICATE REQUEST-----\n{base64.b64encode(data).decode()}\n-----END CERTIFICATE REQUEST-----"
    with pytest.raises(BadRequest):
        certificates.key_of_request(block)


@given(st.binary(max_size=400))
def test_random_requests(data: bytes) -> None:
    """Bytes in the place of a request raise BadRequest and nothing else."""
    begin, finish = (f"-----{word} CERTIFICATE REQUEST-----" for word in ("BEGIN", "END"))
    with pytest.raises(BadRequest):
        certificates.key_of_request(f"{begin}\n{base64.b64encode(data).decode()}\n{finish}\n")
