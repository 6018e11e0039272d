"""Routes of notifications: settings, where an alert would go, a test of a channel, and undelivered messages.

docs/api.rst lists them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

from attrs import asdict
from twisted.internet.threads import deferToThread

from helen.notify import rows
from helen.notify.attempt import SendFailed
from helen.notify.channels.channel import Channel
from helen.notify.config import Config, NotificationsError, read
from helen.notify.messages import Alert, Message, labels_of, message_id
from helen.notify.routing import route
from helen.parts import Parts
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import Object, OptionalText, Text
from helen.web.cursors import read_page
from helen.web.json_types import words
from helen.web.overview import NotificationsState, show_notifications
from helen.web.problems import Problem
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes

routes = Routes()
NO_FILE = "there is no STATE/notifications.toml, so nobody is told anything: docs/notifications.rst has an example"
REFUSED = {400: "bad request, or notifications refused", 409: "not set up"}
UNKNOWN = {404: "no such message"}


class ChannelJson(TypedDict):
    """Describes a channel and the settings of its kind, with every secret masked. `timeout` is in seconds."""

    name: str
    type: str
    url: NotRequired[str | None]
    timeout: NotRequired[float]
    rate: NotRequired[Any]


class OutboxMessage(TypedDict):
    """Describes a message that waits, or could not be delivered. Times are unix seconds."""

    number: int
    id: str
    channel: str
    state: str
    created: float
    tries: int
    due: float
    error: str | None


class NotificationsJson(NotificationsState):
    """Lists the channels that are set up, and a page of the outbox."""

    settings: list[ChannelJson]
    outbox: list[OutboxMessage]
    next: str | None


class RoutedJson(TypedDict):
    """Lists the labels of an alert, the rules that were tried, and the channels that it goes to."""

    labels: dict[str, str]
    visited: list[dict[str, Any]]
    to: list[dict[str, Any]]


class ChannelsJson(TypedDict):
    """Lists the channels of a notifications.toml."""

    channels: list[ChannelJson]


class ChannelTest(TypedDict):
    """Says how a test of a channel ended: `said` is the receiver's answer, `took` is in seconds."""

    channel: ChannelJson
    ok: bool | None
    said: str | None
    took: float | None


class MessageJson(TypedDict):
    """Names a message, and what became of it."""

    id: str
    state: Annotated[str, words("waiting", "dropped")]


class RouteAlert(Body, frozen=True, kw_only=True):
    """Asks where an alert with these labels goes, by the notifications.toml of `text` or by the one in force."""

    labels: Object = {}
    text: OptionalText = None


class CheckNotifications(Body, frozen=True, kw_only=True):
    """Has the text of a notifications.toml."""

    text: Text


class TryChannel(Body, frozen=True, kw_only=True):
    """Names the channel that a test is sent through."""

    channel: Text


