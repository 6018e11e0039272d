"""Perform the capability `journal`: entries of systemd's journal, of the units that the policy lets checks read.

journalctl reads the files, so that their format, and who may read them, are its business. It is started for each call,
prints what is new since the cursor, and is stopped where an answer is full.
"""

import os
import re
import time
from typing import Any

from attrs import frozen

from equus.capabilities.calls import CallFailed, Context, Fields, Perform, bad, json_value
from equus.capabilities.kernel.entries import whole
from equus.capabilities.programs.systemd import UNIT, full_name
from equus.processes.spawn import Finished, run_program

JOURNALCTL = "/usr/bin/journalctl"
JOURNALCTL_SECONDS = 20.0
# Bytes of its output that one call reads; of a line only the first bytes of each field are printed.
OUTPUT_BYTES = 1_048_576
MOST_ENTRIES, ENTRIES_DEFAULT = 2000, 500
MESSAGE_CHARACTERS = 2048
KERNEL = "kernel"  # in place of a unit: what the kernel itself has said
PRIORITIES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
LONGEST_SINCE = 7 * 86_400.0
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC", "SYSTEMD_COLORS": "0"}
_FIELDS = "MESSAGE,PRIORITY,SYSLOG_IDENTIFIER,_COMM,_PID,_SYSTEMD_UNIT,UNIT"
# The journal's own cursor, or the time of a journal that had no entry yet.
_CURSOR = re.compile(r"s=[0-9a-f]{32};[0-9a-z=;]{1,200}|@\d{1,12}(?:\.\d{1,6})?")
_DENIED = ("insufficient permissions", "not seeing messages from other users")


@frozen
class _Wanted:
    """Holds the arguments of a call."""

    unit: str | None
    priority: str
    cursor: str | None
    since: float
    limit: int


