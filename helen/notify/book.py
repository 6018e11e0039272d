"""STATE/notifications.toml, kept as every file of settings is (helen/textbook.py). No file: nobody is told anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from helen.notify.config import Config, NotificationsError, read
from helen.notify.rows import CONFIG
from helen.store import Store
from helen.textbook import TextBook


class NotificationBook(TextBook[Config]):
    """`config` is what counts, None for no file; `on_changed()` is called when it is another."""

    def __init__(self, reactor: Any, path: Path, store: Store, on_changed: Callable[[], None]) -> None:
        super().__init__(reactor, path, store, CONFIG, read, NotificationsError, on_changed)
