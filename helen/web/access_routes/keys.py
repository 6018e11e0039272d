"""Routes of the keys that sign sets of checks. docs/api.rst lists them."""

from __future__ import annotations

from typing import TypedDict

from equus_protocol.manifest import key_id
from helen.keys import signing_keys
from helen.parts import Parts
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import OptionalText
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes

routes = Routes()


class PublicKeyJson(TypedDict):
    """Holds a public key and its id."""

    id: str
    pem: str


class SigningKeyJson(PublicKeyJson):
    """Holds a signing key; `here`: this Helen has the private one."""

    here: bool


class KeysJson(TypedDict):
    """Describes the newest root. `waiting`: what agents run is not signed by its keys yet, so they are not shown it."""

    version: int
    threshold: int
    keys: list[SigningKeyJson]
    online: PublicKeyJson
    waiting: bool


class RotateKeys(Body, frozen=True, kw_only=True):
    """Has a new root with its signatures; without one Helen makes itself a new key."""

    root: OptionalText = None


@routes.get(f"{V1}/keys", "read", "Who signs sets of checks", answer=KeysJson)
def get_keys(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with the newest root."""
    return write_json(request, show_keys(parts))


@routes.post(
    f"{V1}/keys", "keys", "Change who signs", body=RotateKeys, answer=KeysJson, status=201, action="keys",
    errors={409: "push refused: a rollout is under way, or the root can't be followed"},
)  # fmt: skip
async def rotate_keys(parts: Parts, request: ApiRequest, body: RotateKeys) -> bytes:
    """Follow a new root, or make a new key."""
    await parts.key_rotation.rotate(None if body.root is None else body.root.encode(), body.dry_run)
    return write_json(request, show_keys(parts), 200 if body.dry_run else 201)


def show_keys(parts: Parts) -> KeysJson:
    """Return the newest root (KeysJson has the keys)."""
    keys, library = parts.keys, parts.library
    root, here = keys.root, {key_id(key.public_key()) for key in library.keys.private}
    return {
        "version": root.version,
        "threshold": root.threshold,
        "keys": [
            {"id": name, "pem": signing_keys.public_pem(key), "here": name in here} for name, key in root.keys.items()
        ],
        "online": {"id": key_id(keys.online.public_key()), "pem": signing_keys.public_pem(keys.online.public_key())},
        "waiting": library.releases.is_signed_otherwise(root.keys, root.threshold, root.typed),
    }
