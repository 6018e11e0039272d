"""Test the services of Windows by SNMP, whose names are in the code page of that Windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from snmp_device import Device, number, text
from snmp_host import Host

from equus.sandbox.blocking import Sandbox

SERVICES = (1, 3, 6, 1, 4, 1, 77, 1, 2, 3, 1)
UNCLEAR = "there is no telling whether {} runs, names of other code pages than 1252 can't be read; {} run"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(log=lambda _check, _text: None) as opened:
        yield opened


def windows(*names: bytes) -> Device:
    """Return a Windows host whose services have these names, as bytes, and run."""
    values = {(*SERVICES, 1, at): text(name) for at, name in enumerate(names, 1)}
    return Device(values | {(*SERVICES, 3, at): number(1) for at in range(1, len(names) + 1)})


@pytest.mark.parametrize(
    ("names", "args", "status", "summary"),
    [
        (("B\u00fcro\u20ac".encode("cp1252"),), {"running": ["B\u00fcro\u20ac"]}, "ok", "1 service runs"),
        (("B\u00fcro".encode(),), {"running": ["B\u00fcro"]}, "ok", "1 service runs"),
        (("B\u00fcro".encode("cp1252"),), {"stopped": ["B\u00fc*"]}, "critical",
         "B\u00fcro runs and must not; 1 service runs"),
        (("\u0422\u0435\u0441\u0442".encode("cp1251"), b"Server"), {"stopped": ["\u0422\u0435\u0441\u0442"]}, "unknown",
         UNCLEAR.format("\u0422\u0435\u0441\u0442", "2 services")),
        (("\u0422\u0435\u0441\u0442".encode("cp1251"), b"Server"), {"running": ["\u0422\u0435\u0441\u0442"]}, "unknown",
         UNCLEAR.format("\u0422\u0435\u0441\u0442", "2 services")),
        ((b"Server\x81\x8d", b"DNS"), {"stopped": ["\u00fcber"]}, "unknown", UNCLEAR.format("\u00fcber", "2 services")),
        ((b"Server\x81\x8d", b"DNS"), {"stopped": ["Server*"]}, "critical",
         "53:65:72:76:65:72:81:8d runs and must not; 2 services run"),
        ((b"Server\x81\x8d", b"DNS"), {"stopped": ["Telnet"], "running": ["DNS"]}, "ok", "2 services run"),
        ((b"Server\x81\x8d", b"DNS"), {"running": ["Telnet"]}, "critical", "Telnet does not run; 2 services run"),
    ],
)  # fmt: skip
def test_names_of_services_in_code_pages(
    sandbox: Sandbox, names: tuple[bytes, ...], args: dict[str, Any], status: str, summary: str
) -> None:
    """A service whose name cannot be read is never taken for a missing one."""
    found = Host(sandbox, windows(*names)).run("snmp_services", **args)
    assert (found["status"], found["summary"]) == (status, summary)


def test_code_page_1252_is_python_s(sandbox: Sandbox) -> None:
    """Each character of code page 1252 is in the label of a metric as Python decodes it."""
    whole = [bytes((code,)).decode("cp1252", "ignore") for code in range(0xA1, 0x100)]
    whole += [bytes((code,)).decode("cp1252", "ignore") for code in range(0x80, 0xA0)]
    name = "".join(whole)
    parts = [name[at : at + 20] for at in range(0, len(name), 20)]
    found = Host(sandbox, windows(*(each.encode("cp1252") for each in parts))).run("snmp_services", running=["*"])
    labels = {metric["labels"]["service"] for metric in found["metrics"] if metric["name"] == "running"}
    assert labels == set(parts)
