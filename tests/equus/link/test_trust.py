"""Test TLS in memory: the servers that an agent trusts, its silence before that, and the sentence for each refusal."""

import datetime

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID
from OpenSSL import SSL
from OpenSSL.crypto import X509
from twisted.internet import error
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.ssl import (
    Certificate,
    CertificateOptions,
    PrivateCertificate,
    TLSVersion,
    trustRootFromCertificates,
)
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from twisted.test.iosim import FakeTransport, connect

from equus.identity.identity import Token
from equus.identity.new_keys import key_pem
from equus.link.connection import Connection
from equus.link.trust import by_identity, by_token, explain
from equus.settings import Server
from equus_protocol import messages as m

HOUR = datetime.timedelta(hours=1)
DAY = 24 * HOUR


class Heard(Protocol):
    """Keep the clear text that came, as the server."""

    data = b""

    def dataReceived(self, data):
        self.data += data


def factory_of(protocol):
    factory = Factory()
    factory.noisy = False
    factory.buildProtocol = lambda address: protocol
    return factory


def meet(clock, ear, trust, pem, key, chain=(), **options):
    """Make a handshake to its end, and return the server's protocol and the agent's connection."""
    ours = PrivateCertificate.loadPEM(key + pem)
    extra = [X509.from_cryptography(certificate) for certificate in chain]
    context = CertificateOptions(ours.privateKey.original, ours.original, extraCertChain=extra, **options)
    heard = Heard()
    connection = Connection(ear, clock, lambda c: c.send(m.Hello(2, "0.1")), is_secure=True)
    server = TLSMemoryBIOFactory(context, False, factory_of(heard), clock).buildProtocol(None)
    client = TLSMemoryBIOFactory(trust, True, factory_of(connection), clock).buildProtocol(None)
    pump = connect(server, FakeTransport(server, True), client, FakeTransport(client, False))
    for _ in range(10):
        pump.flush()
        clock.advance(0)
    return heard, connection


def said(heard):
    return heard.data


HERE = Server("helen.example", 4166, "helen.example")


@pytest.mark.parametrize("name", ["helen.example", "127.0.0.1", "::1"])
def test_a_helen_of_our_ca_with_the_right_name_hears_hello(clock, ear, authority, name):
    """A Helen of the agent's CA, under the right host name or address, is greeted with hello."""
    trust = by_identity(Server(name, 4166, name), authority.identity("web-1"))
    heard, _ = meet(clock, ear, trust, *authority.server("other.example", name))
    assert (said(heard), trust.trouble) == (b"hello 2 0.1\n", None)


def test_the_agent_shows_its_certificate(clock, ear, authority):
    """The agent shows its certificate to a Helen that asks for one."""
    roots = trustRootFromCertificates([Certificate.loadPEM(authority.pem)])
    trust = by_identity(HERE, authority.identity("web-1"))
    heard, _ = meet(clock, ear, trust, *authority.server("helen.example"), trustRoot=roots)
    assert said(heard) == b"hello 2 0.1\n"


@pytest.mark.adversary(21)
@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        (lambda a, o: o.server("helen.example"), "not valid"),
        (
            lambda a, o: a.server("other.example", "127.0.0.2"),
            "not for 'helen.example' but for other.example, 127.0.0.2",
        ),
        (lambda a, o: a.issue([]), "but for no host"),
        (lambda a, o: a.agent("web-2"), "but for no host"),
        (lambda a, o: a.server("helen.example", start=-DAY, end=-HOUR), "expired on"),
        (lambda a, o: a.server("helen.example", start=HOUR, end=DAY), "are both clocks right?"),
        (lambda a, o: a.server("helen.example", purposes=[ExtendedKeyUsageOID.CLIENT_AUTH]), "not made for a server"),
    ],
)
def test_whoever_is_not_our_helen_hears_nothing(clock, ear, authority, other_authority, server, sentence):
    """A server that is not the agent's Helen hears no byte, and the trouble names the fault."""
    trust = by_identity(HERE, authority.identity("web-1"))
    heard, connection = meet(clock, ear, trust, *server(authority, other_authority))
    assert said(heard) == b""
    assert sentence in trust.trouble
    assert ear.events == ["lost"] and not connection.alive


def test_a_ca_of_another_name_is_not_trusted(clock, ear, authority):
    """A CA of another name is not trusted, which is the everyday case of a wrong Helen."""
    stranger = type(authority)("another CA")
    trust = by_identity(HERE, authority.identity("web-1"))
    heard, _ = meet(clock, ear, trust, *stranger.server("helen.example"))
    assert (said(heard), "not signed by a CA that this agent trusts" in trust.trouble) == (b"", True)


def test_old_tls_is_not_spoken(clock, ear, authority):
    """A server with TLS 1.1 or older hears nothing."""
    trust = by_identity(HERE, authority.identity("web-1"))
    old = {"insecurelyLowerMinimumTo": TLSVersion.TLSv1_0, "lowerMaximumSecurityTo": TLSVersion.TLSv1_1}
    heard, _ = meet(clock, ear, trust, *authority.server("helen.example"), **old)
    assert said(heard) == b""
    assert ear.events == ["lost"]


