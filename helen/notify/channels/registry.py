"""Lists the kinds of channels, one row for each file of this folder. docs/notifications.rst has their settings."""

from __future__ import annotations

from helen.notify.channels.alertmanager import Alertmanager
from helen.notify.channels.apprise import Apprise
from helen.notify.channels.channel import ChannelKind
from helen.notify.channels.command import Command
from helen.notify.channels.incident import Incident
from helen.notify.channels.smtp import Smtp
from helen.notify.channels.syslog import Syslog
from helen.notify.channels.webhook import Webhook

KINDS: tuple[type[ChannelKind], ...] = (Webhook, Alertmanager, Smtp, Command, Apprise, Incident, Syslog)


def type_names() -> tuple[str, ...]:
    """Return the values that `type` may have in notifications.toml."""
    return tuple(kind.type_name for kind in KINDS)


def kind_of(type_name: str) -> type[ChannelKind]:
    """Return the kind of that name. Raises KeyError if there is none."""
    return {kind.type_name: kind for kind in KINDS}[type_name]
