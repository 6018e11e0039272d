"""Defines a channel, and the base class from which each kind of channel is made.

A kind is one file of this folder: its settings in notifications.toml, how it sends, and what it posts. It becomes known
by its row in helen/notify/channels/registry.py; nothing else of Helen names it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from attrs import frozen

from helen.files.toml_table import Table
from helen.notify.attempt import Attempt


class ChannelKind(ABC):
    """Holds the settings of one channel. A subclass is a kind of channel, a frozen attrs class; see webhook.py."""

    type_name: ClassVar[str]  # `type` in notifications.toml
    default_timeout: ClassVar[float] = 10.0  # seconds for the whole of one attempt
    groups_itself: ClassVar[bool] = False  # its receiver groups, waits and limits, and wants each alert each minute
    one_alert: ClassVar[bool] = False  # each alert is a message of its own: its receiver has one thing for each check

    @classmethod
    @abstractmethod
    def read(cls, table: Table) -> Self:
        """Take the settings from [channels.NAME]. Adds each fault to `table.faults`, and raises nothing for them."""

    @abstractmethod
    async def send(self, attempt: Attempt) -> str:
        """Deliver the message and return the receiver's answer. Raises SendFailed or SecretMissing if it can't."""

    @abstractmethod
    def show(self) -> dict[str, Any]:
        """Return the settings by their names, secrets masked; `url`, `host` or `argv` says where messages go."""

    @property
    def knows_labels(self) -> bool:
        """Return True if the receiver knows an alert by its labels, so that one with other labels is another alert."""
        return False


@frozen
class Channel:
    """Describes one [channels.NAME].

    `timeout`: seconds. `rate`: at most so many messages in so many seconds; None: no limit.
    """

    name: str
    settings: ChannelKind
    timeout: float = 10.0
    rate: tuple[int, float] | None = None

    def show(self) -> dict[str, Any]:
        """Return `name`, `timeout`, `rate`, `type` and the settings of its kind, with every secret masked."""
        common = {"name": self.name, "timeout": self.timeout, "rate": self.rate, "type": self.settings.type_name}
        return common | self.settings.show()
