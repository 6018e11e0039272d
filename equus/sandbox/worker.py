"""Run one check in a fork of the zygote: read its job from a descriptor, write its result to the same, exit.

Hostile Lua may have taken over this process, so the other processes believe nothing it writes but this one result.
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import time
from collections.abc import Callable
from typing import Any, NoReturn

from attrs import frozen

from equus.sandbox import frames
from equus.sandbox.check_table import BadArguments, BadTable, read_table
from equus.sandbox.document import FLOOD_LIMIT, OUTPUT_LIMIT, body, failure
from equus.sandbox.interpreter import Interpreter, LuaOutOfMemory
from equus.sandbox.job import timeout_in_force, too_late
from equus.sandbox.metrics import MAX_METRICS, Metric, read_metric, summary_of, worst_of
from equus.sandbox.text import clean, drop_partial
from equus.sandbox.value_codec import decode, encode, text_bytes
from equus_protocol.result_words import STATUS_WORDS

JOB, BROKER = 3, 4

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_PLACE = re.compile(r":(\d+): ")


def _limit_cpu(soft: int, hard: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


@frozen
class Outside:
    """Holds all that a worker reaches outside of itself; a rehearsal (rehearsal.py) has other things in their place."""

    job: int = JOB
    broker: int = BROKER
    limit_cpu: Callable[[int, int], None] = _limit_cpu  # seconds, soft and hard
    leave: Callable[[int], NoReturn] = os._exit


def work(interpreter: Interpreter, leave: Callable[[int], NoReturn] = os._exit) -> NoReturn:
    """Wait for the job, run it, write its result, leave. Only a kill from outside prevents the result."""
    worker = Worker(interpreter, Outside(leave=leave))
    try:
        worker.begin(read_job(JOB))
    except (EOFError, BrokenPipeError, ConnectionError):
        os._exit(0)  # the agent has closed the socket and waits for nothing
    except (LuaOutOfMemory, MemoryError):
        worker.die(b"memory")
    except BaseException as fault:
        worker.internal_error(fault)


def read_job(descriptor: int) -> dict[str, Any]:
    """Read a job: its document, with source, libraries and arguments in place of their lengths. Raises EOFError."""
    take = frames.reader(descriptor)
    job: dict[str, Any] = json.loads(take(frames.LENGTH.unpack(take(frames.LENGTH.size))[0]))
    job["source"] = take(job["source"])
    job["libraries"] = {name: take(length) for name, length in job["libraries"].items()}
    job["args"] = take(job["args"])
    return job


class Worker:
    """Runs one job: implements interpreter.Callbacks and collects what the result document is made of."""

    def __init__(self, interpreter: Interpreter, outside: Outside) -> None:
        self._lua = interpreter
        self._outside = outside
        interpreter.callbacks = self
        self._timeout = 0.0
        self._deadline = math.inf  # monotonic seconds; known once the check's table is read
        self._clock: float | None = None
        self._may_log = True
        self._log_lines = 0
        self._output = bytearray()
        self._printed_bytes = 0
        self._metrics: list[Metric] = []
        self._metric_count = 0
        self._was_denied = False
        self._usage = resource.getrusage(resource.RUSAGE_SELF)

    def begin(self, job: dict[str, Any]) -> NoReturn:
        """Run, inspect or compile the job's source, write the result and exit."""
        self._may_log, self._clock = job["log"], job["now"]
        self._outside.limit_cpu(job["cpu"], job["cpu"] + 1)
        self._lua.seed(int.from_bytes(os.urandom(7), "big"))
        if job["mode"] == "compile":
            self._compile(job)
        for name, source in job["libraries"].items():
            self._lua.library(name, self._text_only(job, source))
        known = job["known"] or self._read_all(job)
        if job["known"]:
            self._load(job, is_known=True)
        self._limit_time(job, known["timeout"])
        for capability in known["needs"]:
            self._lua.need(capability)
        arguments = job["args"]
        del job["source"], job["libraries"], job["args"]
        self._conclude(self._lua.run(arguments))

    def _read_all(self, job: dict[str, Any]) -> dict[str, Any]:
        """Read table and arguments, tell the agent the table, and return what known_tables.py gives other workers."""
        raw = self._load(job).get("table")
        try:
            table = read_table(raw, passes_over=job["pushed"])
        except BadTable as fault:
            self._load_fault(job, f"{job['check']}.lua: {fault}")
        if job["mode"] == "inspect":
            self._finish(json.dumps(table.document(), ensure_ascii=True).encode())
        try:
            job["args"] = encode(table.read_arguments(job["args"]))
        except BadArguments as fault:
            self._fail("bad-arguments", str(fault))
        if job["timeout"] is None:
            frames.write_frame(self._outside.job, frames.DECLARED, frames.SECONDS.pack(table.timeout))
        told = encode(raw)  # always, and before the check has read anything: the agent takes no second one
        frames.write_frame(self._outside.job, frames.TABLE, told if len(told) <= frames.TABLE_LIMIT else b"")
        return {"timeout": table.timeout, "needs": table.needs}

    def _text_only(self, job: dict[str, Any], source: bytes) -> bytes:
        """Return the source without its byte order mark; refuse bytecode, which Lua does not verify."""
        text = source.removeprefix(_BYTE_ORDER_MARK)
        if text.startswith(b"#"):  # a #! line; its place is kept, so that line numbers stay
            text = b"--" + text
            bare = text.partition(b"\n")[2].lstrip()
        else:
            bare = text.lstrip()
        if bare.startswith(b"\x1b") or text.startswith(b"\x1b"):
            self._load_fault(job, "this is compiled Lua; only source text is run here")
        return text

    def _load(self, job: dict[str, Any], is_known: bool = False) -> dict[str, Any]:
        loaded = self._lua.load(self._text_only(job, job["source"]), job["check"], is_known)
        if "fault" in loaded:
            self._load_fault(job, _text(loaded["fault"]))
        return loaded

    def _compile(self, job: dict[str, Any]) -> NoReturn:
        fault = self._lua.compile(self._text_only(job, job["source"]), job["check"])
        if fault is not None:
            self._load_fault(job, fault)
        self._finish(b"{}")

    def _load_fault(self, job: dict[str, Any], text: str) -> NoReturn:
        if job["mode"] != "run":
            place = _PLACE.search(text)
            fault = {"error": clean(text)[:4096], "line": int(place[1]) if place else None}
            self._finish(json.dumps(fault, ensure_ascii=True).encode())
        self._fail("load-error", text)

    def _limit_time(self, job: dict[str, Any], own: float) -> None:
        """Limit the CPU time to the timeout in force, which is the check's own unless the job has one."""
        self._timeout = timeout_in_force(own if job["timeout"] is None else job["timeout"], job["timeout_max"])
        self._deadline = job["began"] + self._timeout
        # Whole seconds. One more than the wall time, so that a check that runs too long ends by `timeout`.
        seconds = math.ceil(time.process_time() - 0.5 + min(self._timeout + 1, job["cpu_max"]))
        self._outside.limit_cpu(min(seconds, job["cpu"]), job["cpu"] + 1)

    # ---------------------------------------------------------------------------------------- callbacks of Lua

    def print(self, text: bytes, length: int) -> None:
        """Add to the output, up to its cap; `length` counts the uncut text."""
        self._output += text[: OUTPUT_LIMIT - len(self._output)]
        self._printed_bytes += length
        if self._printed_bytes > FLOOD_LIMIT:
            self.die(b"output")

    def metric(self, arguments: bytes) -> bytes:
        """Add a metric and return its status, or "!" and a sentence for the check's author."""
        try:
            metric = read_metric(*decode(arguments))
        except (ValueError, TypeError) as fault:
            return b"!" + str(fault).encode("utf-8", "replace")
        self._metric_count += 1
        if len(self._metrics) < MAX_METRICS:
            self._metrics.append(metric)
        return metric.status.encode()

    def log(self, text: bytes) -> bool:
        """Send a line to the agent's log. Return False if the policy or the number of lines forbids it."""
        self._log_lines += 1
        if not self._may_log or self._log_lines > frames.LOG_LINES:
            return False
        frames.write_frame(self._outside.job, frames.LOG, text[: frames.LOG_LINE])
        return True

    def denied(self) -> None:
        self._was_denied = True

    def now(self) -> float:
        return time.time() if self._clock is None else self._clock

    def call(self, name: bytes, arguments: bytes) -> bytes:
        """Send a host call to the broker, and return its answer. Both pass unread."""
        try:
            frames.write_frame(self._outside.broker, frames.CALL.pack(self._deadline, len(name)), name, arguments)
            return frames.read_lone_frame(self._outside.broker, frames.CALL_FRAME_LIMIT)
        except (EOFError, OSError):
            self._fail("killed", "the broker, which performs host calls, has ended")

    # ---------------------------------------------------------------------------------------- results

    def die(self, reason: bytes) -> NoReturn:
        """Write the result of a check that hit a limit, with the memory that was reserved for it."""
        resource.setrlimit(resource.RLIMIT_AS, (resource.getrlimit(resource.RLIMIT_AS)[1],) * 2)
        sentences = {
            "memory": "the check used up its memory",
            "output": f"the check wrote more than {FLOOD_LIMIT} bytes",
        }
        self._fail(reason.decode(), sentences[reason.decode()])

    def internal_error(self, fault: BaseException) -> NoReturn:
        """Write the result of a run that failed by a bug of the sandbox."""
        self._fail("crashed", f"the sandbox failed: {type(fault).__name__}: {fault}")

    def _conclude(self, returned: dict[str, Any]) -> NoReturn:
        if "fault" in returned:
            self._output += (b"\n" if self._output else b"") + text_bytes(_text(returned["trace"]))
            self._fail("crashed", _text(returned["fault"]))
        status: str | None = returned.get("status")
        summary: str | None = returned.get("summary")
        truncated: dict[str, int] = {name: returned[name] for name in ("output", "metrics") if name in returned}
        if summary is not None and returned["length"] > OUTPUT_LIMIT:
            truncated["summary"] = returned["length"]
            summary = drop_partial(summary)
        if returned.get("length", 0) > FLOOD_LIMIT:
            self.die(b"output")
        if status is None and not self._metrics:
            said = f" (it said: {summary})" if summary else ""
            self._fail("crashed", f"run returned no status and gave no metric{said}")
        if status is None:
            status = worst_of(self._metrics)
        if status not in STATUS_WORDS:
            self._fail("crashed", f'run returned the status "{status[:64]}"; there are {", ".join(STATUS_WORDS)}')
        if summary is None:
            summary = summary_of(self._metrics) if self._metrics else status
        # Most checks that are denied a call return unknown; the reason says it in a field, not only in a text.
        reason = "denied" if self._was_denied and status == "unknown" else None
        self._finish(self._body(status, clean(summary), truncated=truncated, reason=reason))

    def _fail(self, reason: str, summary: str) -> NoReturn:
        self._finish(self._body("unknown", clean(summary), reason=reason, truncated={}))

    def _body(self, status: str, summary: str, *, truncated: dict[str, int], reason: str | None = None) -> bytes:
        output = self._output.decode("utf-8", "surrogateescape")
        if self._printed_bytes > OUTPUT_LIMIT:
            truncated["output"] = max(self._printed_bytes, truncated.get("output", 0))
            output = drop_partial(output)
        if self._metric_count > len(self._metrics):
            truncated["metrics"] = max(self._metric_count, truncated.get("metrics", 0))
        return body(
            status,
            summary,
            reason=reason,
            metrics=[metric.json() for metric in self._metrics],
            output=clean(output),
            truncated=truncated,
            **self._figures(),
        )

    def _figures(self) -> dict[str, Any]:
        """Return `cpu_ms` and `peak_kib` of this process so far."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "cpu_ms": round((usage.ru_utime + usage.ru_stime) * 1000, 1),
            "peak_kib": max(0, usage.ru_maxrss - self._usage.ru_maxrss),
        }

    def _finish(self, document: bytes) -> NoReturn:
        """Write the document as the result; after the deadline write `timeout` in its place.

        The agent kills this process at its deadline. Should it wake up late for that, the result is the same.
        """
        if time.monotonic() >= self._deadline:
            document = failure("timeout", too_late(self._timeout), **self._figures())
        try:
            frames.write_frame(self._outside.job, frames.RESULT, document)
        finally:
            self._outside.leave(0)


def _text(value: Any) -> str:
    """Return text that came out of Lua; surrogates stand for bytes that were no UTF-8."""
    return value if isinstance(value, str) else clean(value)
