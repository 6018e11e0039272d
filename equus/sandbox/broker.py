"""The process that does what checks ask of the system: `python -m equus.sandbox.broker FD PARENT SETTINGS`.

It believes nothing: each call is looked up in the registry, its capability in the policy, its size and number in the
run's budget. A run's calls come over a socket of its own and are performed one at a time, by a thread of its own that
starts with the first call. What a policy denies is written to the audit log.
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

from equus.capabilities.calls import Call, CallFailed, Context, Kept
from equus.policy import Policy, PolicyError
from equus.redaction import Redaction
from equus.sandbox import frames
from equus.sandbox.audit import AuditLog
from equus.sandbox.process import die_with_parent, receive
from equus.sandbox.question import read_question
from equus.sandbox.state_store import StateError, StateStore
from equus.sandbox.values import NotPlain, encode

# Threads that perform calls: as many as runs at once, and those that hang in the kernel (a dead file server) long after
# their run is over. Beyond this, calls are refused until some come back.
MOST_THREADS = 300
STATE_CALLS = ("state.get", "state.put")
NO_ARGUMENT = "a secret is never an argument of a program: everybody on this host can read those"


@frozen
class Attached:
    """One run, as the agent described it."""

    check: str
    state: str | None  # whose host.state it sees; None: one of its own, which ends with it
    deadline: float  # on time.monotonic(), which all processes share
    secrets: tuple[str, ...] = field(default=(), repr=False)  # values that the run was given
    scratch: StateStore = field(factory=lambda: StateStore(None), repr=False)


@define
class Spent:
    """What a run has used up, and what it keeps open until it ends."""

    calls: int = 0
    moved: int = 0
    kept: Kept = field(factory=Kept)


class Broker:
    """Everything that lasts longer than one run."""

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
        self.certificates = certificates  # of the agent: where the newest is its own
        self.private = private  # what no grant of files opens: the agent's own keys lie there
        self.policy = policy
        self.state = state
        self.audit = audit

    def capabilities(self) -> dict[str, str]:
        """Every call by name, with the capability that it needs."""
        return {name: call.capability for name, call in self.calls.items()} | dict.fromkeys(STATE_CALLS, "state")

    def answer(self, run: Attached, spent: Spent, question: bytes) -> bytes:
        """Perform one call within the run's budget; the bytes of its answer."""
        spent.calls += 1
        spent.moved += len(question)
        try:
            value = self._perform(run, spent, *_read_question(question))
            answer = encode({"value": value})
            self._afford(spent, len(answer))
        except CallFailed as failed:
            return encode({"code": failed.code, "text": failed.text})
        except NotPlain as fault:
            return encode({"code": "failed", "text": f"the call answered no plain data: {fault}"})
        spent.moved += len(answer)
        return answer

    def _afford(self, spent: Spent, more: int) -> None:
        limits = self.policy.limits
        if spent.calls > limits.calls:
            raise CallFailed("budget", f"this run has made its {limits.calls} host calls")
        if spent.moved + more > limits.moved_mib * 1_048_576 or more > frames.CALL_FRAME_LIMIT:
            raise CallFailed("budget", f"this run has moved its {limits.moved_mib} MiB through host calls")

    def _perform(self, run: Attached, spent: Spent, name: str, args: list[Any], deadline: float) -> Any:
        self._afford(spent, 0)
        policy, call = self.policy, self.calls.get(name)
        if call is None and name not in STATE_CALLS:
            raise CallFailed("bad-arguments", f"there is no call host.{name}")
        capability = "state" if call is None else call.capability
        try:
            if not policy.granted(capability):
                raise CallFailed("denied", policy.missing(capability))
            if call is None:
                return self._keep(run, name, args)
            left = policy.limits.moved_mib * 1_048_576 - spent.moved
            if capability == "plugin" and _holds(args, run.secrets):
                raise CallFailed("denied", NO_ARGUMENT)
            context = Context(
                run.check,
                min(run.deadline, deadline),
                left,
                private=self.private,
                certificates=self.certificates,
                kept=spent.kept,
            )
            return call.perform(args, policy, context)
        except CallFailed as failed:
            if failed.code != "denied":
                raise
            hide = Redaction(run.secrets)
            self.audit.denied(time.time(), run.check, name, hide.value(args), hide.text(failed.text))
            if "[caps." in failed.text or "never" in failed.text:
                raise
            raise CallFailed("denied", f"{failed.text}; {policy.advice(capability)}") from None
        except Exception as fault:
            # A fault of ours must be one check's trouble, and visible in the agent's log.
            print(Redaction(run.secrets).text(traceback.format_exc()), end="", file=sys.stderr, flush=True)
            raise CallFailed("failed", f"host.{name} failed: {type(fault).__name__}: {fault}") from fault

    def _keep(self, run: Attached, name: str, args: list[Any]) -> Any:
        key = args[0] if args else None
        if not isinstance(key, str):
            raise CallFailed("bad-arguments", f"host.{name}: the key must be a text")
        store = self.state if run.state is not None else run.scratch
        if name == "state.get":
            return store.get(run.state or run.check, key)
        try:
            store.put(run.state or run.check, key, args[1] if len(args) > 1 else None)
        except StateError as fault:
            raise CallFailed("too-large", str(fault)) from None
        return True


