"""Test when an agent asks for certificates and for the keys that it lacks, and what it does with refusals."""

import datetime
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from equus.agent import TICK
from equus.identity.identity_store import IdentityStore
from equus.link.questions import MAX_ID
from equus.sessions.enrolment import ENROL_WITHIN
from equus.sessions.lost_connection import explain_loss
from equus.settings import Settings, parse_server
from equus.tap import StartRefused, choose_identity
from equus_protocol import messages as m

SIGNER = Ed25519PrivateKey.from_private_bytes(b"s" * 32).public_key()
SIGNERS = SIGNER.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
EMPTY = m.Schedule(1, b"[]")


@pytest.fixture
def agent(memory_agent, folder, authority):
    """Makes an agent that has an identity, though it speaks in clear here."""

    def make(identity, **settings):
        made = memory_agent(identity=identity, **settings)
        made.wall = lambda: (identity.not_before + identity.not_after) / 2 + made.clock.seconds()
        return made

    return make


def asked(heard):
    return [message for message in heard if isinstance(message, m.Enrol)]


def csr_in(request):
    return json.loads(request.blob)["csr"]


@pytest.mark.adversary(23)
def test_a_certificate_is_renewed_when_two_thirds_are_over(agent, folder, authority):
    """A certificate is renewed on the open connection after two thirds of its life, never twice at once, and shown from
    the next connection on.
    """
    held = authority.identity("web-1")
    made = agent(held, checks=folder)
    helen = made.meet()
    assert asked(helen.say(EMPTY)) == []
    made.wall = lambda: held.not_after - 60
    for _ in range(int(TICK / 10)):
        made.clock.advance(10)
        heard = helen.say(m.Pong(MAX_ID))
    [request] = asked(heard)
    for _ in range(int(ENROL_WITHIN / 10) - 1):
        made.clock.advance(10)
        assert asked(helen.say(m.Pong(MAX_ID))) == []
    helen.say(m.Enrolled(request.message_id, authority.answer(csr_in(request))))
    renewed = made.identities.load()
    assert renewed.key != held.key
    assert made.membership.identity == renewed


def test_a_renewal_that_is_not_answered(agent, folder, authority):
    """A renewal without an answer is given up and asked for again later, and a late answer changes nothing."""
    held = authority.identity("web-1")
    made = agent(held, checks=folder)
    made.wall = lambda: held.not_after - 60
    helen = made.meet()
    [request] = asked(helen.say(EMPTY))
    for _ in range(int((TICK + ENROL_WITHIN) / 10)):
        made.clock.pump([0.5] * 20)
        assert asked(helen.say(m.Pong(MAX_ID))) == []
    assert not made.membership.is_renewing
    helen.say(m.Enrolled(request.message_id, authority.answer(csr_in(request))))
    assert (made.membership.identity, helen.equus.violation) == (held, "")
    again = []
    for _ in range(int(TICK / 10)):
        made.clock.advance(10)
        again += asked(helen.say(m.Pong(MAX_ID)))
    assert len(again) == 1 and csr_in(again[0]) != csr_in(request)
    helen.say(m.Enrolled(again[0].message_id, authority.answer(csr_in(again[0]))))
    assert made.membership.identity != held


def test_joining_that_is_not_answered(memory_agent, folder, authority):
    """A Helen that does not answer `enrol` is left, and another connection is tried."""
    made = memory_agent(checks=folder, join=f"{authority.sha256}.secret", insecure_plaintext=False, name="web-1")
    helen = made.meet_in_clear()
    made.clock.pump([0.5] * int(2 * ENROL_WITHIN - 1))
    assert helen.transport.ended is None
    made.clock.pump([0.5] * 2)
    assert helen.transport.ended == "lost"
    helen.equus.connectionLost(Failure(ConnectionDone()))
    assert (made.route.failures, made.finished, made.membership.token is not None) == (1, [], True)


def test_a_renewal_that_fails_is_tried_again(agent, folder, authority):
    """A renewal that fails is tried again, and the old certificate is used meanwhile."""
    held = authority.identity("web-1")
    made = agent(held, checks=folder)
    made.wall = lambda: held.not_after - 60
    helen = made.meet()
    [request] = asked(helen.say(EMPTY))
    helen.say(m.Enrolled(request.message_id, b"nonsense"))
    assert made.membership.identity == held
    made.part(helen)
    assert len(asked(made.meet().say(EMPTY))) == 1


def test_without_pinned_keys_they_are_asked_for_before_any_code(agent, authority):
    """An agent with a certificate and no signing keys renews at once, pins the keys, and then asks for the manifest."""
    made = agent(authority.identity("web-1"))
    helen = made.meet()
    loaded, request = helen.say(EMPTY)
    assert isinstance(loaded, m.Loaded) and isinstance(request, m.Enrol)
    assert helen.say(m.Reload()) == []
    answer = authority.answer(csr_in(request), signing_keys=SIGNERS)
    assert helen.say(m.Enrolled(request.message_id, answer)) == [m.AskManifest(2)]


def test_joining_comes_before_hello_and_the_connection_is_made_anew(memory_agent, folder, authority):
    """An agent sends its request to join before hello, and connects anew with the certificate."""
    made = memory_agent(checks=folder, join=f"{authority.sha256}.secret", insecure_plaintext=False, name="web-1")
    helen = made.meet_in_clear()
    [request] = helen.hello
    assert (request.name, helen.conversation.version) == ("web-1", 0)
    helen.say(m.Enrolled(request.message_id, authority.answer(csr_in(request), signing_keys=SIGNERS)))
    assert helen.transport.ended == "lost"
    helen.equus.connectionLost(Failure(ConnectionDone()))
    assert (made.route.delay, made.route.failures, made.finished) == (0.0, 0, [])
    assert made.meet_in_clear().hello == [m.Hello(2, "0.1")]


