"""What a broker begins with: its configuration file, the state that it was left in, and the records of passwords.

Reading a file and checking a password block: the service does both in a thread, but at start.
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import attrs

from scale0 import config as cfg
from scale0 import forms
from scale0.config import BrokerConfig, ConfigFault
from scale0.folder import Record


@attrs.frozen
class Loaded:
    """A configuration file, read."""

    config: BrokerConfig
    digest: str
    changed_ms: int  # when it was written, UNIX ms: its version, unless there was a later one


def load_file(path: Path) -> Loaded:
    """The file in the form that its ending names, or ConfigFault. Blocks."""
    form = forms.FORMS.get(path.suffix)
    if form is None:
        raise ConfigFault(str(path), [cfg.Fault(1, "", f"its name ends in {', '.join(forms.FORMS)}")])
    try:
        raw, changed = path.read_bytes(), path.stat().st_mtime
    except OSError as e:
        raise ConfigFault(str(path), [cfg.Fault(1, "", e.strerror or "cannot be read")]) from None
    return Loaded(cfg.load(raw, form, str(path)), cfg.digest(raw), int(changed * 1000))


def password_is_right(stored: str, password: str) -> bool:
    """Against `scrypt$N$r$p$SALT$KEY`. Takes some 50 ms on purpose; call it in a thread."""
    _, n, r, p, salt, key = stored.split("$")
    wanted = bytes.fromhex(key)
    memory = 130 * int(n) * int(r) + (1 << 20)
    given = hashlib.scrypt(
        password.encode(), salt=bytes.fromhex(salt), n=int(n), r=int(r), p=int(p), dklen=len(wanted), maxmem=memory
    )
    return hmac.compare_digest(given, wanted)


def first_state(record: Record | None, same_file: bool, wanted: str, has_received: bool) -> str:
    """Disabled stays disabled, and enabled stays enabled while the file is the same; what was received is enough."""
    if record is not None and record.state == "disabled":
        return "disabled"
    if wanted == "disabled" and record is not None and same_file:
        return record.state
    return "active" if wanted == "joining" and has_received else wanted