def _holds(args: Any, secrets: tuple[str, ...]) -> bool:
    """Whether one of these values stands in a text of the arguments, however it is written there."""
    return bool(secrets) and Redaction(secrets).value(args) != args


def _read_question(question: bytes) -> tuple[str, list[Any], float]:
    """The call, its arguments, and the deadline that the worker knows of. Raises CallFailed for anything else."""
    try:
        return read_question(question)
    except (ValueError, struct.error):
        raise CallFailed("bad-arguments", "that is no host call") from None


class Service:
    """The main thread: takes runs from the agent, and starts a thread for each that makes a call."""

    def __init__(self, broker: Broker, control: socket.socket, policy_path: Path | None) -> None:
        self._broker = broker
        self._control = control
        self._policy_path = policy_path
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._quiet: dict[int, tuple[socket.socket, Attached]] = {}  # runs that have not called yet
        self._threads = threading.Semaphore(MOST_THREADS)

    def serve(self) -> None:
        """Until the agent is gone."""
        self._say({"calls": self._broker.capabilities(), "digest": self._broker.policy.digest})
        while True:
            for descriptor, _event in self._poll.poll():
                if descriptor != self._control.fileno():
                    self._hand_over(descriptor)
                elif not self._obey():
                    return

    def _say(self, document: dict[str, Any]) -> None:
        self._control.send(json.dumps(document).encode())

    def _obey(self) -> bool:
        message, descriptors = receive(self._control, frames.CONTROL_LIMIT, 1)
        if not message:
            return False
        document = json.loads(message)
        if "ping" in document:
            self._say({"pong": True})
            return True
        if "reload" in document:
            self._reload()
            return True
        channel = socket.socket(fileno=descriptors[0])
        self._quiet[channel.fileno()] = (
            channel,
            Attached(document["check"], document["state"], document["deadline"], tuple(document["secrets"])),
        )
        self._poll.register(channel, select.POLLIN)
        return True

    def _reload(self) -> None:
        """The agent has read the same file and found it good; if it has changed since, the old policy stays."""
        try:
            self._broker.policy = Policy.load(self._policy_path)
        except PolicyError as fault:
            self._say({"fault": str(fault)[:4096]})
        self._say({"calls": self._broker.capabilities(), "digest": self._broker.policy.digest})

    def _hand_over(self, descriptor: int) -> None:
        channel, run = self._quiet.pop(descriptor)
        self._poll.unregister(descriptor)
        if not self._threads.acquire(blocking=False):
            channel.close()  # the check hears that the broker has ended, and so its result says that it did not run
            return
        threading.Thread(target=self._perform_all, args=(channel, run), daemon=True).start()

    def _perform_all(self, channel: socket.socket, run: Attached) -> None:
        """All calls of one run, until its worker is gone."""
        spent = Spent()
        try:
            with channel:
                while True:
                    question = frames.read_lone_frame(channel.fileno(), frames.CALL_FRAME_LIMIT)
                    frames.write_frame(channel.fileno(), self._broker.answer(run, spent, question))
        except (EOFError, OSError, frames.FrameTooLarge):
            return
        finally:
            spent.kept.close()
            self._threads.release()


def main() -> None:
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
        private=(str(state),) if state else (),
        certificates=tuple(settings["certificates"]),
    )
    Service(broker, control, policy_path).serve()
    os._exit(0)  # threads may hang in the kernel; nothing of theirs is worth waiting for


if __name__ == "__main__":
    main()