def test_a_token_that_is_refused_ends_the_agent(memory_agent, folder, authority):
    """A refused token ends the agent, because another try would fail as well."""
    made = memory_agent(checks=folder, join=f"{authority.sha256}.secret", insecure_plaintext=False)
    helen = made.meet_in_clear()
    helen.say_bytes(b"error not-enrolled\n")
    helen.equus.connectionLost(Failure(ConnectionDone()))
    assert made.finished == [(1, "")]


def test_a_refused_token_is_said_with_the_name_that_was_asked_for(memory_agent, folder, authority):
    """A refused token is explained with the name that was asked for, so that a token for another name is found."""
    made = memory_agent(checks=folder, join=f"{authority.sha256}.secret", insecure_plaintext=False, name="web-7")
    helen = made.meet_in_clear()
    helen.say_bytes(b"error not-enrolled\n")
    sentence = explain_loss(helen.equus, Failure(ConnectionDone()), None, made.membership)
    assert "not for the name web-7, which was asked for; ask for a new one with `helen token --agent web-7`" in sentence


def test_whoever_connects_once_asks_for_nothing_more(agent, folder, authority):
    """An agent that connects once asks neither for a certificate nor for code."""
    held = authority.identity("web-1")
    made = agent(held, once=True)
    made.wall = lambda: held.not_after - 60
    assert [type(message) for message in made.meet().say(EMPTY)] == [m.Loaded]
    assert made.finished == [(0, "")]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ("not-enrolled", "enrol again with --join TOKEN"),
        ("identity-in-use", "Is one a clone of the other?"),
        ("shutting-down;retry-after=3", "Helen said error shutting-down;retry-after=3"),
    ],
)
def test_what_helen_says_last_is_explained(agent, folder, authority, error, sentence):
    """The last error of Helen is explained with the next step, if there is one."""
    made = agent(authority.identity("web-1"), checks=folder)
    helen = made.meet()
    helen.say_bytes(f"error {error}\n".encode())
    assert sentence in explain_loss(helen.equus, Failure(ConnectionDone()), None, made.membership)


# ---------------------------------------------------------------------------------------------------- who we are


def named(tmp_path, authority, **life):
    """Return settings that name three files, and write the identity into them."""
    certificate, key = authority.agent("web-1", **life)
    paths = {}
    for name, content in (("certificate", certificate), ("key", key), ("ca", authority.pem)):
        paths[name] = tmp_path / f"given-{name}"
        paths[name].write_bytes(content)
        paths[name].chmod(0o600)
    return Settings((parse_server("h"),), tmp_path, **paths)


def test_the_files_that_were_named_count(tmp_path, authority):
    """The files that the settings name are used, and the signing keys beside them are pinned."""
    state = tmp_path / "state"
    state.mkdir()
    settings = named(tmp_path, authority)
    (tmp_path / "signing-keys.pem").write_bytes(SIGNERS)
    store = IdentityStore(state)
    chosen = choose_identity(settings, store, 0.0)
    assert chosen.certificate == settings.certificate.read_bytes()
    assert list(store.signing_keys().values()) == [SIGNER]


def test_a_renewed_certificate_of_the_same_name_wins(tmp_path, authority):
    """A renewed certificate of the same name counts before the named files; one of another name or an older one does
    not.
    """
    settings = named(tmp_path, authority, start=-2 * datetime.timedelta(days=1))
    store = IdentityStore(tmp_path)
    renewed = authority.identity("web-1")
    store.save(renewed)
    assert choose_identity(settings, store, 0.0) == renewed
    store.save(authority.identity("db-1"))
    assert choose_identity(settings, store, 0.0).name == "web-1"
    older = authority.identity("web-1", start=-3 * datetime.timedelta(days=1))
    store.save(older)
    assert choose_identity(settings, store, 0.0) != older


def test_an_identity_makes_a_token_needless_until_it_expires(tmp_path, authority):
    """A valid identity counts before a token and the token once it has expired, so that one command line serves
    always.
    """
    store = IdentityStore(tmp_path)
    identity = authority.identity("web-1")
    store.save(identity)
    joining = Settings((parse_server("h"),), tmp_path, join=f"{authority.sha256}.secret")
    assert choose_identity(joining, store, identity.not_before + 1) == identity
    assert choose_identity(joining, store, identity.not_after + 1) is None
    bare = Settings((parse_server("h"),), tmp_path)
    assert choose_identity(bare, store, identity.not_after + 1) == identity  # said in the log, and tried


def test_half_a_token_is_refused_before_anything_is_dialled(tmp_path, authority):
    """Half a token stops the start, even if it is not needed yet."""
    store = IdentityStore(tmp_path)
    store.save(authority.identity("web-1"))
    with pytest.raises(StartRefused, match="this is not a token"):
        choose_identity(Settings((parse_server("h"),), tmp_path, join="half"), store, 0.0)


def test_nothing_at_all_is_refused(tmp_path):
    """Without an identity and a token the start is refused with both ways to get one."""
    with pytest.raises(StartRefused, match=r"helen token.*--certificate"):
        choose_identity(Settings((parse_server("h"),), tmp_path), IdentityStore(tmp_path), 0.0)
