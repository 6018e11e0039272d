"""Carry updates and outcomes from other threads into the thread of the screen of `helen top`."""

from __future__ import annotations

from textual.message import Message

from helen.cli.top.feed import News


class FeedMessage(Message):
    """Bring something from the feed's thread into the app's own."""

    def __init__(self, news: News) -> None:
        super().__init__()
        self.news = news


class ActionDone(Message):
    """Bring the outcome of an action into the app's own thread."""

    def __init__(self, title: str, lines: list[str], is_page: bool) -> None:
        super().__init__()
        self.title, self.lines, self.is_page = title, lines, is_page
