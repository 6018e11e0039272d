"""Keeps a file of settings in force, the last text without a fault in the store, and versions for writers.

helen/files/watched_file.py has the rules; passive.toml and notifications.toml are such files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from helen.files.watched_file import WatchedFile
from helen.storage import agent_rows
from helen.storage.database import Store, StoreFailed

MAX_FILE = 1024 * 1024  # bytes: ten thousand entries at a hundred bytes
NO_FILE = "none"  # the version of a file that isn't there
API = "API"  # the author of a text that a client wrote: no record names a client

Config = TypeVar("Config")


class Outdated(Exception):
    """Says that a file of settings has another version than the writer has read."""


class ConfigFile(WatchedFile[Config | None]):
    """Keeps a file of settings as the `config` that is in force, None for no file; calls `on_changed()` when it is
    another.

    `key` is that of the copy in the store. `read(text)` raises `refusal` with a sentence for each fault.
    """

    def __init__(
        self,
        reactor: Any,
        path: Path,
        store: Store,
        key: str,
        read: Callable[[str], Config],
        refusal: type[Exception],
        on_changed: Callable[[], None],
    ) -> None:
        super().__init__(reactor, path, refusal, MAX_FILE, "match with patterns")
        self.config: Config | None = None
        self.is_in_force = False  # a text, or that there is none, is in force: the file was read
        self.taken: str | None = None  # the text that is in force; None for no file
        self.observers: list[Callable[[], None]] = []  # called when another text is
        self._store, self._key = store, key
        self._read_text = read
        self._on_changed = on_changed

    def start(self, kept: str | None = None) -> Deferred[None]:
        """Read the file for the first time, and watch it. If it has a fault, the copy `kept` is used, unless empty."""
        return super().start(kept or None)

    async def write(self, text: str | None, version: str | None, dry_run: bool = False) -> str:
        """Replace the file, or delete it (None); return its new version.

        Raises Outdated if `version` is given and is not that of the file, and the refusal if the text can't be used.
        """

        def demand(held: str | None) -> None:
            if version is not None and version != version_of(held):
                raise Outdated(f"{self.path.name} has been changed meanwhile: look at it again, then write")

        await self.rewrite(text, API, demand, dry_run)
        return version_of(text)

    def read(self, text: str | None) -> Config | None:
        """Return the config of a text, None for no file. Raises the refusal."""
        return None if text is None else self._read_text(text)

    def use(self, config: Config | None, text: str | None) -> None:
        """Put a config in force, and tell the observers if the text is another one."""
        is_new = not self.is_in_force or text != self.taken
        self.config, self.taken, self.is_in_force = config, text, True
        self._on_changed()
        for observer in self.observers if is_new else ():
            observer()

    async def keep(self, text: str | None, author: str) -> None:
        """Keep a copy of the text in the store."""
        try:
            await self._store.call(agent_rows.put, self._key, text or "")
        except StoreFailed as error:
            self.log.error("{name} is in force, but no copy of it is kept: {error}", name=self.path.name, error=error)


def version_of(text: str | None) -> str:
    """Return the version of a file of this text: a writer that names it can't replace another text unseen."""
    return NO_FILE if text is None else hashlib.sha256(text.encode()).hexdigest()[:32]
