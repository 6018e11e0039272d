"""Read entries of /proc and /sys for the calls of `kernel`: single numbers, words, and names in folders."""

import os

from equus.capabilities.calls import CallFailed, Context, demand_descriptor

# Names of a folder that are looked at: an answer must stay small on any machine.
MOST_NAMES = 4096


def whole(text: str | None) -> int | None:
    """Return the whole number that a text is, or None."""
    text = (text or "").strip()
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 20 else None


def number_of(context: Context, path: str) -> int | None:
    """Return the whole number in a file, or None if there is no such file or number."""
    return whole(context.read_line(path))


def names_in(context: Context, folder: str) -> list[str]:
    """Return the names in a folder, sorted; none if there is no such folder. Raises CallFailed."""
    try:
        return sorted(os.listdir(context.path(folder)))[:MOST_NAMES]
    except OSError as fault:
        demand_descriptor(folder, fault)
        return []


def required_names(context: Context, folder: str, what: str) -> list[str]:
    """Return the names in a folder. Raises CallFailed("unsupported") if there is none, for lack of `what`."""
    found = names_in(context, folder)
    if not found:
        raise CallFailed("unsupported", f"this host has no {what} ({folder} has no entries)")
    return found


def present(found: dict[str, int | None]) -> dict[str, int]:
    """Return the numbers that are there: fields of an answer that this kernel lacks are absent."""
    return {name: number for name, number in found.items() if number is not None}
