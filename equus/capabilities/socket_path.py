"""Open the handle of a socket that a policy grants, so that no other user's link leads to another one."""

import os
import stat

from equus.capabilities.calls import CallFailed
from equus.policy.file_ownership import Trusted

_HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
# Links are followed by hand; more than the kernel itself would follow is a loop.
MOST_LINKS = 40


def socket_handle(path: str) -> int:
    """Return an O_PATH descriptor of the last part of a path. Raises OSError, or CallFailed("denied") at a link.

    A link is followed if root or the agent's user made it, in a folder that only these can change: /var/run is one on
    every host. Programs own the folders of their sockets, so these are not judged.
    """
    trusted = Trusted.beside_root(())
    pending = list(reversed(list(filter(None, path.split("/")))))
    handle, at, links = _top(), "/", 0
    try:
        while pending:
            part = pending.pop()
            following = os.open(part, _HANDLE, dir_fd=handle)
            found = os.fstat(following)
            if not stat.S_ISLNK(found.st_mode):
                handle, following = following, handle
                os.close(following)
                at = os.path.normpath(os.path.join(at, part))
                continue
            links += 1
            target = _target(following)
            fault = trusted.wrong_owner(os.path.join(at, part), found) or trusted.fault(at, os.fstat(handle))
            if fault is not None or links > MOST_LINKS:
                raise CallFailed(
                    "denied", f"{path} leads over a link that is not followed: {fault or 'too many links'}"
                )
            pending += reversed(list(filter(None, target.split("/"))))
            if target.startswith("/"):
                os.close(handle)
                handle, at = _top(), "/"
        return os.dup(handle)
    finally:
        os.close(handle)


def _top() -> int:
    return os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def _target(link: int) -> str:
    """Return the text of a link, in exchange for its handle."""
    try:
        return os.readlink("", dir_fd=link)
    finally:
        os.close(link)
