"""Perform the host calls of checks in a process of its own: `python -m equus.sandbox.broker FD PARENT SETTINGS`.

The broker trusts no worker: it looks up each call in the registry, its capability in the policy, its size and number
in the run's budget. A run's calls come over a socket of its own and are performed one at a time, by a thread that
starts with the first call. A denied call is written to the audit log.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from equus.capabilities.calls import Call, CallFailed, Context, KeptConnections
from equus.policy.destinations import Bound, read_all
from equus.policy.policy import Policy, PolicyError
from equus.processes.process import die_with_parent, receive
from equus.sandbox import frames
from equus.sandbox.audit import AuditLog
from equus.sandbox.host_call import read_call
from equus.sandbox.state_store import StateError, StateStore, StateUnread
from equus.sandbox.value_codec import NotPlain, encode
from equus.secrets.redaction import Redaction

# Threads that perform calls: one for each run, and those that hang in the kernel (a dead file server) long after
# their run is over. Beyond this number, runs are refused until some threads have ended.
MOST_THREADS = 300
STATE_CALLS = ("state.get", "state.put")
# Capabilities whose calls start a program with arguments of the check, and those of them where it may be any program.
PROGRAMS = ("plugin", "program", "systemd", "journal")
FREE_PROGRAMS = ("plugin", "program")
NO_ARGUMENT = "a secret is never an argument of a program: every user of this host can read those"
NO_PROGRAM = "this run holds a secret with destinations, which are never programs: those connect where they like"


@frozen
class AttachedRun:
    """Describes one run, as the agent announced it."""

    check: str
    state: str | None  # key of the host.state that it uses; None: a state of its own, which ends with it
    deadline: float  # monotonic seconds, a clock that all processes share
    secrets: tuple[str, ...] = field(default=(), repr=False)  # values that the run was given
    bound: Bound = ()  # the destinations of each of these that has some
    scratch: StateStore = field(factory=lambda: StateStore(None), repr=False)


@define
class Usage:
    """Counts a run's calls and bytes against its budget, and holds its open connections until it ends.

    `state_fault`: why this run could not read its host.state. It stores nothing then: a check that goes on as if it
    ran for the first time would replace what is there.
    """

    calls: int = 0
    moved: int = 0
    kept: KeptConnections = field(factory=KeptConnections)
    state_fault: str | None = None


class Broker:
    """Performs calls for all runs, by the policy. It holds everything that lasts longer than one run."""

    def __init__(
        self,
        calls: Mapping[str, Call],
        policy: Policy,
        state: StateStore,
        audit: AuditLog,
        private: tuple[str, ...] = (),
        certificates: tuple[str, ...] = (),
    ) -> None:
        self.calls = calls
        self.certificates = certificates  # files of which the newest is the agent's own
        self.private = private  # files and folders that no grant opens: the agent's own keys are there
        self.policy = policy
        self.state = state
        self.audit = audit

    def capabilities(self) -> dict[str, str]:
        """Return the capability that each call needs, by the call's name: {"load": "load", "state.get": "state"}."""
        return {name: call.capability for name, call in self.calls.items()} | dict.fromkeys(STATE_CALLS, "state")

    def answer(self, run: AttachedRun, usage: Usage, question: bytes) -> bytes:
        """Perform one call within the run's budget, and return its answer or failure as bytes (value_codec.py)."""
        usage.calls += 1
        usage.moved += len(question)
        try:
            value = self._perform(run, usage, *_read_call(question))
            answer = encode({"value": value})
            self._check_budget(usage, len(answer))
        except CallFailed as failed:
            return encode({"code": failed.code, "text": failed.text})
        except NotPlain as fault:
            return encode({"code": "failed", "text": f"the call answered no plain data: {fault}"})
        usage.moved += len(answer)
        return answer

    def _check_budget(self, usage: Usage, more: int) -> None:
        limits = self.policy.limits
        if usage.calls > limits.calls:
            raise CallFailed("budget", f"this run has made its {limits.calls} host calls")
        if usage.moved + more > limits.moved_mib * 1_048_576 or more > frames.CALL_FRAME_LIMIT:
            raise CallFailed("budget", f"this run has moved its {limits.moved_mib} MiB through host calls")

    def _perform(self, run: AttachedRun, usage: Usage, name: str, args: list[Any], deadline: float) -> Any:
        self._check_budget(usage, 0)
        policy, call = self.policy, self.calls.get(name)
        if call is None and name not in STATE_CALLS:
            raise CallFailed("bad-arguments", f"there is no call host.{name}")
        capability = "state" if call is None else call.capability
        try:
            if not policy.granted(capability):
                raise CallFailed("denied", policy.missing(capability))
            if call is None:
                return self._state_call(run, usage, name, args)
            left = policy.limits.moved_mib * 1_048_576 - usage.moved
            if capability in PROGRAMS and _contain_secret(args, run.secrets):
                raise CallFailed("denied", NO_ARGUMENT)
            if capability in FREE_PROGRAMS and run.bound:
                raise CallFailed("denied", NO_PROGRAM)
            context = Context(
                run.check,
                min(run.deadline, deadline),
                left,
                private=self.private,
                certificates=self.certificates,
                entry=run.state or run.check,
                bound=run.bound,
                secrets=run.secrets,
                kept=usage.kept,
            )
            return call.perform(args, policy, context)
        except CallFailed as failed:
            if failed.code != "denied":
                raise
            hide = Redaction(run.secrets)
            self.audit.denied(time.time(), run.check, name, hide.value(args), hide.text(failed.text))
            if "[caps." in failed.text or "never" in failed.text or "secret" in failed.text:
                raise
            raise CallFailed("denied", f"{failed.text}; {policy.advice(capability)}") from None
        except Exception as fault:
            # A bug in a capability must fail one check only, and be visible in the agent's log.
            print(Redaction(run.secrets).text(traceback.format_exc()), end="", file=sys.stderr, flush=True)
            raise CallFailed("failed", f"host.{name} failed: {type(fault).__name__}: {fault}") from fault

    def _state_call(self, run: AttachedRun, usage: Usage, name: str, args: list[Any]) -> Any:
        key = args[0] if args else None
        if not isinstance(key, str):
            raise CallFailed("bad-arguments", f"host.{name}: the key must be a text")
        store = self.state if run.state is not None else run.scratch
        if usage.state_fault is not None:
            raise CallFailed("failed", usage.state_fault)
        try:
            if name == "state.get":
                return store.get(run.state or run.check, key)
            store.put(run.state or run.check, key, args[1] if len(args) > 1 else None)
        except StateError as fault:
            raise CallFailed("too-large", str(fault)) from None
        except StateUnread as fault:
            usage.state_fault = str(fault)
            raise CallFailed("failed", usage.state_fault) from None
        return True


