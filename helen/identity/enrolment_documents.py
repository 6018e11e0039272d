"""Reads and writes the two documents of enrolment: the blob of an agent's `enrol`, and that of `enrolled`.

Pure. helen/identity/authority.py decides about the request.
"""

from __future__ import annotations

import json

import attrs

from helen.keys.certificates import REQUEST_SIZE, BadRequest

BLOB_SIZE = 2 * REQUEST_SIZE  # a request, a token, and room for what later versions add


@attrs.frozen
class EnrolRequest:
    """Holds an agent's request for a certificate. The token is missing if an agent renews; it is a secret, so it is
    never shown.
    """

    csr: str
    token: str | None = attrs.field(default=None, repr=False)

    @classmethod
    def parse(cls, blob: bytes) -> EnrolRequest:
        """Read a request from JSON that any client may have sent. Raises BadRequest if it is none."""
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
    """Holds an agent's new certificate, and the CAs and the time of renewal that it needs with it."""

    certificate: str  # PEM
    ca: str  # PEM of every CA that the agent shall trust
    renew_after: int  # Unix seconds: two thirds of the certificate's life

    def blob(self, signing_keys: str, root: str = "") -> bytes:
        """Return the blob: the fields, the public keys of check sets (PEM), and the root that names them, if any."""
        keys = {"signing_keys": signing_keys} | ({"root": root} if root else {})
        return json.dumps(attrs.asdict(self) | keys).encode()
