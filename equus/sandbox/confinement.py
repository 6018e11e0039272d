"""Confine a worker before it reads its job: limits of the kernel and the seccomp filter, which nothing takes back."""

from __future__ import annotations

import resource

from attrs import frozen

from equus.processes.process import die_with_parent
from equus.sandbox.seccomp import Filter

OPEN_FILES = 16
# Bytes between the soft and the hard limit of the address space: a check that has used up the soft one is reported
# with these.
RESULT_RESERVE = 16 * 1_048_576


@frozen
class Confinement:
    """Holds the limits that are the same for all workers of a zygote; the others come with each launch."""

    parent: int  # pid of the zygote
    base: int  # bytes of the zygote's address space
    filter: Filter | None  # None: this kernel has no seccomp, the isolation is weak


def confine(with_: Confinement, address_space: int, cpu_seconds: int) -> None:
    """Set the limits of one check and install the filter, irrevocably; zygote.drop_privileges came before.

    address_space: bytes beside the zygote's own. cpu_seconds: seconds of CPU time.
    """
    limits = (
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_NPROC, 0, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES, OPEN_FILES),
        (resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1),
        (resource.RLIMIT_AS, with_.base + address_space, with_.base + address_space + RESULT_RESERVE),
    )
    for kind, soft, hard in limits:
        resource.setrlimit(kind, (soft, hard))
    die_with_parent(with_.parent)
    if with_.filter is not None:
        with_.filter.install()
