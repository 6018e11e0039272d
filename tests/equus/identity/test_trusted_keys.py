"""Test which signing keys an agent trusts over time: roots that follow each other, words of freshness, and an agent
without them.
"""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from twisted.python.failure import Failure

from equus.agent import TICK
from equus.code.update import ASK_AGAIN
from equus.identity.identity import IdentityError
from equus.identity.identity_store import IdentityStore
from equus.identity.signing_keys import checked_root, read_signing_keys
from equus_protocol import delivery, freshness, roots
from equus_protocol import messages as m
from equus_protocol.freshness import LIFE
from equus_protocol.manifest import build, entry, read_unverified, sign

ANNA, BERT, MALLORY, ONLINE = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in range(4))
EMPTY, RELOAD = m.Schedule(1, b"[]"), m.Reload()
FIRST, SECOND = {"load.lua": b"return { load }"}, {"load.lua": b"return { load 2 }"}


def pem_of(*keys):
    form = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return b"".join(key.public_key().public_bytes(*form) for key in keys)


def root(version, keys, signers, threshold=1):
    return roots.sign(roots.build(version, [key.public_key() for key in keys], threshold, ONLINE.public_key()), signers)


class Helen:
    """Stand in for a Helen with check sets, roots and an online key."""

    def __init__(self, memory_agent, chain):
        self.memory_agent, self.chain = memory_agent, list(chain)
        self.helen = memory_agent.meet()
        self.asked = 0

    def deliver(self, files, version, signers, first=RELOAD, statement=True, said_at=None):
        """Say something, and serve this set to whoever asks: the last load report that came."""
        envelope = sign(build({n: entry(c) for n, c in files.items()}, version, 0.0, 2_000_000_000.0), signers)
        self.blob = envelope
        if statement:
            word = freshness.build(read_unverified(envelope), self.memory_agent.wall() if said_at is None else said_at)
            self.blob = delivery.attach(envelope, freshness.sign(word, ONLINE), self.chain)
        self.files = {entry(content).sha256: content for content in files.values()}
        return self.answer(self.helen.say(first))

    def answer(self, heard):
        report = None
        while heard:
            message = heard.pop(0)
            if isinstance(message, m.AskManifest):
                self.asked += 1
                heard += self.helen.say(m.Manifest(message.message_id, self.blob))
            elif isinstance(message, m.Fetch):
                content = self.files[message.sha256]
                heard += self.helen.say(m.File(message.message_id, message.sha256, content))
            elif isinstance(message, m.Loaded):
                report = json.loads(message.blob)
        return report

    def live(self, seconds):
        """Let time go by on a connection that is kept alive, and return the last load report."""
        heard = []
        for _ in range(int(seconds / TICK)):
            for _ in range(4):
                self.memory_agent.clock.advance(TICK / 4)
                heard += self.helen.say(m.Pong(1))
        return self.answer(heard)


def pinned(memory_agent, *keys, first=b""):
    made = memory_agent()
    made.identities.pin(pem_of(*keys), first)
    made.membership.trusted_keys.refresh()
    return made


def text(memory_agent):
    return memory_agent.updater.checks.check("load").content


@pytest.fixture
def agent(memory_agent):
    """Return an agent that has pinned root 1: Anna's key, and Helen's online key."""
    return pinned(memory_agent, ANNA, first=root(1, [ANNA], [ANNA]))


def test_an_agent_without_a_root_takes_the_one_that_its_keys_have_signed(memory_agent):
    """An agent without a root takes one that its keys have signed, and demands a word of freshness from then on."""
    made = pinned(memory_agent, ANNA)
    helen = Helen(made, [root(1, [ANNA], [ANNA])])
    assert "manifest" not in helen.deliver(FIRST, 1, [ANNA], EMPTY)
    assert (text(made), made.identities.root().version) == (FIRST["load.lua"], 1)
    assert helen.deliver(SECOND, 2, [ANNA], statement=False)["manifest"]["reason"] == "frozen"


