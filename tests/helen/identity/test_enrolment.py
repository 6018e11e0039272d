"""Tests enrolment: what a token opens, how often, for whom; and what is refused, counted and written down."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from twisted.internet.defer import DeferredList

from helen.identity.authority import NotEnrolled
from helen.identity.enrolment_documents import BLOB_SIZE, Enrolled, EnrolRequest
from helen.identity.reserved_names import why_reserved
from helen.keys import certificates
from helen.keys.certificates import BadRequest

DAY = 86_400.0


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def test_a_token_names_the_ca(stage: Any) -> None:
    """A token is `<sha256 of the CA's DER, hexadecimal>.<secret of 43 letters or more>`, with another
    secret each time.
    """
    tokens = {stage.token() for _ in range(20)}
    der = stage.authority.material.ca.public_bytes(serialization.Encoding.DER)
    assert {token.partition(".")[0] for token in tokens} == {hashlib.sha256(der).hexdigest()}
    assert len({token.partition(".")[2] for token in tokens}) == 20
    assert all(len(token.partition(".")[2]) >= 43 for token in tokens)


def test_enrolling(stage: Any, request_of: Callable[..., str], now: float) -> None:
    """The answer has a certificate for the name and the key, every CA, and when to come again."""
    key = new_key()
    enrolled = stage.wait(stage.authority.enrol("web-1", stage.token(), request_of(key), "10.0.0.7", now))
    certificate = x509.load_pem_x509_certificate(enrolled.certificate.encode())
    assert certificates.name_in(certificate) == "web-1"
    assert certificate.public_key() == key.public_key()
    assert enrolled.ca == certificates.pem(stage.authority.material.ca)
    assert enrolled.renew_after == int(now + 7 * DAY * 2 / 3)
    identity = stage.authority.identify(certificate, now)
    assert (identity.name, identity.not_after) == ("web-1", now + 7 * DAY)


@pytest.mark.parametrize("make", [ed25519.Ed25519PrivateKey.generate, lambda: rsa.generate_private_key(65_537, 2_048)])
def test_other_kinds_of_key(stage: Any, make: Callable[[], Any]) -> None:
    """Ed25519 and RSA agents enrol and are known like others."""
    agent = stage.enrol("web-1", key=make())
    assert agent.certificate.public_key() == agent.key.public_key()


@pytest.mark.adversary(26)
def test_no_secret_is_kept(stage: Any, tmp_path: Path) -> None:
    """Neither a used nor an unused token is in any file of the state directory, whole or by its verifying part."""
    used, unused = stage.token(), stage.token("web-2", ttl=60)
    stage.enrol("web-1", used)
    with pytest.raises(NotEnrolled):
        stage.enrol("web-3", used)
    stage.close()
    content = b"".join(path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file())
    for token in (used, unused):
        secret = token.partition(".")[2].encode()
        assert secret[:12] in content
        assert secret not in content and secret[12:] not in content


REFUSED = {
    "nobody made it": lambda stage, token: token[:-1] + ("A" if token[-1] != "A" else "B"),
    "another secret": lambda stage, token: token.partition(".")[0] + "." + "A" * 43,
    "another CA": lambda stage, token: "0" * 64 + token[64:],
    "no token": lambda stage, token: "no token at all",
    "empty": lambda stage, token: "",
    "a short secret": lambda stage, token: token[: 64 + 1 + 42],
    "a surrogate": lambda stage, token: "\ud800" + token[1:],
    "for another name": lambda stage, token: stage.token("somebody-else"),
}


@pytest.mark.parametrize("title", REFUSED)
def test_a_token_that_opens_nothing(stage: Any, title: str) -> None:
    """NotEnrolled, an audit entry without a secret, and nobody is known afterwards."""
    token = REFUSED[title](stage, stage.token())
    with pytest.raises(NotEnrolled) as refusal:
        stage.enrol("kit", token)
    assert stage.authority.known == ()
    actor, action, subject, detail = stage.audit()[-1]
    assert (actor, action, subject, detail) == ("stranger", "enrol-refused", "kit", refusal.value.reason)
    assert token[64 + 13 :] not in detail or len(token) < 100
    assert stage.authority.refusals == {"enrol": 1}


@pytest.mark.adversary(26)
@pytest.mark.parametrize(
    "ttl, after, good", [(60, 59.9, True), (60, 60, False), (3_600, 3_599, True), (3_600, 3_601, False)]
)
def test_a_token_lives_for_its_time(stage: Any, now: float, ttl: float, after: float, good: bool) -> None:
    """A token is good until its ttl is over and not a moment longer."""
    token = stage.token(ttl=ttl)
    try:
        stage.enrol("kit", token, now=now + after)
        enrolled = True
    except NotEnrolled as refusal:
        enrolled = False
        assert refusal.reason == f"token {token[65:77]} has expired"
    assert enrolled is good


@pytest.mark.parametrize("ttl", [0, -1, 30 * DAY + 1, float("nan"), float("inf")])
def test_a_ttl_that_is_none(stage: Any, ttl: float) -> None:
    """A ttl beyond its limits is refused with the limit."""
    with pytest.raises(BadRequest, match="up to 30 days"):
        stage.token(ttl=ttl)


def test_a_token_for_a_bad_name(stage: Any) -> None:
    """A token for a bad name is refused, as it could never be used."""
    with pytest.raises(BadRequest):
        stage.token("No Name")


@pytest.mark.adversary(26)
def test_a_bound_token(stage: Any) -> None:
    """A token that is bound to a name enrols that name."""
    assert certificates.name_in(stage.enrol("web-1", stage.token("web-1")).certificate) == "web-1"


@pytest.mark.adversary(26)
def test_a_token_is_good_once(stage: Any) -> None:
    """A second key gets nothing for it, neither under the same name nor under another."""
    token = stage.token()
    stage.enrol("web-1", token)
    for name in ("web-1", "web-2"):
        with pytest.raises(NotEnrolled, match="was used before"):
            stage.enrol(name, token)


def test_an_answer_that_was_lost(stage: Any, now: float) -> None:
    """The holder of the key may ask again while the token lives and gets the same certificate."""
    token, key = stage.token(), new_key()
    first = stage.enrol("web-1", token, key)
    assert stage.enrol("web-1", token, key).certificate == first.certificate
    with pytest.raises(NotEnrolled):
        stage.enrol("web-2", token, key)
    with pytest.raises(NotEnrolled, match="has expired"):
        stage.enrol("web-1", token, key, now=now + 3_600)


def test_a_lost_answer_is_not_given_to_the_revoked(stage: Any, now: float) -> None:
    """A lost answer is not given to a revoked key, as revocation comes first."""
    token, key = stage.token(), new_key()
    stage.enrol("web-1", token, key)
    stage.wait(stage.authority.revoke("web-1", now))
    with pytest.raises(NotEnrolled):
        stage.enrol("web-1", token, key)


def test_one_token_used_twice_at_once(stage: Any, request_of: Callable[..., str], now: float) -> None:
    """One of twenty that come together wins; the others are refused, and one certificate exists."""
    token = stage.token()
    asked = [stage.authority.enrol(f"web-{n}", token, request_of(new_key()), f"10.0.0.{n}", now) for n in range(20)]
    outcomes = stage.wait(DeferredList(asked, consumeErrors=True))
    assert [isinstance(value, Enrolled) for _, value in outcomes].count(True) == 1
    assert [known.name for known in stage.authority.known] == ["web-0"]


def test_an_open_token_takes_over_nobody(stage: Any, now: float) -> None:
    """A name that an agent has or had needs a token for it: in use, revoked, in its grace, long expired (F39)."""
    stage.enrol("web-1")
    stage.enrol("web-2")
    stage.wait(stage.authority.revoke("web-2", now))
    for name in ("web-1", "web-2"):
        with pytest.raises(NotEnrolled, match=f"helen token --agent {name}"):
            stage.enrol(name, stage.token())
        stage.enrol(name, stage.token(name))
    for days in (8, 400):  # within the grace, and after all of it
        later = now + days * DAY
        stage.wait(stage.authority.refresh(later))
        with pytest.raises(NotEnrolled, match="helen token --agent web-1"):
            stage.enrol("web-1", stage.token(now=later), now=later)
    stage.enrol("web-1", stage.token("web-1", now=later), now=later)


def test_names_that_others_speak_under_need_a_token_of_their_own(stage: Any) -> None:
    """Reserved names and hosts that report from outside need a token that was made for the name (F39)."""
    stage.authority.enrolment.reserved = lambda name: why_reserved(name) or ("from outside" if name == "bk" else "")
    for name in ("pings", "helen", "equus", "admin", "bk"):
        with pytest.raises(NotEnrolled, match=f"{name} is (reserved|from outside): make a token for it"):
            stage.enrol(name, stage.token())
        assert stage.enrol(name, stage.token(name)).key is not None
    assert stage.enrol("pings-2", stage.token()).key is not None


def test_a_forgotten_name_is_free_once_its_last_certificate_is_gone(stage: Any, now: float) -> None:
    """Forgetting says that the machine is gone for good; until then a found token can't take the name."""
    stage.enrol("web-1")
    stage.wait(stage.authority.forget("web-1", now))
    with pytest.raises(NotEnrolled, match="helen token --agent web-1"):
        stage.enrol("web-1", stage.token())
    later = now + 60 * DAY
    stage.wait(stage.authority.refresh(later))
    stage.enrol("web-1", stage.token(now=later), now=later)


