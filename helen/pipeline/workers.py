"""Provides the Python that Spark starts for its tasks: this one, without the detour that Spark takes to pyspark.

Spark puts the zip of pyspark that it brings in front of the PYTHONPATH of each process, and Python compiles what it
imports from a zip anew each time: 1.8 s of CPU where the installed pyspark, the same code, takes 0.6 s. So on one
machine Spark starts a launcher instead, which takes such zips out of the path.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = ("local", "spark://127.0.0.1:", "spark://localhost:")
_LAUNCHER = """#!/bin/sh
# Written by helen.pipeline: the installed pyspark is compiled already, the one in Spark's zip never is.
path=
IFS=:
for each in $PYTHONPATH; do
    case "$each" in */pyspark/python/lib/*.zip) ;; *) path="$path${path:+:}$each" ;; esac
done
export PYTHONPATH="$path"
exec '{python}' "$@"
"""


def worker_python(master: str, folder: Path) -> Path:
    """Return the value of PYSPARK_PYTHON. Workers on other machines don't see the launcher: there it is Python."""
    if not master.startswith(HERE):
        return Path(sys.executable)
    folder.mkdir(parents=True, exist_ok=True)
    launcher = folder / "python"
    new = launcher.with_suffix(".new")
    new.write_text(_LAUNCHER.replace("{python}", sys.executable.replace("'", "'\\''")))
    new.chmod(0o755)
    new.replace(launcher)
    return launcher
