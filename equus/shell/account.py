"""Look up an account of the host, as which a person logs in."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from attrs import frozen

SHELLS = Path("/etc/shells")  # those that the host's root lets people have
RESTRICTED = frozenset({  # names of shells that let an account do less than run programs, though a host may list them
    "nologin", "false", "true", "git-shell", "scponly", "scponlyc", "rssh", "lshell", "mysecureshell", "rbash", "rksh",
    "rksh93", "rmksh", "rzsh", "rsh",
})  # fmt: skip


@frozen
class Account:
    """Describes a user of the host."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str
    groups: tuple[int, ...] = ()

    @classmethod
    def of(cls, name: str) -> Account:
        """Return the account of a user. Raises KeyError if there is none. May ask the host's directory of users."""
        found = pwd.getpwnam(name)
        home = found.pw_dir if os.path.isdir(found.pw_dir) else "/"
        groups = tuple(os.getgrouplist(name, found.pw_gid))
        return cls(name, found.pw_uid, found.pw_gid, home, found.pw_shell or "/bin/sh", groups)

    def has_full_shell(self) -> bool:
        """Return True if its shell lets it run any program: the host lists it, and it is none of those that don't."""
        if {os.path.basename(self.shell), os.path.basename(os.path.realpath(self.shell))} & RESTRICTED:
            return False
        try:
            lines = SHELLS.read_text("utf-8", "replace").splitlines()
        except OSError:
            return False
        return self.shell in (line.strip() for line in lines if line.startswith("/"))
