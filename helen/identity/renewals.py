"""Says which certificates are renewed after their end, and which agents need a new token.

An agent that found no Helen for the last third of its certificate's life comes back with an expired one. It proves the
key in the TLS handshake; the record of the key decides, and the grace, a setting of the operator's, bounds the time.
Pure: the record is helen/storage/enrolled_keys.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from helen.keys.certificates import BadRequest
from helen.storage.enrolled_keys import EnrolledKeys

USUAL_GRACE = 90 * 86_400.0  # seconds: a site that was cut off for a season comes back by itself
GRACE_MAX = 366 * 86_400.0  # seconds: a key that was unused for a year is more likely stolen than missed
WORDS_MOST = 1e15  # seconds that a sentence names
GRACE_KEY = "renewal.grace"  # in kv: seconds, where the operator has chosen some


@frozen
class Renewal:
    """Says until when the newest certificate of an agent is good. Times are unix seconds.

    `ends` is None if no certificate of this name is known. `renewed_until` is the end of the grace; None if there is
    none for this agent, which then needs a token once its certificate has expired.
    """

    name: str
    ends: float | None
    renewed_until: float | None

    def state(self, now: float) -> str:
        """Return `good`, `grace` or `over` for `now`, in unix seconds: over needs a token."""
        if self.ends is not None and now < self.ends:
            return "good"
        return "grace" if self.renewed_until is not None and now < self.renewed_until else "over"


def of(keys: EnrolledKeys, name: str, grace: float) -> Renewal:
    """Return the Renewal of a name; `grace`: seconds, 0 for none."""
    standing = [one for one in keys.of(name) if keys.has_grace(one)]
    if not standing:
        return Renewal(name, None, None)
    ends = max(one.not_after for one in standing)
    return Renewal(name, ends, ends + grace if grace > 0 else None)


def checked_grace(seconds: float) -> float:
    """Return the seconds themselves. Raises BadRequest if no such grace can be set."""
    if not 0 <= seconds <= GRACE_MAX:
        days = max(-WORDS_MOST, min(seconds, WORDS_MOST)) / 86_400  # a number of any length may come from JSON
        raise BadRequest(f"the grace is 0 (off) to {GRACE_MAX / 86_400:g} days, not {days:.4g}")
    return seconds


def kept_grace(kv: Mapping[str, str]) -> float:
    """Return the grace in seconds from the small values of the store."""
    return float(kv.get(GRACE_KEY, USUAL_GRACE))
