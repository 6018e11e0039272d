"""Run MODULE.main() in a process that forks often: `python -m equus.processes.forking MODULE ARGUMENTS`.

Python's threading module registers a callback for each forked child, to reset its locks, and that alone makes the
kernel copy 130 pages for each check. These processes and their children have one thread each, so the module (which
attrs imports) is loaded without its callback.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any


def load_without_fork_callbacks(module: str) -> None:
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
    load_without_fork_callbacks("threading")
    importlib.import_module(sys.argv.pop(1)).main()


if __name__ == "__main__":
    main()
