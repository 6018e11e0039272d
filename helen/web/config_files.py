"""Writes the files of settings that have a version: notifications.toml and passive.toml."""

from __future__ import annotations

from typing import Any, TypedDict

from helen.storage.config_file import ConfigFile, Outdated
from helen.web.problems import Problem
from helen.web.request import ApiRequest


class WrittenFile(TypedDict):
    """Names the version of the file that was written, and its fault: none."""

    version: str | None
    fault: str | None


async def write_file(file: ConfigFile[Any], text: str | None, version: str | None, request: ApiRequest) -> WrittenFile:
    """Replace a file, or take it away (None); `version`, or If-Match, is what it was before.

    Raises Problem 412 if another client has changed it meanwhile, 400 for a text that can't be used.
    """
    match = (request.getHeader(b"if-match") or b"").decode("latin-1")
    wanted = match.strip().strip('"') if match and match.strip() != "*" else version
    try:
        made = await file.write(text, wanted, request.is_dry_run)
    except Outdated as error:
        raise Problem(412, "changed meanwhile", str(error)) from error
    except file.refusal as error:
        raise Problem(400, f"{file.path.stem} refused", str(error)) from error
    request.setHeader("etag", f'"{made}"')
    return {"version": made, "fault": None}