def test_a_refusal_uses_up_no_token(stage: Any) -> None:
    """A bad request, or the wrong name, leaves the token good."""
    token = stage.token("web-1")
    for name, key in (("web-2", None), ("web-1", ec.generate_private_key(ec.SECP521R1()))):
        with pytest.raises(NotEnrolled):
            stage.enrol(name, token, key)
    stage.enrol("web-1", token)


def test_a_key_that_is_known(stage: Any) -> None:
    """Nobody enrols with a key that another agent, or the same one, enrolled with: one key has one certificate."""
    agent = stage.enrol("web-1")
    for name in ("web-2", "web-1"):
        with pytest.raises(NotEnrolled, match="each one needs a new key"):
            stage.enrol(name, stage.token(name), agent.key)


@pytest.mark.parametrize("name", ["", "Web", "../x", "a" * 64, "a\n"])
def test_bad_names(stage: Any, name: str) -> None:
    """A bad name is on the wire no different from a bad token, and shortened in the audit."""
    with pytest.raises(NotEnrolled, match="no name for an agent"):
        stage.enrol(name, stage.token())
    assert stage.audit()[-1][2] == name[:63]


def test_guesses_are_counted(stage: Any, now: float) -> None:
    """An address with five wrong tokens in a minute is not heard, not even with a good one; others are."""
    wrong = [stage.token()[:-4] + letters for letters in ("AAAA", "BBBB", "CCCC", "DDDD", "EEEE")]
    for token in wrong:
        with pytest.raises(NotEnrolled, match="nobody made this token"):
            stage.enrol("kit", token)
    good = stage.token()
    with pytest.raises(NotEnrolled, match=r"too many wrong tokens from 10\.0\.0\.7"):
        stage.enrol("kit", good, now=now + 59.9)
    stage.enrol("other", address="10.0.0.8")
    stage.enrol("kit", good, now=now + 60)


