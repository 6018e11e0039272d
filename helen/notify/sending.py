"""One try to deliver one message, whatever the channel: what the remote said, or why it did not work.

Never blocks the reactor: bodies are made in threads. Nothing is repeated here; helen/notify/outbox.py does that.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from helen.notify import by_command, by_mail, over_http, shapes
from helen.notify.attempt import SendFailed, tidy
from helen.notify.config import Channel, Mail, Program, Relay, Web
from helen.notify.messages import Message
from helen.notify.secrets import Opened, SecretMissing

APPRISE = str(Path(__file__).with_name("apprise_child.py"))  # isolated: it sees neither our modules nor PYTHONPATH


@frozen
class Said:
    """A message was taken, in the remote's own words, secrets masked."""

    text: str


def send(reactor: Any, channel: Channel, message: Message, external: str) -> Deferred[Said]:
    """Fails with SendFailed, whose sentence has no secret in it. Cancel it to give up."""
    return Deferred.fromCoroutine(_send(reactor, channel, message, external))


async def _send(reactor: Any, channel: Channel, message: Message, external: str) -> Said:
    opened = Opened()
    try:
        text = await _by(reactor, channel, message, external, opened)
    except SecretMissing as error:
        raise SendFailed(str(error)) from error
    except SendFailed as error:
        raise SendFailed(tidy(opened.mask(error.text)), error.retry_after) from None
    return Said(tidy(opened.mask(text)))


async def _by(reactor: Any, channel: Channel, message: Message, external: str, opened: Opened) -> str:
    via = channel.via
    if isinstance(via, Web):
        request = await deferToThread(_request, via, message, external, opened)
        return await over_http.post(reactor, request, channel.timeout)
    if isinstance(via, Mail):
        letter = await deferToThread(_letter, via, message, external, opened)
        return await by_mail.post(reactor, letter, channel.timeout)
    make = _relayed if isinstance(via, Relay) else _call
    call = await deferToThread(make, via, message, external, opened)
    return await by_command.run(reactor, call, channel.timeout)


def _request(via: Web, message: Message, external: str, opened: Opened) -> over_http.Request:
    document: Any
    url = opened.text(via.url)
    if via.shape == "alertmanager-v2":
        document, url = shapes.api_v2(message, external, time.time()), url.rstrip("/") + "/api/v2/alerts"
    elif via.shape == "alertmanager-v4":
        document = shapes.webhook_v4(message, external)
    else:
        document = shapes.own(message, external)
    headers = {"Idempotency-Key": message.id} | opened.texts(via.headers)
    if via.bearer is not None:
        headers["Authorization"] = f"Bearer {opened.text(via.bearer)}"
    return over_http.Request(url, headers, _encode(document), via.ca)


def _letter(via: Mail, message: Message, external: str, opened: Opened) -> by_mail.Letter:
    made = shapes.mail(message, external, via.sender, via.to).as_bytes()
    user = None if via.user is None else opened.text(via.user)
    password = None if via.password is None else opened.text(via.password)
    return by_mail.Letter(via.host, via.port, via.tls, via.sender, via.to, made, user, password, via.ca)


def _call(via: Program, message: Message, external: str, opened: Opened) -> by_command.Call:
    return by_command.Call(via.argv, opened.texts(via.environment), _encode(shapes.own(message, external)))


def _relayed(via: Relay, message: Message, external: str, opened: Opened) -> by_command.Call:
    urls = [opened.text(url) for url in via.urls]
    for url in urls:
        opened.parts(url)
    document = shapes.plain(message, external) | {"urls": urls}
    return by_command.Call((sys.executable, "-I", APPRISE), {}, _encode(document))


def _encode(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
