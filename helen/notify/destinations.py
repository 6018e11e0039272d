"""Chooses the channels of an alert, each with the labels and the timing by which it is grouped there."""

from __future__ import annotations

from collections.abc import Mapping

from helen.notify.config import Config
from helen.notify.routing import Destination, Timing, route

ONE_CHECK = ("agent", "check")  # labels by which a message has one alert
API_TIMING = Timing(0.0, 1.0, 60.0)  # of Alertmanager, which wants each alert that fires each minute


def destinations_of(config: Config | None, labels: Mapping[str, str], file: str) -> tuple[list[Destination], str]:
    """Return the destinations of an alert, and the reason if there is none. `file`: the name of the configuration."""
    if config is None:
        return [], f"there is no {file}"
    found = []
    for each in route(config.route, labels).destinations:
        kind = config.channels[each.channel].settings
        if kind.groups_itself:
            each = Destination(each.channel, each.channel, (), API_TIMING)
        elif kind.one_alert:
            by = tuple((label, labels.get(label, "")) for label in ONE_CHECK)
            each = Destination(each.channel, each.route, by, each.timing)
        found.append(each)
    return found, "no rule with a channel takes it: `helen route test` shows each rule"
