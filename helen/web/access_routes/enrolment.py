"""Routes by which agents join: tokens for enrolment, and certificates. docs/api.rst lists them."""

from __future__ import annotations

import time
from typing import TypedDict

from helen.identity.join_tokens import USUAL_SECONDS
from helen.parts import Parts
from helen.storage.token_rows import Terms, Token, UnknownToken
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import Duration, Labels, Number, OptionalDuration, OptionalText, Text
from helen.web.cursors import read_page
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes
from helen.web.sight.limits import limited

routes = Routes()


class JoinTokenTerms(TypedDict):
    """Says whom a token lets in: `uses` agents, the one called `agent`, or any with a name like `names`.

    `labels` are those that they will have, whatever they say of themselves; one that is away for longer than
    `ephemeral` seconds is forgotten, null for one that is expected back.
    """

    agent: str | None
    names: str | None
    uses: int
    labels: dict[str, str]
    ephemeral: float | None


class NewJoinToken(JoinTokenTerms):
    """Holds a token with which agents join at `address`, within `ttl` seconds. It is shown this once."""

    token: str | None
    address: str
    ttl: float


class JoinTokenJson(JoinTokenTerms):
    """Describes a token without its secret: it was `used` so often, until now. Times are unix seconds."""

    id: str
    used: int
    created: float
    created_by: str
    expires: float


class JoinTokensJson(TypedDict):
    """Lists tokens that are good still, a page of them, the newest first."""

    tokens: list[JoinTokenJson]
    next: str | None


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
    """Asks for a token that is good for one agent, or for any with a name like `names`, `uses` times.

    `ephemeral`: the time away after which an agent that it has made is forgotten.
    """

    agent: OptionalText = None
    names: OptionalText = None
    uses: Number = 1
    ttl: Duration = USUAL_SECONDS
    labels: Labels = {}
    ephemeral: OptionalDuration = None

    @property
    def terms(self) -> Terms:
        """Return the terms of the token, unchecked."""
        return Terms(self.agent, self.names, self.uses, self.labels, self.ephemeral)


class IssueCertificate(Body, frozen=True, kw_only=True):
    """Asks for a certificate for an agent's own key, by a request in PEM."""

    name: Text
    csr: Text

    def touched_agents(self) -> tuple[str, ...]:
        """Return the name that the certificate is for."""
        return (self.name,)


@routes.post(
    f"{V1}/tokens", "token", "A token with which agents join", body=MakeJoinToken, answer=NewJoinToken, status=201,
    secret=True,
)  # fmt: skip
async def make_join_token(parts: Parts, request: ApiRequest, body: MakeJoinToken) -> bytes:
    """Make a token for enrolment. Raises Problem for one of any name, if the caller is limited to some agents."""
    if body.agent is None and request.caller.on is not None:
        raise limited(f"{request.caller.actor} is limited to {', '.join(request.caller.on)}: name the agent")
    tokens = parts.authority.tokens
    terms, token = tokens.checked(body.terms, body.ttl), None
    if not body.dry_run:
        token = await tokens.make(terms, time.time(), body.ttl, request.caller.actor)
    shown: NewJoinToken = {"token": token, "address": parts.live.address, "ttl": body.ttl, **_show_terms(terms)}
    return write_json(request, shown, 200 if body.dry_run else 201)


@routes.get(f"{V1}/tokens", "tokens", "Tokens with which agents may join still", answer=JoinTokensJson, paged=True)
async def list_join_tokens(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with the tokens that may be used still, without their secrets."""
    page = read_page(request, "tokens", (float, str))
    rows, following = page.cut(await parts.authority.tokens.usable(time.time()), _place_of)
    return write_json(request, {"tokens": [_show(each) for each in rows], "next": following})


@routes.post(
    f"{V1}/tokens/<token_id>/revoke", "token-revoke", "A token lets no agent in any more", body=Body,
    answer=JoinTokenJson, errors={404: "no such token"},
)  # fmt: skip
async def revoke_join_token(parts: Parts, request: ApiRequest, body: Body, token_id: str) -> bytes:
    """Revoke a token, and answer with what it was; agents that it has let in stay."""
    tokens = parts.authority.tokens
    if body.dry_run:
        found = await tokens.get(token_id)
        if found is None:
            raise UnknownToken(f"no token has the id {token_id}")
    else:
        found = await tokens.revoke(token_id, time.time(), request.caller.actor)
    return write_json(request, _show(found))


def _place_of(token: Token) -> tuple[float, str]:
    return -token.created, token.id


def _show(token: Token) -> JoinTokenJson:
    return {
        "id": token.id, "used": token.used, "created": token.created, "created_by": token.created_by,
        "expires": token.expires, **_show_terms(token.terms),
    }  # fmt: skip


def _show_terms(terms: Terms) -> JoinTokenTerms:
    return {
        "agent": terms.name, "names": terms.names, "uses": terms.uses, "labels": dict(terms.labels),
        "ephemeral": terms.ephemeral,
    }  # fmt: skip


@routes.post(
    f"{V1}/certificates", "certificate", "A certificate for an agent", body=IssueCertificate, answer=CertificateJson,
    status=201, errors={409: "refused"},
)  # fmt: skip
async def issue_certificate(parts: Parts, request: ApiRequest, body: IssueCertificate) -> bytes:
    """Sign a certificate for an agent that was not there to enrol by itself."""
    if body.dry_run:
        await parts.authority.enrolment.check_issue(body.name, body.csr, time.time())
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