def test_an_agent_that_never_saw_a_root_keeps_working(memory_agent):
    """An agent that never saw a root takes a set without a word of freshness from a Helen that has no root."""
    made = pinned(memory_agent, ANNA)
    assert "manifest" not in Helen(made, []).deliver(FIRST, 1, [ANNA], EMPTY, statement=False)
    assert (text(made), made.identities.root().version) == (FIRST["load.lua"], 0)


def test_keys_are_rotated_over_the_connection(agent, memory_agent):
    """A new root comes with the first set that its key has signed, and after a restart the old key counts no more."""
    helen = Helen(agent, [root(1, [ANNA], [ANNA])])
    helen.deliver(FIRST, 1, [ANNA], EMPTY)
    helen.chain.append(root(2, [BERT], [ANNA, BERT]))
    assert "manifest" not in helen.deliver(SECOND, 2, [BERT])
    assert text(agent) == SECOND["load.lua"]
    agent.close()
    again = memory_agent()
    assert again.membership.trusted_keys.root.keys == read_signing_keys(pem_of(BERT))
    refused = Helen(again, []).deliver(FIRST, 3, [ANNA], EMPTY)
    assert (refused["manifest"]["reason"], text(again)) == ("bad-signature", SECOND["load.lua"])


@pytest.mark.adversary(30)
@pytest.mark.parametrize(
    "chain",
    [
        [root(2, [MALLORY], [MALLORY])],
        [root(2, [MALLORY], [ANNA])],
        [root(3, [MALLORY], [ANNA, MALLORY])],
        [root(2, [BERT], [ANNA, BERT]), root(3, [MALLORY], [MALLORY])],
    ],
)
def test_a_root_that_the_old_keys_did_not_sign(agent, chain):
    """A root that the old keys did not sign is refused, so that a captured Helen gets no code in."""
    helen = Helen(agent, [root(1, [ANNA], [ANNA])])
    helen.deliver(FIRST, 1, [ANNA], EMPTY)
    helen.chain += chain
    report = helen.deliver(SECOND, 2, [MALLORY])
    assert (report["manifest"]["reason"], text(agent)) == ("bad-signature", FIRST["load.lua"])
    assert agent.identities.root().version == 1


def test_a_threshold_of_two(memory_agent):
    """One key that signs twice does not reach a threshold of two."""
    made = pinned(memory_agent, ANNA, BERT, first=root(1, [ANNA, BERT], [ANNA, BERT], 2))
    helen = Helen(made, [])
    assert helen.deliver(FIRST, 1, [ANNA, ANNA], EMPTY)["manifest"]["reason"] == "bad-signature"
    assert "manifest" not in helen.deliver(FIRST, 1, [ANNA, BERT])


@pytest.mark.adversary(30)
def test_keys_are_pinned_anew_only_by_hand(agent, memory_agent):
    """After signing-keys.pem is removed, the root that is left counts for nothing, and no set is accepted."""
    (agent.state / "signing-keys.pem").unlink()
    agent.close()
    again = memory_agent()
    assert (again.membership.trusted_keys.root.version, again.membership.trusted_keys.root.keys) == (0, {})
    assert Helen(again, []).deliver(FIRST, 1, [ANNA], EMPTY)["manifest"]["reason"] == "bad-signature"


def test_a_root_that_cannot_be_read_stops_the_start(agent):
    """A root that cannot be read stops the start, and the error names the files to remove."""
    (agent.state / "root.json").write_bytes(b"{}")
    with pytest.raises(IdentityError, match=r"remove both it and .*signing-keys.pem"):
        IdentityStore(agent.state).root()


@pytest.mark.parametrize(
    ("envelope", "why"),
    [
        (b"", "can't be used"),
        (root(1, [BERT], [BERT]), "does not belong"),
        (root(1, [ANNA], [BERT]), "does not belong"),
        (root(1, [ANNA, BERT], [ANNA, BERT]), "does not belong"),
    ],
)
def test_a_first_root_that_does_not_fit_its_keys(envelope, why):
    """A first root that does not fit the signing keys of the same answer is refused."""
    with pytest.raises(IdentityError, match=why):
        checked_root(envelope, read_signing_keys(pem_of(ANNA)))
    assert checked_root(root(1, [ANNA], [ANNA]), read_signing_keys(pem_of(ANNA)))


