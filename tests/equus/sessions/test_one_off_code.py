"""Test orders to run one-off code: who may give them, for whom, how often, and what is left of them."""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from twisted.internet.defer import Deferred

from equus.code.library import hash_of
from equus.policy.policy import Policy
from equus_protocol import messages as m
from equus_protocol import one_off

ANNA, MALLORY = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
SOURCE = b'return { summary = "new", run = function() return "ok" end }\n'
FILES = {"new.lua": SOURCE, "lib/text.lua": b"return {}\n"}
EMPTY = m.Schedule(1, b"[]")


@pytest.fixture
def pinned(memory_agent):
    """Return a function that makes an agent `web-1` with Anna's key pinned, and a Helen of version 2."""

    def make(**settings):
        made = memory_agent(name="web-1", **settings)
        made.identities.pin(ANNA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        made.membership.trusted_keys.refresh()
        made.helen = made.meet()
        made.helen.say(EMPTY)
        return made

    return make


def order(made, number=1, key=ANNA, on=("web-1",), files=FILES, at=0.0, life=one_off.LIFE):
    created = made.wall() + at
    text = one_off.build(f"{number:032x}", "new", files, {"path": "/"}, list(on), created, created + life)
    return one_off.pack(one_off.sign(text, [key]), files)


def ask(made, blob, message_id=1):
    return made.helen.say(m.Check(one_off.NAME, message_id, blob))


def refused(made, blob):
    """Return the sentence with which an order is refused, and check that nothing has run."""
    [result] = ask(made, blob)
    told = json.loads(result.blob)
    assert (result.name, told["status"], told["reason"], made.runner.running) == (
        one_off.NAME, "unknown", "denied", [],
    )  # fmt: skip
    return told["summary"]


def test_an_order_runs_once(pinned):
    """An order runs its signed code with its signed arguments once, as pushed code, and keeps no state."""
    made = pinned()
    assert ask(made, order(made)) == []
    [run] = made.runner.running
    job = run.job
    assert (job.check, job.source, json.loads(job.args), job.code) == ("new", SOURCE, {"path": "/"}, hash_of(SOURCE))
    assert (job.libraries, job.pushed, job.keeps_state) == ({"text": b"return {}\n"}, True, False)
    run.finish(summary="fine")
    [result] = made.helen.hear()
    assert (result.message_id, result.name, json.loads(result.blob)["summary"]) == (1, one_off.NAME, "fine")
    assert made.updater.checks.files == {}
    assert "has run here before" in refused(made, order(made))
    ask(made, order(made, 2))
    assert len(made.runner.running) == 1


def test_an_order_that_has_run_is_known_after_a_restart(pinned, memory_agent):
    """The id of an order is on disk before it runs, so that it is refused after a restart, and goes once it has
    expired.
    """
    made = pinned()
    ask(made, order(made))
    made.runner.running[0].finish()
    made.close()
    again = pinned()
    assert "has run here before" in refused(again, order(again))
    assert list(json.loads((again.state / "once.json").read_text())) == [f"{1:032x}"]
    again.wall = lambda: 1_900_000_000.0
    again.agent.services.orders._wall = again.wall
    ask(again, order(again, 2))
    assert list(json.loads((again.state / "once.json").read_text())) == [f"{2:032x}"]


def set_clock(made, at):
    made.wall = made.agent.services.orders._wall = lambda: at


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("life", "ahead"), [(300.0, 301.0), (300.0, 4e8), (86_400.0, 86_401.0), (7_200.0, 9e5)])
def test_a_clock_that_was_ahead_lets_no_order_run_twice(pinned, life, ahead, restarted):
    """A clock that was ahead lets no order run twice, although the first order seemed expired when another one came."""
    made = pinned()
    now = made.wall()
    first = order(made, 1, life=life)
    ask(made, first)
    made.runner.running[0].finish()
    set_clock(made, now + ahead)
    ask(made, order(made, 2), 2)
    made.runner.running[0].finish()
    made.helen.hear()
    if restarted:
        made.close()
        made = pinned()
    set_clock(made, now + 1.0)
    assert "has run here before" in refused(made, first)
    assert "has run here before" in refused(made, order(made, 2, at=ahead - 1.0 if ahead < 86_000.0 else 0.0))
    assert ask(made, order(made, 3, at=0.5)) == []  # one that is newer than what was forgotten runs
    assert len(made.runner.running) == 1


