"""Routes of notifications: what is set up, who would be told, a test of a channel, and what could not be delivered."""

from __future__ import annotations

import time
from typing import Any

from attrs import asdict
from klein import Klein
from twisted.internet.threads import deferToThread

from helen.notify import rows
from helen.notify.attempt import SendFailed
from helen.notify.config import Channel, Config, Mail, NotificationsError, Relay, Web, read
from helen.notify.messages import Alert, Message, labels_of, message_id
from helen.notify.notifier import Notifier
from helen.notify.routing import route
from helen.notify.secrets import shown, shown_service, shown_url
from helen.web.bodies import read_body, read_object, read_text, wants_dry_run
from helen.web.cursors import read_page
from helen.web.problems import Problem, write_json

NO_FILE = "there is no STATE/notifications.toml, so nobody is told anything: docs/notifications.rst has an example"


def show_overview(notifier: Notifier) -> dict[str, Any]:
    """A few words for the status of all."""
    book, outbox = notifier.book, notifier.outbox
    channels = {name: _counts(notifier, name) for name in (book.config.channels if book.config else ())}
    return {
        "configured": book.config is not None, "fault": book.fault, "waiting": len(outbox), "dead": outbox.dead,
        "last_error": outbox.last_error, "groups": len(notifier.groups.groups), "channels": channels, **notifier.counts,
    }  # fmt: skip


def _counts(notifier: Notifier, name: str) -> dict[str, int]:
    return {outcome: notifier.outbox.counts[name, outcome] for outcome in ("sent", "failed", "dead")}


def show_channel(channel: Channel) -> dict[str, Any]:
    """Its settings with every secret masked."""
    via = channel.via
    made: dict[str, Any] = {"name": channel.name, "timeout": channel.timeout, "rate": channel.rate}
    if isinstance(via, Web):
        made |= {"type": "alertmanager" if channel.is_api else "webhook", "shape": via.shape}
        return made | {"url": shown_url(via.url), "headers": shown(via.headers), "bearer": shown(via.bearer)}
    if isinstance(via, Mail):
        return made | {"type": "smtp", "host": via.host, "port": via.port, "tls": via.tls, "from": via.sender,
                       "to": list(via.to), "password": shown(via.password)}  # fmt: skip
    if isinstance(via, Relay):
        return made | {"type": "apprise", "url": ", ".join(map(shown_service, via.urls))}
    return made | {"type": "command", "argv": list(via.argv), "environment": shown(via.environment)}


