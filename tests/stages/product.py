"""Builds the wheel of this source with a version of the test's choice, as users get it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("equus", "equus_protocol", "groundwork", "helen", "helen_checks", "checks", "scale0", "twisted", "zerotask")


def build_product(folder: Path, version: str) -> Path:
    """Return the wheel, in a folder below this one, which need not be there."""
    for name in SOURCES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "dropin.cache"))
    for name in ("pyproject.toml", "README.rst"):
        shutil.copyfile(ROOT / name, folder / name)
    lines = (ROOT / "setup.cfg").read_text().splitlines()
    changed = [f"version = {version}" if line.startswith("version = ") else line for line in lines]
    (folder / "setup.cfg").write_text("\n".join(changed) + "\n")
    words = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder / "dist"), str(folder)]
    built = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stdout + built.stderr
    [wheel] = (folder / "dist").iterdir()
    return wheel
