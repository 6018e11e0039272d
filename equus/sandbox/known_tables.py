"""Remember the tables of checks that have run, so that the next run of the same source has nothing to read but its job.

To read a table, and the arguments by it, takes a new worker six times as long as it takes the agent: the worker does
each step for the first time, in memory that its processor has not seen. So the first run of a source tells its table,
and later ones get their arguments read, with the timeout and the capabilities beside them. The rules are those of
check_table.py here as there. A worker tells its table before the check has read anything of the host or a network, and
the agent takes one: a worker that is taken over by what it reads can change no later run.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field, frozen

from equus.sandbox.check_table import BadArguments, BadTable, CheckTable, read_table
from equus.sandbox.frames import TABLE_LIMIT
from equus.sandbox.job import Job
from equus.sandbox.value_codec import NotPlain, decode, encode

# Checks of one agent whose tables are kept: the last ones that ran.
MOST_TABLES = 256
# Different sets of libraries that are kept beside them, each up to LIBRARIES_LIMIT: that in use, and some of orders.
MOST_LIBRARIES = 4
# Arguments of one check that are kept as they were read: a check of a host has one or two entries in its schedule.
MOST_ARGUMENTS = 8
# Bytes of a source, of its arguments. A run with longer ones has all read by its worker.
SOURCE_LIMIT, ARGUMENTS_LIMIT = 65_536, 4096


@frozen
class KnownTable:
    """Holds what a worker needs of a table that it doesn't read: seconds, capabilities, arguments (value_codec.py)."""

    timeout: float
    needs: tuple[str, ...]
    arguments: bytes

    def document(self) -> dict[str, Any]:
        """Return what the job says of it; the arguments are a part of their own."""
        return {"timeout": self.timeout, "needs": self.needs}


@define
class _Told:
    """Holds a table as it was told, the libraries that it may come from, and arguments that were read by it."""

    libraries: dict[str, bytes]
    table: CheckTable
    arguments: dict[bytes, bytes] = field(factory=dict)

    def read(self, job: Job) -> bytes:
        """Return the arguments of a job for its worker. Raises BadArguments, NotPlain."""
        found = self.arguments.get(job.args)
        if found is None:
            found = encode(self.table.read_arguments(job.args))
            if not job.secrets:  # else they would stay in memory longer than the run
                _make_room(self.arguments, MOST_ARGUMENTS)
                self.arguments[job.args] = found
        return found


class KnownTables:
    """Holds the tables of the sources that ran last. The same source with other libraries is not the same check."""

    def __init__(self) -> None:
        self._told: dict[tuple[bytes, bool], _Told] = {}
        self._libraries: list[dict[str, bytes]] = []

    def find(self, job: Job) -> KnownTable | None:
        """Return what is known for a job. None: its worker reads the table, and tells what is wrong if anything is."""
        told = self._told.get((job.source, job.pushed))
        if told is None or told.libraries != job.libraries or len(job.args) > ARGUMENTS_LIMIT:
            return None
        try:
            return KnownTable(told.table.timeout, told.table.needs, told.read(job))
        except (BadArguments, NotPlain):
            return None

    def learn(self, job: Job, text: bytes) -> bool:
        """Take the table that the worker of this job has told. Return False if no correct worker tells that."""
        if not text:
            return True  # it is longer than TABLE_LIMIT
        if len(text) > TABLE_LIMIT:
            return False
        try:
            table = read_table(decode(text), passes_over=job.pushed)
        except (BadTable, NotPlain):
            return False
        if len(job.source) <= SOURCE_LIMIT:
            self._keep(job, table)
        return True

    def _keep(self, job: Job, table: CheckTable) -> None:
        """Keep a table, unless one of the same source and libraries was told before."""
        key = job.source, job.pushed
        told = self._told.get(key)
        if told is None or told.libraries != job.libraries:
            self._told.pop(key, None)
            _make_room(self._told, MOST_TABLES)
            self._told[key] = _Told(self._kept_once(job.libraries), table)

    def _kept_once(self, libraries: dict[str, bytes]) -> dict[str, bytes]:
        """Return the libraries as they are held already; drop the oldest, and its tables, if there are too many."""
        for held in self._libraries:
            if held == libraries:
                return held
        self._libraries.append(libraries)
        for old in self._libraries[:-MOST_LIBRARIES]:
            self._told = {key: told for key, told in self._told.items() if told.libraries is not old}
        del self._libraries[:-MOST_LIBRARIES]
        return libraries


def _make_room(held: dict[Any, Any], most: int) -> None:
    """Drop the oldest until there is room for one more."""
    while len(held) >= most:
        del held[next(iter(held))]
