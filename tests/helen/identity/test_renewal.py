"""Tests renewal, old certificates, revocation, other CAs, other Helens, and what a restart remembers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from helen.files.state_dir import StateError
from helen.identity.authority import NotEnrolled
from helen.keys import ca_files, certificates
from helen.keys.certificates import BadRequest
from helen.storage import agent_rows, credential_rows
from helen.storage.database import StoreFailed
from helen.storage.enrolled_keys import GRACE, EnrolledCertificate, UnknownAgent

DAY = 86_400.0


def identified(stage: Any, agent: Any, now: float) -> str:
    """Return the name, or why there is none."""
    try:
        return str(stage.authority.identify(agent.certificate, now).name)
    except NotEnrolled as refusal:
        return refusal.reason


def key_of(agent: Any) -> str:
    return certificates.key_hash(agent.certificate.public_key())


def test_renewal_needs_no_token(stage: Any, now: float) -> None:
    """A renewal with a new key gives the same name for seven days from then."""
    agent = stage.enrol("web-1")
    renewed = stage.renew(agent, "web-1", now=now + 5 * DAY)
    identity = stage.authority.identify(renewed.certificate, now + 11 * DAY)
    assert (identity.name, identity.not_after) == ("web-1", now + 12 * DAY)
    assert [entry[:3] for entry in stage.audit()][-1] == ("agent:web-1", "enrol", "web-1")


@pytest.mark.adversary(25)
def test_renewal_for_another_name(stage: Any) -> None:
    """A renewal for another name is refused and audited: an agent that is taken over can lie about itself only."""
    agent = stage.enrol("web-1")
    stage.enrol("web-2")
    with pytest.raises(NotEnrolled, match="web-1 may renew its own certificate only"):
        stage.renew(agent, "web-2")
    assert stage.audit()[-1][:3] == ("agent:web-1", "renew-refused", "web-1")
    assert stage.authority.refusals["renew"] == 1


@pytest.mark.adversary(25)
def test_a_request_that_comes_again(stage: Any) -> None:
    """A replayed request is refused to its own agent and to another one: each certificate has a new key."""
    agent, other = stage.enrol("web-1"), stage.enrol("web-2")
    renewed = stage.renew(agent, "web-1")
    for holder, name in ((agent, "web-1"), (renewed, "web-1"), (other, "web-2")):
        with pytest.raises(NotEnrolled, match="each one needs a new key"):
            stage.renew(holder, name, key=renewed.key)


@pytest.mark.adversary(24)
def test_renewal_by_the_revoked(stage: Any, request_of: Callable[..., str], now: float) -> None:
    """An open connection of somebody revoked renews nothing, nor does one that was asked for just before."""
    agent = stage.enrol("web-1")
    identity = stage.authority.identify(agent.certificate, now)
    csr = [request_of(ec.generate_private_key(ec.SECP256R1())) for _ in range(2)]
    before = stage.authority.renew(identity, "web-1", csr[0], "10.0.0.7", now)
    assert stage.wait(stage.authority.revoke("web-1", now)) == 2
    late = stage.wait(before)
    with pytest.raises(NotEnrolled, match="revoked"):
        stage.wait(stage.authority.renew(identity, "web-1", csr[1], "10.0.0.7", now))
    assert all(known.revoked_at == now for known in stage.authority.known)
    assert late.certificate


def test_renewal_by_the_expired(stage: Any, request_of: Callable[..., str], now: float) -> None:
    """A connection that outlived its certificate has to enrol again, if there is no grace."""
    agent = stage.enrol("web-1")
    stage.wait(stage.authority.set_grace(0.0, now))
    identity = stage.authority.identify(agent.certificate, now)
    with pytest.raises(NotEnrolled, match="is out of its time: it expired on"):
        csr = request_of(ec.generate_private_key(ec.SECP256R1()))
        stage.wait(stage.authority.renew(identity, "web-1", csr, "10.0.0.7", now + 7 * DAY))


def test_the_old_certificate_after_a_renewal(stage: Any, now: float) -> None:
    """The old certificate stays good until the new one has been used, and GRACE longer; then it is nobody's."""
    old = stage.enrol("web-1")
    new = stage.renew(old, "web-1", now=now + DAY)
    assert identified(stage, old, now + 6 * DAY) == "web-1"
    used = now + 2 * DAY
    stage.authority.seen(stage.authority.identify(new.certificate, used), used)
    assert identified(stage, old, used + GRACE - 0.001) == "web-1"
    assert identified(stage, old, used + GRACE) == "web-1 has used a newer certificate than the one that it shows"
    assert identified(stage, new, used + GRACE) == "web-1"


