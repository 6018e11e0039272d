"""Implement the channel `apprise`: it sends to any service that Apprise knows, each by a URL with its secrets.

Apprise runs in a program of its own (apprise_child.py), so that none of its code is ever in Helen's process.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

from attrs import field, frozen

from helen.files.toml_table import Secret, Table, Text
from helen.notify.attempt import Attempt
from helen.notify.channels.channel import ChannelKind
from helen.notify.child_program import Call, run
from helen.notify.message_text import lines, subject_line
from helen.notify.messages import Message
from helen.notify.payloads import encode_json
from helen.notify.secrets import MASK

CHILD = str(Path(__file__).with_name("apprise_child.py"))  # run with -I: it sees neither our modules nor PYTHONPATH
MAX_URLS = 20  # of one channel: they are sent to one after the other, within its timeout


@frozen
class Apprise(ChannelKind):
    """Sends a title and a text to each of `urls`."""

    type_name: ClassVar[str] = "apprise"
    default_timeout: ClassVar[float] = 30.0

    urls: tuple[Text, ...] = field(repr=False)

    @classmethod
    def read(cls, table: Table) -> Apprise:
        """Take `urls`."""
        urls = table.secrets(
            "urls", 'write a list of Apprise\'s URLs, or of { env = "NAME" } and { file = "/path" }', MAX_URLS
        )
        if any(isinstance(url, str) and "://" not in url for url in urls):  # it may be a secret: not shown
            table.faults.append(f"{table.place}: urls: one of them is no URL such as service://token")
        return cls(urls)

    async def send(self, attempt: Attempt) -> str:
        """Hand the message to Apprise and return its answers. Raises SendFailed or SecretMissing."""
        return await run(attempt, await attempt.in_thread(lambda: self.call(attempt)))

    def call(self, attempt: Attempt) -> Call:
        """Return the call for this message. Raises SecretMissing if a reference leads nowhere. Blocks: files."""
        urls = [attempt.secrets.text(url) for url in self.urls]
        for url in urls:
            attempt.secrets.mask_parts(url)
        document = title_and_text(attempt.message, attempt.external_url) | {"urls": urls}
        return Call((sys.executable, "-I", CHILD), {}, encode_json(document))

    def show(self) -> dict[str, Any]:
        """Return `url`: the services, without what follows in their URLs."""
        return {"url": ", ".join(map(show_service, self.urls))}


def title_and_text(message: Message, external_url: str) -> dict[str, str]:
    """Return `title`, `body` and `type`, which is Apprise's word for how bad it is: info, success, warning, failure."""
    worst = {alert.status for alert in message.alerts if alert.firing}
    kind = "info" if message.test else "failure" if worst - {"warning"} else "warning" if worst else "success"
    return {"title": subject_line(message), "body": "\n".join(lines(message, external_url)), "type": kind}


def show_service(url: Text) -> str:
    """Return only the service of one of Apprise's URLs, or the reference: all that follows may be a secret."""
    return str(url) if isinstance(url, Secret) else f"{url.partition('://')[0]}://{MASK}"
