"""Hold what the server of one SSH connection is told by the agent, as JSON on its standard input."""

from __future__ import annotations

import json

from attrs import asdict, field, frozen

from equus.shell.permits import Access


@frozen
class ServerSettings:
    """Holds settings of the policy for one connection. Times are in seconds; `caller` is whom Helen says it is for.

    `recordings` is their folder, `room` how many bytes this connection may record; None: it is not recorded.
    """

    host_key: str = field(repr=False)  # PEM
    access: Access
    command: tuple[str, ...] = ()  # instead of whatever is asked for; empty: anything
    forward: bool = False
    idle: float = 900.0
    most: float = 28_800.0
    caller: str = ""
    recordings: str = ""
    room: int | None = None
    login: float = 60.0  # from the first byte until a key that is good has been shown

    def dump(self) -> bytes:
        """Return the settings as one line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> ServerSettings:
        """Return the settings of such a line."""
        document = json.loads(line)
        access = document.pop("access")
        access["users"] = tuple(access["users"])
        document["command"] = tuple(document["command"])
        return cls(access=Access(**access), **document)
