"""Run MODULE.main() in a process that forks often: `python -m equus.processes.forking MODULE ARGUMENTS`.

Each fork costs more the more such a process has loaded, so it loads less (plain_attrs.py), and runs nothing in the
child. Python's threading module registers a callback for each forked child, to reset its locks, and that alone makes
the kernel copy 130 pages. These processes and their children have one thread each, so the module is loaded without its
callback.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from equus.processes import plain_attrs


def prepare() -> None:
    """Make this process a cheap one to fork, before it imports anything else of ours."""
    plain_attrs.install()
    _load_without_fork_callbacks("threading")


def _load_without_fork_callbacks(module: str) -> None:
    """Import a module, and ignore the fork callbacks that it registers."""
    register: Callable[..., None] = os.register_at_fork

    def ignore(**_callbacks: Any) -> None:
        return None

    os.register_at_fork = ignore  # type: ignore[assignment]
    try:
        importlib.import_module(module)
    finally:
        os.register_at_fork = register  # type: ignore[assignment]


def main() -> None:
    """Run the module that argv names."""
    prepare()
    importlib.import_module(sys.argv.pop(1)).main()


if __name__ == "__main__":
    main()