# ---------------------------------------------------------------------------------------------------- by token


def token(authority):
    return Token.parse(f"{authority.sha256}.secret")


def test_the_ca_that_the_token_names_is_believed(clock, ear, authority):
    """The CA that the token names is trusted, although it is only in the chain that Helen shows."""
    trust = by_token(HERE, token(authority))
    heard, _ = meet(clock, ear, trust, *authority.server("helen.example"), chain=[authority.certificate])
    assert (said(heard), trust.trouble) == (b"hello 2 0.1\n", None)


@pytest.mark.adversary(21)
@pytest.mark.parametrize(
    ("scene", "sentence"),
    [
        # another CA, shown honestly
        (lambda a, o: (*o.server("helen.example"), [o.certificate]), "not the one that the token names"),
        # the right CA's certificate, which is no secret, behind a leaf of another key
        (lambda a, o: (*o.server("helen.example"), [a.certificate]), "not valid"),
        # a self-signed leaf, with the right CA beside it
        (lambda a, o: (o.pem, _pem_of(o), [a.certificate]), "not the one that the token names"),
        # the right CA, the wrong host
        (lambda a, o: (*a.server("other.example"), [a.certificate]), "not for 'helen.example'"),
        (lambda a, o: (*a.server("helen.example", start=-DAY, end=-HOUR), [a.certificate]), "expired on"),
        # no CA to compare
        (lambda a, o: (*a.server("helen.example"), []), "does not show its CA"),
    ],
)
def test_a_token_is_not_shown_to_anybody_else(clock, ear, authority, other_authority, scene, sentence):
    """A token is sent only after the CA has been compared, the chain checked, and the name."""
    trust = by_token(HERE, token(authority))
    pem, key, chain = scene(authority, other_authority)
    heard, _ = meet(clock, ear, trust, pem, key, chain=chain)
    assert said(heard) == b""
    assert sentence in trust.trouble


def _pem_of(authority):
    return key_pem(authority.key)


# ---------------------------------------------------------------------------------------------------- in plain words


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (error.ConnectionRefusedError(), "nothing listens there"),
        (error.DNSLookupError(), "is it spelt right?"),
        (error.TimeoutError(), "is a firewall in between?"),
        (error.TCPTimedOutError(), "is a firewall in between?"),
        (error.ConnectionDone(), "closed the connection"),
        (error.ConnectionLost(), "broke off: is Helen running, and is that its port for agents?"),
        (SSL.Error([("SSL routines", "", "tlsv13 alert certificate required")]), "enrol with --join TOKEN"),
        (SSL.Error([("SSL routines", "", "tlsv1 alert unknown ca")]), "belongs to another Helen"),
        (SSL.Error([("SSL routines", "", "sslv3 alert certificate expired")]), "refused our certificate as expired"),
        (SSL.Error([("SSL routines", "", "sslv3 alert certificate revoked")]), "revoked"),
        (SSL.Error([("SSL routines", "", "wrong version number")]), "is it Helen's port for agents?"),
        (SSL.Error([("SSL routines", "", "something new")]), "TLS failed: something new"),
        (SSL.Error(-1, "Unexpected EOF"), "TLS failed: broken off"),
        (OSError("a bare text"), "a bare text"),
    ],
)
def test_every_failure_has_a_sentence(value, sentence):
    """Each failure has a sentence that names the cause and the next step."""
    assert sentence in explain(Failure(value))


def test_what_we_found_ourselves_goes_first():
    """The fault that the agent itself found is named before OpenSSL's words."""
    assert explain(Failure(SSL.Error([("", "", "certificate verify failed")])), "it is not Helen") == "it is not Helen"


@pytest.mark.adversary(19)
def test_a_missing_certificate_shows_late_and_is_explained(clock, ear, authority):
    """A missing certificate, which TLS 1.3 reports after the handshake, is explained with the flags to give."""
    roots = trustRootFromCertificates([Certificate.loadPEM(authority.pem)])
    trust = by_token(HERE, token(authority))
    reasons = []
    ear.lost = lambda connection, reason: reasons.append(explain(reason, trust.trouble))
    meet(clock, ear, trust, *authority.server("helen.example"), chain=[authority.certificate], trustRoot=roots)
    assert reasons == ["Helen wants a certificate: enrol with --join TOKEN, or give --certificate"]


def test_what_speaks_no_tls_is_told(clock, ear, authority):
    """A server that speaks no TLS is reported, with the question if it is Helen's port for agents."""
    trust = by_identity(HERE, authority.identity("web-1"))
    connection = Connection(ear, clock, lambda c: None, is_secure=True)
    reasons = []
    ear.lost = lambda connection, reason: reasons.append(explain(reason, trust.trouble))
    client = TLSMemoryBIOFactory(trust, True, factory_of(connection), clock).buildProtocol(None)
    server = Protocol()
    server.dataReceived = lambda data: server.transport.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    connect(server, FakeTransport(server, True), client, FakeTransport(client, False)).flush()
    assert reasons == ["what answers there speaks no TLS: is it Helen's port for agents?"]
