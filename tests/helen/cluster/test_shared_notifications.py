"""Tests notifications.toml of all Helens: the newest counts, brokers can't read it, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock

from helen.cluster.network_key import NetworkKey
from helen.cluster.shared_notifications import NotificationsPart
from helen.cluster.shared_part import NotYet
from helen.files import watched_file
from helen.notify.config import NotificationsError, read
from helen.storage import config_file
from helen.storage.config_file import ConfigFile

KEY = NetworkKey(Ed25519PrivateKey.from_private_bytes(b"n" * 32))
HOOK = '[channels.hook]\ntype = "webhook"\nurl = "https://hook.example/s3cret-{0}"\n[route]\nchannels = ["hook"]\n'


class MemoryStore:
    """Takes everything."""

    def call(self, *_: Any) -> Deferred[None]:
        return maybeDeferred(lambda: None)


class Helen:
    """Holds a file with its part, on a disk that is quick."""

    def __init__(self, folder: Path, name: str, key: NetworkKey = KEY) -> None:
        folder.mkdir()
        self.path = folder / "notifications.toml"
        self.clock = Clock()
        self.changes = 0
        self.aside: list[str] = []
        self.file = ConfigFile[Any](
            self.clock, self.path, MemoryStore(), "notify.config", read, NotificationsError, lambda: None  # type: ignore[arg-type]
        )  # fmt: skip
        self.file.observers.append(self.changed)
        self.part = NotificationsPart(self.file, key, name, self.set_aside)

    def changed(self) -> None:
        self.changes += 1

    def set_aside(self, text: str) -> Deferred[None]:
        self.aside.append(text)
        return maybeDeferred(lambda: None)

    def start(self, text: str | None = None) -> Helen:
        if text is not None:
            self.path.write_text(text)
        self.file.start()
        return self

    def edit(self, text: str | None) -> None:
        """Write the file as an operator with an editor does; None removes it."""
        if text is None:
            self.path.unlink()
        else:
            self.path.write_text(text)
        self.file.reread("SIGHUP")

    @property
    def text(self) -> str | None:
        return self.path.read_text() if self.path.exists() else None

    def adopt(self, value: Any) -> None:
        outcome: list[Any] = []
        Deferred.fromCoroutine(self.part.adopt("notifications", value)).addBoth(outcome.append)
        [found] = outcome
        if found is not None:
            found.raiseException()

    def wanted(self, value: Any) -> Any:
        return self.part.wanted("notifications", value)


@pytest.fixture
def helens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Helen]]:
    monkeypatch.setattr(watched_file, "deferToThread", maybeDeferred)
    made = [Helen(tmp_path / name, name) for name in ("h1", "h2")]
    yield made
    for helen in made:
        helen.file.stop()


def test_a_change_at_one_is_a_change_at_the_other(helens: list[Helen]) -> None:
    """A change passes both ways, and an equal text is not told again."""
    one, other = helens[0].start(HOOK.format(1)), helens[1].start()
    value = one.wanted(None)
    assert value["by"] == "h1"
    other.adopt(value)
    assert (other.text, other.file.config is not None, other.changes, other.aside) == (HOOK.format(1), True, 2, [])
    assert [helen.wanted(value) for helen in helens] == [None, None]
    other.adopt(value)  # once more, after a start
    assert other.changes == 2
    other.edit(HOOK.format(2))
    value = other.wanted(value)
    one.adopt(value)
    assert (one.text, one.aside, one.wanted(value)) == (HOOK.format(2), [HOOK.format(1)], None)


def test_brokers_cannot_read_it(helens: list[Helen]) -> None:
    """The same text is not sealed alike twice, as a URL in it may be a secret, and not published twice all the same."""
    one = helens[0].start(HOOK.format(1))
    value, again = one.wanted(None), one.wanted(None)
    assert "s3cret" not in str(value) and "hook" not in value["text"]
    assert value["text"] != again["text"]
    assert one.wanted(value) is one.wanted(again) is None


def test_who_never_had_a_file_says_nothing(helens: list[Helen]) -> None:
    """A Helen that is new takes what the network has, and takes nothing away; neither does one that has not read it."""
    one, other = helens
    assert one.wanted(None) is None
    one.start(HOOK.format(1))
    assert other.wanted(one.wanted(None)) is None
    other.start()
    assert other.wanted(None) is None


def test_a_file_that_is_taken_away_is_so_everywhere(helens: list[Helen]) -> None:
    """Nobody is told anything then: what it was is kept."""
    one, other = helens[0].start(HOOK.format(1)), helens[1].start()
    value = one.wanted(None)
    other.adopt(value)
    other.edit(None)
    value = other.wanted(value)
    assert value == {"text": None, "by": "h2"}
    one.adopt(value)
    assert (one.text, one.file.config, one.aside) == (None, None, [HOOK.format(1)])
    assert [helen.wanted(value) for helen in helens] == [None, None]


def test_a_fault_in_ours_is_not_told(helens: list[Helen]) -> None:
    """The text in force counts, and the network's mends the file; the operator's own lies aside."""
    one, other = helens[0].start(HOOK.format(1)), helens[1].start()
    value = one.wanted(None)
    other.adopt(value)
    other.edit("[channels")
    assert other.file.fault is not None and other.wanted(value) is None
    one.edit(HOOK.format(3))
    value = one.wanted(value)
    other.adopt(value)
    assert (other.text, other.file.fault, other.aside) == (HOOK.format(3), None, ["[channels"])


def test_a_fault_at_the_start_takes_nothing_away(helens: list[Helen]) -> None:
    """A file that was never in force is neither published, nor is its absence."""
    one, other = helens[0].start(HOOK.format(1)), helens[1].start("nonsense")
    value = one.wanted(None)
    assert other.wanted(value) is None
    other.adopt(value)
    assert (other.text, other.aside) == (HOOK.format(1), ["nonsense"])


def test_a_text_that_cannot_be_used_here(helens: list[Helen]) -> None:
    """A newer Helen wrote it, say: what was in force stays so, and the trouble says whose it is."""
    other = helens[1].start(HOOK.format(1))
    for text in ('[channels.x]\ntype = "telepathy"\n', "["):
        value = {"text": KEY.seal(text.encode(), "notifications"), "by": "h9"}
        with pytest.raises(NotYet, match="the notifications of h9 can't be used here: "):
            other.adopt(value)
    assert (other.text, other.file.taken) == (HOOK.format(1), HOOK.format(1))


@pytest.mark.parametrize("about", ["notifications", "keys"])
def test_a_text_that_is_not_of_this_network(helens: list[Helen], about: str) -> None:
    """A text that is sealed with another key, or for another document, is refused."""
    other = helens[1].start(HOOK.format(1))
    key = NetworkKey(Ed25519PrivateKey.generate()) if about == "notifications" else KEY
    with pytest.raises(NotYet, match="was not sealed"):
        other.adopt({"text": key.seal(b"", about), "by": "h9"})


@pytest.mark.parametrize(
    "value",
    [None, [], 1, "text", {}, {"text": None}, {"text": 1, "by": "h9"}, {"text": ["x"], "by": "h9"},
     {"text": "\u20ac", "by": "h9"}, {"text": KEY.seal(b"\xff\xfe", "notifications"), "by": "h9"}],
)  # fmt: skip
def test_a_document_of_another_form(helens: list[Helen], value: Any) -> None:
    """A document of another form is a trouble that a sentence tells, and changes nothing."""
    other = helens[1].start(HOOK.format(1))
    with pytest.raises(NotYet, match="the notifications of the network can't be read here: "):
        other.adopt(value)
    assert (other.text, other.aside) == (HOOK.format(1), [])


def test_a_disk_that_takes_nothing(helens: list[Helen], monkeypatch: pytest.MonkeyPatch) -> None:
    """The change is tried again later; the text in force stays so."""
    one, other = helens[0].start(HOOK.format(1)), helens[1].start(HOOK.format(2))

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(watched_file, "write_durably", full)
    with pytest.raises(NotYet, match="can't be written: No space left"):
        other.adopt(one.wanted(None))
    assert other.file.taken == HOOK.format(2)
    assert config_file.version_of(other.text) == config_file.version_of(HOOK.format(2))
