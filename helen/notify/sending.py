"""Makes one attempt to deliver one message, through a channel of any kind.

Never blocks the reactor: bodies are made in threads. Nothing is repeated here; helen/notify/outbox.py does that.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from helen.notify.attempt import Accepted, Attempt, SendFailed, tidy
from helen.notify.channels.channel import Channel
from helen.notify.messages import Message
from helen.notify.secrets import OpenedSecrets, SecretMissing

log = Logger()


def send(reactor: Any, channel: Channel, message: Message, external_url: str) -> Deferred[Accepted]:
    """Send the message once. Fails with SendFailed, whose sentence has no secret in it; cancel it to give up."""
    attempt = Attempt(reactor, message, external_url, channel.timeout, OpenedSecrets())
    return Deferred.fromCoroutine(_send(channel, attempt))


async def _send(channel: Channel, attempt: Attempt) -> Accepted:
    secrets = attempt.secrets
    try:
        text = await channel.settings.send(attempt)
    except SecretMissing as error:
        raise SendFailed(str(error)) from error
    except SendFailed as error:
        raise SendFailed(tidy(secrets.mask(error.text)), error.retry_after) from None
    except CancelledError:
        raise
    except Exception as error:  # of the channel's own: it counts as a try like any other, and has an end
        log.failure("channel {name}", name=channel.name)
        said = f"a fault of Helen's, which its log has: {type(error).__name__}: {error}"
        raise SendFailed(tidy(secrets.mask(said))) from None
    return Accepted(tidy(secrets.mask(text)))
