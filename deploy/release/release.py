"""Completes a release beside its wheel: `release.py [--sign KEY.pem] DIST LOCK ...`, which `./dev build` runs.

For each lock there is a copy, by which a user installs, and an SBOM of that installation; SHA256SUMS has all files, and
with --sign SHA256SUMS.sig has the signature of a key that no build machine needs to keep.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from lock import read_lock
from sbom import make_sbom
from sums import sign_sums, write_sums


def complete(folder: Path, locks: list[Path], key: Path | None) -> None:
    """Write locks, SBOMs, sums and signature into the folder of a wheel. Raises ValueError for what can't be used."""
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise ValueError(f"{folder} has {len(wheels)} wheels, and a release is of one")
    version = wheels[0].name.split("-")[1]
    for lock in locks:
        name = f"helen-equus-{version}-{lock.stem}"
        shutil.copyfile(lock, folder / f"{name}.lock")
        (folder / f"{name}.cdx.json").write_text(make_sbom(wheels[0], version, read_lock(lock)))
    sums = write_sums(folder)
    if key is not None:
        sign_sums(sums, key)


def main() -> None:
    arguments = argparse.ArgumentParser(description="Completes a release beside its wheel.")
    arguments.add_argument("--sign", type=Path, metavar="KEY", help="an Ed25519 key in PEM")
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("locks", type=Path, nargs="+")
    chosen = arguments.parse_args()
    try:
        complete(chosen.folder, chosen.locks, chosen.sign)
    except (OSError, ValueError) as error:
        raise SystemExit(f"release: {error}") from None


if __name__ == "__main__":
    main()
