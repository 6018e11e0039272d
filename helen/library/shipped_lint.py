"""Knows the verdicts of `equus lint` on the shipped checks, made when these were: a new server need not ask again.

checks/verdicts.json is the answer of `equus lint --output json`; `./dev verdicts` writes it, and a test holds it
against what lint says today. A file is known by its name and hash, if all that it requires is known as well and in the
set.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twisted.logger import Logger

import helen_checks
from equus_protocol.manifest import FileEntry
from helen.library.linter import Verdict, verdict

_log = Logger()
PATH = Path(helen_checks.FOLDER) / "verdicts.json"


class Shipped:
    """Looks verdicts up in an answer of lint. `listed`: its "files"."""

    def __init__(self, listed: Mapping[str, Any]) -> None:
        self._listed = listed

    def known(self, files: Mapping[str, FileEntry]) -> dict[str, Verdict]:
        """Return the verdicts on those files of a set that are as they were shipped."""
        return {name: verdict(name, self._listed[name]) for name in files if self._is_known(name, files, set())}

    def _is_known(self, name: str, files: Mapping[str, FileEntry], seen: set[str]) -> bool:
        if name in seen:
            return True
        seen.add(name)
        listed, entry = self._listed.get(name), files.get(name)
        if listed is None or entry is None or entry.sha256 != listed["sha256"]:
            return False
        return all(self._is_known(f"lib/{each}.lua", files, seen) for each in listed["requires"])


def load(path: Path = PATH) -> Shipped:
    """Read the shipped verdicts. Blocks. None are known in a damaged installation: then lint is asked, for a second."""
    try:
        return Shipped(dict(json.loads(path.read_bytes())["files"]))
    except (OSError, ValueError, LookupError, TypeError) as error:
        _log.warn(
            "{path} can't be read ({error}): this installation is damaged, install it anew. Helen judges the shipped"
            " checks itself.",
            path=path, error=error,
        )  # fmt: skip
        return Shipped({})


def written(answer: bytes) -> str:
    """Return the text of PATH from the output of `equus lint`: a file a line, so that changes can be read."""
    listed = sorted(json.loads(answer)["files"].items())
    lines = [f"{json.dumps(name)}: {json.dumps(one, ensure_ascii=False, sort_keys=True)}" for name, one in listed]
    return '{"files": {\n' + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    sys.stdout.write(written(sys.stdin.buffer.read()))
