"""Look up an account of the host, as which a person logs in."""

from __future__ import annotations

import os
import pwd

from attrs import frozen


@frozen
class Account:
    """A user of the host."""

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
