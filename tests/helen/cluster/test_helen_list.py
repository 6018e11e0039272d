"""Tests what agents are told of other Helens."""

from __future__ import annotations

import base64
import json
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from equus_protocol import messages as m
from groundwork.event import Event
from helen.cluster.helen_list import MOST, HelenList, read_list
from helen.cluster.presence import Presence

H1, H2 = {"address": "h1:4166"}, {"address": "h2:4166", "name": "h2.example", "ca": "PEM"}


def document(listed: Any) -> dict[str, Any]:
    content = base64.b64encode(json.dumps(listed).encode()).decode()
    return {"documents": [{"name": "checks", "content": ""}, {"name": "servers", "content": content}]}


class Link:
    version, closing = 2, False

    def __init__(self) -> None:
        self.said: list[m.Servers] = []
        self.send = self.said.append

    def next_id(self) -> int:
        return len(self.said) + 1


class Site:
    """Holds the agents that are connected, and walks that take no time."""

    def __init__(self, *links: Link) -> None:
        self.agents = [SimpleNamespace(link=link, name="web-1") for link in links]
        self.attached: Event[[Any]] = Event()
        self.roster = SimpleNamespace(connected=lambda: self.agents)
        self.fair_turns = SimpleNamespace(walk=lambda things, each: [each(thing) for thing in things])


def test_agents_are_told_when_it_changes_and_when_they_come() -> None:
    """Each list is sent once; agents of version 1 know no such thing; an empty list takes it back."""
    here, old, later = Link(), Link(), Link()
    old.version = 1
    site = Site(here, old)
    others = HelenList(site, "h1:4166")
    others.start()
    others.configured({})
    others.configured(document([H1, H2]))
    others.configured(document([H1, H2]))
    site.attached(SimpleNamespace(link=later, name="web-2"))
    blob = json.dumps([H2], separators=(",", ":")).encode()
    assert (here.said, old.said, later.said) == ([m.Servers(1, blob)], [], [m.Servers(1, blob)])
    others.configured({})
    assert here.said[1:] == [m.Servers(2, b"[]")]
    others.stop()
    assert site.attached._subscribers == []


@pytest.mark.parametrize(
    "listed",
    [{}, [7], [{"name": "h1"}], [{"address": "h1"}], [{"address": "h1:4166", "ca": 7}], [H1 | {"port": "1"}],
     [H1] * (MOST + 1)],
)  # fmt: skip
def test_a_list_of_no_use_changes_nothing(listed: Any) -> None:
    """A list of no use leaves agents the one before."""
    link = Link()
    others = HelenList(Site(link), "h9:4166")
    others.configured(document([H1]))
    others.configured(document(listed))
    assert [told.blob for told in link.said] == [json.dumps([H1], separators=(",", ":")).encode()]
    with pytest.raises(ValueError, match=r"^\S"):
        read_list(document(listed)["documents"][1]["content"], "h9:4166")


def test_those_who_live_come_first() -> None:
    """The own group comes first, then its fallbacks, then others, then an operator's list; nobody twice, never
    ourselves.
    """
    others = HelenList(Site(), "h1:4166")
    others.configured(document([H1, H2, {"address": "h7:1"}]))
    others.grouped(["east", "west"])
    live = {
        "far": Presence("far:1"), "west": Presence("w:1", group="west"), "me": Presence("h1:4166", group="east"),
        "h2": Presence("h2:4166", "h2.example", "CA", "east"),
    }  # fmt: skip
    others.live(live)
    assert others.servers_for("web-1") == [
        {"address": "h2:4166", "name": "h2.example", "ca": "CA"}, {"address": "w:1"}, {"address": "far:1"},
        {"address": "h7:1"},
    ]  # fmt: skip


def test_a_fleet_spreads_over_the_others() -> None:
    """Each agent has its own order, always the same, so that a third of them begins with each of three."""
    others = HelenList(Site(), "h1:4166")
    others.live({name: Presence(f"{name}:1") for name in ("h2", "h3", "h4")})
    firsts = Counter(others.servers_for(f"web-{number}")[0]["address"] for number in range(300))
    assert set(firsts) == {"h2:1", "h3:1", "h4:1"}
    assert min(firsts.values()) > 70
    assert others.servers_for("web-1") == others.servers_for("web-1")


def test_agents_hear_of_those_who_come_to_live_and_go() -> None:
    link = Link()
    others = HelenList(Site(link), "h1:4166")
    others.live({"h2": Presence("h2:1")})
    others.live({"h2": Presence("h2:1")})
    others.live({})
    assert [told.blob for told in link.said] == [b'[{"address":"h2:1"}]', b"[]"]


def test_no_base64() -> None:
    with pytest.raises(ValueError, match="no JSON in base64"):
        read_list("#", "h9:4166")
