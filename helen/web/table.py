"""One row for each route: who may, and what it is. The gate asks it at run time, OpenAPI is written from it.

The rows are in helen/web/described.py; tests hold them against the routes that Klein knows, in both directions. A route
without a row would be for `admin` alone.
"""

from __future__ import annotations

from attrs import frozen


@frozen
class Route:
    """`scope` None: for everybody, without a token. `own`: it looks itself at what such a caller shows."""

    method: str
    path: str  # as it is given to Klein
    scope: str | None
    summary: str
    action: str | None = None  # by which the audit knows it; None: it is no deed, or it audits itself
    secret: bool = False  # its answer holds a secret, which is kept nowhere
    streams: bool = False  # its answer has no end of its own, and whoever hangs up ends it
    own: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.method, self.path

    @property
    def is_write(self) -> bool:
        return self.method not in ("GET", "HEAD")
