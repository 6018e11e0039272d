"""Reads the constants that a table of agreed numbers names."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any


def numbers_in_force(agreed: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, Any]]:
    """Return a table of the same modules and names with the values that the modules have."""
    return {
        module: {name: getattr(importlib.import_module(module), name) for name in names}
        for module, names in agreed.items()
    }