def test_a_memory_that_is_damaged_lets_no_old_order_in(pinned, tmp_path):
    """With a damaged memory, an order from before the start is refused, and one made since is followed."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "once.json").write_text("[1")
    made = pinned()
    assert "has run here before" in refused(made, order(made, 1, at=-1.0))
    assert ask(made, order(made, 2, at=1.0)) == []


def test_an_order_that_cannot_be_noted_does_not_run(pinned):
    """An order whose id cannot be stored, as on a full disk, does not run: it could run again after a restart."""
    made = pinned()
    (made.state / "once.json").mkdir()
    assert "can't be stored on this host's disk" in refused(made, order(made))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"key": MALLORY}, "bad-signature"),
        ({"on": ("web-2", "role=db")}, "the order is for web-2, role=db, and not for web-1"),
        ({"at": -one_off.LIFE}, "expired"),
    ],
)
def test_orders_that_are_not_followed(pinned, changed, why):
    """An order by another key, for another agent or after its end is refused."""
    made = pinned()
    assert why in refused(made, order(made, **changed))


def test_an_order_by_label(pinned):
    """An order for a label is followed by an agent that has this label."""
    made = pinned()
    assert ask(made, order(made, on=("role=w*",))) == []


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ('one_shot = "refuse"', 'one_shot = "refuse"'),
        ('pushed_code = "frozen"', 'pushed_code = "frozen"'),
        ('pushed_code = "refuse"', 'pushed_code = "refuse"'),
    ],
)
def test_the_hosts_own_policy(pinned, policy, why):
    """The host's policy counts before any signature."""
    made = pinned()
    made.policy.current = Policy.parse(policy.encode(), "p.toml")
    assert f"p.toml says {why}" in refused(made, order(made))


def test_an_agent_with_a_folder_of_its_own(pinned, folder):
    """An agent with --checks refuses orders, because it runs the code of its folder alone."""
    made = pinned(checks=folder)
    assert "--checks" in refused(made, order(made))


def test_an_agent_without_pinned_keys(memory_agent):
    """An agent without pinned keys refuses each order, since no key could have signed one for it."""
    made = memory_agent(name="web-1")
    made.helen = made.meet()
    made.helen.say(EMPTY)
    assert "no signing keys" in refused(made, order(made))


def test_what_is_no_order_is_refused(pinned):
    """Arguments of another check are no order, and are refused as malformed."""
    assert "malformed" in refused(pinned(), b'{"path": "/"}')


def test_a_helen_of_version_1_has_no_such_check(memory_agent):
    """Over version 1 the name of an order is an unknown check."""
    made = memory_agent(name="web-1")
    made.route.version = lambda now: 1
    [result] = made.meet().say(m.Check(one_off.NAME, 1, b"{}"))
    assert json.loads(result.blob)["reason"] == "unknown-check"


def test_an_order_can_be_cancelled(pinned):
    """An order can be cancelled as any check."""
    made = pinned()
    ask(made, order(made), 5)
    [result] = made.helen.say(m.Cancel(5))
    assert (result.message_id, json.loads(result.blob)["reason"]) == (5, "cancelled")


def test_an_order_is_given_up_while_it_is_noted(pinned):
    """An order that is cancelled while its id is written is answered at once, and does not run afterwards."""
    made = pinned()
    written = []

    def slow(call, *arguments):
        written.append(Deferred().addCallback(lambda _: call(*arguments)))
        return written[-1]

    made.agent.services.orders._defer_to_thread = slow
    ask(made, order(made), 5)
    [result] = made.helen.say(m.Cancel(5))
    assert json.loads(result.blob)["reason"] == "cancelled"
    written[0].callback(None)
    assert (made.runner.running, made.helen.hear()) == ([], [])
    ask(made, order(made, 2), 6)
    made.part(made.helen)
    written[1].callback(None)
    assert made.runner.running == []


def test_a_fault_of_our_own_is_an_answer(pinned, monkeypatch):
    """A fault of the agent's own answers the order, without its details, which are in the log."""
    made = pinned()

    def broken(order, here):
        raise ZeroDivisionError("inside")

    monkeypatch.setattr("equus.sessions.one_off_code.job_of", broken)
    assert refused(made, order(made)) == "a fault of the agent's own; its log says which"


def test_only_so_many_are_remembered(pinned, monkeypatch):
    """Beyond the most orders that are remembered, further ones are refused, instead of forgetting old ones."""
    monkeypatch.setattr("equus.sessions.one_off_code.MOST_ORDERS", 1)
    made = pinned()
    ask(made, order(made))
    made.runner.running[0].finish()
    made.helen.hear()
    assert "1 orders have run here" in refused(made, order(made, 2))
