"""How much a transport still holds of what was written to it: plaintext that TLS keeps, and bytes for the kernel.

Twisted has no call for it. A transport that doesn't have these attributes (a test's, a faster one) is taken at the
caller's own count.
"""

from __future__ import annotations

from typing import Any


def unsent(transport: Any, counted: int) -> int:
    """Bytes that wait in `transport` and in those below it; `counted` where nobody knows."""
    waiting, known = 0, False
    while transport is not None:
        waiting += sum(map(len, getattr(transport, "_appSendBuffer", ())))
        if hasattr(transport, "dataBuffer"):
            known = True
            waiting += len(transport.dataBuffer) - transport.offset + transport._tempDataLen
        transport = getattr(transport, "transport", None)
    return waiting if known else counted


def let_go(transport: Any) -> None:
    """Give back what an ended transport still holds: those who look at it later must not keep megabytes with it."""
    while transport is not None:
        if hasattr(transport, "_appSendBuffer"):
            transport._appSendBuffer = []
        if hasattr(transport, "dataBuffer"):
            transport.dataBuffer, transport.offset = b"", 0
            transport._tempDataBuffer, transport._tempDataLen = [], 0
        transport = getattr(transport, "transport", None)
