"""Tests the text of each exception of Scale0, as a log line or a command shows it."""

from __future__ import annotations

import pytest

from scale0.broker.management_pages import Denied
from scale0.client import RequestFailed
from scale0.config.config import ConfigFault, Fault
from scale0.config.syntax import Unreadable
from scale0.endpoint.requests import NotAnswered
from scale0.wire import options
from scale0.worker import Refused


@pytest.mark.parametrize("exception, text", [
    (Refused(418, "teapot"), "418 teapot"), (RequestFailed(503, "stopped"), "503 stopped"),
    (NotAnswered(504, "deadline"), "504 deadline"), (Unreadable(3, "no document"), "no document"),
    (Denied(403, "not_allowed", "no page of ours"), "no page of ours"),
    (options.Fault(400, "malformed", "no option"), "no option"),
    (ConfigFault("f", [Fault(2, "x", "is long"), Fault(3, "", "ends")]), "f: line 2: x: is long\nf: line 3: ends"),
])  # fmt: skip
def test_an_exception_says_what_happened(exception: Exception, text: str) -> None:
    assert str(exception) == text
