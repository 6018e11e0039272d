"""Reads the configuration file, chooses the first state, and checks passwords.

Reading a file and checking a password block: the service does both in a thread, except when it is made.
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import attrs

from scale0.broker.state_folder import Record
from scale0.config import config as cfg
from scale0.config import syntax
from scale0.config.config import ConfigFault
from scale0.config.schema import BrokerConfig


@attrs.frozen
class Loaded:
    """Holds a configuration that was read from a file."""

    config: BrokerConfig
    digest: str
    changed_ms: int  # when it was written, unix ms: its version, unless there was a later one


def load_file(path: Path) -> Loaded:
    """Read a file, in the syntax that its ending names. Blocks. Raises ConfigFault if it is no configuration."""
    syntax_name = syntax.SYNTAXES.get(path.suffix)
    if syntax_name is None:
        raise ConfigFault(str(path), [cfg.Fault(1, "", f"its name ends in {', '.join(syntax.SYNTAXES)}")])
    try:
        raw, changed = path.read_bytes(), path.stat().st_mtime
    except OSError as e:
        raise ConfigFault(str(path), [cfg.Fault(1, "", e.strerror or "cannot be read")]) from None
    return Loaded(cfg.load(raw, syntax_name, str(path)), cfg.digest(raw), int(changed * 1000))


def password_is_right(stored: str, password: str) -> bool:
    """Compare a password with its record `scrypt$N$r$p$SALT$KEY`. Takes some 50 ms on purpose; call it in a thread."""
    _, n, r, p, salt, key = stored.split("$")
    wanted = bytes.fromhex(key)
    memory = 130 * int(n) * int(r) + (1 << 20)
    given = hashlib.scrypt(
        password.encode(), salt=bytes.fromhex(salt), n=int(n), r=int(r), p=int(p), dklen=len(wanted), maxmem=memory
    )
    return hmac.compare_digest(given, wanted)


def first_state(record: Record | None, same_file: bool, wanted: str, has_received: bool) -> str:
    """Return the state to start in.

    A broker that was disabled stays so. One that was enabled stays so while the file is the same, whatever the file
    says. One that is to join is active if it has received a configuration before.
    """
    if record is not None and record.state == "disabled":
        return "disabled"
    if wanted == "disabled" and record is not None and same_file:
        return record.state
    return "active" if wanted == "joining" and has_received else wanted
