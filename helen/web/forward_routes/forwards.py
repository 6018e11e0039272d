"""Routes of forwards: how far each is, and the text of forwards.toml. docs/api.rst lists them."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from helen.forwards.forwarder import Forwarder
from helen.parts import Parts
from helen.storage.config_file import version_of
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import OptionalText, whole_or_none_of
from helen.web.config_files import WrittenFile, write_file
from helen.web.json_types import Object
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes
from helen.web.routes.notifications_file import FileJson

routes = Routes()


class ForwardJson(TypedDict):
    """Describes a forward. `settings` have every secret masked; `lag` is in seconds, `behind` in records.

    `sent` and `refused` count values of its whole life, `failed` tries of this start.
    """

    name: str
    settings: Object
    lag: float
    behind: int
    sent: int
    refused: int
    failed: int
    lost: int
    error: str | None
    refusal: str | None
    fault: NotRequired[str | None]


class ForwardsJson(TypedDict):
    """Lists the forwards by name, the fault of forwards.toml, and what an operator should look at."""

    fault: str | None
    troubles: list[str]
    forwards: list[ForwardJson]


class ReplaceForwards(Body, frozen=True, kw_only=True):
    """Has the whole text of forwards.toml, or null; `version` is what the client has read."""

    text: Annotated[str | None, whole_or_none_of("forwards.toml")]
    version: OptionalText = None


@routes.get(f"{V1}/forwards", "fleet-look", "What is sent to other systems, and how far", answer=ForwardsJson)
def get_forwards(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with all forwards."""
    forwarding = parts.forwarding
    shown: ForwardsJson = {
        "fault": forwarding.config_file.fault,
        "troubles": forwarding.troubles(),
        "forwards": [_shown(parts, each) for _, each in sorted(forwarding.running.items())],
    }
    return write_json(request, shown)


def _shown(parts: Parts, each: Forwarder) -> ForwardJson:
    settings = each.forward.show()
    return {
        "name": settings.pop("name"), "settings": settings, "lag": round(each.lag(), 3),
        "behind": parts.forwarding.behind(each), "sent": each.total("sent"), "refused": each.total("refused"),
        "failed": each.counts.failed, "lost": each.place.lost, "error": each.failure or each.counts.error,
        "refusal": each.counts.refusal, "fault": each.fault,
    }  # fmt: skip


@routes.get(f"{V1}/forwards/file", "forwards", "The text of forwards.toml", answer=FileJson)
async def get_forwards_file(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with the text as it is written: a URL that stands in it is shown, so keep secrets by reference."""
    file = parts.forwarding.config_file
    text = await file.text()
    version = version_of(text)
    shown: FileJson = {"text": text, "version": version, "fault": file.fault}
    return write_json(request, shown, tag=f'"{version}"')


@routes.put(
    f"{V1}/forwards/file", "forwards", "Replace forwards.toml", body=ReplaceForwards, answer=WrittenFile,
    action="forwards", errors={400: "bad request, or forwards refused", 412: "changed meanwhile"},
)  # fmt: skip
async def put_forwards_file(parts: Parts, request: ApiRequest, body: ReplaceForwards) -> bytes:
    """Replace the whole text; null takes the file away."""
    return write_json(request, await write_file(parts.forwarding.config_file, body.text, body.version, request))
