"""Test pushed code: it is signed, fetched, tried, swapped as a whole, and kept; one test for each attack on the way."""

import errno
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from equus.code import library
from equus.code.library import hash_of
from equus_protocol import messages as m
from equus_protocol.manifest import build, entry, read_unverified, sign

EMPTY, RELOAD = m.Schedule(1, b"[]"), m.Reload()
KEY, OTHER = Ed25519PrivateKey.from_private_bytes(b"k" * 32), Ed25519PrivateKey.from_private_bytes(b"o" * 32)
FAR = 2_000_000_000.0
LOAD, DISK, LIB = b"return { load }", b"return { disk }", b"return {}"
FIRST = {"load.lua": LOAD, "disk.lua": DISK, "lib/text.lua": LIB}


def signed(files, version=1, key=KEY, expires=FAR):
    return sign(build({name: entry(text) for name, text in files.items()}, version, 0.0, expires), [key])


class Push:
    """Stand in for a Helen that has a check set to deliver."""

    def __init__(self, memory_agent):
        self.memory_agent = memory_agent
        self.helen = memory_agent.meet()
        self.fetched, self.asked = [], 0

    def serve(self, *first, envelope, files, wrong=None):
        """Say something, and answer whatever is asked for; the load reports that came."""
        contents = {hash_of(text): text for text in files.values()}
        heard, loaded = self.helen.say(*first), []
        while heard:
            message = heard.pop(0)
            if isinstance(message, m.AskManifest):
                self.asked += 1
                heard += self.helen.say(m.Manifest(message.message_id, envelope))
            elif isinstance(message, m.Fetch):
                self.fetched.append(message.sha256)
                blob = contents[message.sha256] if wrong is None else wrong
                heard += self.helen.say(m.File(message.message_id, message.sha256, blob))
            elif isinstance(message, m.Loaded):
                loaded.append(message)
        return loaded

    def push(self, files, version, first=RELOAD, **changes):
        self.fetched.clear()
        return self.serve(first, envelope=signed(files, version, **changes), files=files)


@pytest.fixture
def pinned(memory_agent):
    """Return an agent that trusts KEY."""
    agent = memory_agent()
    pem = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    agent.identities.pin(pem)
    agent.membership.trusted_keys.refresh()
    return agent


def states(loaded):
    return {name: file["state"] for name, file in json.loads(loaded.blob)["files"].items()}


def test_the_first_contact_brings_the_whole_set(pinned, runner):
    """The first contact sends an empty `loaded` at once, fetches the manifest and every file, and reports all of them
    as active.
    """
    push = Push(pinned)
    nothing, whole = push.push(FIRST, 1, first=EMPTY)
    assert (nothing.digest, states(nothing)) == ("none", {})
    assert states(whole) == dict.fromkeys(FIRST, "active")
    assert whole.digest == pinned.updater.manifest.digest
    assert sorted(push.fetched) == sorted(hash_of(text) for text in FIRST.values())
    push.helen.say(m.Check("load", 1, b""))
    assert (runner.running[0].job.source, runner.running[0].job.pushed) == (LOAD, True)


def test_a_stop_in_the_middle(pinned, runner):
    """A set that was not tried before a stop is not kept as bad: the next push makes all of it active."""
    push = Push(pinned)
    runner.stopped = True
    push.push(FIRST, 1, first=EMPTY)
    assert (pinned.updater.manifest, pinned.updater.checks.files) == (None, {})
    assert pinned.updater.trouble == {
        "reason": "sandbox", "text": "the new check set could not be tried: cancelled: the agent is stopping"
    }  # fmt: skip
    runner.stopped = False
    [whole] = push.push(FIRST, 1)
    assert states(whole) == dict.fromkeys(FIRST, "active")


def test_a_push_fetches_only_what_is_new(pinned):
    """A push fetches only new files, and drops files that the manifest no longer names."""
    push = Push(pinned)
    push.push(FIRST, 1, first=EMPTY)
    second = {"load.lua": b"return { load 2 }", "disk.lua": DISK}
    [loaded] = push.push(second, 2)
    assert push.fetched == [hash_of(b"return { load 2 }")]
    assert states(loaded) == dict.fromkeys(second, "active")


