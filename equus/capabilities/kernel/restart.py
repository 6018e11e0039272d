"""Perform host.kernel.reboot_required: tell if packages ask for a restart, and which kernels are installed.

Nothing is restarted by it.
"""

import os
from typing import Any

from equus.capabilities.calls import Context, Perform, positional
from equus.capabilities.kernel.entries import names_in

# Debian and Ubuntu write these when a package asks for a restart.
ASKED, ASKED_BY = "/run/reboot-required", "/run/reboot-required.pkgs"
MODULES = "/lib/modules"
MOST_PACKAGES, MOST_KERNELS = 200, 50


def reboot_required(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Return if a restart was asked for and by which packages, and the kernels: the running one and the installed."""
    positional("host.kernel.reboot_required", args)
    packages = dict.fromkeys(filter(None, (line.strip() for line in context.read_some(ASKED_BY).splitlines())))
    running = context.read_line("/proc/sys/kernel/osrelease") or os.uname().release
    answer = {
        "asked": os.path.exists(context.path(ASKED)),
        "packages": list(packages)[:MOST_PACKAGES],
        "running": running,
        "kernels": [name for name in names_in(context, MODULES) if _is_kernel(name, context)][:MOST_KERNELS],
    }
    # A container, or a kernel without modules, has no such folder: then nothing can be said.
    return answer | ({"modules": os.path.isdir(context.path(f"{MODULES}/{running}"))} if answer["kernels"] else {})


def _is_kernel(name: str, context: Context) -> bool:
    """Return True if the folder of modules is that of an installed kernel: removed ones leave some files behind."""
    return any(os.path.exists(context.path(path)) for path in (f"/boot/vmlinuz-{name}", f"{MODULES}/{name}/vmlinuz"))


CALLS: dict[str, Perform] = {"kernel.reboot_required": reboot_required}
