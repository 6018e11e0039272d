"""Routes of targets: things without an agent, and the agents that look at them. docs/api.rst lists them."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from helen.agents.sight import Sight
from helen.parts import Parts
from helen.storage.config_file import version_of
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import OptionalText, whole_or_none_of
from helen.web.config_files import WrittenFile, write_file
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes

routes = Routes()


class TargetJson(TypedDict):
    """Describes a target; `runners` are the agents that look at it, `quorum` says how many have to see it bad.

    `source` is the place where it was found, null for one that the file declares.
    """

    name: str
    address: str
    port: int | None
    source: str | None
    labels: dict[str, str]
    via: list[str]
    quorum: str
    runners: list[str]
    checks: list[str]


class TargetsJson(TypedDict):
    """Lists targets by name, the text of targets.toml, and sentences about targets that no agent looks at."""

    text: str | None
    version: NotRequired[str]
    fault: str | None
    faults: list[str]
    targets: list[TargetJson]


class ReplaceTargets(Body, frozen=True, kw_only=True):
    """Has the whole text of targets.toml, or null; `version` is what the client has read."""

    text: Annotated[str | None, whole_or_none_of("targets.toml")]
    version: OptionalText = None


@routes.get(f"{V1}/targets", "read", "Things without an agent, and who looks at them", answer=TargetsJson)
async def get_targets(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with the targets, and the text of targets.toml; to a limited caller without the text."""
    file, sight = parts.targets.config_file, parts.visible(request.caller)
    shown: TargetsJson = {"text": None, "fault": None, "faults": [], "targets": _listed(parts, sight)}
    if sight is None:
        text = await file.text()
        version = version_of(text)
        shown = {**shown, "text": text, "version": version, "fault": file.fault, "faults": parts.targets.faults()}
        request.setHeader("etag", f'"{version}"')
    return write_json(request, shown)


def _listed(parts: Parts, sight: Sight | None) -> list[TargetJson]:
    targets = parts.targets
    return [
        {
            "name": name, "address": target.address, "labels": dict(target.labels), "via": list(target.via),
            "port": target.port, "source": targets.found.get(name), "quorum": str(target.quorum),
            "runners": [each for each in targets.runners(name) if sight is None or sight(each)],
            "checks": [entry.id for entry in targets.entries_of(name)],
        }
        for name, target in sorted(targets.config.items()) if sight is None or sight(name)
    ]  # fmt: skip


@routes.put(
    f"{V1}/targets", "targets", "Replace the things without an agent", body=ReplaceTargets, answer=WrittenFile,
    action="targets", errors={400: "bad request, or targets refused", 412: "changed meanwhile"},
)  # fmt: skip
async def put_targets(parts: Parts, request: ApiRequest, body: ReplaceTargets) -> bytes:
    """Replace the whole text; null takes the file away."""
    return write_json(request, await write_file(parts.targets.config_file, body.text, body.version, request))
