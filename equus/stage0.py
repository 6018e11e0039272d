"""Starting this agent anew from its first line: the same command, another process image, the same process id.

It is asked for when a `reload` arrives and the installed Equus is another one than runs: whoever upgraded the package
needs to do no more. The state lock and all connections end with the old image; the schedule, the spool and the checks
are on disk. Installing an Equus that Helen offers is not done here: see docs/agent.rst.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn

DISTRIBUTION = "helen-equus"


def installed_version() -> str:
    """Of the package on disk, as it is now. Blocking: it reads the metadata."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0"


def command(arguments: Sequence[str]) -> list[str]:
    """What runs this agent again, in this interpreter."""
    return [sys.executable, "-m", "equus.main", *arguments]


def restart(arguments: Sequence[str]) -> NoReturn:
    """Replace this process. Everything that must be flushed has been."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, command(arguments))
