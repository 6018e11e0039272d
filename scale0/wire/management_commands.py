"""Lists the management commands, in one table for the broker, for `scale0ctl` and for the HTTP pages. Pure.

A new command is a row here and a method of broker/management_requests.py.
"""

from __future__ import annotations

import attrs

from groundwork.authority import Action
from scale0.wire.actions import CHANGE_BROKER, LOOK_AT_BROKER


@attrs.frozen
class ManagementCommand:
    """Describes one management command.

    `name` is the command of a MANAGEMENTREQ and the path under /api/; a command that `changes` something is a POST.
    `help` is its line in `scale0ctl --help`, under the name `cli` if that is another; without help scale0ctl has no
    plain command of it. `on_page` shows its data, or its button, on the HTTP page.
    """

    name: str
    help: str = ""
    cli: str = ""
    changes: bool = False
    on_page: bool = False

    @property
    def action(self) -> Action:
        """Return what a caller of the command asks for."""
        return CHANGE_BROKER if self.changes else LOOK_AT_BROKER


COMMANDS = (
    ManagementCommand("status", "Show state, version, counts and alarms.", on_page=True),
    ManagementCommand("peers", "Show peer brokers and their tables.", on_page=True),
    ManagementCommand("clients", "Show connected clients and workers, and the state of each.", on_page=True),
    ManagementCommand("services", "Show the workers and queued requests of each service.", on_page=True),
    ManagementCommand("config", "Show the configuration in force, without passwords."),
    ManagementCommand("errors", on_page=True),  # a scale0ctl command of its own, with an argument
    ManagementCommand("clear_errors", changes=True),  # `scale0ctl errors clear`
    ManagementCommand("disable", "End all sessions and serve none until enabled.", changes=True, on_page=True),
    ManagementCommand("enable", "Let a disabled broker serve again.", changes=True),
    ManagementCommand("reload_config", "Read the configuration file again.", "reload", changes=True, on_page=True),
)
BY_NAME = {command.name: command for command in COMMANDS}
ALIASES = {"reload": "reload_config"}  # understood in a MANAGEMENTREQ
