"""Keeps the verdict of `equus lint` on each file, so that neither a save nor a restart asks again about the others.

A check may `require` a library, so the libraries that it was judged with belong to the verdict: when one of them
changes, comes or goes, every file is judged anew. A linter that can't run is tried again ever more rarely.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from twisted.internet.defer import Deferred

from equus_protocol.manifest import FileEntry
from helen.assignments.schedule import CheckTable
from helen.library.linter import LintFailed, Verdict, verdict
from helen.library.shipped_lint import Shipped
from helen.storage import agent_rows
from helen.storage.database import Store

_KEPT = "library.verdicts"  # the place in the store
FIRST_PATIENCE = 5.0  # seconds after a linter that could not run; twice as many each time
LAST_PATIENCE = 300.0

Lint = Callable[[Mapping[str, bytes]], "Deferred[dict[str, Verdict]]"]
Files = Mapping[str, FileEntry]


def fingerprint(files: Files) -> str:
    """Return one hash for a whole set of files."""
    named = sorted((name, entry.sha256) for name, entry in files.items())
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()


def libraries(files: Mapping[str, Any]) -> dict[str, Any]:
    """Return the files that are libraries, not checks."""
    return {name: item for name, item in files.items() if name.startswith("lib/")}


class Verdicts:
    """Keeps verdicts by the name and hash of a file. `steady`: monotonic seconds, by which a failed linter waits."""

    def __init__(self, lint: Lint, store: Store, steady: Callable[[], float], shipped: Shipped) -> None:
        self._lint = lint
        self._shipped = shipped  # verdicts that are known without asking
        self._store = store
        self._steady = steady
        self._found: dict[str, Verdict] = {}
        self._tables: dict[str, CheckTable] = {}  # as read last: a check that is broken now may still be served
        self._libraries = fingerprint({})  # that the newest judgement was made with
        self._failure: tuple[str, str] | None = None  # the set that could not be judged, and why
        self._again_at = 0.0
        self._patience = FIRST_PATIENCE

    def load(self, kv: Mapping[str, str]) -> None:
        """Take the verdicts that were kept before this start."""
        kept = json.loads(kv.get(_KEPT, "{}"))
        self._libraries = kept.get("libraries", self._libraries)
        self._found = {key: verdict(key.rpartition(" ")[0], listed) for key, listed in kept.get("verdicts", {}).items()}
        read = {key: verdict(key.rpartition(" ")[0], {"table": table}) for key, table in kept.get("tables", {}).items()}
        self._tables = {key: each.table for key, each in read.items() if each.table is not None}

    def of(self, name: str, entry: FileEntry) -> Verdict:
        """Return the verdict on a file that has been judged. Raises KeyError otherwise."""
        return self._found[_key(name, entry)]

    def tables(self, files: Files) -> dict[str, CheckTable]:
        """Return the tables of a set's checks, by their names."""
        found = (self._tables.get(_key(name, entry)) for name, entry in files.items() if not name.startswith("lib/"))
        return {table.name: table for table in found if table is not None}

    async def judge(self, contents: Mapping[str, bytes], files: Files, served: Iterable[Files]) -> None:
        """Have every file judged that has not been yet, and keep the verdicts on these and on the served ones.

        Raises LintFailed if lint can't run; for a while after that at once, with the same text.
        """
        held_libraries = fingerprint(libraries(files))
        new = {name for name, entry in files.items() if _key(name, entry) not in self._found}
        if held_libraries != self._libraries:
            new = set(files)
        if not new:
            return
        fresh = {name: found for name, found in self._shipped.known(files).items() if name in new}
        if unknown := new - fresh.keys():
            asked = {name: contents[name] for name in files if name in unknown or name.startswith("lib/")}
            fresh |= await self._ask(asked, fingerprint(files))
        kept = {_key(*item) for each in (files, *served) for item in each.items()}
        self._found = {key: found for key, found in self._found.items() if key in kept}
        self._found |= {_key(name, files[name]): found for name, found in fresh.items()}
        self._tables = {key: table for key, table in self._tables.items() if key in kept}
        self._tables |= {key: found.table for key, found in self._found.items() if found.table is not None}
        self._libraries = held_libraries
        await self._store.call(agent_rows.put, _KEPT, self._written())

    async def _ask(self, contents: Mapping[str, bytes], whole: str) -> dict[str, Verdict]:
        now = self._steady()
        if self._failure is not None and self._failure[0] == whole and now < self._again_at:
            raise LintFailed(self._failure[1])
        try:
            found = await self._lint(contents)
        except LintFailed as failed:
            same = self._failure is not None and self._failure[0] == whole
            self._patience = min(LAST_PATIENCE, self._patience * 2) if same else FIRST_PATIENCE
            self._failure, self._again_at = (whole, str(failed)), self._steady() + self._patience
            raise
        self._failure = None
        return found

    def _written(self) -> str:
        found = {key: _plain(each) for key, each in self._found.items()}
        tables = {key: _plain_table(table) for key, table in self._tables.items()}
        return json.dumps({"libraries": self._libraries, "verdicts": found, "tables": tables})


def _key(name: str, entry: FileEntry) -> str:
    return f"{name} {entry.sha256}"


def _plain(found: Verdict) -> dict[str, Any]:
    problems = [{"text": p.text, "line": p.line, "severity": p.severity} for p in found.problems]
    return {"table": None if found.table is None else _plain_table(found.table), "problems": problems}


def _plain_table(table: CheckTable) -> dict[str, Any]:
    return {
        "summary": table.summary,
        "needs": table.needs,
        "every": table.every,
        "timeout": table.timeout,
        "args": table.args,
        "attempts": table.attempts,
        **table.notes.document(),
    }