def add_routes(app: Klein) -> None:
    """Put them beside those of helen/web/api.py, whose object is the first argument."""

    @app.route("/api/v1/notifications", methods=["GET"])
    async def show_notifications(api: Any, request: Any) -> bytes:
        notifier: Notifier = api._helen.notifier
        config = notifier.book.config
        page = read_page(request, "outbox", (int,), default=rows.SHOWN)
        limit = page.limit or rows.SHOWN
        listed = await api._helen.store.call(rows.listed, page.after[0] if page.after else 0, limit + 1)
        following = page.next((listed[limit - 1]["number"],)) if len(listed) > limit else None
        channels = [] if config is None else [show_channel(each) for each in config.channels.values()]
        shown = {"settings": channels, "outbox": listed[:limit], "next": following}
        return write_json(request, show_overview(notifier) | shown)

    @app.route("/api/v1/notifications/route", methods=["POST"])
    async def test_route(api: Any, request: Any) -> bytes:
        """`labels`; with `text`, a notifications.toml, by that instead of the one in force."""
        body = await read_body(request)
        given = {str(key): str(value) for key, value in read_object(body, "labels").items()}
        config = await _config(api, body)
        missing = {name: given.get(name, "") for name in ("agent", "check", "severity")}
        labels = labels_of(missing["agent"], missing["check"], missing["severity"], given)
        routed = route(config.route, labels)
        to = [{"channel": each.channel, "rule": each.route, "group": dict(each.by), **asdict(each.timing)}
              for each in routed.destinations]  # fmt: skip
        return write_json(request, {"labels": labels, "visited": [asdict(each) for each in routed.visited], "to": to})

    @app.route("/api/v1/notifications/check", methods=["POST"])
    async def check_notifications(api: Any, request: Any) -> bytes:
        """`text`: whether it could be used."""
        config = await _config(api, {"text": read_text(await read_body(request), "text")})
        return write_json(request, {"channels": [show_channel(each) for each in config.channels.values()]})

    @app.route("/api/v1/notifications/test", methods=["POST"])
    async def test_channel(api: Any, request: Any) -> bytes:
        """`channel`: sends a test now, past the outbox, and answers with what the remote says."""
        body = await read_body(request)
        name = read_text(body, "channel")
        config = await _config(api, {})
        channel = config.channels.get(name)
        if channel is None:
            known = ", ".join(config.channels) or "there are none"
            raise Problem(404, "no such channel", f"no channel is called {name!r}: {known}")
        request.subject = name
        if wants_dry_run(request, body):
            return write_json(request, {"channel": show_channel(channel), "ok": None, "said": None, "took": None})
        before = time.monotonic()
        try:
            words, ok = (await api._helen.notifier.send(channel, a_test(channel, time.time()))).text, True
        except SendFailed as error:
            words, ok = error.text, False
        took = round(time.monotonic() - before, 3)
        return write_json(request, {"channel": show_channel(channel), "ok": ok, "said": words, "took": took})

    @app.route("/api/v1/notifications/<name>/retry", methods=["POST"])
    async def retry_message(api: Any, request: Any, name: str) -> bytes:
        if wants_dry_run(request, await read_body(request)):
            await _dead(api, name)
            return write_json(request, {"id": name, "state": "waiting"})
        waiting = await api._helen.store.call(rows.revive, name, time.time())
        if waiting is None:
            raise Problem(404, "no such message", f"no message {name!r} was given up: `helen notify list` shows them")
        api._helen.notifier.outbox.add(waiting)
        return write_json(request, {"id": name, "state": "waiting"})

    @app.route("/api/v1/notifications/<name>/drop", methods=["POST"])
    async def drop_message(api: Any, request: Any, name: str) -> bytes:
        if wants_dry_run(request, await read_body(request)):
            await _dead(api, name)
            return write_json(request, {"id": name, "state": "dropped"})
        if not await api._helen.store.call(rows.drop, name):
            raise Problem(404, "no such message", f"no message {name!r} was given up: `helen notify list` shows them")
        api._helen.notifier.outbox.dead -= 1
        return write_json(request, {"id": name, "state": "dropped"})


async def _dead(api: Any, name: str) -> None:
    if not await api._helen.store.call(rows.is_dead, name):
        raise Problem(404, "no such message", f"no message {name!r} was given up: `helen notify list` shows them")


async def _config(api: Any, body: dict[str, Any]) -> Config:
    """The one in force, or the one that is sent."""
    if body.get("text") is not None:
        try:
            return await deferToThread(read, read_text(body, "text"))
        except NotificationsError as error:
            raise Problem(400, "notifications refused", str(error)) from error
    config: Config | None = api._helen.notifier.book.config
    if config is None:
        raise Problem(409, "not set up", api._helen.notifier.book.fault or NO_FILE)
    return config


def a_test(channel: Channel, now: float) -> Message:
    """A message that says that it is one. It is over already, so that nobody waits for its end."""
    labels = labels_of("helen", "test", "ok", {})
    alert = Alert(
        "helen", "test", 0, now, "test", "ok", f"somebody tried the channel {channel.name}", labels,
        "Helen can reach this channel.", now, firing=False,
    )  # fmt: skip
    key = f"test {channel.name}"
    return Message(message_id(key, now), key, channel.name, "test", {}, now, (alert,), frozenset(), test=True)
