"""Sets a wall clock for one process: a sitecustomize shifts `time.time` by the number in a file."""

from __future__ import annotations

import os
from pathlib import Path

SITE = """
import os, time
path = os.environ.get("SHIFT_FILE")
if path:
    real, steady, cache = time.time, time.monotonic, [0.0, 0.0]

    def shifted():
        if steady() >= cache[0]:
            with open(path) as file:
                cache[:] = steady() + 0.1, float(file.read() or 0)
        return real() + cache[1]

    time.time = shifted
"""


class Shift:
    """Sets the wall clock of the processes that are started with `variables`; the monotonic one stays."""

    def __init__(self, folder: Path, by: float = 0.0) -> None:
        (folder / "site").mkdir(parents=True, exist_ok=True)
        (folder / "site" / "sitecustomize.py").write_text(SITE)
        self._file = folder / "shift"
        self.to(by)
        paths = [str(folder / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.variables = {"PYTHONPATH": os.pathsep.join(paths), "SHIFT_FILE": str(self._file)}

    def to(self, by: float) -> None:
        """Set the clock this many seconds ahead of the real one."""
        whole = self._file.with_suffix(".new")
        whole.write_text(str(by))
        whole.replace(self._file)
