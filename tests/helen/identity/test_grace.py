"""Tests agents that were away for weeks: the grace for a certificate that is out of its time, with proof of its key."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from OpenSSL import SSL, crypto
from tls_client import ClientTLS
from tls_talk import Talk, leaf, talk

from helen.identity.authority import NotEnrolled
from helen.identity.renewals import GRACE_MAX, USUAL_GRACE
from helen.identity.tls import ServerTLS, peer_certificate
from helen.keys import ca_files, certificates
from helen.keys.certificates import BadRequest
from helen.storage.enrolled_keys import GRACE, RENEWS_WITHIN, EnrolledCertificate

DAY = 86_400.0
LIFE = 7 * DAY


def identified(stage: Any, agent: Any, now: float) -> str:
    """Return the name, or why there is none."""
    try:
        return str(stage.authority.identify(agent.certificate, now).name)
    except NotEnrolled as refusal:
        return refusal.reason


def use(stage: Any, agent: Any, now: float) -> None:
    stage.authority.seen(stage.authority.identify(agent.certificate, now), now)


def client_of(stage: Any, certificate: x509.Certificate, key: Any) -> ClientTLS:
    return ClientTLS(stage.authority.material.bundle, certificate, key)


def meet(stage: Any, client: ClientTLS, now: float) -> Talk:
    """Open a connection to a Helen whose clock says `now`, as far as the handshake goes. OpenSSL's clock is the real
    one.
    """
    authority = stage.authority
    return talk(ServerTLS(authority.material, lambda shown: authority.is_excused(shown, now)), client)


# ---------------------------------------------------------------------------------------------- coming back


@pytest.mark.parametrize("away", [0.0, 1.0, 3 * DAY, 29 * DAY, 89.99 * DAY])
def test_an_expired_certificate_is_renewed_in_the_grace(stage: Any, now: float, away: float) -> None:
    """An expired certificate opens a connection that lasts for a renewal; the new certificate is like any other."""
    old = stage.enrol("web-1")
    use(stage, old, now)
    back = now + LIFE + away
    stage.wait(stage.authority.refresh(back))
    identity = stage.authority.identify(old.certificate, back)
    assert (identity.name, identity.not_after) == ("web-1", back + RENEWS_WITHIN)
    assert identity.out_of_time.startswith("expired on ")
    new = stage.renew(old, "web-1", now=back)
    assert stage.authority.identify(new.certificate, back + 1) == attrs.evolve(
        identity, key_hash=certificates.key_hash(new.key.public_key()), not_after=back + LIFE, out_of_time=""
    )
    assert stage.audit()[-1][3].startswith(f"renewal {away / DAY:.1f} days after its end, serial ")
    use(stage, new, back + 2)
    assert "has used a newer certificate" in identified(stage, old, back + 2 + GRACE)


@pytest.mark.parametrize("grace", [0.0, 60.0, DAY, USUAL_GRACE, GRACE_MAX])
def test_the_grace_is_the_operators(stage: Any, stages: Callable[..., Any], now: float, grace: float) -> None:
    """The grace may have any length, or none; it outlives a restart, and a longer one admits again."""
    old = stage.enrol("web-1")
    stage.wait(stage.authority.set_grace(grace, now, "ann"))
    assert stage.audit()[-1] == ("ann", "renewal-grace", "", f"{grace:.0f} s")
    assert identified(stage, old, now + LIFE + grace - 0.001) == "web-1"
    stage.wait(stage.authority.refresh(now + LIFE + grace))
    stage.close()
    again = stages(now=now + LIFE + grace)
    assert again.authority.grace == grace
    assert "is out of its time: it expired on" in identified(again, old, now + LIFE + grace)
    with pytest.raises(NotEnrolled):
        again.renew(old, "web-1", now=now + LIFE + grace)
    again.wait(again.authority.set_grace(min(grace + DAY, GRACE_MAX), now))
    assert (identified(again, old, now + LIFE + grace) == "web-1") is (grace < GRACE_MAX)


@pytest.mark.parametrize("seconds", [-1.0, GRACE_MAX + 1, float("nan"), float("inf")])
def test_a_grace_that_is_none(stage: Any, now: float, seconds: float) -> None:
    with pytest.raises(BadRequest, match="the grace is 0"):
        stage.wait(stage.authority.set_grace(seconds, now))
    assert stage.authority.grace == USUAL_GRACE


def test_the_answer_to_a_renewal_was_lost_before_weeks_without_a_helen(stage: Any, now: float) -> None:
    """The agent has the old certificate still, and comes back with that; the lost one was never used."""
    old = stage.enrol("web-1")
    use(stage, old, now)
    stage.renew(old, "web-1", now=now + 5 * DAY)
    back = now + 40 * DAY
    stage.wait(stage.authority.refresh(back))
    use(stage, stage.renew(old, "web-1", now=back), back)
    assert "has used a newer certificate" in identified(stage, old, back + GRACE)


def test_records_outlive_any_time_and_any_clock(stage: Any, stages: Callable[..., Any], now: float) -> None:
    """A clock that was ahead for a while destroys no record: the certificate is as good as it was before."""
    old = stage.enrol("web-1")
    for ahead in (40 * DAY, 800 * DAY):
        stage.wait(stage.authority.refresh(now + ahead))
    stage.close()
    stages(now=now + 1_000 * DAY).close()
    last = stages(now=now + DAY)
    assert [identified(last, old, now + after) for after in (DAY, LIFE + DAY)] == ["web-1", "web-1"]


def test_only_what_has_ended_otherwise_is_deleted(stage: Any, now: float) -> None:
    """One record of each agent stays for good; retired and revoked ones go thirty days after their end."""
    old = stage.enrol("web-1")
    use(stage, stage.renew(old, "web-1", now=now + DAY), now + DAY)
    stage.enrol("web-2")
    stage.wait(stage.authority.revoke("web-2", now + DAY))
    stage.wait(stage.authority.refresh(now + 39 * DAY))

    def rows(db: sqlite3.Connection) -> list[tuple[str, str]]:
        return db.execute("SELECT name, how FROM certificates ORDER BY name").fetchall()

    assert stage.wait(stage.store.call(rows)) == [("web-1", "renewal")]
    assert [one.name for one in stage.authority.known] == ["web-1"]


# ---------------------------------------------------------------------------------------------- who does not


@pytest.mark.parametrize("when", ["before its end", "after its end", "forgotten after its end"])
def test_a_revoked_agent_never_comes_back(
    stage: Any, stages: Callable[..., Any], now: float, request_of: Callable[..., str], when: str
) -> None:
    """A revoked agent is refused with a connection or without, over a restart, and after its name has
    another machine.
    """
    old = stage.enrol("web-1")
    use(stage, old, now)
    at = now + (DAY if when == "before its end" else LIFE + 5 * DAY)
    identity = stage.authority.identify(old.certificate, at)
    heard: list[str] = []
    stage.authority.on_revoked(lambda name, keys: heard.append(name))
    end = stage.authority.forget if when.startswith("forgotten") else stage.authority.revoke
    stage.wait(end("web-1", at))
    assert heard == ["web-1"]  # a connection that the grace had opened ends
    back = at + 20 * DAY
    assert identified(stage, old, back) == "web-1 is revoked"
    with pytest.raises(NotEnrolled, match="revoked"):
        csr = request_of(ec.generate_private_key(ec.SECP256R1()))
        stage.wait(stage.authority.renew(identity, "web-1", csr, "10.0.0.7", back))
    stage.wait(stage.authority.refresh(back))
    stage.close()
    again = stages(now=back)
    assert identified(again, old, back) != "web-1"
    again.enrol("web-1", now=back)  # another machine, which has not said hello yet
    assert identified(again, old, back + 1) != "web-1"
    again.close()
    assert identified(stages(now=back + 2), old, back + 2) != "web-1"


def test_a_name_that_the_network_has_revoked(stage: Any, now: float) -> None:
    """The network's revocation came without the certificate, and counts from its own moment on."""
    old = stage.enrol("web-1")
    identity = stage.authority.identify(old.certificate, now)
    stage.wait(stage.authority.learn([], {"web-1": now + LIFE + DAY}))
    assert identified(stage, old, now + LIFE + 2 * DAY) == "web-1 is revoked"
    assert stage.authority.renewal("web-1").renewed_until is None
    assert identity.name == "web-1"


