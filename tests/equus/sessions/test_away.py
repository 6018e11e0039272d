"""Test an agent that was without a Helen for so long that its certificate has expired."""

import datetime
import json

import pytest
from twisted.internet.error import ConnectionDone
from twisted.logger import globalLogPublisher
from twisted.python.failure import Failure

from equus.agent import TICK
from equus.link.questions import MAX_ID
from equus.sessions.membership import RENEWAL_PAUSE, WARNS_BEFORE
from equus_protocol import messages as m

EMPTY = m.Schedule(1, b"[]")
DAYS = datetime.timedelta(days=1)


@pytest.fixture
def logged():
    """Yield the list of all log lines of this test."""
    lines = []

    def take(event):
        lines.append(event["log_format"].format(**event))

    globalLogPublisher.addObserver(take)
    yield lines
    globalLogPublisher.removeObserver(take)


def enrols(heard):
    return [message for message in heard if isinstance(message, m.Enrol)]


def csr_in(request):
    return json.loads(request.blob)["csr"]


def pass_ticks(made, helen, ticks):
    """Return what is asked for in so many looks; Helen is never silent."""
    heard = []
    for _ in range(int(ticks * TICK / 10)):
        made.clock.advance(10)
        heard += enrols(helen.say(m.Pong(MAX_ID)))
    return heard


@pytest.mark.parametrize("days", [1, 30, 300])
def test_an_expired_certificate_is_renewed_at_once_and_left(memory_agent, folder, authority, logged, days):
    """An expired certificate is shown and renewed at once, and the agent comes back with the new one without a wait."""
    held = authority.identity("web-1", start=-(days + 7) * DAYS, end=-days * DAYS)
    made = memory_agent(identity=held, checks=folder)
    made.wall = lambda: held.not_after + days * 86_400
    helen = made.meet()
    assert helen.hello == [m.Hello(2, "0.1")]
    [request] = enrols(helen.say(EMPTY))
    assert request.name == "web-1" and "token" not in json.loads(request.blob)
    helen.say(m.Enrolled(request.message_id, authority.answer(csr_in(request))))
    assert helen.transport.ended == "lost"
    assert made.identities.load() == made.membership.identity != held
    helen.equus.connectionLost(Failure(ConnectionDone()))
    assert (made.route.delay, made.route.failures, made.finished) == (0.0, 0, [])
    assert "certificate renewed after its end; coming back with it" in logged
    assert enrols(made.meet().say(EMPTY)) == []


def test_a_helen_that_renews_it_no_more_is_explained(memory_agent, folder, authority, logged):
    """An agent whose certificate is renewed no more gets an explanation, and goes on trying, since the grace may be set
    longer.
    """
    held = authority.identity("web-1", start=-37 * DAYS, end=-30 * DAYS)
    made = memory_agent(identity=held, checks=folder)
    made.wall = lambda: held.not_after + 30 * 86_400
    helen = made.meet()
    helen.say_bytes(b"error not-enrolled\n")
    helen.equus.connectionLost(Failure(ConnectionDone()))
    assert made.finished == []
    [line] = [line for line in logged if line.startswith("connection to")]
    assert "expired on" in line and "`helen renewals`" in line


def test_the_end_is_told_before_and_once(memory_agent, folder, authority, logged):
    """The end of a certificate is logged a day before and once when it is over, however long that lasts."""
    held = authority.identity("web-1", start=-6 * DAYS)
    made = memory_agent(identity=held, checks=folder)
    before = held.not_after - WARNS_BEFORE
    made.wall = lambda: before - 3 * TICK + made.clock.seconds()
    told = []
    for _ in range(int(2 * 86_400 / TICK)):
        made.clock.advance(TICK)
        told += [line for line in logged if "certificate" in line]
        logged.clear()
    warned, over = told
    assert warned == "no Helen has renewed the certificate of web-1, which ends in 24 hours"
    assert over.startswith("the certificate of web-1 expired on") and "results are kept" in over


def test_a_renewed_one_is_not_warned_of(memory_agent, folder, authority, logged):
    """A certificate of half a day causes no warning before two thirds of its life are over."""
    held = authority.identity("web-1", start=0 * DAYS, end=DAYS / 2)
    made = memory_agent(identity=held, checks=folder)
    made.wall = lambda: held.not_before + made.clock.seconds()
    for _ in range(60):
        made.clock.advance(TICK)
    assert [line for line in logged if "no Helen" in line] == []


@pytest.mark.parametrize("ahead", [3.0, 30.0, -30.0])
def test_a_clock_of_ours_that_is_wrong_asks_once_an_hour(memory_agent, folder, authority, ahead, logged):
    """An agent whose clock is wrong asks for a certificate once an hour, although each new one seems due or not valid
    yet.
    """
    held = authority.identity("web-1")
    made = memory_agent(identity=held, checks=folder)
    made.membership._steady = made.clock.seconds
    made.wall = lambda: held.not_before + ahead * 86_400 + made.clock.seconds()
    helen = made.meet()
    [request] = enrols(helen.say(EMPTY))
    helen.say(m.Enrolled(request.message_id, authority.answer(csr_in(request))))
    assert helen.transport.ended is None
    assert any("Helen's clock and ours differ" in line for line in logged)
    assert pass_ticks(made, helen, 20) == []
    made.part(helen)
    again = made.meet()
    assert enrols(again.say(EMPTY)) == []
    assert len(pass_ticks(made, again, RENEWAL_PAUSE / TICK)) == 1


# ---------------------------------------------------------------------------------------------- with a token of before


