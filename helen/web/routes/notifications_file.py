"""Routes of the text of notifications.toml. `helen export` reads it, `helen apply` writes it. docs/api.rst has them."""

from __future__ import annotations

from typing import Annotated, TypedDict

from helen.parts import Parts
from helen.storage.config_file import version_of
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import OptionalText, whole_or_none_of
from helen.web.config_files import WrittenFile, write_file
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes

routes = Routes()


class FileJson(TypedDict):
    """Holds the text of a file of settings, its version, and its fault if it is not used."""

    text: str | None
    version: str
    fault: str | None


class ReplaceNotifications(Body, frozen=True, kw_only=True):
    """Has the whole text of notifications.toml, or null; `version` is what the client has read."""

    text: Annotated[str | None, whole_or_none_of("notifications.toml")]
    version: OptionalText = None


@routes.get(f"{V1}/notifications/file", "notifications-file", "The text of notifications.toml", answer=FileJson)
async def get_notifications_file(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with the text as it is written: a URL that stands in it is shown, so keep secrets by reference."""
    text = await parts.notifier.config_file.text()
    version = version_of(text)
    shown: FileJson = {"text": text, "version": version, "fault": parts.notifier.config_file.fault}
    return write_json(request, shown, tag=f'"{version}"')


@routes.put(
    f"{V1}/notifications/file", "notifications", "Replace notifications.toml", body=ReplaceNotifications,
    answer=WrittenFile, action="notifications",
    errors={400: "bad request, or notifications refused", 412: "changed meanwhile"},
)  # fmt: skip
async def put_notifications_file(parts: Parts, request: ApiRequest, body: ReplaceNotifications) -> bytes:
    """Replace the whole text; null takes the file away."""
    return write_json(request, await write_file(parts.notifier.config_file, body.text, body.version, request))
