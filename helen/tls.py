"""Helen's side of TLS (interface)."""

from __future__ import annotations

from typing import Any

from cryptography import x509

HANDSHAKE_SECONDS = 10.0


class ServerTLS:
    """An IOpenSSLServerConnectionCreator: TLSMemoryBIOFactory(ServerTLS(...), False, factory) or reactor.listenSSL."""

    def __init__(self, material: Any) -> None: ...

    def swap(self, material: Any) -> None:
        """New connections use it; live ones are left in peace. `material` is Authority.material."""

    refusals: dict[str, int]  # why handshakes failed: "expired", "not-yet-valid", "foreign-ca", "other"


def peer_certificate(transport: Any) -> x509.Certificate | None:
    """The client's verified certificate, None for an anonymous one. Valid from handshakeCompleted on."""
