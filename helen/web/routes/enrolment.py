"""Routes by which agents join: tokens for enrolment, and certificates. docs/api.rst lists them."""

from __future__ import annotations

import time
from typing import TypedDict

from helen.parts import Parts
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import Duration, Labels, OptionalText, Text
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes
from helen.web.sight.limits import limited

routes = Routes()
TOKEN_SECONDS = 3_600.0  # that a token is good for unless it is said otherwise


class JoinToken(TypedDict):
    """Holds a token with which an agent joins at `address`, within `ttl` seconds. It is shown this once.

    `labels` are those that the agent will have, whatever it says of itself.
    """

    token: str | None
    address: str
    ttl: float
    labels: dict[str, str]


class PinnedJson(TypedDict):
    """Holds all that a new agent pins: the CA, the signing keys and their root, and the address."""

    ca: str
    signing_keys: str
    root: str
    address: str


class CertificateJson(PinnedJson):
    """Holds a certificate for an agent. It is renewed after `renew_after` (unix seconds)."""

    certificate: str | None
    renew_after: float | None


class MakeJoinToken(Body, frozen=True, kw_only=True):
    """Asks for a token that is good for one agent, or for any, and may give it labels."""

    agent: OptionalText = None
    ttl: Duration = TOKEN_SECONDS
    labels: Labels = {}


class IssueCertificate(Body, frozen=True, kw_only=True):
    """Asks for a certificate for an agent's own key, by a request in PEM."""

    name: Text
    csr: Text

    def touched_agents(self) -> tuple[str, ...]:
        """Return the name that the certificate is for."""
        return (self.name,)


@routes.post(
    f"{V1}/tokens", "token", "A token with which an agent joins", body=MakeJoinToken, answer=JoinToken, status=201,
    secret=True,
)  # fmt: skip
async def make_join_token(parts: Parts, request: ApiRequest, body: MakeJoinToken) -> bytes:
    """Make a token for enrolment. Raises Problem for one of any name, if the caller is limited to some agents."""
    if body.agent is None and request.caller.on is not None:
        raise limited(f"{request.caller.actor} is limited to {', '.join(request.caller.on)}: name the agent")
    token = None
    if body.dry_run:
        parts.authority.check_token(body.agent, body.ttl, body.labels)
    else:
        token = await parts.authority.make_token(time.time(), body.agent, body.ttl, request.caller.actor, body.labels)
    shown: JoinToken = {"token": token, "address": parts.live.address, "ttl": body.ttl, "labels": body.labels}
    return write_json(request, shown, 200 if body.dry_run else 201)


@routes.post(
    f"{V1}/certificates", "certificate", "A certificate for an agent", body=IssueCertificate, answer=CertificateJson,
    status=201, errors={409: "refused"},
)  # fmt: skip
async def issue_certificate(parts: Parts, request: ApiRequest, body: IssueCertificate) -> bytes:
    """Sign a certificate for an agent that was not there to enrol by itself."""
    if body.dry_run:
        await parts.authority.check_issue(body.name, body.csr, time.time())
        dry: CertificateJson = {"certificate": None, "renew_after": None, **_pinned(parts)}
        return write_json(request, dry)
    enrolled = await parts.authority.issue(body.name, body.csr, time.time(), request.caller.actor)
    parts.sessions.roster.enrol(body.name)
    shown: CertificateJson = {
        "certificate": enrolled.certificate, "renew_after": enrolled.renew_after, **_pinned(parts)
    }  # fmt: skip
    return write_json(request, shown, 201)


def _pinned(parts: Parts) -> PinnedJson:
    keys, root = parts.keys.for_enrolment(parts.library.published)
    return {"ca": parts.authority.bundle, "signing_keys": keys, "root": root, "address": parts.live.address}
