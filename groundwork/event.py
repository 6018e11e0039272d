"""Tells several subscribers of one thing that happened, in the order in which they subscribed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec

Given = ParamSpec("Given")


class Event(Generic[Given]):
    """Calls each subscriber when it is called itself, so that the owner of an event needs to know none of them."""

    def __init__(self, *subscribers: Callable[Given, object]) -> None:
        self._subscribers = list(subscribers)

    def subscribe(self, subscriber: Callable[Given, object]) -> None:
        """Add a callable; it is called after those that are there already."""
        self._subscribers.append(subscriber)

    def unsubscribe(self, subscriber: Callable[Given, object]) -> None:
        """Remove a callable that was added. Raises ValueError if it is not there."""
        self._subscribers.remove(subscriber)

    def __call__(self, *args: Given.args, **kwargs: Given.kwargs) -> None:
        """Call every subscriber. An exception of one ends the call and reaches the caller."""
        for subscriber in tuple(self._subscribers):
            subscriber(*args, **kwargs)
