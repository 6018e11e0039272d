"""Tests which action each command, service and endpoint stands for, as a table."""

from __future__ import annotations

import pytest

from groundwork.authority import AGENTS, FLEET
from scale0.wire import actions, management_commands, options
from scale0.wire.endpoints import leaves_machine

SERVICES = {  # offering, asking, of Helens, the agent
    "equus.web-1": ("offer-agent", "run", True, "web-1"),
    "equus.": ("offer-agent", "run", True, ""),
    "equus": ("offer", "ask", False, ""),
    "helen": ("offer-helen", "read", True, ""),
    "helen.a": ("offer-helen", "read", True, ""),
    "helena": ("offer", "ask", False, ""),
    "zerotask.broker": ("offer-tasks", "ask", False, ""),
    "zerotask.brokers": ("offer", "ask", False, ""),
    "tea": ("offer", "ask", False, ""),
}


@pytest.mark.parametrize("service", SERVICES)
def test_what_offering_and_asking_a_service_takes(service: str) -> None:
    offering, asking = actions.offering(service), actions.asking(service)
    told = (offering.name, asking.name, actions.is_of_helens(service), actions.target_of(service).agent)
    assert told == SERVICES[service]


def test_the_scopes_of_the_actions() -> None:
    scopes = {
        "offer-agent": "helen",
        "offer-helen": "helen",
        "offer-tasks": "zerotask",
        "run": "operate",
        "read": "read",
    }
    scopes |= {"document": "helen", "broker-look": "read", "broker-change": "admin"}
    named = [a for a in vars(actions).values() if isinstance(a, actions.Action)]
    assert {a.name: a.scope for a in named if a.scope is not None} == scopes
    assert (actions.OFFER_AGENT.touches, actions.CHECK.touches, actions.DOCUMENT.touches) == (AGENTS, AGENTS, FLEET)


def test_each_command_has_an_action() -> None:
    assert set(actions.COMMANDS) == set(options.TO_BROKER)


@pytest.mark.parametrize(
    "endpoint, leaves",
    [
        ("tcp://10.0.0.1:5556", True), ("tcp://127.0.0.1:1", False), ("tcp://[::1]:5", False),
        ("tcp://[fe80::1]:5", True),
        ("tcp://localhost:5", False), ("ipc:///run/x.sock", False),
        ("tcp://broker.example:5", True), ("inproc://x", False),
        ("tcp://127.5.5.5:9", False), ("tcp://*:5", True),
    ],
)  # fmt: skip
def test_which_endpoints_leave_this_machine(endpoint: str, leaves: bool) -> None:
    assert leaves_machine(endpoint) is leaves


def test_the_management_commands_that_change_something_take_admin() -> None:
    changing = {c.name: c.on_page for c in management_commands.COMMANDS if c.action is actions.CHANGE_BROKER}
    looking = {c.name: c.on_page for c in management_commands.COMMANDS if c.action is actions.LOOK_AT_BROKER}
    assert changing == {"clear_errors": False, "disable": True, "enable": False, "reload_config": True}
    shown = {"status": True, "peers": True, "clients": True, "services": True, "config": False, "errors": True}
    assert looking == shown and set(management_commands.BY_NAME) == {*changing, *looking}
