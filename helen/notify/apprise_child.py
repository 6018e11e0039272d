"""Hands one message to Apprise: a program of its own, run by path, so that none of its code is ever in Helen's process.

JSON on standard input: {"urls", "title", "body", "type"}. What it prints is what people see; status 0: all were told.
The URLs are secrets: they are on no command line, and in nothing that is printed.
"""

from __future__ import annotations

import json
import logging
import sys

try:
    import apprise
except ImportError:
    apprise = None  # type: ignore[assignment]

MISSING = "Apprise is not installed where Helen runs: pip install 'helen-equus[apprise]'"
MAX_TOLD = 300  # characters of what Apprise says of one URL


def main() -> int:
    if apprise is None:
        print(MISSING)
        return 1
    given = json.load(sys.stdin)
    asset = apprise.AppriseAsset(app_id="Helen", app_desc="Helen", secure_logging=True, async_mode=False)
    told, failed = 0, []
    for number, url in enumerate(given["urls"], 1):
        words = Words()
        logging.getLogger("apprise").addHandler(words)
        target = apprise.Apprise(asset=asset)
        if not target.add(url):
            failed.append(f"URL {number} is none that Apprise knows{words.said}")
        elif target.notify(body=given["body"], title=given["title"], notify_type=given["type"]):
            told += 1
        else:
            failed.append(f"URL {number} ({target[0].service_name}) did not take it{words.said}")
        logging.getLogger("apprise").removeHandler(words)
    print("; ".join([f"{told} of {len(given['urls'])} told", *failed]))
    return 1 if failed else 0


class Words(logging.Handler):
    """The warnings of Apprise about one URL, which have the other side's words in them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())

    @property
    def said(self) -> str:
        return f": {' '.join(self._lines)[:MAX_TOLD]}" if self._lines else ""


if __name__ == "__main__":
    logging.getLogger("apprise").propagate = False
    sys.exit(main())