def test_use_of_the_old_one_ends_nothing(stage: Any, now: float) -> None:
    """An agent that never got its new certificate goes on with the old one, and may renew once more."""
    old = stage.enrol("web-1")
    lost = stage.renew(old, "web-1", now=now + 1)
    stage.authority.seen(stage.authority.identify(old.certificate, now + 2), now + 2)
    assert [identified(stage, agent, now + DAY) for agent in (old, lost)] == ["web-1", "web-1"]
    third = stage.renew(old, "web-1", now=now + 3)
    stage.authority.seen(stage.authority.identify(third.certificate, now + 4), now + 4)
    assert [identified(stage, one, now + 5 + GRACE) for one in (old, lost)] == [
        "web-1 has used a newer certificate than the one that it shows"
    ] * 2


def test_others_are_not_retired(stage: Any, now: float) -> None:
    """A newer certificate of another name means nothing."""
    first, second = stage.enrol("web-1"), stage.enrol("web-2", now=now + 1)
    stage.authority.seen(stage.authority.identify(second.certificate, now + 2), now + 2)
    assert identified(stage, first, now + 2 + GRACE) == "web-1"


@pytest.mark.adversary(24)
def test_revocation(stage: Any, now: float) -> None:
    """A revocation counts at once, before the disk has it: listeners are told the name and its keys, and none opens
    anything.
    """
    heard: list[tuple[str, frozenset[str]]] = []
    stage.authority.on_revoked(lambda name, keys: heard.append((name, keys)))
    old, other = stage.enrol("web-1"), stage.enrol("web-2")
    new = stage.renew(old, "web-1")
    done = stage.authority.revoke("web-1", now, by="ann")
    assert heard == [("web-1", frozenset([key_of(old), key_of(new)]))]
    assert [identified(stage, one, now) for one in (old, new, other)] == ["web-1 is revoked"] * 2 + ["web-2"]
    assert stage.wait(done) == 2
    assert len(heard) == 1
    assert stage.audit()[-1] == ("ann", "revoke", "web-1", "2 certificates")


def test_revoking_nobody(stage: Any, now: float) -> None:
    """An unknown name is an error; somebody revoked already is not, and nothing is left to close."""
    with pytest.raises(UnknownAgent, match=r"No agent is called web-9\."):
        stage.wait(stage.authority.revoke("web-9", now))
    stage.enrol("web-1")
    assert [stage.wait(stage.authority.revoke("web-1", now)) for _ in range(2)] == [1, 0]


def test_revocation_ends_waiting_tokens(stage: Any, now: float) -> None:
    """A token for the name that was made before does not bring it back; one made after does."""
    before = stage.token("web-1")
    stage.enrol("web-1")
    stage.wait(stage.authority.revoke("web-1", now))
    with pytest.raises(NotEnrolled):
        stage.enrol("web-1", before)
    assert identified(stage, stage.enrol("web-1"), now) == "web-1"