def test_the_set_in_use_survives_a_restart_without_a_helen(pinned, memory_agent, runner):
    """The set in use runs from disk after a restart, and nothing is fetched on the next connection."""
    Push(pinned).push(FIRST, 1, first=EMPTY)
    pinned.close()
    again = memory_agent()
    assert again.updater.checks.check("disk").content == DISK
    push = Push(again)
    [loaded] = push.push(FIRST, 1, first=EMPTY)
    assert (push.fetched, states(loaded)) == ([], dict.fromkeys(FIRST, "active"))


def test_a_damaged_set_is_not_used_and_the_one_before_is(pinned, memory_agent):
    """A set with a file that does not fit its hash is not used, and the set before it is."""
    push = Push(pinned)
    push.push(FIRST, 1, first=EMPTY)
    push.push(FIRST | {"load.lua": b"return { load 2 }"}, 2)
    pinned.close()
    (pinned.state / "library" / "objects" / hash_of(b"return { load 2 }")).write_bytes(b"tampered")
    again = memory_agent()
    assert again.updater.checks.check("load").content == LOAD


def test_a_new_set_that_cannot_be_written_leaves_the_one_before(pinned, memory_agent, monkeypatch):
    """A new set that cannot be written leaves the one before in use, also after a restart."""
    push, write = Push(pinned), library.write_durably
    push.push(FIRST, 1, first=EMPTY)
    envelope = (pinned.state / "library" / "current").read_bytes()

    def fail(path, content):
        if path.name == "current":
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, content)

    monkeypatch.setattr(library, "write_durably", fail)
    push.push(FIRST | {"load.lua": b"return { load 2 }"}, 2)
    assert pinned.updater.trouble["reason"] == "disk"
    assert pinned.updater.checks.check("load").content == LOAD
    monkeypatch.undo()
    names = {path.name for path in (pinned.state / "library").iterdir()}
    assert names == {"objects", "previous"}
    assert (pinned.state / "library" / "previous").read_bytes() == envelope
    pinned.close()
    again = memory_agent()
    assert again.updater.checks.check("load").content == LOAD
    push = Push(again)
    push.push(FIRST | {"load.lua": b"return { load 3 }"}, 3, first=EMPTY)
    assert again.updater.checks.check("load").content == b"return { load 3 }"
    assert (again.state / "library" / "previous").read_bytes() == envelope


def test_what_no_set_needs_is_removed_from_disk(pinned):
    """Files are removed from disk unless the set in use or the one before needs them."""
    push = Push(pinned)
    for version in range(1, 5):
        push.push({"load.lua": b"return %d" % version}, version, first=EMPTY if version == 1 else m.Reload())
    names = {path.name for path in (pinned.state / "library" / "objects").iterdir()}
    assert names == {hash_of(b"return 3"), hash_of(b"return 4")}


@pytest.mark.adversary(38)
def test_a_file_that_does_not_compile_keeps_its_old_version(pinned, runner):
    """A file that does not compile keeps its old version, and the other files are replaced; a new one is refused."""
    push = Push(pinned)
    push.push(FIRST, 1, first=EMPTY)
    broken = FIRST | {"load.lua": b"broken", "new.lua": b"broken too", "disk.lua": b"return { disk 2 }"}
    [loaded] = push.push(broken, 2)
    files = json.loads(loaded.blob)["files"]
    error = "line 1: '=' expected"
    assert files["load.lua"] == {"sha256": hash_of(LOAD), "state": "kept-old", "error": error}
    assert files["new.lua"] == {"sha256": hash_of(b"broken too"), "state": "refused", "error": error}
    assert files["disk.lua"] == {"sha256": hash_of(b"return { disk 2 }"), "state": "active"}
    push.helen.say(m.Check("load", 1, b""))
    assert runner.running[0].job.source == LOAD
    [mended] = push.push(FIRST | {"load.lua": b"return { load 3 }"}, 3)
    assert states(mended) == dict.fromkeys(FIRST, "active")


@pytest.mark.adversary(29)
@pytest.mark.parametrize(
    ("attack", "reason"),
    [
        ({"key": OTHER}, "bad-signature"),
        ({"expires": 1.0}, "expired"),
        ({"version": 1}, "rollback"),
        ({"version": 2}, "rollback"),  # the same number for another set
    ],
)
def test_a_manifest_that_may_not_be_used_changes_nothing(pinned, attack, reason):
    """A manifest that may not be used changes nothing: the set stays, and `loaded` says why."""
    push = Push(pinned)
    push.push(FIRST, 2, first=EMPTY)
    [loaded] = push.push({"evil.lua": b"return {}"}, **({"version": 3} | attack))
    assert json.loads(loaded.blob)["manifest"]["reason"] == reason
    assert states(loaded) == dict.fromkeys(FIRST, "active")
    assert push.fetched == []
    [mended] = push.push(FIRST | {"load.lua": b"return { 9 }"}, 9)
    assert "manifest" not in json.loads(mended.blob)


