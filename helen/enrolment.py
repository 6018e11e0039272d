"""The two documents of enrolment: what an agent sends with `enrol`, and what it gets with `enrolled`.

Pure. Whether the request is granted is for helen.authority to say.
"""

from __future__ import annotations

import json

import attrs

from helen.certificates import REQUEST_SIZE, BadRequest

BLOB_SIZE = 2 * REQUEST_SIZE  # a request, a token, and room for what later versions add


@attrs.frozen
class EnrolRequest:
    """A token is missing when an agent renews. It is a secret, so it is never shown."""

    csr: str
    token: str | None = attrs.field(default=None, repr=False)

    @classmethod
    def parse(cls, blob: bytes) -> EnrolRequest:
        """From the JSON of a stranger; BadRequest for whatever it should not be."""
        if len(blob) > BLOB_SIZE:
            raise BadRequest(f"the enrolment request is longer than {BLOB_SIZE} bytes")
        try:
            document = json.loads(blob)
        except (ValueError, RecursionError) as error:
            raise BadRequest("the enrolment request is no JSON") from error
        match document:
            case {"csr": str(csr), "token": str(token)}:
                return cls(csr, token)
            case {"csr": str(csr), **rest} if rest.get("token") is None:
                return cls(csr)
        raise BadRequest('the enrolment request is no {"token": TEXT, "csr": TEXT}')


@attrs.frozen
class Enrolled:
    """An agent's new certificate and what it needs beside it."""

    certificate: str  # PEM
    ca: str  # PEM of every CA that the agent shall trust
    renew_after: int  # Unix seconds: two thirds of the certificate's life

    def blob(self, signing_keys: str, root: str = "") -> bytes:
        """With the public keys (PEM) that check sets are signed with, and the root that names them, if there is one."""
        keys = {"signing_keys": signing_keys} | ({"root": root} if root else {})
        return json.dumps(attrs.asdict(self) | keys).encode()
