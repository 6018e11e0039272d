"""Compile the files of a check set in the sandbox, and remember the errors of those that were compiled before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred, DeferredList, DeferredSemaphore

from equus.code.library import CodeFile, hash_of

INSPECTED_AT_ONCE = 4  # files compiled together: half of the sandbox, so that checks go on meanwhile


class Untried(Exception):
    """Says that a file was not compiled: the agent is stopping, or there is no sandbox.

    It must not count as a bad one.
    """


class Compiler:
    """Finds the errors of files. `inspect` is that of a Runner."""

    def __init__(self, inspect: Callable[..., Any]) -> None:
        self._inspect = inspect
        self._errors: dict[tuple[str, str], str | None] = {}  # by hash of a file and of its libraries

    async def errors_of(self, files: Mapping[str, CodeFile], libraries: dict[str, bytes]) -> dict[str, str]:
        """Return the errors of files, by name.

        A file that was compiled with these libraries before is not compiled again.
        """
        around = hash_of(repr(sorted((name, hash_of(source)) for name, source in libraries.items())).encode())
        turns = DeferredSemaphore(INSPECTED_AT_ONCE)
        new = {file.sha256: file for file in files.values() if (file.sha256, around) not in self._errors}
        tried = [turns.run(self._inspect_file, file, libraries) for file in new.values()]
        errors = dict(zip(new, await all_of(tried), strict=True))
        self._errors |= {(sha256, around): error for sha256, error in errors.items()}
        known = {(file.sha256, around) for file in files.values()}
        self._errors = {key: error for key, error in self._errors.items() if key in known}  # of this set alone
        return {name: error for name, file in files.items() if (error := self._errors[file.sha256, around])}

    def _inspect_file(self, file: CodeFile, libraries: dict[str, bytes]) -> Deferred[str | None]:
        """Return the error of one file, or None; fails with Untried."""
        found: Deferred[str | None] = Deferred()

        def done(table: dict[str, Any]) -> None:
            """Take the table that the sandbox has found, or its error and line."""
            line = table.get("line")
            error = table.get("error")
            if table.get("untried"):
                found.errback(Untried(error))
                return
            found.callback(f"line {line}: {error}" if error and line else error)

        self._inspect(file.content, libraries, done)
        return found


async def all_of(asked: list[Deferred[Any]]) -> list[Any]:
    """Return every result, or raise the first failure once all have ended."""
    results = await DeferredList(asked, consumeErrors=True)
    for good, result in results:
        if not good:
            raise result.value
    return [result for _, result in results]
