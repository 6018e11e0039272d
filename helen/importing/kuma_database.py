"""Read the monitors of Uptime Kuma from its SQLite file, kuma.db, without changing it. Blocks.

Columns differ between versions: one that is missing has no value.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from groundwork.counts import count
from helen.importing.found import SourceError

MAX_MONITORS = 10_000
MAX_VALUE = 1024 * 1024  # bytes of one value
MAX_STEPS = 50_000_000  # of SQLite's machine: a file may hold a view that never ends
COLUMNS = (
    "id", "name", "active", "interval", "url", "type", "hostname", "port", "keyword", "invert_keyword", "maxretries",
    "ignore_tls", "upside_down", "maxredirects", "accepted_statuscodes_json", "dns_resolve_type", "dns_resolve_server",
    "retry_interval", "method", "body", "headers", "basic_auth_user", "auth_method", "docker_container", "timeout",
    "expiry_notification", "json_path", "expected_value", "json_path_operator", "database_connection_string",
    "proxy_id",
)  # fmt: skip

Monitor = dict[str, Any]


def read(source: Path) -> list[Monitor]:
    """Return the monitors in the order of their ids. Raises SourceError if the file can't be used."""
    if not source.is_file():
        raise SourceError(f"{source} is no file: name the kuma.db in the data folder of Uptime Kuma")
    with _opened(source) as connection:
        have = [row[1] for row in connection.execute("PRAGMA table_info(monitor)")]
        if not {"id", "name", "type"} <= set(have):
            raise SourceError(f"{source} has no table of monitors: it is no database of Uptime Kuma")
        columns = [column for column in COLUMNS if column in have]
        names = ", ".join(f'"{column}"' for column in columns)
        rows = connection.execute(f"SELECT {names} FROM monitor ORDER BY id LIMIT {MAX_MONITORS + 1}").fetchall()
    if len(rows) > MAX_MONITORS:
        raise SourceError(f"{source} has more than {count(MAX_MONITORS, 'monitor')}")
    return [dict(zip(columns, row, strict=True)) for row in rows]


@contextmanager
def _opened(source: Path) -> Iterator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True, timeout=10)) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
            connection.set_progress_handler(lambda: 1, MAX_STEPS)
            yield connection
    except sqlite3.Error as error:
        raise SourceError(f"{source} can't be read as a database: {error}; a copy of kuma.db will do") from error