def journal(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.journal: return entries since the cursor, oldest first, and the next cursor. Raises CallFailed."""
    wanted = _arguments(args)
    _judge(wanted.unit, policy)
    if wanted.cursor is None and wanted.since == 0:
        return {"entries": [], "cursor": _newest(context), "more": False}
    done = _journalctl(_selection(wanted), context)
    return _answer(done, wanted)


def _arguments(args: list[Any]) -> _Wanted:
    fields = Fields("host.journal", args)
    unit = fields.optional_text("unit", 255)
    if unit is not None and not UNIT.fullmatch(unit):
        raise bad(f"host.journal: unit must be the name of a unit, such as nginx.service, or {KERNEL}")
    cursor = fields.optional_text("cursor", 300)
    if cursor is not None and not _CURSOR.fullmatch(cursor):
        raise bad("host.journal: cursor must be that of an earlier answer")
    wanted = _Wanted(
        unit if unit in (None, KERNEL) else full_name(str(unit)),
        str(fields.choice("priority", "debug", PRIORITIES)),
        cursor,
        fields.number("since", 0.0, 0.0, LONGEST_SINCE),
        fields.whole("limit", ENTRIES_DEFAULT, 1, MOST_ENTRIES),
    )
    fields.done()
    return wanted


def _judge(unit: str | None, policy: Any) -> None:
    """Raise CallFailed("denied") if the policy does not let checks read these entries."""
    if unit is None and not policy.may_read_journal("*"):
        raise CallFailed("denied", policy.refusal("journal", "the journal of all units", 'units = ["*"]'))
    if unit is not None and not policy.may_read_journal(unit):
        raise CallFailed("denied", policy.refusal("journal", f"the journal of {unit}", f'units = ["{unit}"]'))


def _selection(wanted: _Wanted) -> list[str]:
    """Return the options for what is wanted. Each is one word with its value: no value becomes an option."""
    options = [f"--priority={wanted.priority}"]
    if wanted.unit == KERNEL:
        options.append("_TRANSPORT=kernel")  # --dmesg would leave out what was before the last start of the machine
    elif wanted.unit is not None:
        options.append(f"--unit={wanted.unit}")
    if wanted.cursor is None:
        return [*options, f"--since=@{time.time() - wanted.since:.6f}"]
    if wanted.cursor.startswith("@"):
        return [*options, f"--since={wanted.cursor}"]
    return [*options, f"--after-cursor={wanted.cursor}"]


def _newest(context: Context) -> str:
    """Return the cursor of the newest entry, or the time if there is none yet."""
    began = time.time()
    lines = _whole_lines(_journalctl(["--lines=1"], context).stdout)
    return str(_document(lines[-1])["__CURSOR"]) if lines else f"@{began:.6f}"


def _journalctl(options: list[str], context: Context) -> Finished:
    """Run journalctl to its end, or until an answer is full. Raises CallFailed if it can't read, or takes too long."""
    places = ("/var/log/journal", "/run/log/journal")
    if not any(os.path.isdir(context.path(place)) for place in places):
        raise CallFailed("unsupported", "this host keeps no journal (neither /var/log/journal nor /run/log/journal)")
    where = [] if context.root == "/" else [f"--directory={context.path(places[0])}"]
    words = [JOURNALCTL, "--output=json", f"--output-fields={_FIELDS}", "--no-pager", *where, *options]
    limit = context.seconds_left(JOURNALCTL_SECONDS)
    try:
        done = run_program(words, limit, _ENVIRONMENT, max_output=OUTPUT_BYTES)
    except OSError as fault:
        raise CallFailed("unsupported", f"{JOURNALCTL} cannot be run: {fault.strerror}") from None
    if done.timed_out:
        raise CallFailed("timeout", f"journalctl did not answer within {limit:.3g} s")
    said = done.stderr.decode("utf-8", "replace").strip()
    if any(words in said for words in _DENIED):
        text = "the user that the agent runs as may not read the journal: add it to the group systemd-journal"
        raise CallFailed("failed", text)
    if done.exit_status != 0 and not done.flooded:
        raise CallFailed(
            "failed", f"journalctl: {said.partition(chr(10))[0][:200] or f'exit status {done.exit_status}'}"
        )
    return done


def _whole_lines(output: bytes) -> list[bytes]:
    """Return the lines that are entries; the last one is dropped if it was cut."""
    return [line for line in output.split(b"\n")[:-1] if line.startswith(b"{")]


def _document(line: bytes) -> dict[str, Any]:
    """Return an entry as journalctl has it. Raises CallFailed if it is none."""
    document = json_value(line.decode("utf-8", "replace"), "a line of journalctl")
    if not _CURSOR.fullmatch(str(document.get("__CURSOR"))):
        raise CallFailed("protocol", "a line of journalctl has no cursor")
    return dict(document)


def _answer(done: Finished, wanted: _Wanted) -> dict[str, Any]:
    lines = _whole_lines(done.stdout)
    cut = done.flooded or done.truncated
    if cut and not lines:
        raise CallFailed("too-large", f"one entry of the journal is longer than {OUTPUT_BYTES} bytes")
    documents = [_document(line) for line in lines[: wanted.limit]]
    # Without a new entry the old cursor stays good: entries are found by an index, however old it is.
    cursor = str(documents[-1]["__CURSOR"]) if documents else wanted.cursor or f"@{time.time() - wanted.since:.6f}"
    return {"entries": list(map(_entry, documents)), "cursor": cursor, "more": cut or len(lines) > wanted.limit}


def _entry(document: dict[str, Any]) -> dict[str, Any]:
    """Return an entry as checks see it; fields that it lacks are absent."""
    unit = _text(document.get("_SYSTEMD_UNIT"))
    if unit in ("", "init.scope"):  # what systemd itself says of a unit
        unit = _text(document.get("UNIT")) or unit
    priority, pid = whole(_text(document.get("PRIORITY"))), whole(_text(document.get("_PID")))
    known = {
        "unit": unit,
        "identifier": _text(document.get("SYSLOG_IDENTIFIER")) or _text(document.get("_COMM")),
        "pid": pid,
        "priority": PRIORITIES[priority] if priority is not None and 0 <= priority <= 7 else None,
    }
    microseconds = whole(_text(document.get("__REALTIME_TIMESTAMP"))) or 0
    answer = {"at": microseconds / 1e6, "message": _message(document.get("MESSAGE"))}
    return answer | {name: value for name, value in known.items() if value not in (None, "")}


def _message(value: Any) -> str:
    """Return a message's text: journalctl prints one that is no UTF-8 as numbers, and null for one that is long."""
    if value is None:
        return "(a message without a text, or one that is longer than journalctl prints)"
    return _text(value)


def _text(value: Any) -> str:
    """Return the text of a field: a text, a list of bytes, or a list of these if the field is there twice."""
    if isinstance(value, list) and value and all(isinstance(byte, int) and 0 <= byte < 256 for byte in value):
        value = bytes(value).decode("utf-8", "replace")
    if isinstance(value, list):
        value = _text(value[0]) if value and not isinstance(value[0], list) else ""
    return value[:MESSAGE_CHARACTERS] if isinstance(value, str) else ""


CALLS: dict[str, Perform] = {"journal": journal}