def test_revocation_while_the_disk_fails(stage: Any, now: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator is told that it is not durable; until the next start it holds all the same."""
    agent = stage.enrol("web-1")

    def broken(db: sqlite3.Connection, *args: Any) -> None:
        db.execute("ROLLBACK")
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("helen.storage.credential_rows.revoke", broken)
    with pytest.raises(StoreFailed):
        stage.wait(stage.authority.revoke("web-1", now))
    assert identified(stage, agent, now) == "web-1 is revoked"


def test_a_restart_remembers(stage: Any, stages: Callable[..., Any], now: float) -> None:
    """A restart knows who is enrolled, revoked or retired, and the CA; an expired one that no grace
    admits is told so.
    """
    old, revoked, brief = stage.enrol("web-1"), stage.enrol("web-2"), stage.enrol("web-3", now=now - 6 * DAY)
    new = stage.renew(old, "web-1", now=now + 1)
    stage.authority.seen(stage.authority.identify(new.certificate, now + 2), now + 2)
    stage.wait(stage.authority.revoke("web-2", now))
    known = set(stage.authority.known)
    stage.close()
    again = stages(now=now + DAY)
    assert again.authority.material == stage.authority.material
    assert set(again.authority.known) == known
    again.wait(again.authority.set_grace(0.0, now + DAY))
    reasons = [identified(again, one, now + DAY) for one in (new, old, revoked, brief)]
    assert reasons == [
        "web-1",
        "web-1 has used a newer certificate than the one that it shows",
        "web-2 is revoked",
        f"the certificate of web-3 is out of its time: it expired on {at_the_minute(brief.certificate)}",
    ]


def at_the_minute(certificate: x509.Certificate) -> str:
    return f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M UTC}"


def test_the_certificate_command(stage: Any, request_of: Callable[..., str], now: float) -> None:
    """The command needs no token, and brings back a name that was revoked."""
    stage.enrol("web-1")
    stage.wait(stage.authority.revoke("web-1", now))
    key = ec.generate_private_key(ec.SECP256R1())
    enrolled = stage.wait(stage.authority.issue("web-1", request_of(key), now, by="ann"))
    assert enrolled.renew_after == int(now + 7 * DAY * 2 / 3)
    assert stage.audit()[-1][:3] == ("ann", "enrol", "web-1")
    for name, csr in (("No", request_of(key)), ("web-1", "no request")):
        with pytest.raises(BadRequest):
            stage.wait(stage.authority.issue(name, csr, now))


def test_a_key_of_ours_that_nobody_enrolled(stage: Any, now: float) -> None:
    """Helen's own signature is not enough, nor is a known key under another name."""
    agent = stage.enrol("web-1")
    material, made = stage.authority.material, []
    for name, key in (("web-9", ec.generate_private_key(ec.SECP256R1())), ("web-2", agent.key)):
        made.append(certificates.agent_certificate(material.ca, material.ca_key, key.public_key(), name, now))
    for certificate in [*made, material.server, material.ca, None]:
        with pytest.raises(NotEnrolled):
            stage.authority.identify(certificate, now)
    assert stage.authority.refusals == {"identify": 5}


def test_a_known_key_under_a_foreign_ca(stage: Any, now: float, tmp_path: Path) -> None:
    """Should TLS ever let such a certificate through, it is refused here."""
    agent = stage.enrol("web-1")
    other = ca_files.prepare(tmp_path / "other", ["localhost"], now)
    forged = certificates.agent_certificate(other.ca, other.ca_key, agent.key.public_key(), "web-1", now)
    with pytest.raises(NotEnrolled, match="of a CA that Helen does not know"):
        stage.authority.identify(forged, now)


def test_a_known_key_as_a_server(stage: Any, now: float) -> None:
    """A known key does not count with a certificate for servers, whoever signed it."""
    agent = stage.enrol("web-1")
    made, material = agent.certificate, stage.authority.material
    builder = x509.CertificateBuilder(made.issuer, made.subject, made.public_key(), 7)
    builder = builder.not_valid_before(made.not_valid_before_utc).not_valid_after(made.not_valid_after_utc)
    san = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    for extensions in ([], [x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])]):
        one = builder.add_extension(san, critical=False)
        for extension in extensions:
            one = one.add_extension(extension, critical=False)
        with pytest.raises(NotEnrolled, match="is not for clients"):
            stage.authority.identify(one.sign(material.ca_key, hashes.SHA256()), now)


@pytest.mark.parametrize("after, good", [(-DAY, True), (-DAY - 1, False), (7 * DAY - 1, True), (7 * DAY, False)])
def test_out_of_its_time(stage: Any, now: float, after: float, good: bool) -> None:
    """Both ends of a certificate's life are kept here as well as in TLS, where there is no grace."""
    stage.wait(stage.authority.set_grace(0.0, now))
    assert (identified(stage, stage.enrol("web-1"), now + after) == "web-1") is good


