"""Names the caller of a request. groundwork/authority.py decides about its rights, as for every other entry."""

from __future__ import annotations

from attrs import frozen

from groundwork import authority
from groundwork.authority import INCLUDES, SCOPES, including
from helen.storage.web_session_rows import WebSession


@frozen
class Caller(authority.Caller):
    """Describes a client that the gate has let in; `token` is the name of a session's parent, if it is a browser's."""

    identity: str = ""  # of this one token or session: another one of the same name has another
    session: WebSession | None = None  # of a browser


OWNER = Caller("operator", ("admin",), entry="control.sock")  # a client of control.sock: the file's mode is the guard
MASTER = Caller("token:web.token", ("admin",))  # a client with the token of STATE/web.token
STRANGER = Caller("stranger", ())  # a client without a token, on the few pages that are open to all

__all__ = ["INCLUDES", "MASTER", "OWNER", "SCOPES", "STRANGER", "Caller", "including"]
