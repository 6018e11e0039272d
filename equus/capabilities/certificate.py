"""`host.certificate()`: what the agent shows to its Helen, and for how long. The public half only; no key is read."""

import os
import time
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from equus.capabilities.calls import CallFailed, Context, Perform, positional
from equus.capabilities.tls import describe

# As for every PEM file of the agent (equus/identity.py): some hundred certificates.
PEM_BYTES = 262_144


def certificate(args: list[Any], _policy: Any, context: Context) -> dict[str, Any]:
    """The newest of the files in which the agent's own may lie: a renewal leaves the old one where it is."""
    positional("host.certificate", args)
    found = [one for path in context.certificates if (one := _read(path)) is not None]
    if not found:
        raise CallFailed("unsupported", "there is no certificate here: not an agent, or one that speaks plaintext")
    newest = max(found, key=lambda one: one.not_valid_before_utc)
    answer = describe(newest.public_bytes(Encoding.DER))
    life = answer["not_after_at"] - answer["not_before_at"]
    left = (answer["not_after_at"] - time.time()) * 100 / life if life > 0 else 0.0
    return answer | {"left_percent": round(left, 3)}


def _read(path: str) -> x509.Certificate | None:
    """The first certificate of a file; None when the file isn't there."""
    try:
        with open(path, "rb") as file:
            return x509.load_pem_x509_certificate(file.read(PEM_BYTES))
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise CallFailed("failed", f"the agent's certificate cannot be read: {os.strerror(fault.errno or 0)}") from None
    except (ValueError, x509.InvalidVersion):
        raise CallFailed("failed", f"{path} holds no certificate that can be read") from None


CALLS: dict[str, Perform] = {"certificate": certificate}
