"""Keeps jobs on disk, so that a restart of Helen forgets none: `ID.json`, with the code that is in no set beside it.

Calls write one at a time, in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from groundwork.atomic_write import PRIVATE, write_durably
from groundwork.one_by_one import OneByOne
from helen.files.state_dir import make_folder
from helen.jobs.errors import JobsUnavailable
from helen.jobs.job import Job
from helen.queries import answer_file, one_off_jobs
from helen.queries.one_off_code import Prepared


class JobFolder:
    """Reads and writes the records of jobs in one folder."""

    log = Logger()

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._disk = OneByOne()

    async def load(self, now: float) -> list[Job]:
        """Return all jobs on record, and drop answers of long ago. `now`: unix seconds. Raises OSError."""
        return await deferToThread(self._load, now)

    async def write(self, job: Job, code: Prepared | None) -> None:
        """Write a job down, with its code. Raises JobsUnavailable if the disk does not take it."""
        try:
            await self._disk.run(lambda: deferToThread(_store, self._folder, job, code))
        except OSError as error:
            said = f"the job cannot be kept in {self._folder}: {error.strerror}. No agent was asked"
            raise JobsUnavailable(f"{said}: make room, and ask again") from error

    async def drop(self, job_ids: Iterable[str]) -> None:
        """Remove all files of these jobs. Raises OSError."""
        dropped = list(job_ids)
        await self._disk.run(lambda: deferToThread(_drop, self._folder, dropped))

    async def code_of(self, job: Job) -> bytes:
        """Return the code of a job, as it was signed. Raises OSError if it is not kept."""
        return await deferToThread(one_off_jobs.kept, self._folder, job.id)

    def _load(self, now: float) -> list[Job]:
        """Read the jobs; a file that is none is left alone: it may be a later version's. Raises OSError."""
        make_folder(self._folder)
        answer_file.prune(self._folder, now)
        found = []
        for path in self._folder.glob("*.json"):
            try:
                found.append(msgspec.json.decode(path.read_bytes(), type=Job))
            except msgspec.MsgspecError as error:
                self.log.warn("{path} is left out: {error}", path=path, error=str(error))
        return found


def _store(folder: Path, job: Job, code: Prepared | None) -> None:
    make_folder(folder)
    if code is not None:
        one_off_jobs.keep(folder, job.id, code.blob)
    write_durably(folder / f"{job.id}.json", msgspec.json.encode(job) + b"\n", PRIVATE)


def _drop(folder: Path, job_ids: Iterable[str]) -> None:
    for job_id in job_ids:
        for ending in (".json", answer_file.ENDING, one_off_jobs.ENDING):
            (folder / f"{job_id}{ending}").unlink(missing_ok=True)
