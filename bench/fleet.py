"""Many real agents in one process: real TLS, links, updates, schedules and spools, and a sandbox that runs no Lua.

    python bench/fleet.py --state HELEN_STATE [--state ...] --folder DIR --count N

The stand-in for the sandbox answers each run at once with the hash of its code, and calls every file compiled that does
not hold the word `broken`. So what is measured and checked is everything but Lua: one process of the agent costs some
30 MiB and its workers a fork per run, which no test machine has for a thousand of them. Prints `ready` when all agents
are connected; ends with SIGTERM.
"""

from __future__ import annotations

import argparse
import collections
import gc
import json
import os
import queue
import resource
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from twisted.internet import reactor
from twisted.internet.threads import deferToThread

from equus.agent import Agent
from equus.agent_parts import Parts
from equus.code import launcher
from equus.code.library import EMPTY_SET, LibraryStore
from equus.code.update import CodeSource, Updater
from equus.identity.identity_store import IdentityStore
from equus.link import server_list
from equus.link.route import Route
from equus.policy.policy import Policy, PolicyInForce
from equus.sandbox.job import Job
from equus.sessions.membership import Membership
from equus.settings import Settings, parse_server
from equus.spool.spool import Spool
from equus.spool.spool_thread import SpoolThread
from helen.cli.base.client import Client

WAVE = 50  # agents that begin to dial together
WAVE_SECONDS = 0.2  # between two waves


class Instant:
    """In place of the sandbox: every run succeeds in the next turn of the reactor."""

    isolation, kills, waiting, ready = "strong", 0, 0, True
    unbound_secrets: Sequence[str] = ()

    def run(self, job: Job, done: Callable[[bytes], None], *_: Any, **__: Any) -> Instant:
        document = {"status": "ok", "summary": "at once", "check": job.check, "code": job.code, "started": time.time()}
        reactor.callLater(0, done, json.dumps(document).encode())
        return self

    def inspect(self, source: bytes, libraries: dict[str, bytes], done: Callable[[dict[str, Any]], None]) -> None:
        broken = {"error": "it says that it is broken", "line": 1}
        reactor.callLater(0, done, broken if b"broken" in source else {"summary": "fine"})

    def cancel(self, reason: str = "cancelled") -> None:
        """It is over already."""

    def reload(self, policy: Policy) -> None:
        """Accept each policy: one is as good as another here."""

    def stop(self) -> None:
        """Nothing runs."""


class OneThread:
    """In place of a thread for each spool: a thousand agents have a thousand processors to wake up, we have two."""

    def __init__(self) -> None:
        self._turns: queue.SimpleQueue[SpoolThread] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def take(self, writer: SpoolThread) -> SpoolThread:
        """From here on its commands are carried out here; it must not be started."""
        writer._commands = Commands(lambda: self._turns.put(writer))  # type: ignore[assignment]
        writer.start = lambda: None  # type: ignore[method-assign]
        writer.stop = lambda within: True  # type: ignore[method-assign]
        return writer

    def _work(self) -> None:
        while True:
            writer = self._turns.get()
            if not writer._commands.empty():
                writer._batch()


class Commands(collections.deque[Any]):
    """Keeps the commands that one writer was given."""

    def __init__(self, asked: Callable[[], None]) -> None:
        super().__init__()
        self._asked = asked

    def put(self, command: Any) -> None:
        self.append(command)
        self._asked()

    def get(self) -> Any:
        return self.popleft()

    def empty(self) -> bool:
        return not self


def freeze() -> None:
    """Let the garbage collector pass over all that is here, as `equus` does at its start.

    A full look at a thousand agents takes a third of a second of this process, and a quarter of its CPU in a push.
    """
    gc.collect()
    gc.freeze()


def give_identity(client: Client, name: str, store: IdentityStore) -> None:
    """Write an identity straight into the agent's state folder, as `helen certificate` does."""
    key = ec.generate_private_key(ec.SECP256R1())
    csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    issued = client.post("/api/v1/certificates", {"name": name, "csr": csr.public_bytes(Encoding.PEM).decode()})
    store.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    store.key.chmod(0o600)
    store.certificate.write_text(issued["certificate"])
    store.ca.write_text(issued["ca"])
    store.pin(issued["signing_keys"].encode())


def make_agent(
    settings: Settings, writer: SpoolThread, policy: PolicyInForce, say: Callable[[str], None],
    finished: Callable[[int, str], None],
) -> Agent:  # fmt: skip
    """Make an agent of these settings, which enrols by their token if it has no identity; all but its sandbox
    is real.
    """
    identities, runner = IdentityStore(settings.state), Instant()
    store = LibraryStore(settings.state)
    held = store.load()
    source = CodeSource(held.checks if held else EMPTY_SET, store, held)
    route = Route(settings.servers, server_list.load(settings.state))
    membership = Membership(settings, identities.load(), identities, time.time, deferToThread)
    updater = Updater(source, runner.inspect, membership.trusted_keys, policy, None, time.time, deferToThread)
    parts = Parts(
        reactor, time.time, cast("Any", runner), writer, updater, policy, membership, route,
        launcher.installed_version(), say, finished, deferToThread,
    )  # fmt: skip
    return Agent(settings, parts)


class Fleet:
    """N agents called a-0000 and so on, from the number `first` on, dealt out to these Helens in turn."""

    def __init__(self, helens: Sequence[Path], folder: Path, count: int, first: int = 0) -> None:
        self._clients = [Client(helen) for helen in helens]
        self._addresses = [json.loads((helen / "run.json").read_text())["agents"] for helen in helens]
        self._folder = folder
        self._connected: set[str] = set()
        self._spools = OneThread()
        self._policy = PolicyInForce(Policy.load(None))
        self._names = [f"a-{number:04d}" for number in range(first, first + count)]
        self.agents = [self._make(name, number % len(helens)) for number, name in enumerate(self._names)]

    def _make(self, name: str, helen: int) -> Agent:
        state = self._folder / name
        state.mkdir(parents=True, exist_ok=True)
        identities = IdentityStore(state)
        if not identities.key.exists():
            give_identity(self._clients[helen], name, identities)
        settings = Settings((parse_server(self._addresses[helen]),), state)
        writer = self._spools.take(SpoolThread(Spool(state / "spool"), reactor.callFromThread, self._failed))
        return make_agent(settings, writer, self._policy, lambda line: self._say(name, line), self._finished)

    def start(self) -> None:
        for number, agent in enumerate(self.agents):
            reactor.callLater(number // WAVE * WAVE_SECONDS, agent.start)

    def _say(self, name: str, _line: str) -> None:
        self._connected.add(name)
        if len(self._connected) == len(self.agents):
            freeze()
            print("ready", flush=True)

    def _finished(self, status: int, sentence: str) -> None:
        print(f"an agent ended with {status}: {sentence}", flush=True)
        os._exit(1)

    def _failed(self, failure: BaseException) -> None:
        self._finished(1, repr(failure))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, required=True, action="append", help="a Helen's state directory")
    parser.add_argument("--folder", type=Path, required=True, help="where the agents keep theirs")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--first", type=int, default=0, help="the number of the first: for fleets of several processes")
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, options.count * 8 + 256)), hard))
    reactor.suggestThreadPoolSize(4)  # library swaps of a whole fleet would otherwise sync on a thread each
    fleet = Fleet(options.state, options.folder, options.count, options.first)
    reactor.callWhenRunning(fleet.start)
    reactor.run()


if __name__ == "__main__":
    main()