@pytest.mark.adversary(29)
@pytest.mark.parametrize("wrong", [b"", b"other bytes!!!!", LOAD + b" ", LOAD[:-1]])
def test_a_wrong_file_refuses_the_whole_set(pinned, wrong):
    """A file with other bytes than the manifest names refuses the whole set."""
    push = Push(pinned)
    loaded = push.serve(EMPTY, envelope=signed({"load.lua": LOAD}), files={"load.lua": LOAD}, wrong=wrong)
    assert json.loads(loaded[-1].blob)["manifest"]["reason"] == "wrong-file"
    assert pinned.updater.checks.digest == "none"


@pytest.mark.parametrize("envelope", [b"", b"[]", b"{}", b'{"signed": 1, "signatures": []}', b"[" * 10_000])
def test_an_envelope_that_is_none_is_refused(pinned, envelope):
    """An envelope that is none is refused as malformed, whatever bytes it holds."""
    loaded = Push(pinned).serve(EMPTY, envelope=envelope, files={})
    assert json.loads(loaded[-1].blob)["manifest"]["reason"] == "malformed"


def test_without_pinned_keys_nothing_is_believed(memory_agent):
    """An agent without pinned keys refuses every manifest, because it trusts no key on first use."""
    loaded = Push(memory_agent()).push(FIRST, 1, first=EMPTY)
    assert json.loads(loaded[-1].blob)["manifest"]["reason"] == "bad-signature"


def test_a_connection_that_goes_in_the_middle_leaves_the_set_as_it_was(pinned):
    """A connection that ends in the middle of an update leaves the set as it was, and the next one brings the
    update.
    """
    push = Push(pinned)
    heard = push.helen.say(EMPTY)
    [ask] = [message for message in heard if isinstance(message, m.AskManifest)]
    fetches = push.helen.say(m.Manifest(ask.message_id, signed(FIRST)))
    assert len(fetches) == 3
    pinned.part(push.helen)
    assert (pinned.updater.is_busy, pinned.updater.checks.digest) == (False, "none")
    assert states(Push(pinned).push(FIRST, 1, first=EMPTY)[-1]) == dict.fromkeys(FIRST, "active")


def test_reloads_during_an_update_mean_one_more_behind_it(pinned):
    """Any number of reloads during an update leads to one more update."""
    push = Push(pinned)
    [_, ask] = push.helen.say(EMPTY)
    assert push.helen.say(m.Reload(), m.Reload(), m.Reload()) == []
    final = push.serve(m.Manifest(ask.message_id, signed(FIRST)), envelope=signed(FIRST), files=FIRST)
    assert [states(loaded) for loaded in final] == [dict.fromkeys(FIRST, "active")]
    assert (push.asked, pinned.updater.is_busy) == (1, False)


def test_a_set_that_is_signed_anew_meanwhile_is_told_as_well(pinned):
    """A set that is signed anew during an update is reported as well, because Helen waits for its digest."""
    push = Push(pinned)
    push.push(FIRST, 1, first=EMPTY)
    [ask] = push.helen.say(RELOAD)
    assert push.helen.say(RELOAD) == []
    second, third = signed(FIRST, 2), signed(FIRST, 3)
    loaded = push.serve(m.Manifest(ask.message_id, second), envelope=third, files=FIRST)
    assert [each.digest for each in loaded] == [read_unverified(each).digest for each in (second, third)]


def test_runs_wait_for_code_that_is_on_the_way_and_are_counted(pinned, runner):
    """Runs wait for code that is on the way, so that a schedule does not begin with `unknown-check`."""
    push = Push(pinned)
    schedule = m.Schedule(1, b'[{"id": "l", "check": "load", "every": 1}]')
    heard = push.helen.say(schedule)
    pinned.clock.advance(1)
    assert runner.running == []
    [ask] = [message for message in heard if isinstance(message, m.AskManifest)]
    push.serve(m.Manifest(ask.message_id, signed(FIRST)), envelope=signed(FIRST), files=FIRST)
    pinned.clock.advance(1)
    assert [run.job.source for run in runner.running] == [LOAD]
    assert pinned.agent.services.scheduled.runner.totals["missed"] == 1
