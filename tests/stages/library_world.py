"""Holds a state directory and the library of checks on it, with a lint of our own, a clock by hand and 100 agents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from inbox import Inbox
from twisted.internet.defer import Deferred, fail, succeed

from equus_protocol import manifest
from equus_protocol.manifest import key_id
from helen.assignments.schedule import CheckTable
from helen.library.library import Library
from helen.library.linter import LintFailed, Problem, Verdict
from helen.library.published import PushRefused
from helen.rollout.gate_limits import Limits
from helen.rollout.rings import Candidate, read_rings
from helen.rollout.rollout import AT_ONCE, Plan
from helen.storage.database import Store

KEY = Ed25519PrivateKey.generate()
PUBLIC = {key_id(KEY.public_key()): KEY.public_key()}
HOLD_SECONDS, PATIENCE_SECONDS = 10.0, 600.0
RINGED = Plan(read_rings("2%,100%"), Limits(window=HOLD_SECONDS, patience=PATIENCE_SECONDS))
WHEEL = "helen_equus-0.2.0-py3-none-any.whl"


async def nothing() -> None:
    """Do nothing, in turn."""


class Lint:
    """`bad` in a file is an error, `every=N` its interval; a check that says `needs x` is broken without lib/x.lua."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.failure: str | None = None

    def __call__(self, files: Mapping[str, bytes]) -> Deferred[dict[str, Verdict]]:
        self.asked.append(sorted(files))
        if self.failure is not None:
            return fail(LintFailed(self.failure))
        return succeed({n: self.judge(n, text, files) for n, text in files.items() if not n.startswith("tests/")})

    @staticmethod
    def judge(name: str, text: bytes, files: Mapping[str, bytes]) -> Verdict:
        words = text.decode().split()
        needs = [words[at + 1] for at, word in enumerate(words) if word == "needs"]
        if "bad" in words or any(f"lib/{x}.lua" not in files or b"bad" in files[f"lib/{x}.lua"] for x in needs):
            return Verdict(None, (Problem("it is bad", 3),))
        if name.startswith("lib/"):
            return Verdict(None)
        every = next((float(word[6:]) for word in words if word.startswith("every=")), 60.0)
        return Verdict(CheckTable(Path(name).stem, every))


class World:
    """Holds one state directory and the library on it; `restart` is a new one on the same."""

    def __init__(self, tmp_path: Path, inbox: Inbox) -> None:
        self.folder = tmp_path / "checks"
        self.folder.mkdir()
        self.state = tmp_path / "state"
        self.inbox = inbox
        self.now, self.steady = 1_800_000_000.0, 100.0
        self.lint = Lint()
        self.told = 0
        self.private: tuple[Ed25519PrivateKey, ...] = (KEY,)
        self.open()

    def open(self) -> None:
        self.store = Store(self.state, self.inbox)
        loaded = self.store.open(self.now)
        self.library = Library(
            self.folder, self.store, self.lint, lambda: self.now, lambda: self.steady, self.private, PUBLIC, self.tell
        )
        self.library.plan = AT_ONCE
        self.steps: list[str] = []
        self.library.releases.stepped.subscribe(lambda event, rollout: self.steps.append(event))
        self.library.releases.fleet = lambda: [Candidate(f"agent-{n}") for n in range(100)]
        self.library.load(loaded)
        self.inbox.wait(self.library.load_contents())

    def tell(self) -> None:
        self.told += 1

    def close(self) -> None:
        self.inbox.wait(self.store.close())

    def restart(self) -> None:
        self.close()
        self.open()

    def write(self, **files: str) -> World:
        for name, text in files.items():
            path = self.folder / (name.replace("lib_", "lib/") + ".lua")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return self

    def look(self) -> World:
        self.inbox.wait(self.library.look())
        return self

    def push(
        self, plan: Plan | None = None, dry: bool = False, tests: Any = None, replace: bool = False, **files: str
    ) -> Any:
        contents = {n.replace("lib_", "lib/") + ".lua": text.encode() for n, text in files.items()}
        return self.inbox.wait(self.library.push(contents, tests or {}, "operator", plan, dry, replace))

    def undo_is_refused(self) -> bool:
        try:
            self.undo()
        except PushRefused:
            return True
        return False

    def undo(self) -> int:
        return self.inbox.wait(self.library.undo("operator"))

    def tick(self, seconds: float, *connected: str) -> None:
        self.steady += seconds
        self.library.tick(self.steady, lambda: connected)
        self.inbox.wait(self.library._in_turn(nothing))  # what the tick has begun is over then

    def offered(self, agent: str = "nobody") -> tuple[int, dict[str, str]] | None:
        """Return the version that an agent is offered, and the text of each file; None if nothing is published."""
        published = self.library.offered(agent)
        if published is None:
            return None
        texts = {name: self.library.file(entry.sha256) for name, entry in published.files.items()}
        assert None not in texts.values()
        return published.version, {name.removesuffix(".lua"): text.decode() for name, text in texts.items()}

    @property
    def ring(self) -> Any:
        rollout = self.library.releases.rollout
        return rollout.ring if rollout is not None else None

    @property
    def members(self) -> list[str]:
        return sorted(self.ring.members or ()) if self.ring is not None else []

    @property
    def why(self) -> str:
        return self.library.releases.last.why

    def confirm(self, *names: str, **failed: str) -> None:
        for name in names or self.members:
            self.ring.loaded(name, failed, self.steady)

    def go_all_the_way(self) -> None:
        """Pass both rings of RINGED."""
        members = self.members
        self.confirm()
        self.tick(HOLD_SECONDS, *members)
        self.confirm("other")
        self.tick(HOLD_SECONDS, *members, "other")


def sign(world: World, key: Ed25519PrivateKey = KEY) -> int:
    staged = world.library.staged
    signed = [manifest.sign(each, [key]) for each in (staged.pair.new, staged.pair.undo)]
    return world.inbox.wait(world.library.accept(*signed, "operator"))
