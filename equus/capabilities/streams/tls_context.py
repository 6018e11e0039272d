"""Make the TLS settings of host calls: with verification of the server's certificate, or without."""

import ssl

from equus.capabilities.calls import CallFailed


def not_verifying() -> ssl.SSLContext:
    """Return settings that accept every certificate: to inspect a server, never to send it secrets."""
    settings = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    settings.check_hostname = False
    settings.verify_mode = ssl.CERT_NONE
    return settings


def anonymous() -> ssl.SSLContext:
    """Return settings that also accept a server without any certificate, and old parameters, as NRPE daemons have them.

    They hide what is sent from those who only listen. Somebody on the way can read and change all of it.
    """
    settings = not_verifying()
    settings.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    settings.set_ciphers("ALL:aNULL:@SECLEVEL=0")
    return settings


def verifying(ca: str | None) -> ssl.SSLContext:
    """Return settings that trust the system's authorities, or only `ca` (PEM text). Raises CallFailed if it is none.

    A host must stand in the certificate's SAN: browsers and most other clients don't look at the common name any more.
    """
    try:
        settings = ssl.create_default_context(cadata=ca)
    except (ssl.SSLError, ValueError):
        raise CallFailed("bad-arguments", "ca must be certificates as PEM text") from None
    settings.hostname_checks_common_name = False
    return settings
