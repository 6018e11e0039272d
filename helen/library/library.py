"""Keeps the check set of a server: one call at a time reads its folder, publishes it, or moves a rollout.

helen.library.set_builder makes a set of the folder, helen.library.pushes carries out what operators ask for,
helen.library.adopted_sets what other Helens have published, and helen.library.ring_control what a ring has come to;
helen.library.releases has what agents are offered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from equus_protocol.roots import Root
from groundwork.one_by_one import OneByOne
from helen.assignments.schedule import CheckTable
from helen.files.restored import Restored
from helen.library.adopted_sets import AdoptedSets
from helen.library.agent_wheels import Uploads
from helen.library.keys_in_force import KeysInForce
from helen.library.lint_cache import Lint, Verdicts
from helen.library.linter import Problem, Verdict
from helen.library.published import Published
from helen.library.publisher import Publisher
from helen.library.pushes import Pushes
from helen.library.releases import Releases
from helen.library.ring_control import RingControl
from helen.library.set_builder import SetBuilder
from helen.library.shipped_lint import Shipped
from helen.library.staged import Staged
from helen.library.way_back import WayBack
from helen.rollout.rings import Candidate
from helen.rollout.rollout import AT_ONCE, USUAL_PLAN, Plan, Rollout
from helen.storage.database import Loaded, Store

RETRY_SECONDS = 5.0  # between two tries to write down how a ring ended
Returned = TypeVar("Returned")


class Library:
    """Keeps the check set of this server. `on_published()` is called once agents may be told.

    `clock`: unix seconds, `steady`: monotonic seconds. `private` sign sets here, if they are enough; agents take sets
    that `threshold` of `public` have signed. `fleet()` returns the agents that a ring may be made of, `aside` is where
    files of the folder go that another Helen's set replaces, `shipped` has verdicts that are known without asking.
    While `restored` is set nothing is published: `confirm` ends that.
    """

    log = Logger()

    def __init__(
        self,
        folder: Path,
        store: Store,
        lint: Lint,
        clock: Callable[[], float],
        steady: Callable[[], float],
        private: Iterable[Ed25519PrivateKey],
        public: Mapping[str, Ed25519PublicKey],
        on_published: Callable[[], None],
        *,
        threshold: int = 1,
        typed: bool = False,
        fleet: Callable[[], list[Candidate]] = list,
        aside: Path | None = None,
        shipped: Shipped | None = None,
        restored: Restored | None = None,
    ) -> None:
        self.folder = folder
        self.plan = USUAL_PLAN  # of pushes that name no rings
        self.folder_plan = AT_ONCE  # of changes of the folder
        self.uploads = Uploads()  # of an Equus that comes in several requests
        self._verdicts = verdicts = Verdicts(lint, store, steady, shipped or Shipped({}))
        self.releases = releases = Releases(store, clock, steady, verdicts.tables, on_published, fleet)
        self.way_back = way_back = WayBack(releases, store, clock)
        publisher = Publisher(releases, way_back, store, clock, steady)
        keys = KeysInForce(tuple(private), dict(public), threshold, typed)
        self.builder = builder = SetBuilder(folder, verdicts, releases, publisher, keys, restored)
        self._pushes = Pushes(builder, releases, publisher, way_back, lint, verdicts, clock)
        self._adopted = AdoptedSets(builder, releases, publisher, way_back, verdicts, clock, aside)
        self._rings = RingControl(releases, way_back, store, clock, steady)
        self._work = OneByOne()
        self._lookers: list[Deferred[None]] = []  # that fire when the next look has ended
        self._decide_at = 0.0

    def _in_turn(self, work: Callable[[], Coroutine[Any, Any, Returned]]) -> Deferred[Returned]:
        return self._work.run(work)

    # ---------------------------------------------------------------------------------------------- what is offered

    @property
    def published(self) -> Published | None:
        """Return the set that all agents run, but for the members of an open ring."""
        return self.releases.published

    @property
    def tables(self) -> dict[str, CheckTable]:
        """Return the tables of the published set's checks, by their names."""
        return self.published.tables if self.published is not None else {}

    @property
    def keys(self) -> KeysInForce:
        """Return the keys that sign sets here, and those that agents trust."""
        return self.builder.keys

    def offered(self, agent: str) -> Published | None:
        """Return the set that this agent should run; None while nothing is published yet."""
        return self.releases.offered(agent)

    def file(self, sha256: str) -> bytes | None:
        """Return a file that one of the last few sets names."""
        return self.releases.files.get(sha256)

    @property
    def problems(self) -> dict[str, tuple[Problem, ...]]:
        """Return what is wrong with the folder, by file name; "" for the folder itself."""
        return self.builder.findings.problems

    @property
    def staged(self) -> Staged | None:
        """Return the set that waits for signatures from elsewhere."""
        return self.builder.staged

    @property
    def waits(self) -> str | None:
        """Return the reason for which changes of the folder are not out yet."""
        return self.builder.waits

    @property
    def kept_old(self) -> frozenset[str]:
        """Return the files that are broken in the folder, and old in the set."""
        return self.builder.kept_old

    @property
    def restored(self) -> Restored | None:
        """Return the backup that this state came from, until an operator allows Helen to publish again."""
        return self.builder.restored

    # ---------------------------------------------------------------------------------------------- start and keys

    def load(self, loaded: Loaded) -> None:
        """Take up what was published before this start."""
        self._verdicts.load(loaded.kv)
        self.releases.load(loaded)
        self.builder.take_agent()

    def load_contents(self) -> Deferred[None]:
        """Read the files of what is offered from the store."""
        return self._in_turn(self.releases.load_contents)

    def take_keys(self, private: Iterable[Ed25519PrivateKey], root: Root) -> None:
        """Put other keys into force. `look` then has the set signed anew."""
        self.builder.take_keys(KeysInForce.of_root(private, root))

    def confirm(self, newest_held: int, forget: Callable[[], None]) -> Deferred[None]:
        """Publish from now on, though this state came from a backup; does nothing if it did not.

        `newest_held`: the newest version that an agent is known to hold, so the next one is above it. `forget` removes
        the mark of the restored state; it blocks.
        """
        return self._in_turn(lambda: self._pushes.confirm(newest_held, forget, self.folder_plan))

    # ---------------------------------------------------------------------------------------------- the folder

    def look(self) -> Deferred[None]:
        """Look at the folder and publish, or stage, what has changed. Never fails: `problems` has what is wrong."""
        done: Deferred[None] = Deferred()
        self._lookers.append(done)
        if len(self._lookers) == 1:  # else a look waits for its turn already: on a slow disk they don't pile up
            looked = self._in_turn(self._look)
            looked.addErrback(lambda failure: self.log.failure("the folder of checks", failure))
        return done

    async def _look(self) -> None:
        lookers, self._lookers = self._lookers, []
        try:
            await self.builder.follow(self.folder_plan)
        finally:
            for done in lookers:
                done.callback(None)

    # ---------------------------------------------------------------------------------------------- pushes

    def push(
        self,
        files: Mapping[str, bytes],
        tests: Mapping[str, bytes],
        author: str,
        plan: Plan | None = None,
        dry_run: bool = False,
        replace: bool = False,
        gone: Collection[str] = (),
    ) -> Deferred[dict[str, Verdict]]:
        """Judge these files, tests and all, put them into the folder, and publish it. Fires with their verdicts.

        `plan`: None for the usual one. `replace`: a rollout that is under way is taken back first. `gone`: files that
        leave the folder with it, tests/NAME.lua too. Fails with PushRefused, and then nothing has changed.
        """
        chosen = plan or self.plan
        return self._in_turn(lambda: self._pushes.push(files, tests, author, chosen, dry_run, replace, gone))

    async def check_signed(self, envelope: bytes, undo: bytes, plan: Plan | None = None) -> Staged:
        """Return what `accept` would publish. Raises PushRefused if it would not."""
        return await self._pushes.check_signed(envelope, undo, plan or self.plan)

    def accept(self, envelope: bytes, undo: bytes, author: str, plan: Plan | None = None) -> Deferred[int]:
        """Publish what was staged, signed elsewhere. Fires with the version; fails with PushRefused."""
        return self._in_turn(lambda: self._pushes.accept(envelope, undo, author, plan or self.plan))

    def offer_agent(
        self, version: str, wheels: Mapping[str, bytes], author: str, plan: Plan | None = None
    ) -> Deferred[None]:
        """Send an Equus out with the set; hosts whose policy allows it take it. Fails with PushRefused."""
        return self._in_turn(lambda: self._pushes.offer_agent(version, wheels, author, plan or self.plan))

    def undo(self, author: str) -> Deferred[int]:
        """Publish N+1: the files that were promoted before. Fires with its version; fails with PushRefused."""
        return self._in_turn(lambda: self._pushes.undo(author))

    def adopt(self, envelope: bytes, undo: bytes | None, contents: Mapping[str, bytes], by: str) -> Deferred[None]:
        """Adopt a set that another Helen has published; its signatures have been verified, its files are here.

        The folder becomes what the set is. Fails with PushRefused, LintFailed or StoreFailed.
        """
        return self._in_turn(lambda: self._adopted.adopt(envelope, undo, contents, by))

    # ---------------------------------------------------------------------------------------------- rollouts

    def pause(self, author: str, is_paused: bool) -> Deferred[Rollout]:
        """Stay in the open ring, or go on. Fails with PushRefused."""
        return self._in_turn(lambda: self._rings.pause(author, is_paused))

    def readmit(self, agent: str, author: str) -> Deferred[None]:
        """Listen again to an agent that was set aside in rollouts. Fails with NotSetAside if it was not."""
        return self._in_turn(lambda: self._rings.readmit(agent, author))

    def tick(self, now: float, here: Callable[[], Iterable[str]]) -> None:
        """Act if the open ring is over; called once a second or so. `now`: monotonic seconds.

        A decision that can't be written down is tried again. `here()` returns the connected agents that follow.
        """
        rollout = self.releases.rollout
        if self.restored is not None:  # an open ring of the backup stays open: agents may be long past it
            return
        if rollout is None:
            if self.waits is not None and now >= self._decide_at:
                self._decide_at = now + RETRY_SECONDS
                self.look()
            return
        if now < self._decide_at or (rollout.tick(frozenset(here()), now) is None and not rollout.asks_second):
            return
        self._decide_at = now + RETRY_SECONDS
        self._in_turn(self._decide).addErrback(self._rollout_stays)

    def _rollout_stays(self, failure: Failure) -> None:
        self.builder.findings.add_trouble(f"the rollout stays as it is: {failure.getErrorMessage()}")

    async def _decide(self) -> None:
        await self._rings.decide()
        self._decide_at = 0.0
        if self.releases.rollout is None:
            self.builder.went_back()
