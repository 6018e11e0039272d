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
