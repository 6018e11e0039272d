"""Builds the Debian packages of this source in two versions; the first is the one that `./dev build --deb` makes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from product import build_product

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "deploy" / "debian"))

from environment import make_environment, python_version  # noqa: E402
from make import pack_all  # noqa: E402

OLD, NEW = "0.9.3", "0.10.0"  # a version is no decimal number


def index_of_pip() -> str:
    """Return the package index that pip is set to, "" for its own: uv reads no settings of pip's, as in ./dev."""
    words = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def make_both(folder: Path) -> dict[str, list[Path]]:
    """Return those of both versions; the newer one differs in a module and in its name of itself."""
    wheel, root = build_product(folder / "source", OLD), folder / "old" / "helen-equus"
    make_environment(root, wheel, ROOT / "requirements" / "server.lock", index_of_pip())
    newer = folder / "new" / "helen-equus"
    newer.parent.mkdir()
    subprocess.run(["cp", "-al", root, newer], check=True)
    [about] = newer.glob("opt/helen/lib/python*/site-packages/helen_equus-*.dist-info/METADATA")
    text = about.read_text().replace(f"\nVersion: {OLD}\n", f"\nVersion: {NEW}\n")
    about.unlink()  # and not written over: it is one file with the older one's
    about.write_text(text)
    (about.parents[1] / "helen" / "of_the_new_one.py").write_text('"""Comes and goes with a version."""\n')
    out = {version: folder / f"{version}-debs" for version in (OLD, NEW)}
    for path in out.values():
        path.mkdir()
    python = python_version()
    found = {
        OLD: pack_all(root, f"{OLD}-1", python, out[OLD]),
        NEW: pack_all(newer, f"{NEW}-1", python, out[NEW]),
    }
    shutil.rmtree(folder / "old")
    shutil.rmtree(folder / "new")
    return found