def _contain_secret(args: Any, secrets: tuple[str, ...]) -> bool:
    """Return True if a text of the arguments contains one of these values, in any encoding that Redaction knows."""
    return bool(secrets) and Redaction(secrets).value(args) != args


def _read_call(question: bytes) -> tuple[str, list[Any], float]:
    """Return the call's name, its arguments and the worker's deadline. Raises CallFailed if it is no host call."""
    try:
        return read_call(question)
    except (ValueError, struct.error):
        raise CallFailed("bad-arguments", "that is no host call") from None


class Service:
    """Runs in the main thread: takes runs from the agent, and starts a thread for each that makes a call."""

    def __init__(self, broker: Broker, control: socket.socket, policy_path: Path | None) -> None:
        self._broker = broker
        self._control = control
        self._policy_path = policy_path
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._idle: dict[int, tuple[socket.socket, AttachedRun]] = {}  # runs without a call so far
        self._threads = threading.Semaphore(MOST_THREADS)

    def serve(self) -> None:
        """Serve until the agent closes its end of the control socket."""
        self._send({"calls": self._broker.capabilities(), "digest": self._broker.policy.digest})
        while True:
            for descriptor, _event in self._poll.poll():
                if descriptor != self._control.fileno():
                    self._start_thread(descriptor)
                elif not self._take_message():
                    return

    def _send(self, document: dict[str, Any]) -> None:
        self._control.send(json.dumps(document).encode())

    def _take_message(self) -> bool:
        message, descriptors = receive(self._control, frames.CONTROL_LIMIT, 1)
        if not message:
            return False
        document = json.loads(message)
        if "ping" in document:
            self._send({"pong": True})
            return True
        if "reload" in document:
            self._reload()
            return True
        channel = socket.socket(fileno=descriptors[0])
        self._idle[channel.fileno()] = (
            channel,
            AttachedRun(
                document["check"],
                document["state"],
                document["deadline"],
                tuple(document["secrets"]),
                read_all(document["bound"]),
            ),
        )
        self._poll.register(channel, select.POLLIN)
        return True

    def _reload(self) -> None:
        """Read the policy file again, which the agent found valid; keep the old policy if it is invalid by now."""
        try:
            self._broker.policy = Policy.load(self._policy_path)
        except PolicyError as fault:
            self._send({"fault": str(fault)[:4096]})
        self._send({"calls": self._broker.capabilities(), "digest": self._broker.policy.digest})

    def _start_thread(self, descriptor: int) -> None:
        channel, run = self._idle.pop(descriptor)
        self._poll.unregister(descriptor)
        if _is_over(channel):
            channel.close()  # the run has made no call
            return
        if not self._threads.acquire(blocking=False):
            channel.close()  # the worker takes this for the broker's end, and its result says so
            return
        threading.Thread(target=self._perform_all, args=(channel, run), daemon=True).start()

    def _perform_all(self, channel: socket.socket, run: AttachedRun) -> None:
        """Perform all calls of one run, until its worker closes the socket."""
        usage = Usage()
        try:
            with channel:
                while True:
                    question = frames.read_lone_frame(channel.fileno(), frames.CALL_FRAME_LIMIT)
                    frames.write_frame(channel.fileno(), self._broker.answer(run, usage, question))
        except (EOFError, OSError, frames.FrameTooLarge):
            return
        finally:
            usage.kept.close()
            self._threads.release()


def _is_over(channel: socket.socket) -> bool:
    """Return True if the other side has closed and has sent nothing."""
    try:
        return not channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        return True


def main() -> None:
    """Serve one agent over the descriptor in argv, and exit when it is gone."""
    control = socket.socket(fileno=int(sys.argv[1]))
    die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = json.loads(sys.argv[3])
    policy_path = Path(settings["policy"]) if settings["policy"] else None
    state = Path(settings["state"]) if settings["state"] else None
    broker = Broker(
        importlib.import_module(settings["registry"]).CALLS,
        Policy.load(policy_path),
        StateStore(state and state / "checks-state"),
        AuditLog(state and state / "audit.log"),
        private=tuple(settings["private"]),
        certificates=tuple(settings["certificates"]),
    )
    Service(broker, control, policy_path).serve()
    os._exit(0)  # without joining threads: some may hang in the kernel


if __name__ == "__main__":
    main()