# ---------------------------------------------------------------------------------------------------- freshness


def test_a_frozen_manifest_is_noticed_and_reported(agent):
    """A word of freshness that grows old is asked for again twice a day, and reported as frozen within a day."""
    helen = Helen(agent, [])
    helen.deliver(FIRST, 1, [ANNA], EMPTY)
    began = helen.asked
    assert helen.live(LIFE / 2 - TICK) is None
    assert helen.asked == began
    helen.live(2 * TICK)
    assert helen.asked == began + 1
    report = helen.live(LIFE / 2)
    assert report["manifest"]["reason"] == "frozen"
    assert "a newer one may be withheld" in report["manifest"]["text"]
    assert text(agent) == FIRST["load.lua"]
    assert helen.asked - began <= 1 + LIFE / 2 / ASK_AGAIN + 1
    mended = helen.deliver(FIRST, 1, [ANNA])
    assert "manifest" not in mended


def test_a_new_set_without_a_word_is_refused(agent):
    """A new set without a fresh word is refused as frozen, because it may be a week old."""
    helen = Helen(agent, [])
    helen.deliver(FIRST, 1, [ANNA], EMPTY)
    for changes in ({"statement": False}, {"said_at": agent.wall() - LIFE - 1}, {"said_at": agent.wall() - 1}):
        assert helen.deliver(SECOND, 2, [ANNA], **changes)["manifest"]["reason"] == "frozen"
        assert text(agent) == FIRST["load.lua"]
    assert "manifest" not in helen.deliver(SECOND, 2, [ANNA])


@pytest.mark.parametrize("older", [1.0, 180.0, 3_600.0, LIFE - 60.0])
def test_another_helen_of_the_network_said_the_same_before(agent, older):
    """An older word of another Helen of the network raises no alarm, the newest word counts, and a new set needs a
    newer one (J7).
    """
    helen = Helen(agent, [])
    helen.deliver(FIRST, 1, [ANNA], EMPTY)
    assert "manifest" not in helen.deliver(FIRST, 1, [ANNA], said_at=agent.wall() - older)
    began = helen.asked
    assert helen.live(LIFE / 2 - 2 * TICK) is None
    assert helen.asked == began
    assert helen.deliver(SECOND, 2, [ANNA], said_at=agent.wall() - LIFE / 2 - 60.0)["manifest"]["reason"] == "frozen"
    assert "manifest" not in helen.deliver(SECOND, 2, [ANNA])


def test_no_word_is_asked_for_without_an_online_key(memory_agent):
    """An agent without an online key asks for no word of freshness, so that an older Helen is not asked twice a day."""
    made = pinned(memory_agent, ANNA)
    helen = Helen(made, [])
    helen.deliver(FIRST, 1, [ANNA], EMPTY, statement=False)
    asked = helen.asked
    assert helen.live(LIFE) is None
    assert helen.asked == asked


def test_a_connection_that_goes_while_a_root_is_kept(agent):
    """A root that is on disk when the connection ends counts for the next one, which brings the set."""
    helen = Helen(agent, [root(2, [BERT], [ANNA, BERT])])
    [_, ask] = helen.helen.say(EMPTY)
    envelope = sign(build({"load.lua": entry(b"x")}, 1, 0.0, 2_000_000_000.0), [BERT])
    word = freshness.sign(freshness.build(read_unverified(envelope), agent.wall()), ONLINE)
    helen.helen.say(m.Manifest(ask.message_id, delivery.attach(envelope, word, helen.chain)))
    agent.part(helen.helen)
    assert (agent.identities.root().version, agent.updater.checks.digest) == (2, "none")
    assert "manifest" not in Helen(agent, []).deliver(FIRST, 1, [BERT], EMPTY)
    assert not isinstance(agent.updater.trouble, Failure)