# ------------------------------------------------------------------------------------------------ refresh


def test_refresh_changes_nothing_by_itself(stage: Any, now: float) -> None:
    """Nobody is told, and the material is the same."""
    told: list[str] = []
    stage.authority.on_changed(lambda: told.append("changed"))
    before = stage.authority.material
    assert stage.wait(stage.authority.refresh(now)) is False
    assert (stage.authority.material, told) == (before, [])


def test_refresh_renews_the_server_certificate(stage: Any, now: float) -> None:
    """The server certificate is renewed when two thirds are over; listeners find the new one in place."""
    seen: list[Any] = []
    stage.authority.on_changed(lambda: seen.append(stage.authority.material.server))
    before = stage.authority.material
    assert stage.wait(stage.authority.refresh(now + 60 * DAY)) is True
    assert seen == [stage.authority.material.server] != [before.server]
    assert stage.authority.material.ca == before.ca


def test_refresh_with_a_broken_folder(stage: Any, now: float) -> None:
    """The list in force stays so, and the caller gets the sentence."""
    before = stage.authority.material
    (stage.state / "ca" / "ca.key").chmod(0o644)
    with pytest.raises(StateError, match="chmod 600"):
        stage.wait(stage.authority.refresh(now))
    assert stage.authority.material == before
    assert identified(stage, stage.enrol("web-1"), now) == "web-1"


def test_refresh_keeps_a_revocation_that_is_on_its_way(stage: Any, now: float) -> None:
    """The folder's list, as read, is older than what memory knows."""
    agent = stage.enrol("web-1")
    reading = stage.authority.refresh(now)
    done = stage.authority.revoke("web-1", now)
    stage.wait(reading)
    assert identified(stage, agent, now) == "web-1 is revoked"
    stage.wait(done)


def test_what_is_long_over_is_forgotten(stage: Any, now: float) -> None:
    """Tokens and certificates that were revoked go thirty days after their end; the agents and the audit stay."""
    stage.enrol("web-1")
    stage.wait(stage.authority.revoke("web-1", now))
    stage.wait(stage.authority.refresh(now + 38 * DAY))

    def count(db: sqlite3.Connection) -> list[int]:
        tables = ("certificates", "tokens", "agents", "audit")
        return [db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]

    assert stage.wait(stage.store.call(count)) == [0, 0, 1, 3]
    assert stage.authority.known == ()


def test_rotating_the_ca(stage: Any, foreign: Any, now: float) -> None:
    """An agent that renews in time is shut out at none of the three steps of certs/README.rst."""
    folder, old_ca = stage.state / "ca", stage.authority.material.ca
    agent = stage.enrol("web-1")
    (folder / "trusted" / "next.pem").write_text(certificates.pem(foreign.ca))
    assert stage.wait(stage.authority.refresh(now)) is True
    agent = stage.renew(agent, "web-1", now=now + 5 * DAY)
    assert certificates.is_issued_by(agent.certificate, old_ca)
    (folder / "ca.pem").rename(folder / "trusted" / "old.pem")
    (folder / "trusted" / "next.pem").rename(folder / "ca.pem")
    (folder / "ca.key").write_bytes(ca_files.key_pem(foreign.ca_key))
    assert stage.wait(stage.authority.refresh(now + 7 * DAY)) is True
    assert stage.authority.material.bundle == (foreign.ca, old_ca)
    assert certificates.is_issued_by(stage.authority.material.server, foreign.ca)
    agent = stage.renew(agent, "web-1", now=now + 10 * DAY)
    (folder / "trusted" / "old.pem").unlink()
    assert stage.wait(stage.authority.refresh(now + 14 * DAY)) is True
    assert stage.authority.material.bundle == (foreign.ca,)
    assert identified(stage, agent, now + 14 * DAY) == "web-1"


# ------------------------------------------------------------------------------------------------ other CAs


