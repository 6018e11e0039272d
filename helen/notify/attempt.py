"""What a try to deliver can come to, and how its words are made fit for a log and a terminal. Pure."""

from __future__ import annotations

MOST_SAID = 500  # characters of what a remote says that are kept
MOST_READ = 65_536  # bytes of it that are read at all


class SendFailed(Exception):
    """It did not work this time. `retry_after`: seconds, if the remote has named a time."""

    def __init__(self, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.text, self.retry_after = text, retry_after


def tidy(text: str) -> str:
    """One line, printable, short."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    shown = " ".join(shown.split())
    return shown if len(shown) <= MOST_SAID else shown[: MOST_SAID - 1] + "\N{HORIZONTAL ELLIPSIS}"
