"""Perform `host.certificate()`: describe the agent's own certificate. Reads the public half only, never a key."""

import os
import time
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from equus.capabilities.calls import CallFailed, Context, Perform, positional
from equus.capabilities.streams.tls import MOST_CHAIN, describe

# Bytes, as for every PEM file of the agent (equus/identity/identity_store.py): some hundred certificates.
PEM_BYTES = 262_144


def certificate(args: list[Any], _policy: Any, context: Context) -> dict[str, Any]:
    """Describe the newest of the agent's certificate files: a renewal leaves the old file where it is.

    Raises CallFailed("unsupported") if there is none.
    """
    positional("host.certificate", args)
    found = [chain for path in context.certificates if (chain := _read(path))]
    if not found:
        raise CallFailed("unsupported", "there is no certificate here: not an agent, or one that speaks plaintext")
    newest, *above = max(found, key=lambda chain: chain[0].not_valid_before_utc)
    answer = describe(newest.public_bytes(Encoding.DER))
    life = answer["not_after_at"] - answer["not_before_at"]
    left = (answer["not_after_at"] - time.time()) * 100 / life if life > 0 else 0.0
    chain = [describe(one.public_bytes(Encoding.DER)) for one in above[:MOST_CHAIN]]
    return answer | {"left_percent": round(left, 3), "chain": chain}


def _read(path: str) -> list[x509.Certificate]:
    """Read a file: the agent's certificate, and those of its issuers if it has them. Return [] if there is no file."""
    try:
        with open(path, "rb") as file:
            return x509.load_pem_x509_certificates(file.read(PEM_BYTES))
    except FileNotFoundError:
        return []
    except OSError as fault:
        raise CallFailed("failed", f"the agent's certificate cannot be read: {os.strerror(fault.errno or 0)}") from None
    except (ValueError, x509.InvalidVersion):
        raise CallFailed("failed", f"{path} holds no certificate that can be read") from None


CALLS: dict[str, Perform] = {"certificate": certificate}
