"""Writes alerts as syslog messages after RFC 5424, with the fields as structured data. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from helen.notify.message_text import one_line
from helen.notify.messages import Alert
from helen.notify.payloads import rfc3339

FACILITIES = {
    name: number
    for number, name in enumerate(
        "kern user mail daemon auth syslog lpr news uucp cron authpriv ftp ntp audit alert clock"
        " local0 local1 local2 local3 local4 local5 local6 local7".split()
    )
}
_SEVERITIES = {"critical": 2, "warning": 4, "ok": 5}  # crit, warning, notice
_OTHER_STATUS = 3  # err: the state of the check is not known
# The private enterprise number of RFC 5612, for documentation: Helen has none of its own.
ELEMENT = "helen@32473"
MAX_MESSAGE = 8_192  # bytes: each receiver of RFC 5425 should take so many
MAX_DATAGRAM = 2_048  # the same of RFC 5426
_PART = 16  # a field has at most this part of a message, so that all eight find room in it
_NAME = re.compile(r"[^!-~]")  # what a host or a program is not called
_ESCAPED = re.compile(r'(["\\\]])')


def line(alert: Alert, fires: bool, facility: str, host: str, process: int, most: int = MAX_MESSAGE) -> bytes:
    """Return one message about this alert, at most `most` bytes of UTF-8, without a frame.

    `host`: the name of this machine. `process`: Helen's process id. The time is that of the decision, in UTC.
    Where there is too little room the fields and the text are cut, and the structure stays whole.
    """
    severity = _SEVERITIES.get(alert.status, _OTHER_STATUS) if fires else _SEVERITIES["ok"]
    priority = FACILITIES[facility] * 8 + severity
    event = "PROBLEM" if fires else "RECOVERY"
    fields = {
        "agent": alert.agent, "check": alert.check, "status": alert.status, "what": alert.what, "why": alert.why,
        "began": rfc3339(alert.began), "owner": alert.owner or "", "runbook": alert.runbook or "",
    }  # fmt: skip
    structured = _structured(fields, most // _PART)
    head = f"<{priority}>1 {rfc3339(alert.at)} {_word(host, 255)} helen {process} {event} {structured}"
    text = one_line(f"{alert.key} {alert.status.upper()}: {alert.summary}")
    return _cut(f"{head} {text}".encode("utf-8", "replace"), most)


def framed(message: bytes) -> bytes:
    """Return the message with its length before it, as RFC 5425 and RFC 6587 have it on a stream."""
    return b"%d %b" % (len(message), message)


def _structured(fields: Mapping[str, str], most: int) -> str:
    given = (f'{name}="{_value(text, most)}"' for name, text in fields.items() if text)
    return f"[{ELEMENT} {' '.join(given)}]"


def _value(text: str, most: int) -> str:
    """Return a field's text with its escapes, at most so many bytes."""
    plain = _cut(one_line(text).encode("utf-8", "replace"), most).decode()
    while len((escaped := _ESCAPED.sub(r"\\\1", plain)).encode()) > most:
        plain = plain[:-1]
    return escaped


def _word(text: str, most: int) -> str:
    return _NAME.sub("", text)[:most] or "-"


def _cut(text: bytes, most: int) -> bytes:
    """Return at most so many bytes, without a part of a character at the end."""
    return text if len(text) <= most else text[:most].decode("utf-8", "ignore").encode()
