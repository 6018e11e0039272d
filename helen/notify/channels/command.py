"""Implement the channel `command`: it runs a program, no shell, with the message as JSON on standard input."""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import field, frozen

from helen.files.toml_table import Table, Text
from helen.notify.attempt import Attempt
from helen.notify.channels.channel import ChannelKind
from helen.notify.child_program import Call, run
from helen.notify.payloads import encode_json, own_document
from helen.notify.secrets import show_setting

MAX_ARGUMENTS = 100


@frozen
class Command(ChannelKind):
    """Holds the settings of a program. `environment` is added to the few variables that each one gets."""

    type_name: ClassVar[str] = "command"
    default_timeout: ClassVar[float] = 30.0

    argv: tuple[str, ...]
    environment: dict[str, Text] = field(factory=dict)

    @classmethod
    def read(cls, table: Table) -> Command:
        """Take `argv` and `environment`."""
        argv = table.strings("argv", 'write a list, such as ["/usr/local/bin/page", "ops"]', most=MAX_ARGUMENTS)
        if not argv or not argv[0].startswith("/"):
            table.fault("argv", "write a list that begins with the path of a program, from / on")
        return cls(argv, table.texts("environment"))

    async def send(self, attempt: Attempt) -> str:
        """Run the program and return its output. Raises SendFailed or SecretMissing."""
        return await run(attempt, await attempt.in_thread(lambda: self.call(attempt)))

    def call(self, attempt: Attempt) -> Call:
        """Return the call for this message. Raises SecretMissing if a reference leads nowhere. Blocks: files."""
        document = own_document(attempt.message, attempt.external_url)
        return Call(self.argv, attempt.secrets.texts(self.environment), encode_json(document))

    def show(self) -> dict[str, Any]:
        """Return `argv` and `environment`."""
        return {"argv": list(self.argv), "environment": show_setting(self.environment)}
