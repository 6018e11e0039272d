"""Tests that a new kind of channel is one file and one row: all that Helen needs of it stands in this file."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from attrs import frozen
from telling import WALL, Pump, alert
from twisted.internet.defer import succeed
from twisted.logger import capturedLogs
from twisted.python.failure import Failure

from helen.files.toml_table import Table, Text
from helen.notify.attempt import Attempt, SendFailed
from helen.notify.channels import registry
from helen.notify.channels.channel import ChannelKind
from helen.notify.config import NotificationsError, read
from helen.notify.messages import Message
from helen.notify.secrets import MASK, show_setting
from helen.notify.sending import send

FILE = '[channels.x]\ntype = "pigeon"\nloft = "roof"\nring = { env = "PIGEON_RING" }\n'


@frozen
class Pigeon(ChannelKind):
    """Delivers to a list."""

    type_name: ClassVar[str] = "pigeon"
    default_timeout: ClassVar[float] = 60.0
    flown: ClassVar[list[str]] = []

    loft: str
    ring: Text | None

    @classmethod
    def read(cls, table: Table) -> Pigeon:
        return cls(table.text("loft", "write where it lives"), table.secret("ring"))

    async def send(self, attempt: Attempt) -> str:
        ring = attempt.secrets.text(self.ring or "")
        await succeed(None)
        if self.loft == "cage":
            raise SendFailed(f"{ring} can't leave", retry_after=7.0)
        self.flown.append(f"{attempt.message.alerts[0].key} for {attempt.timeout:g} s")
        return f"{ring} is back"

    def show(self) -> dict[str, Any]:
        return {"host": self.loft, "ring": show_setting(self.ring)}


@pytest.fixture(autouse=True)
def _row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "KINDS", (*registry.KINDS, Pigeon))
    monkeypatch.setenv("PIGEON_RING", "DV-0123")


def test_its_settings_are_read_with_all_others() -> None:
    """The faults of a new kind stand among those of the file; common settings need no line of its own."""
    channel = read(FILE + 'rate = "5/1h"\n').channels["x"]
    assert (channel.timeout, channel.rate) == (60.0, (5, 3_600.0))
    with pytest.raises(NotificationsError) as caught:
        read(FILE.replace("roof", "").replace("env", "envy") + "speed = 3\n[route]\nchannels = 'y'\n")
    assert [line.partition(": ")[2][:24] for line in str(caught.value).splitlines()] == [
        "loft is '': write where ", "ring is not usable: writ", "'speed' is no setting he", "there is no [channels.y]",
    ]  # fmt: skip
    with pytest.raises(
        NotificationsError,
        match=r"write webhook or alertmanager or .* or syslog or pigeon",
    ):
        read("[channels.x]\ntype = 'fax'\n")


def test_it_is_shown_without_secrets() -> None:
    """A channel of a new kind is shown with its type, as the API and the command line show each channel."""
    assert read(FILE).channels["x"].show() == {
        "name": "x", "timeout": 60.0, "rate": None, "type": "pigeon", "host": "roof", "ring": "(env PIGEON_RING)",
    }  # fmt: skip


def test_it_sends() -> None:
    """The answer and the failure of a new kind come back with secrets masked."""
    pump, a = Pump(), alert("a/c")
    message = Message("id1", "g", "x", "route", {}, WALL, (a,), frozenset((a.key,)))
    try:
        assert pump.run(send(pump.reactor, read(FILE).channels["x"], message, "")).text == f"{MASK} is back"
        assert Pigeon.flown == ["a/c for 60 s"]
        failed = pump.run(send(pump.reactor, read(FILE.replace("roof", "cage")).channels["x"], message, ""))
        assert isinstance(failed, Failure) and failed.check(SendFailed)
        assert (failed.value.text, failed.value.retry_after) == (f"{MASK} can't leave", 7.0)
    finally:
        pump.close()


def test_an_error_of_its_own_is_a_failed_try(pump: Pump, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of its own is a failed try with secrets masked; else the message would be tried for ever."""

    async def broken(self: Pigeon, attempt: Attempt) -> str:
        raise ZeroDivisionError(f"{attempt.secrets.text(self.ring or '')} / 0")

    monkeypatch.setattr(Pigeon, "send", broken)
    channel = read(FILE).channels["x"]
    with capturedLogs() as logs:
        found = pump.run(send(pump.reactor, channel, Message("id", "g", "x", "r", {}, WALL, (alert(),)), ""))
    assert isinstance(found, Failure) and found.check(SendFailed)
    assert found.value.text == f"a fault of Helen's, which its log has: ZeroDivisionError: {MASK} / 0"
    assert [each["log_failure"].type for each in logs if "log_failure" in each] == [ZeroDivisionError]