@pytest.fixture
def foreign(tmp_path: Path, now: float) -> Any:
    """Return the CA of an organisation."""
    return ca_files.prepare(tmp_path / "foreign", ["localhost"], now)


def signed_by(material: Any, name: str, now: float) -> Any:
    key = ec.generate_private_key(ec.SECP256R1())
    return certificates.agent_certificate(material.ca, material.ca_key, key.public_key(), name, now)


def test_importing_a_ca(stage: Any, foreign: Any, now: float) -> None:
    """An imported CA is in the bundle and in what agents get; its certificates alone still open nothing."""
    told: list[int] = []
    stage.authority.on_changed(lambda: told.append(len(stage.authority.material.bundle)))
    assert stage.wait(stage.authority.import_ca(certificates.pem(foreign.ca).encode(), now, by="ann")) is True
    assert told == [2]
    assert stage.authority.material.bundle == (stage.authority.material.ca, foreign.ca)
    assert stage.audit()[-1] == ("ann", "import-ca", certificates.fingerprint(foreign.ca), "")
    with pytest.raises(NotEnrolled, match="not enrolled"):
        stage.authority.identify(signed_by(foreign, "web-1", now), now)
    assert stage.wait(stage.authority.import_ca(certificates.pem(foreign.ca).encode(), now)) is False


@pytest.mark.parametrize("content", [b"", b"nothing", "leaf", "two"])
def test_importing_what_is_no_ca(stage: Any, foreign: Any, now: float, content: Any) -> None:
    """One CA certificate is imported, or refused with a sentence; the bundle stays."""
    other = {"leaf": certificates.pem(foreign.server), "two": certificates.pem(foreign.ca, foreign.ca)}
    data = content if isinstance(content, bytes) else other[content].encode()
    with pytest.raises(BadRequest):
        stage.wait(stage.authority.import_ca(data, now))
    assert len(stage.authority.material.bundle) == 1


def test_admitted_certificates(stage: Any, foreign: Any, now: float, stages: Callable[..., Any]) -> None:
    """A file in ca/admitted lets its agent in, at the next refresh and after a restart; it may renew here."""
    folder = stage.state / "ca"
    (folder / "trusted" / "foreign.pem").write_text(certificates.pem(foreign.ca))
    certificate = signed_by(foreign, "web-1", now)
    (folder / "admitted" / "web-1.pem").write_text(certificates.pem(certificate))
    assert stage.wait(stage.authority.refresh(now)) is True
    identity = stage.authority.identify(certificate, now)
    assert identity.name == "web-1"
    stage.wait(stage.authority.refresh(now))
    assert [entry[:3] for entry in stage.audit()] == [("operator", "enrol", "web-1")]
    stage.close()
    assert stages().authority.identify(certificate, now) == identity


def test_an_admitted_certificate_that_was_revoked(stage: Any, now: float) -> None:
    """The file that still lies there does not bring it back, nor does another one for the same name."""
    folder, material = stage.state / "ca" / "admitted", stage.authority.material
    first, second = signed_by(material, "web-1", now), signed_by(material, "web-1", now)
    (folder / "first.pem").write_text(certificates.pem(first))
    stage.wait(stage.authority.refresh(now))
    stage.wait(stage.authority.revoke("web-1", now))
    (folder / "second.pem").write_text(certificates.pem(second))
    stage.wait(stage.authority.refresh(now))
    for certificate in (first, second):
        with pytest.raises(NotEnrolled):
            stage.authority.identify(certificate, now)


def test_admitted_files_that_are_no_good(stage: Any, foreign: Any, now: float) -> None:
    """Each is left out for itself; the good one beside them is taken."""
    folder, material = stage.state / "ca" / "admitted", stage.authority.material
    good = signed_by(material, "web-1", now)
    bad = [signed_by(foreign, "web-2", now), signed_by(material, "web-3", now - 8 * DAY), material.server]
    (folder / "all.pem").write_text(certificates.pem(*bad, good))
    stage.wait(stage.authority.refresh(now))
    assert [known.name for known in stage.authority.known] == ["web-1"]


