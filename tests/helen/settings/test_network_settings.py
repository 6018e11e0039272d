"""Tests what the options say, and what is wrong with them: one sentence each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helen.settings.network_settings import NONE, Broker, NetworkSettings
from helen.settings.settings import SettingsError, gather, read

HERE = Broker("tcp://127.0.0.1:5556")


def test_nothing_is_on_by_itself() -> None:
    """No network is on by itself, and then pyzmq is not needed."""
    chosen = read({"state": "/s"}).network
    assert (chosen, chosen.is_wanted) == (NONE, False)


def test_all_of_them() -> None:
    """All settings of the network come from the environment, whose lists have commas."""
    environment = {
        "HELEN_SCALE0": "tcp://127.0.0.1:5556,tcp://10.0.0.2:5556#b2", "HELEN_SCALE0_IDENTITY": "h1",
        "HELEN_EMBED_SCALE0": "/b.json", "HELEN_NETWORK_KEY": "/n",
        "HELEN_EMBED_ZEROTASK": "1", "HELEN_ZEROTASK_LISTEN": "ipc:///run/z.sock",
        "HELEN_CURVE_KEY": "/k", "HELEN_AUTHORIZED_KEYS": "/a", "HELEN_STATE": "/s",
    }  # fmt: skip
    assert read(gather({}, environment, None)).network == NetworkSettings(
        (HERE, Broker("tcp://10.0.0.2:5556", "b2")), "h1", Path("/b.json"), None, True, "ipc:///run/z.sock",
        Path("/n"), Path("/k"), Path("/a"),
    )  # fmt: skip


@pytest.mark.parametrize(
    "setting", [{"scale0": [HERE.endpoint]}, {"embed-scale0": "b.json"}, {"zerotask": HERE.endpoint},
                {"embed-zerotask": True}],
)  # fmt: skip
def test_what_needs_pyzmq(setting: dict[str, Any]) -> None:
    assert read({"state": "/s", **setting}).network.is_wanted


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"scale0": ["127.0.0.1:5556"]}, "--scale0 '127.0.0.1:5556': write tcp://HOST:PORT"),
        ({"scale0": ["tcp://h:65536"]}, "write tcp://HOST:PORT"),
        ({"zerotask": "http://h:1"}, "--zerotask 'http://h:1': write tcp://HOST:PORT"),
        ({"scale0": ["tcp://10.0.0.1:5556"]}, "beyond this machine only CURVE"),
        ({"zerotask": "tcp://10.0.0.1:5555"}, "tcp://10.0.0.1:5555#NAME"),
        ({"scale0": ["tcp://10.0.0.1:5556"], "curve-key": "k", "authorized-keys": "a"}, "#NAME"),
        ({"scale0": ["tcp://127.0.0.1:5556#b1"]}, "needs --curve-key"),
        ({"curve-key": "k"}, "--curve-key and --authorized-keys belong together"),
        ({"zerotask": HERE.endpoint, "embed-zerotask": True}, "exclude each other"),
        ({"network-key": "/n"}, "--network-key is for a network"),
        ({"zerotask-listen": HERE.endpoint}, "--zerotask-listen is for --embed-zerotask"),
        ({"scale0-identity": "two words"}, "--scale0-identity 'two words'"),
    ],
)
def test_what_is_refused(setting: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=r"^--") as told:
        read({"state": "/s", **setting})
    assert sentence in str(told.value)
