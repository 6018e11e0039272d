"""Keeps what is wrong with the folder of checks, and logs each problem once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from twisted.logger import Logger

from helen.library.linter import Problem

ALL_FILES = ""  # the name under which a problem with the whole folder is kept


class Findings:
    """Holds what is wrong. `problems`: by file name; ALL_FILES for the folder itself."""

    log = Logger()

    def __init__(self, folder: Path) -> None:
        self.problems: dict[str, tuple[Problem, ...]] = {}
        self._folder = folder
        self._logged: dict[str, tuple[Problem, ...]] = {}

    def replace(self, found: Mapping[str, tuple[Problem, ...]], faults: Mapping[str, str]) -> None:
        """Take the problems that lint has found, and the faults of files that can't be read; log those that are new."""
        self.problems = {name: problems for name, problems in found.items() if problems}
        self.problems |= {name: (Problem(text),) for name, text in faults.items()}
        for name, problems in sorted(self.problems.items()):
            if self._logged.get(name) == problems:
                continue
            for problem in problems:
                level = self.log.error if problem.severity == "error" else self.log.warn
                level("{problem}", problem=problem.at(str(self._folder / name)))
        self._logged = self.problems

    def add_trouble(self, text: str) -> None:
        """Take a problem with the whole folder; it is logged once."""
        if self.problems.get(ALL_FILES) != (Problem(text),):
            self.problems = self.problems | {ALL_FILES: (Problem(text),)}
            self.log.error("{text}", text=text)