def test_learning_from_another_helen(stage: Any, stages: Callable[..., Any], now: float) -> None:
    """An agent that moves is known here, may renew here, and its revocation there ends its connection here."""
    there = stages("there")
    agent, revoked = there.enrol("web-1"), there.enrol("web-2")
    there.wait(there.authority.revoke("web-2", now))
    stage.wait(stage.authority.import_ca(certificates.pem(there.authority.material.ca).encode(), now))
    stage.wait(stage.authority.learn(there.authority.known))
    assert [identified(stage, one, now) for one in (agent, revoked)] == ["web-1", "web-2 is revoked"]
    renewed = stage.renew(agent, "web-1")
    assert certificates.is_issued_by(renewed.certificate, stage.authority.material.ca)
    heard: list[tuple[str, frozenset[str]]] = []
    stage.authority.on_revoked(lambda name, keys: heard.append((name, keys)))
    there.wait(there.authority.revoke("web-1", now + 1))
    for _ in range(2):
        stage.wait(stage.authority.learn(there.authority.known))
    assert heard == [("web-1", frozenset([key_of(agent)]))]
    assert identified(stage, agent, now) == "web-1 is revoked"
    known = stage.authority.known
    stage.close()
    assert set(stages().authority.known) == {attrs.evolve(one, used_at=None) for one in known}


def test_learning_takes_nothing_away(stage: Any, now: float) -> None:
    """Another Helen's word about a key that is known here changes neither its name nor its revocation."""
    agent = stage.enrol("web-1")
    stage.wait(stage.authority.revoke("web-1", now))
    lie = EnrolledCertificate(key_of(agent), "web-2", now, now + 99 * DAY)
    stage.wait(stage.authority.learn([lie]))
    assert identified(stage, agent, now) == "web-1 is revoked"


def test_forgetting(stage: Any, stages: Callable[..., Any], now: float) -> None:
    """Shut out, in the audit, and in no list of the next start; the name comes back by a token that is made for it."""
    held = stage.enrol("web-1")
    stage.enrol("web-2")
    heard: list[Any] = []
    stage.authority.on_revoked(lambda name, keys: heard.append(name))
    stage.wait(stage.authority.forget("web-1", now, by="ann"))
    assert (heard, stage.audit()[-1]) == (["web-1"], ("ann", "forget", "web-1", ""))
    with pytest.raises(NotEnrolled, match="revoked"):
        stage.authority.identify(held.certificate, now)
    with pytest.raises(NotEnrolled, match="taken or revoked"):
        stage.enrol("web-1", stage.token())
    with pytest.raises(UnknownAgent, match=r"No agent is called web-9\."):
        stage.wait(stage.authority.forget("web-9", now))
    stage.close()
    again = stages()
    assert [one.name for one in again.wait(again.store.call(agent_rows.agents))] == ["web-2"]
    assert credential_rows.forgotten(again.wait(again.store.call(agent_rows.everything))) == ["web-1"]
    again.enrol("web-1")
    assert [one.name for one in again.wait(again.store.call(agent_rows.agents))] == ["web-1", "web-2"]


def test_a_forgotten_name_is_free_when_its_last_certificate_is_gone(stage: Any, now: float) -> None:
    """A forgotten name is free thirty days after its last certificate's end, and at once if it never had any."""
    stage.enrol("web-1")
    stage.wait(stage.authority.forget("web-1", now))
    later = now + 40 * 86_400
    stage.wait(stage.store.call(credential_rows.forget_expired, later))
    assert stage.wait(stage.store.call(agent_rows.everything)).keys() & {"forgotten/web-1"} == set()
    stage.enrol("web-1", stage.token(now=later), now=later)


def test_other_names_for_helens_certificate(stage: Any, now: float) -> None:
    """The new names count from the next look at the folder on, and listeners are told to take the new certificate."""
    told: list[bool] = []
    stage.authority.on_changed(lambda: told.append(True))
    stage.authority.answer_to(["mon.example"])
    assert stage.wait(stage.authority.refresh(now)) is True
    names = stage.authority.material.server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "mon.example" in names.get_values_for_type(x509.DNSName)
    assert "helen.example" not in names.get_values_for_type(x509.DNSName)
    assert told == [True]