@pytest.fixture
def joining(memory_agent, folder, authority):
    """Return a function that makes an agent with its first token, and with an expired identity in its folder or with
    none.
    """

    def make(kept, **settings):
        made = memory_agent(
            checks=folder, join=f"{authority.sha256}.secret", insecure_plaintext=False, name="web-1", **settings
        )
        if kept is not None:
            made.identities.save(kept)
            made.wall = lambda: kept.not_after + 86_400
        return made

    return make


def refuse(helen):
    helen.say_bytes(b"error not-enrolled\n")
    helen.equus.connectionLost(Failure(ConnectionDone()))


def test_a_used_token_gives_way_to_the_certificate_of_before(joining, authority, logged):
    """A used token in an old command line is passed over, and the certificate of before is used while its grace
    lasts.
    """
    kept = authority.identity("web-1", start=-37 * DAYS, end=-30 * DAYS)
    made = joining(kept)
    helen = made.meet_in_clear()
    assert "token" in json.loads(helen.hello[0].blob)
    refuse(helen)
    assert (made.finished, made.membership.identity) == ([], kept)
    assert any("going on with the certificate of before: the certificate of web-1 expired on" in one for one in logged)
    assert made.meet_in_clear().hello == [m.Hello(2, "0.1")]


@pytest.mark.parametrize("what", ["nothing is kept", "what is kept is damaged", "it was to connect once"])
def test_a_used_token_and_nothing_to_fall_back_to(joining, authority, what):
    """An agent with a used token and no identity to go on with ends with status 1."""
    kept = None if what == "nothing is kept" else authority.identity("web-1", start=-37 * DAYS, end=-30 * DAYS)
    made = joining(kept, once=what == "it was to connect once")
    if what == "what is kept is damaged":
        made.identities.certificate.write_bytes(b"x")
    refuse(made.meet_in_clear())
    assert made.finished == [(1, "")]
    assert made.membership.identity is None


def test_a_fresh_token_is_taken_before_the_old_certificate(joining, authority):
    """A fresh token is used before the old certificate, and the new certificate counts from then on."""
    kept = authority.identity("web-1", start=-37 * DAYS, end=-30 * DAYS)
    made = joining(kept)
    helen = made.meet_in_clear()
    [request] = helen.hello
    helen.say(m.Enrolled(request.message_id, authority.answer(csr_in(request))))
    helen.equus.connectionLost(Failure(ConnectionDone()))
    assert made.identities.load() == made.membership.identity != kept
    assert made.meet_in_clear().hello == [m.Hello(2, "0.1")]


# ---------------------------------------------------------------------------------------------- forgotten meanwhile


@pytest.fixture
def forgotten(memory_agent, folder, authority):
    """Return an agent with a good certificate and the token that it was started with."""
    held = authority.identity("web-1")
    made = memory_agent(
        identity=held, checks=folder, join=f"{authority.sha256}.secret", insecure_plaintext=False, name="web-1"
    )
    made.identities.save(held)
    made.wall = lambda: held.not_before + 60
    made.now = 0.0
    made.membership._steady = lambda: made.now
    return made


def test_a_forgotten_agent_joins_anew_with_its_token(forgotten, authority):
    """A forgotten agent joins anew with its token, so that nobody has to mend the machine by hand."""
    made, held = forgotten, forgotten.membership.identity
    helen = made.meet_in_clear()
    assert helen.hello == [m.Hello(2, "0.1")]
    refuse(helen)
    helen = made.meet_in_clear()
    [request] = helen.hello
    assert (request.name, json.loads(request.blob)["token"]) == ("web-1", f"{authority.sha256}.secret")
    helen.say(m.Enrolled(request.message_id, authority.answer(csr_in(request))))
    helen.equus.connectionLost(Failure(ConnectionDone()))
    assert made.identities.load() == made.membership.identity != held
    assert made.meet_in_clear().hello == [m.Hello(2, "0.1")]


def test_a_revoked_agent_tries_its_token_once_an_hour(forgotten, logged):
    """A revoked agent tries its token once an hour and keeps its certificate, because an operator may take the
    revocation back.
    """
    made, held = forgotten, forgotten.membership.identity
    refuse(made.meet_in_clear())
    refuse(made.meet_in_clear())
    assert (made.membership.identity, made.finished) == (held, [])
    assert any("going on with the certificate of before; next in" in one for one in logged)
    for passed in (1.0, RENEWAL_PAUSE - 1.0):
        made.now = passed
        helen = made.meet_in_clear()
        assert helen.hello == [m.Hello(2, "0.1")]
        refuse(helen)
    made.now = RENEWAL_PAUSE + 1.0
    refuse(made.meet_in_clear())
    [request] = made.meet_in_clear().hello
    assert "token" in json.loads(request.blob)


def test_other_ends_of_a_connection_use_no_token(forgotten):
    """A Helen that stops, or another machine with the same certificate, does not make the agent use its token."""
    for error in (b"error shutting-down;retry-after=1\n", b"error identity-in-use\n", b""):
        helen = forgotten.meet_in_clear()
        assert helen.hello == [m.Hello(2, "0.1")]
        helen.say_bytes(error)
        helen.equus.connectionLost(Failure(ConnectionDone()))


def test_without_a_token_there_is_none_to_try(memory_agent, folder, authority):
    """An agent without a token shows its certificate at each dial."""
    held = authority.identity("web-1")
    made = memory_agent(identity=held, checks=folder, insecure_plaintext=False)
    for _ in range(3):
        helen = made.meet_in_clear()
        assert helen.hello == [m.Hello(2, "0.1")]
        refuse(helen)
    assert made.membership.identity == held
