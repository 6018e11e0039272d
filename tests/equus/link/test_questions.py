"""Requests to Helen: who gets the answer, and what happens if none comes."""

from twisted.internet.task import Clock

from equus.link.questions import MAX_ID, Questions, Unanswered
from equus_protocol import messages as m

EMPTY = m.Schedule(1, b"[]")


def test_ids_run_round():
    """The greatest id of the protocol is followed by 1 again."""
    questions = Questions(Clock(), print, print, bool)
    questions._last_id = MAX_ID - 1
    assert [questions.next_id() for _ in range(2)] == [MAX_ID, 1]


def test_a_question_that_is_given_up(meet, ear):
    """A question fails after its time, and the next one at once until the answer has come; then all is as before."""
    helen = meet(ear)
    helen.hear()
    helen.say(EMPTY)
    outcomes = []
    helen.equus.ask(m.AskManifest, within=5.0).addBoth(lambda given: outcomes.append(type(given.value)))
    helen.clock.pump([1.0] * 5)
    helen.equus.ask(m.AskManifest, within=5.0).addBoth(lambda given: outcomes.append(type(given.value)))
    assert outcomes == [Unanswered, Unanswered]
    assert helen.hear() == [m.AskManifest(1)]
    helen.say(m.Manifest(1, b"{}"))
    helen.equus.ask(m.AskManifest, within=5.0).addBoth(outcomes.append)
    helen.clock.advance(0)
    assert helen.hear() == [m.AskManifest(2)]
    helen.say(m.Manifest(2, b"{}"))
    assert outcomes[2:] == [m.Manifest(2, b"{}")]


def test_an_answer_comes_to_who_asked(meet, ear):
    """An answer goes to the request with its id, and a lost connection fails the requests that are open."""
    helen = meet(ear)
    helen.hear()
    helen.say(EMPTY)
    answers, failures = [], []
    helen.equus.ask(m.AskManifest).addCallbacks(answers.append, failures.append)
    helen.equus.ask(lambda message_id: m.Fetch(message_id, "a" * 64)).addCallbacks(answers.append, failures.append)
    assert helen.hear() == [m.AskManifest(1), m.Fetch(2, "a" * 64)]
    helen.say(m.File(2, "a" * 64, b"return {}"))
    assert answers == [m.File(2, "a" * 64, b"return {}")]
    helen.equus.connectionLost()
    assert len(failures) == 1
    helen.equus.ask(m.AskManifest).addErrback(failures.append)
    assert len(failures) == 2
    assert ear.events[-1] == "lost"
