"""Hands one message to Apprise: a program of its own, run by path, so that Apprise's code is never in Helen's process.

It reads JSON from standard input: {"urls", "title", "body", "type"}. People see what it prints; exit status 0: each URL
took the message. The URLs are secrets: they are on no command line, and in nothing that is printed.
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
MAX_WARNING = 300  # characters of Apprise's warnings about one URL


def main() -> int:
    """Send to one URL after the other, print the outcome, and return the exit status."""
    if apprise is None:
        print(MISSING)
        return 1
    given = json.load(sys.stdin)
    asset = apprise.AppriseAsset(app_id="Helen", app_desc="Helen", secure_logging=True, async_mode=False)
    told, failed = 0, []
    for number, url in enumerate(given["urls"], 1):
        warnings = Warnings()
        logging.getLogger("apprise").addHandler(warnings)
        target = apprise.Apprise(asset=asset)
        if not target.add(url):
            failed.append(f"URL {number} is none that Apprise knows{warnings.text}")
        elif target.notify(body=given["body"], title=given["title"], notify_type=given["type"]):
            told += 1
        else:
            failed.append(f"URL {number} ({target[0].service_name}) did not take it{warnings.text}")
        logging.getLogger("apprise").removeHandler(warnings)
    print("; ".join([f"{told} of {len(given['urls'])} told", *failed]))
    return 1 if failed else 0


class Warnings(logging.Handler):
    """Collects Apprise's warnings about one URL, which quote the service's answer."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one warning."""
        self._lines.append(record.getMessage())

    @property
    def text(self) -> str:
        """Return ": " and the warnings, or "" if there are none."""
        return f": {' '.join(self._lines)[:MAX_WARNING]}" if self._lines else ""


if __name__ == "__main__":
    logging.getLogger("apprise").propagate = False
    sys.exit(main())
