"""Makes Debian packages of a wheel: `make.py WHEEL LOCK OUT`, which `./dev build --deb` runs.

dpkg-deb packs what packages.py lays out; debhelper would add nothing to three packages that compile nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from environment import make_environment, python_version
from packages import ROLES, lay_programs, lay_role


def make_packages(wheel: Path, lock: Path, out: Path, index: str) -> list[Path]:
    """Write the three packages into a folder and return them. Raises ValueError for what can't be used or packed."""
    python = python_version()
    with tempfile.TemporaryDirectory(prefix="helen-deb-") as work:
        root = Path(work, "helen-equus")
        make_environment(root, wheel, lock, index)
        return pack_all(root, debian_version(wheel), python, out)


def pack_all(root: Path, version: str, python: tuple[int, int], out: Path) -> list[Path]:
    """Pack the environment in ROOT, and the roles beside ROOT, as one version; return the packages."""
    architecture = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout
    lay_programs(root, version, python, architecture.strip())
    roots = [root]
    for role in ROLES:
        roots.append(root.with_name(role.package))
        lay_role(roots[-1], role, version)
    return [pack(each, out) for each in roots]


def debian_version(wheel: Path) -> str:
    """Return the version of a wheel as dpkg orders it: 1.0rc1 comes before 1.0. Raises ValueError for another file."""
    parts = wheel.name.split("-")
    if wheel.suffix != ".whl" or len(parts) < 5:
        raise ValueError(f"{wheel} is no wheel: build one with `./dev build`")
    digits = parts[1]
    for mark in ("a", "b", "rc", ".dev"):
        digits = digits.replace(mark, f"~{mark.lstrip('.')}")
    return f"{digits}-1"


def pack(root: Path, out: Path) -> Path:
    """Pack a laid-out folder and return the package. Raises ValueError with dpkg-deb's words."""
    control = root / "DEBIAN"
    files = sorted(
        path for path in root.rglob("*") if path.is_file() and not path.is_symlink() and control not in path.parents
    )
    sums = (f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n" for path in files)
    (control / "md5sums").write_text("".join(sums))
    size = sum(path.stat().st_size for path in files) // 1024
    with open(control / "control", "a") as fields:
        fields.write(f"Installed-Size: {size}\n")
    _allow(root)
    words = ["dpkg-deb", "--root-owner-group", "-Zzstd", "-z3", "--build", str(root), str(out)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"dpkg-deb: {done.stderr.strip()}")
    return Path(done.stdout.split(" in '")[1].rstrip("'.\n"))


def _allow(root: Path) -> None:
    """Let all users read what is packed, whatever mask its builder has."""
    for folder, _, names in os.walk(root):
        os.chmod(folder, 0o755)
        for path in (Path(folder, name) for name in names):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def main() -> None:
    arguments = argparse.ArgumentParser(description="Makes Debian packages of a wheel.")
    arguments.add_argument("--index", default="", help="the package index; uv's own if it is not given")
    arguments.add_argument("wheel", type=Path)
    arguments.add_argument("lock", type=Path)
    arguments.add_argument("out", type=Path)
    chosen = arguments.parse_args()
    try:
        make_packages(chosen.wheel, chosen.lock, chosen.out, chosen.index)
    except (OSError, ValueError) as error:
        raise SystemExit(f"deb: {error}") from None


if __name__ == "__main__":
    main()
