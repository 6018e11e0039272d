"""Writes the limits and waiting times of Scale0 down a second time, so that a changed one is noticed."""

from __future__ import annotations

from importlib import import_module

import pytest

LIMITS: dict[str, dict[str, float]] = {
    "broker.broker": {"LOG_EVERY": 60.0, "LOGGED": 10_000},
    "broker.clocks": {
        "MOST_NAMES": 10_000,
        "FRESH": 120.0,
        "FEWEST": 3,
        "STEP_TRUSTED": 300.0,
        "STEPS": 100,
        "LARGEST": 1_000_000_000.0,
    },
    "broker.config_exchange": {"KEEPALIVE": 1.0, "ASK_AGAIN": 5.0, "REPEAT": 1.0, "IN_THREAD": 65_536},
    "broker.context": {"LIVENESS": 3, "ALARMS": 20},
    "broker.failures": {
        "FAILURES": 5,
        "WINDOW": 60.0,
        "FIRST_BAN": 300.0,
        "LONGEST_BAN": 3_600.0,
        "FORGIVEN_AFTER": 86_400.0,
        "NAMES": 10_000,
    },
    "broker.majordomo": {"PRIORITY": 4},
    "broker.management_pages": {"REMEMBERED": 300.0, "PAIRS": 1_000},
    "broker.management_requests": {"PER_MINUTE": 5, "ASKERS": 10_000, "PENDING": 100},
    "broker.peer_links": {"PUSH_INTERVAL": 0.2, "ENTRIES": 200_000, "WINDOW": 10_000},
    "broker.peers": {"CHECK_RETRY": 2.0, "MAX_PATH": 3},
    "broker.negotiation": {"CLAIMS": 1_000},
    "broker.requests.queues": {
        "PER_CLIENT": 1_000,
        "PER_SERVICE": 100_000,
        "QUEUED_BYTES": 268_435_456,
        "QUEUE_EXPIRY": 60.0,
        "ATTEMPTS": 3,
        "HELD_PARTS": 1_000,
        "HELD_BYTES": 1_048_576,
    },
    "broker.requests.routing": {"SPILL_SCAN": 16},
    "broker.service": {"KEYS_AGAIN": 1.0, "LOCAL_WAITING": 100},
    "broker.service_table": {"PART_BYTES": 16_384, "ENTRY_BYTES": 48},
    "broker.sessions": {
        "BEHIND_BEATS": 3,
        "WARN_SKEW": 5.0,
        "FORCED": 65_536,
        "REFUSALS": 5,
        "RETRY_LATER": 1_000,
        "RETRY_DISABLED": 30_000,
    },
    "broker.sockets": {"CLOSE_LINGER": 300},
    "broker.stalls": {"LEAST_STEP": 1.0},
    "broker.takeovers": {"MOST": 3, "WINDOW": 60.0, "IDENTITIES": 10_000, "ALARM_AGAIN": 3_600.0},
    "broker.timers": {"RESOLUTION": 0.01, "FAR": 10.0, "COARSE": 50},
    "broker.requests.worker_pool": {"SLACK": 16},
    "broker.worker_offers": {"SERVICES_PER_WORKER": 20_000},
    "client": {"WAITING": 10_000},
    "config.keys": {"MAX_KEYS": 100_000},
    "config.schema": {"DEFAULT_BEAT": 2.5, "DEFAULT_BUSY": 900.0, "SPILL_MS": 50, "MAX_SKEW": 30.0},
    "config.syntax": {"MAX_DOCUMENT": 8_388_608, "MAX_DEPTH": 16, "INDENT": 4},
    "config.values": {"MAX_SCRYPT_MEMORY": 67_108_864},
    "documents.collection": {
        "MOST": 256,
        "MOST_BYTES": 4_194_304,
        "MOST_TOTAL": 67_108_864,
        "AHEAD_MS": 86_400_000,
        "BRIEF": 16,
    },
    "endpoint.broker_choice": {"PREFERRED_TRIES": 3, "FAILED_MOST": 100},
    "endpoint.connection": {"LINGER": 300, "KEYS_AGAIN": 5.0},
    "endpoint.document_holder": {"ASK_AGAIN": 2.0},
    "endpoint.negotiation": {
        "CHECK_TIMEOUT": 2.0,
        "CHECK_TRIES": 3,
        "DIAL_TIMEOUT": 6.0,
        "FIRST_DELAY": 0.25,
        "LONGEST_DELAY": 30.0,
        "LIVENESS": 3,
        "DEFAULT_RETRY": 30.0,
        "LAPSED": 408,
    },
    "endpoint.requests": {"WAITING": 1_000, "GRACE": 2.0},
    "wire.frames": {"MAX_SERVICE_NAME": 255},
    "wire.options": {"MAX_OPTIONS": 65_536},
    "wire.read_turns": {"TURN_BUDGET": 128, "SLICE": 32},
    "wire.reader": {"SOCKETS": 16_384},
    "wire.unsent": {
        "HELD_MESSAGES": 10_000,
        "HELD_BYTES": 67_108_864,
        "LARGE": 65_536,
        "UNREAD_BYTES": 67_108_864,
        "LARGE_PEERS": 1_000,
    },
    "wire.zmq_options": {
        "HIGH_WATER": 10_000,
        "MESSAGE_BYTES": 8_388_608,
        "HEARTBEAT_INTERVAL": 2_500,
        "HEARTBEAT_TIMEOUT": 7_500,
        "HANDSHAKE_TIMEOUT": 10_000,
        "RECONNECT": 250,
        "RECONNECT_MAX": 5_000,
    },
    "wire.zmq_socket": {
        "MESSAGE_FRAMES": 2_048,
        "HELD_RETRY": 0.02,
        "KNOWN_ORIGINS": 65_536,
        "_DONTWAIT": 1,
        "_MORE": 3,
    },
    "worker": {"HELD": 1_000, "BUNDLE": 0.02, "PER_MESSAGE": 100},
}


@pytest.mark.parametrize("module", LIMITS)
def test_each_limit_has_its_value(module: str) -> None:
    """Each limit has the value that users rely on and docs/ tell: a change of one is made here and there, too."""
    found = import_module(f"scale0.{module}")
    assert {name: getattr(found, name) for name in LIMITS[module]} == LIMITS[module]


def test_what_a_guess_of_a_password_costs() -> None:
    """A record of `scale0ctl password` is made with these N, r and p."""
    assert import_module("scale0.ctl").SCRYPT == (16_384, 8, 1)