@pytest.mark.adversary(26)
def test_a_thousand_guesses(stage: Any, request_of: Callable[..., str]) -> None:
    """995 of them are not even looked at, and the audit grows by five."""
    token, csr = stage.token()[:65], request_of(new_key())
    for number in range(1_000):
        with pytest.raises(NotEnrolled):
            stage.wait(stage.authority.enrol("kit", f"{token}{number:054}", csr, "10.0.0.7", 1e9))
    assert stage.authority.refusals == {"enrol": 5, "shut-out": 995}
    assert len([entry for entry in stage.audit() if entry[1] == "enrol-refused"]) == 5


def test_refusals_that_are_no_guesses(stage: Any) -> None:
    """A fleet behind one address with a token that was used before is refused, and not shut out."""
    token = stage.token()
    stage.enrol("web-0", token)
    for number in range(10):
        with pytest.raises(NotEnrolled, match="was used before"):
            stage.enrol(f"web-{number}", token)


def test_the_audit_is_not_flooded(stage: Any, now: float) -> None:
    """Sixty refusals a minute are written down, all are counted."""
    for number in range(100):
        stage.authority.conflict("web-1", "10.0.0.7", now + number / 10)
    stage.authority.conflict("web-1", "10.0.0.7", now + 60)
    entries = [entry for entry in stage.audit() if entry[1] == "conflict-refused"]
    assert (len(entries), stage.authority.refusals["conflict"]) == (61, 101)


def test_what_the_audit_says(stage: Any) -> None:
    """The audit has token, enrolment and their serials, in order."""
    token = stage.token("web-1", by="ann")
    agent = stage.enrol("web-1", token)
    shown, serial = token[65:77], f"{agent.certificate.serial_number:x}"
    assert stage.audit() == [
        ("ann", "token", "web-1", f"token {shown} for 3600 s"),
        ("agent:web-1", "enrol", "web-1", f"enrol by token {shown}, serial {serial}"),
    ]


# ------------------------------------------------------------------------------------------------ documents

