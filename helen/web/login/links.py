"""Makes one-time links, by which a browser gets a session: each is good once, for two minutes, and kept as a hash.

They are in memory alone: a restart ends them, and the next `helen open` makes another one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from attrs import evolve, frozen

from helen.storage.web_token_rows import digest_of
from helen.web.access import SCOPES, Caller, including
from helen.web.problems import Problem, bad_request
from helen.web.sight.limits import checked_limit

KEY_BYTES = 32
LINK_SECONDS = 120.0  # that a link is good
MOST_LINKS = 1_000  # that were not used yet
LINKS_OF_TOKEN = 100  # of these: no token takes the room of others
SESSION_SECONDS = 7 * 86_400.0  # that a session lasts at most, and if nothing else is asked for
KIOSK_SECONDS = 366 * 86_400.0  # that a session of a screen on a wall lasts at most
USUAL_SCOPES = ("operate",)
MOST_LETTERS = 60  # of a name


@frozen
class Link:
    """Describes the session that a link begins. `seconds`: how long it lasts at most; `on`: its limit, if any."""

    name: str
    parent: str
    parent_digest: bytes | None
    scopes: tuple[str, ...]
    seconds: float
    kiosk: bool
    expires: float = 0.0  # of the link, unix seconds
    on: tuple[str, ...] | None = None


class Links:
    """Keeps links that were not followed yet, by the hashes of their keys."""

    def __init__(self) -> None:
        self._by_digest: dict[bytes, Link] = {}

    def add(self, link: Link, now: float) -> tuple[str, Link]:
        """Keep a link; return its key, which is shown once, and when it expires. `now` is in unix seconds.

        Raises Problem 429 if too many are open.
        """
        self.sweep(now)
        own = sum(each.parent_digest == link.parent_digest for each in self._by_digest.values())
        of_token = LINKS_OF_TOKEN if link.parent_digest is not None else MOST_LINKS
        if len(self._by_digest) >= MOST_LINKS or own >= of_token:
            said = f"{min(of_token, MOST_LINKS)} links were made within two minutes and not followed"
            raise Problem(429, "too many links", said, {"retry-after": f"{LINK_SECONDS:.0f}"})
        key = secrets.token_urlsafe(KEY_BYTES)
        kept = self._by_digest[digest_of(key)] = expiring(link, now)
        return key, kept

    def take(self, key: str, now: float) -> Link | None:
        """Return the link of a key, which opens nothing from now on; None if there is none. `now`: unix seconds."""
        link = self._by_digest.pop(digest_of(key), None)
        return link if link is not None and link.expires > now else None

    def sweep(self, now: float) -> None:
        """Forget links that have expired. `now` is in unix seconds."""
        self._by_digest = {digest: link for digest, link in self._by_digest.items() if link.expires > now}


def expiring(link: Link, now: float) -> Link:
    """Return the link as one that is good from `now` on, unix seconds."""
    return evolve(link, expires=now + LINK_SECONDS)


def checked(
    caller: Caller, parent_digest: bytes | None, name: str, scopes: Iterable[str], seconds: float | None, kiosk: bool,
    on: Iterable[str] = (),
) -> Link:  # fmt: skip
    """Return the link that a caller asks for, limited to agents that fit `on`, or as the caller is.

    Raises Problem for a scope that it lacks, a wider limit, a name or a time of no use.
    """
    usual = ("read",) if kiosk else USUAL_SCOPES
    wanted = tuple(dict.fromkeys(scopes)) or usual
    unknown = [scope for scope in wanted if scope not in SCOPES]
    if unknown:
        raise bad_request(f"{unknown[0]!r} is no scope: {', '.join(SCOPES)}")
    lacking = sorted(including(wanted) - caller.scopes)
    if lacking:
        raise Problem(403, "scope missing", f"{caller.actor} lacks the scope `{lacking[0]}`, so its link can't have it")
    if kiosk and including(wanted) - including(("read",)):
        raise bad_request("a kiosk looks and does nothing: its scope is `read`")
    if not name or len(name) > MOST_LETTERS or not name.isprintable() or "/" in name:
        raise bad_request(f"`name` has up to {MOST_LETTERS} letters, no slash and no control characters")
    most = KIOSK_SECONDS if kiosk else SESSION_SECONDS
    lasts = SESSION_SECONDS if seconds is None else seconds
    if not 0 < lasts <= most:
        raise bad_request(f"`for` is more than 0 and at most {most / 86_400:g} days")
    return Link(name, caller.actor, parent_digest, wanted, lasts, kiosk, on=checked_limit(caller, on))
