"""Starts a process of ours that forks much: `python -m equus.sandbox.forking MODULE ARGUMENTS`; it runs MODULE.main().

Python's threading module asks to be called in each forked child, to set its locks right, and that alone makes the
kernel copy 130 pages, which a check pays for. These processes have one thread and their children have one,
so the module is loaded (attrs wants it) without being called.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any


def load_without_fork_callbacks(module: str) -> None:
    """Import a module whose callbacks after a fork are not wanted."""
    register: Callable[..., None] = os.register_at_fork

    def ignore(**_callbacks: Any) -> None:
        return None

    os.register_at_fork = ignore  # type: ignore[assignment]
    try:
        importlib.import_module(module)
    finally:
        os.register_at_fork = register  # type: ignore[assignment]


def main() -> None:
    load_without_fork_callbacks("threading")
    importlib.import_module(sys.argv.pop(1)).main()


if __name__ == "__main__":
    main()