GOOD_BLOBS = {
    b'{"token": "t", "csr": "c"}': EnrolRequest("c", "t"),
    b'{"csr": "c"}': EnrolRequest("c"),
    b'{"csr": "c", "token": null, "more": [1]}': EnrolRequest("c"),
}
BAD_BLOBS = [
    b"",
    b"{}",
    b"[]",
    b"null",
    b'"csr"',
    b'{"csr": 1}',
    b'{"csr": "c", "token": 5}',
    b'{"token": "t"}',
    b"\xff\xfe",
    b"[" * 30_000,
    b'{"csr": "' + b"x" * BLOB_SIZE + b'"}',
]


@pytest.mark.parametrize("blob", GOOD_BLOBS)
def test_requests_that_can_be_read(blob: bytes) -> None:
    """A token is there or not; what later versions add is passed over."""
    assert EnrolRequest.parse(blob) == GOOD_BLOBS[blob]


@pytest.mark.parametrize("blob", BAD_BLOBS, ids=lambda blob: repr(blob[:20]))
def test_requests_that_cannot(blob: bytes) -> None:
    """A stranger's JSON raises BadRequest and nothing else, however deep or long."""
    with pytest.raises(BadRequest):
        EnrolRequest.parse(blob)


def test_a_request_shows_no_token() -> None:
    """The repr of a request, which goes into logs, has no token."""
    assert "secret" not in repr(EnrolRequest("c", "secret"))


def test_the_answer() -> None:
    """The answer has the four fields of the protocol."""
    assert json.loads(Enrolled("c", "a", 5).blob("k")) == {
        "certificate": "c",
        "ca": "a",
        "renew_after": 5,
        "signing_keys": "k",
    }


# ------------------------------------------------------------------------------------------------ kill -9

ENROLLING = """
import sys, time
from pathlib import Path
from queue import SimpleQueue
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from helen.identity.authority import Authority
from helen.storage.database import Store
from helen.storage.token_rows import Terms

calls = SimpleQueue()
state, now = Path(sys.argv[1]), time.time()
store = Store(state, lambda function, *args: calls.put((function, args)))
authority = Authority.open(state, store, store.open(now), [], now)

def wait(deferred):
    outcome = []
    deferred.addBoth(outcome.append)
    while not outcome:
        function, args = calls.get()
        function(*args)
    return outcome[0]

for number in range(int(sys.argv[2]), 10_000):
    key = ec.generate_private_key(ec.SECP256R1())
    csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    token = wait(authority.tokens.make(Terms(), now))
    print("made", token, flush=True)
    done = wait(authority.enrol(f"web-{number}", token, csr.public_bytes(Encoding.PEM).decode(), "10.0.0.7", now))
    print("used", token, done.renew_after, flush=True)
"""


def test_a_token_is_used_once_through_kill_9(tmp_path: Path, stages: Callable[..., Any]) -> None:
    """An answered use is on disk after a kill at any moment, and a used token has exactly one certificate."""
    answered: set[str] = set()
    made: set[str] = set()
    chance = random.Random(4166)
    for turn in range(3):
        command = [sys.executable, "-c", ENROLLING, str(tmp_path / "state"), str(turn * 1_000)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            lines = [child.stdout.readline() for _ in range(min(turn + 1, 2))]  # later ones have had an answer
            time.sleep(chance.uniform(0.01, 0.2))
            os.kill(child.pid, signal.SIGKILL)
            lines += child.stdout.readlines()
        words = [line.split() for line in lines if line.endswith("\n")]
        made |= {word[1] for word in words if word[0] == "made"}
        answered |= {word[1] for word in words if word[0] == "used"}
    stage = stages()
    rows = stage.wait(stage.store.call(tokens_and_certificates))
    used = {token_id for token_id, _, key in rows if key is not None}
    assert {token[65:77] for token in answered} <= used
    assert all(certified == (key is not None) for _, certified, key in rows)
    for token in sorted(answered)[:2]:
        with pytest.raises(NotEnrolled, match="was used before"):
            stage.enrol("thief", token)
    assert answered and len(used - {token[65:77] for token in answered}) <= 3  # one answer lost in each kill at most


def tokens_and_certificates(db: sqlite3.Connection) -> list[tuple[str, bool, str | None]]:
    rows = db.execute(
        "SELECT tokens.id, certificates.key_hash IS NOT NULL, tokens.key_hash FROM tokens"
        " LEFT JOIN certificates USING (key_hash)"
    )
    return [(token, bool(certified), key) for token, certified, key in rows]
