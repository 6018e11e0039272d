"""Name the errors of a conversation: the peer's fault, or this side's own."""

from __future__ import annotations

# Every slug that Helen may send after `error`; docs/protocol.rst says what each means.
SLUGS = frozenset(
    "unknown-command bad-line line-too-long bad-int bad-string blob-too-large bad-blob-end hello-expected"
    " hello-repeated hello-timeout unsupported-protocol-version not-enrolled identity-in-use unknown-message-id"
    " unknown-file too-many-outstanding window-exceeded idle-timeout overloaded shutting-down internal".split()
)


class ProtocolError(Exception):
    """Serve as the base of every error that this package raises on purpose."""


class LocalProtocolError(ProtocolError):
    """Report that this side was about to send a message that is illegal now: a bug, never caught and passed over."""


class RemoteProtocolError(ProtocolError):
    """Report that the peer sent something illegal; the conversation is over.

    `slug` is one of SLUGS; `detail` is a sentence for the log, in which the peer's bytes stand escaped.
    """

    def __init__(self, slug: str, detail: str) -> None:
        super().__init__(f"{slug}: {detail}")
        self.slug = slug
        self.detail = detail
