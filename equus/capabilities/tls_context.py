"""TLS settings of the calls that speak TLS: one that verifies, and one that takes whatever certificate comes."""

import ssl

from equus.capabilities.calls import CallFailed


def trusting_anyone() -> ssl.SSLContext:
    """For looking at a server, never for sending it secrets."""
    settings = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    settings.check_hostname = False
    settings.verify_mode = ssl.CERT_NONE
    return settings


def verifying(ca: str | None) -> ssl.SSLContext:
    """Trusts the system's authorities, or only those of `ca` (PEM text)."""
    try:
        return ssl.create_default_context(cadata=ca)
    except (ssl.SSLError, ValueError):
        raise CallFailed("bad-arguments", "ca must be certificates as PEM text") from None