@routes.get(f"{V1}/notifications", "fleet-look", "Channels and the outbox", answer=NotificationsJson, paged=True)
async def get_notifications(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with channels, and messages that wait or could not be delivered."""
    config = parts.notifier.config_file.config
    page = read_page(request, "outbox", (int,), default=rows.SHOWN)
    limit = page.limit or rows.SHOWN
    listed = await parts.store.call(rows.listed, page.after[0] if page.after else 0, limit + 1)
    following = page.next((listed[limit - 1]["number"],)) if len(listed) > limit else None
    channels = [] if config is None else [each.show() for each in config.channels.values()]
    shown = {"settings": channels, "outbox": listed[:limit], "next": following}
    return write_json(request, {**show_notifications(parts.notifier), **shown})


@routes.post(
    f"{V1}/notifications/route", "fleet-look", "Who would be told", body=RouteAlert, answer=RoutedJson, errors=REFUSED
)
async def route_alert(parts: Parts, request: ApiRequest, body: RouteAlert) -> bytes:
    """Answer with the channels that an alert goes to, and the rules that lead there."""
    return write_json(request, routed(await _config_of(parts, body.text), body.labels))


def routed(config: Config, given_labels: Mapping[str, object]) -> RoutedJson:
    """Return the channels that an alert with these labels goes to, and the rules that were tried."""
    given = {str(key): str(value) for key, value in given_labels.items()}
    labels = labels_of(given.get("agent", ""), given.get("check", ""), given.get("severity", ""), given)
    found = route(config.route, labels)
    to = [{"channel": each.channel, "rule": each.route, "group": dict(each.by), **asdict(each.timing)}
          for each in found.destinations]  # fmt: skip
    return {"labels": labels, "visited": [asdict(each) for each in found.visited], "to": to}


@routes.post(
    f"{V1}/notifications/check", "fleet-look", "Whether a notifications.toml could be used", body=CheckNotifications,
    answer=ChannelsJson, errors=REFUSED,
)  # fmt: skip
async def check_notifications(parts: Parts, request: ApiRequest, body: CheckNotifications) -> bytes:
    """Answer with the channels of a text. Raises Problem for one that can't be used."""
    config = await _config_of(parts, body.text)
    return write_json(request, {"channels": [each.show() for each in config.channels.values()]})


@routes.post(
    f"{V1}/notifications/test", "notify-test", "Send a test through a channel", body=TryChannel, answer=ChannelTest,
    action="notify-test", errors={404: "no such channel", 409: "not set up"},
)  # fmt: skip
async def test_channel(parts: Parts, request: ApiRequest, body: TryChannel) -> bytes:
    """Send a test now, past the outbox, and answer with the receiver's answer. Raises Problem 404 for no channel."""
    config = await _config_of(parts, None)
    channel = config.channels.get(body.channel)
    if channel is None:
        known = ", ".join(config.channels) or "there are none"
        raise Problem(404, "no such channel", f"no channel is called {body.channel!r}: {known}")
    request.subject = body.channel
    shown: dict[str, Any] = {"channel": channel.show(), "ok": None, "said": None, "took": None}
    if body.dry_run:
        return write_json(request, shown)
    before = time.monotonic()
    try:
        said, ok = (await parts.notifier.send(channel, a_test(channel, time.time()))).text, True
    except SendFailed as error:
        said, ok = error.text, False
    took = round(time.monotonic() - before, 3)
    return write_json(request, shown | {"ok": ok, "said": said, "took": took})


@routes.post(
    f"{V1}/notifications/<name>/retry", "notify-retry", "Try to deliver a message again", body=Body, answer=MessageJson,
    action="notify-retry", errors=UNKNOWN,
)  # fmt: skip
async def retry_message(parts: Parts, request: ApiRequest, body: Body, name: str) -> bytes:
    """Put a message that was given up into the outbox again. Raises Problem 404 if there is none of this id."""
    if body.dry_run:
        await _demand_dead(parts, name)
    else:
        waiting = await parts.store.call(rows.revive, name, time.time())
        if waiting is None:
            raise _no_message(name)
        parts.notifier.outbox.add(waiting)
    return write_json(request, {"id": name, "state": "waiting"})


@routes.post(
    f"{V1}/notifications/<name>/drop", "notify-drop", "Give a message up", body=Body, answer=MessageJson,
    action="notify-drop", errors=UNKNOWN,
)  # fmt: skip
async def drop_message(parts: Parts, request: ApiRequest, body: Body, name: str) -> bytes:
    """Forget a message that was given up. Raises Problem 404 if there is none of this id."""
    if body.dry_run:
        await _demand_dead(parts, name)
    else:
        if not await parts.store.call(rows.drop, name):
            raise _no_message(name)
        parts.notifier.outbox.dead -= 1
    return write_json(request, {"id": name, "state": "dropped"})


async def _demand_dead(parts: Parts, name: str) -> None:
    if not await parts.store.call(rows.is_dead, name):
        raise _no_message(name)


def _no_message(name: str) -> Problem:
    return Problem(404, "no such message", f"no message {name!r} was given up: `helen notify list` shows them")


async def _config_of(parts: Parts, text: str | None) -> Config:
    """Return the settings of a text, or those in force. Raises Problem if there are none that can be used."""
    if text is not None:
        try:
            return await deferToThread(read, text)
        except NotificationsError as error:
            raise Problem(400, "notifications refused", str(error)) from error
    config = parts.notifier.config_file.config
    if config is None:
        raise Problem(409, "not set up", parts.notifier.config_file.fault or NO_FILE)
    return config


def a_test(channel: Channel, now: float) -> Message:
    """Return a message that says that it is a test. `now` is in unix seconds.

    It is over already, so that no receiver waits for its end.
    """
    labels = labels_of("helen", "test", "ok", {})
    alert = Alert(
        "helen", "test", 0, now, "test", "ok", f"somebody tried the channel {channel.name}", labels,
        "Helen can reach this channel.", now, firing=False,
    )  # fmt: skip
    key = f"test {channel.name}"
    return Message(message_id(key, now), key, channel.name, "test", {}, now, (alert,), frozenset(), test=True)
