"""Name the errors of system calls that say: the disk is full, or it can't be used. Other errors are our own mistakes.

A disk that is full may have room again. One that fails or has become read-only needs an operator; until then a program
that can go on without it should.
"""

from __future__ import annotations

import errno

# EFBIG is what RLIMIT_FSIZE gives.
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
# I/O errors, a filesystem that the kernel has made read-only or shut (EUCLEAN), a device or a server that has gone.
UNUSABLE = frozenset(
    {
        errno.EIO, errno.EROFS, errno.EUCLEAN, errno.ENODEV, errno.ENXIO, errno.ENOMEDIUM, errno.EREMOTEIO,
        errno.ESTALE, errno.ENOTCONN, errno.ESHUTDOWN,
    }
)  # fmt: skip
DISK_FAULTS = NO_SPACE | UNUSABLE
# No file can be opened: this process, or the machine, has as many open as it may. The disk was not touched.
NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
# Of a file that belongs to another user, or lies in a closed folder.
REFUSED = frozenset({errno.EACCES, errno.EPERM})


def advice_on(number: int, program: str) -> str:
    """Return the first half of a sentence: what to do about a file that `program` could not open, by the errno."""
    if number in NO_DESCRIPTOR:
        return f"Raise LimitNOFILE of {program}'s unit (ulimit -n)"
    if number in REFUSED:
        return f"Chown it to the user of {program}"
    if number == errno.ENOMEM:
        return "Give this machine more memory"
    return "Look at `dmesg`, and mend the disk or restore the file from a backup"
