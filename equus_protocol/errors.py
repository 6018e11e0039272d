"""What can be wrong with a conversation: the peer's fault, or ours."""

from __future__ import annotations

# Every word that Helen may write after `error`; docs/protocol.rst says what each means.
SLUGS = frozenset(
    "unknown-command bad-line line-too-long bad-int bad-string blob-too-large bad-blob-end hello-expected"
    " hello-repeated hello-timeout unsupported-protocol-version not-enrolled identity-in-use unknown-message-id"
    " unknown-file too-many-outstanding idle-timeout overloaded shutting-down internal".split()
)


class ProtocolError(Exception):
    """Base of everything that this package raises on purpose."""


class LocalProtocolError(ProtocolError):
    """We were about to say something that is illegal here and now: a bug of ours, never caught and passed over."""


class RemoteProtocolError(ProtocolError):
    """The peer said something illegal. The conversation is dead from here on.

    `slug` is one of SLUGS; `detail` is a sentence for the log, in which the peer's bytes stand escaped.
    """

    def __init__(self, slug: str, detail: str) -> None:
        super().__init__(f"{slug}: {detail}")
        self.slug = slug
        self.detail = detail
