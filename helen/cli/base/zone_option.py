"""Takes the name of a time zone as an option of a command: `--zone Europe/Berlin`."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import click


class ZoneOption(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in newer versions of click
    """Reads an option whose value is a zone of the time zone database; the command gets a ZoneInfo."""

    name = "zone"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ZoneInfo:
        """Return the zone of a name. Raises BadParameter if there is none."""
        try:
            return value if isinstance(value, ZoneInfo) else ZoneInfo(value)
        except (TypeError, ValueError, OSError, LookupError):
            self.fail(f"there is no zone {value!r}: write a name such as Europe/Berlin, or UTC", param, ctx)