@pytest.mark.parametrize("given", ["by a token", "by command", "by another Helen"])
def test_one_that_an_operator_has_replaced(stage: Any, now: float, request_of: Callable[..., str], given: str) -> None:
    """A certificate that was given since ends the claim of the old one at once: a stolen disk is worth nothing."""
    old = stage.enrol("web-1")
    key, later = ec.generate_private_key(ec.SECP256R1()), now + LIFE + DAY
    if given == "by a token":
        stage.enrol("web-1", key=key, now=later)
    elif given == "by command":
        stage.wait(stage.authority.issue("web-1", request_of(key), later))
    else:
        stage.wait(stage.authority.learn([EnrolledCertificate("ab" * 32, "web-1", later, later + LIFE)]))
    assert "a newer one was given since" in identified(stage, old, later + 1)


def lying(own: Any, shown: Any) -> Any:
    """Return a key that says it is another one, because the library shows no certificate with a key that
    doesn't fit.
    """

    def point(key: Any) -> bytes:
        return bytes(key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))

    der = own.private_bytes(Encoding.DER, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    return crypto.load_privatekey(crypto.FILETYPE_ASN1, der.replace(point(own), point(shown)))


@pytest.mark.parametrize("only", [SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION])
def test_another_key_with_an_old_certificate(stage: Any, now: float, only: int) -> None:
    """A certificate is no secret: who shows one has to prove its key, as in its time."""
    old = stage.enrol("web-1", now=now - 30 * DAY)
    client = client_of(stage, old.certificate, old.key)
    thief = lying(ec.generate_private_key(ec.SECP256R1()), old.key)
    client._context.set_min_proto_version(only)
    client._context.set_max_proto_version(only)
    client._context.use_privatekey(thief)
    talking = meet(stage, client, now)
    assert not talking.server.shaken
    assert "alert decrypt error" in str(talking.client.end)


def test_a_certificate_of_the_ca_that_was_never_given(stage: Any, now: float) -> None:
    """A certificate with Helen's own signature, whose key is in no record, gets no handshake."""
    forged, key = leaf(stage.authority.material, now - 30 * DAY, now - 23 * DAY)
    stage.enrol("web-1", now=now - 30 * DAY)  # the name that it is for
    talking = meet(stage, client_of(stage, forged, key), now)
    assert not talking.server.shaken and "alert certificate expired" in str(talking.client.end)


def test_another_name_with_a_known_key(stage: Any, now: float) -> None:
    """A certificate of the CA for the name of another agent, with a key of our own, is nobody's."""
    old = stage.enrol("web-2", now=now - 30 * DAY)
    material = stage.authority.material
    forged = certificates.agent_certificate(material.ca, material.ca_key, old.key.public_key(), "web-1", now - 30 * DAY)
    assert not stage.authority.is_excused(forged, now)
    assert stage.authority.is_excused(old.certificate, now)


@pytest.mark.parametrize("left", [-1.0, 0.0, 1.0])
def test_an_expired_ca(stage: Any, now: float, left: float) -> None:
    """A certificate ends with its CA: the grace is for certificates of a CA that is in its time."""
    ca, key = stage.authority.material.ca, stage.authority.material.ca_key
    builder = x509.CertificateBuilder(ca.issuer, ca.subject, ca.public_key(), 5)
    builder = builder.not_valid_before(certificates.moment(now - 300 * DAY))
    builder = builder.not_valid_after(certificates.moment(now + left))
    for extension in ca.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    stage.authority.cas.material = attrs.evolve(stage.authority.material, ca=builder.sign(key, hashes.SHA256()))
    old = stage.enrol("web-1", now=now - 30 * DAY)
    assert (identified(stage, old, now) == "web-1") is (left > 0)


def test_an_expired_ca_in_the_handshake(stage: Any, now: float) -> None:
    """The library says so of the CA, not of the agent's certificate, and only that may be excused."""
    material = stage.authority.material
    server = ServerTLS(material, lambda shown: True)
    shown = crypto.X509.from_cryptography(material.ca)
    verdicts = [server._verified(SSL.Connection(server._context), shown, error, depth, 0)
                for error, depth in itertools.product((10, 9, 20, 26, 7), (0, 1))]  # fmt: skip
    assert verdicts == [True, False, True, False] + [False] * 6
    assert server.refusals == {"expired": 1, "not-yet-valid": 1, "foreign-ca": 4, "wrong-purpose": 2}


# ---------------------------------------------------------------------------------------------- the handshake


@pytest.mark.parametrize(
    ("away", "gets_in"), [(-DAY, True), (60.0, True), (30 * DAY, True), (89 * DAY, True), (91 * DAY, False)]
)
def test_the_handshake_of_one_that_was_away(stage: Any, now: float, away: float, gets_in: bool) -> None:
    """The handshake completes in the grace, and the key is proven; after it there is the alert of always."""
    old = stage.enrol("web-1", now=now - LIFE - away)
    talking = meet(stage, client_of(stage, old.certificate, old.key), now)
    assert talking.server.shaken is gets_in
    if gets_in:
        assert talking.echo()
        shown = peer_certificate(talking.server.transport)
        assert stage.authority.identify(shown, now).name == "web-1"
    else:
        assert "alert certificate expired" in str(talking.client.end)


@pytest.mark.parametrize("why", ["off", "revoked", "replaced", "another Helen's", "a fault"])
def test_the_handshake_without_grace(
    stage: Any, stages: Callable[..., Any], now: float, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """All others get the alert, and a fault of ours is no open door."""
    old = stage.enrol("web-1", now=now - 20 * DAY)
    if why == "off":
        stage.wait(stage.authority.set_grace(0.0, now))
    elif why == "revoked":
        stage.wait(stage.authority.revoke("web-1", now))
    elif why == "replaced":
        stage.enrol("web-1", now=now - DAY)
    elif why == "another Helen's":
        old = stages("other").enrol("web-1", now=now - 20 * DAY)
    else:
        monkeypatch.setattr(stage.authority, "is_excused", lambda *_: 1 / 0)
    talking = meet(stage, client_of(stage, old.certificate, old.key), now)
    assert not talking.server.shaken
    assert talking.client.end is not None


# ---------------------------------------------------------------------------------------------- clocks


def test_helens_clock_was_ahead_for_an_hour(stage: Any, now: float) -> None:
    """Certificates look expired, and agents stay in; those that renewed are let in when the clock is right again."""
    away, busy = stage.enrol("web-1"), stage.enrol("web-2")
    ahead = now + 30 * DAY
    stage.wait(stage.authority.refresh(ahead))
    assert identified(stage, away, ahead) == "web-1"
    later = stage.renew(busy, "web-2", now=ahead)
    use(stage, later, ahead + 1)
    assert identified(stage, away, now + 60) == "web-1"
    identity = stage.authority.identify(later.certificate, now + 60)
    assert identity.out_of_time.startswith("is valid from ")
    right = stage.renew(later, "web-2", now=now + 60)
    use(stage, right, now + 61)
    assert stage.authority.identify(right.certificate, now + 62).not_after == now + 60 + LIFE
    assert "has used a newer certificate" in identified(stage, later, now + 61 + GRACE)
    assert identified(stage, right, now + LIFE + DAY) == "web-2"  # what came of the wrong clock is no newer one


def test_a_certificate_of_the_future_beyond_the_grace(stage: Any, now: float) -> None:
    """A certificate whose begin lies years ahead is refused, as Helen's clock was wrong when it was made."""
    busy = stage.enrol("web-1", now=now + 200 * DAY)
    assert "is out of its time: it is valid from" in identified(stage, busy, now)


# ---------------------------------------------------------------------------------------------- the list


def test_what_stands_in_the_list(stage: Any, now: float) -> None:
    """The list has the end of the newest certificate that counts, and until when it is renewed."""
    authority = stage.authority
    stage.enrol("web-1"), stage.enrol("web-2")
    use(stage, stage.renew(stage.enrol("web-3"), "web-3", now=now + DAY), now + DAY)
    stage.wait(authority.revoke("web-2", now))
    found = {name: authority.renewal(name) for name in ("web-1", "web-2", "web-3", "web-9")}
    assert [(one.ends, one.renewed_until) for one in found.values()] == [
        (now + LIFE, now + LIFE + USUAL_GRACE), (None, None),
        (now + LIFE + DAY, now + LIFE + DAY + USUAL_GRACE), (None, None),
    ]  # fmt: skip
    moments = (now + LIFE - 1, now + LIFE, now + LIFE + USUAL_GRACE)
    assert [found["web-1"].state(at) for at in moments] == ["good", "grace", "over"]
    stage.wait(authority.set_grace(0.0, now))
    assert authority.renewal("web-1").state(now + LIFE) == "over"


def test_tokens_for_many(stage: Any, now: float) -> None:
    """A token for many agents is good for its own agent alone, once; a bad name makes none at all."""
    for name in ("web-1", "web-2"):
        stage.enrol(name)
    tokens = stage.wait(stage.authority.tokens.make_for_each(["web-1", "web-2"], now + LIFE, DAY, "ann"))
    assert list(tokens) == ["web-1", "web-2"]
    with pytest.raises(NotEnrolled, match="is for web-1"):
        stage.enrol("web-2", tokens["web-1"], now=now + LIFE)
    assert identified(stage, stage.enrol("web-1", tokens["web-1"], now=now + LIFE), now + LIFE) == "web-1"
    assert [entry[:3] for entry in stage.audit() if entry[1] == "token"][-2:] == [
        ("ann", "token", "web-1"), ("ann", "token", "web-2")
    ]  # fmt: skip
    before = len(stage.audit())
    for names, ttl in ((["web-1", "No"], DAY), (["web-1"], 31 * DAY)):
        with pytest.raises(BadRequest):
            stage.wait(stage.authority.tokens.make_for_each(names, now, ttl))
    assert len(stage.audit()) == before


def test_a_certificate_whose_ca_went(stage: Any, tmp_path: Any, now: float) -> None:
    """The key is known, and the CA is trusted no more: no grace."""
    old = stage.enrol("web-1", now=now - 30 * DAY)
    other = ca_files.prepare(tmp_path / "other", ["localhost"], now)
    stage.authority.cas.material = other
    assert identified(stage, old, now) == "the certificate of web-1 is of a CA that Helen does not know"
