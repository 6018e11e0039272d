"""Carries out what operators ask of the check set: pushes, signatures from elsewhere, a new Equus, and undoing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from twisted.internet.threads import deferToThread

from equus_protocol import manifest, pieces
from helen.library import check_folder, push_checks
from helen.library.lint_cache import Lint, Verdicts
from helen.library.linter import LintFailed, Verdict
from helen.library.published import PushRefused, Signed
from helen.library.publisher import RENEWAL, Publisher
from helen.library.push_checks import in_tests_folder
from helen.library.releases import Releases
from helen.library.set_builder import SetBuilder
from helen.library.staged import Staged
from helen.library.way_back import WayBack
from helen.rollout.rollout import AT_ONCE, Plan
from helen.storage.database import StoreFailed


class Pushes:
    """Changes the folder or the set on behalf of an operator; while a rollout is under way pushes are refused.

    The lock of helen.library.library keeps its coroutines from overlapping. `clock`: unix seconds.
    """

    def __init__(
        self, builder: SetBuilder, releases: Releases, publisher: Publisher, way_back: WayBack, lint: Lint,
        verdicts: Verdicts, clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self._builder = builder
        self._releases = releases
        self._publisher = publisher
        self._way_back = way_back
        self._lint = lint
        self._verdicts = verdicts
        self._clock = clock

    # ---------------------------------------------------------------------------------------------- files

    async def push(
        self, files: Mapping[str, bytes], tests: Mapping[str, bytes], author: str, plan: Plan, dry_run: bool,
        replace: bool, gone: Collection[str],
    ) -> dict[str, Verdict]:  # fmt: skip
        """Judge these files, put them into the folder, and publish it. Raises PushRefused; then nothing has changed.

        `gone`: files that leave the folder, tests/NAME.lua too.
        """
        for named in (files, tests, dict.fromkeys((name.removeprefix("tests/") for name in gone), b"")):
            push_checks.check_names(named)
        is_said_again = self._is_under_way(files) and not gone
        self._refuse_now(dry_run, replace or is_said_again)
        judged = await self._judge(files, tests)
        # After what is wrong with the files: agents may come by themselves, faults don't go
        await self._builder.check_rings(plan)
        if dry_run or is_said_again:
            return judged
        if replace and self._releases.rollout is not None:
            await self._go_back(author)
        await self._write({**files, **in_tests_folder(tests)}, gone)
        await self._builder.refresh(author, plan, {*files, *gone})
        return judged

    def _is_under_way(self, files: Mapping[str, bytes]) -> bool:
        """Return True if just these files are on their way: a task that was handed out twice is no second push."""
        canary = self._releases.canary
        return canary is not None and all(canary.files.get(n) == manifest.entry(text) for n, text in files.items())

    async def _judge(self, files: Mapping[str, bytes], tests: Mapping[str, bytes]) -> dict[str, Verdict]:
        try:
            return await push_checks.judge_push(self._builder.folder, self._lint, self._verdicts, files, tests)
        except (LintFailed, OSError) as error:
            raise PushRefused(str(error)) from error

    async def _write(self, contents: dict[str, bytes], gone: Collection[str]) -> None:
        folder = self._builder.folder
        try:
            await deferToThread(check_folder.put, folder, contents)
            await deferToThread(check_folder.take_away, folder, gone)
        except OSError as error:
            raise PushRefused(f"the folder {folder} can't be written: {error.strerror}") from error

    # ---------------------------------------------------------------------------------------------- refusals

    def _refuse_now(self, dry_run: bool, is_beside_a_rollout: bool) -> None:
        """Raise PushRefused for a push that may not be made now. A dry run shows what a restored Helen would do."""
        if not dry_run:
            self._refuse_what_was_restored()
        if not is_beside_a_rollout and self._builder.restored is None:
            self._refuse_a_second()

    def _refuse_what_was_restored(self) -> None:
        if self._builder.restored is not None:
            raise PushRefused(self._builder.restored.sentence)

    def _refuse_a_second(self) -> None:
        self._refuse_what_was_restored()
        rollout = self._releases.rollout
        if rollout is not None:
            raise PushRefused(
                f"version {rollout.version} is on its way, {rollout.place}: wait for it (`helen rollout watch`), take"
                " it back (`helen rollout undo`), or replace it (`helen push --replace`)"
            )

    async def confirm(self, newest_held: int, forget: Callable[[], None], plan: Plan) -> None:
        """Publish from now on, though this state came from a backup; does nothing if it did not.

        `newest_held`: the newest version that an agent is known to hold. `forget` removes the mark; it blocks.
        """
        if self._builder.restored is None:
            return
        await deferToThread(forget)
        self._builder.follow_anew()
        self._releases.outrun(newest_held)
        await self._builder.follow(plan)

    # ---------------------------------------------------------------------------------------------- signatures

    async def check_signed(self, envelope: bytes, undo: bytes, plan: Plan) -> Staged:
        """Return what `accept` would publish. Raises PushRefused if it would not."""
        self._refuse_a_second()
        await self._builder.check_rings(plan)
        staged, keys = self._builder.staged, self._builder.keys
        if staged is None:
            raise PushRefused("nothing is staged: change the folder of checks first")
        staged.check_signatures(envelope, undo, keys.public, keys.threshold, self._clock(), keys.typed)
        return staged

    async def accept(self, envelope: bytes, undo: bytes, author: str, plan: Plan) -> int:
        """Publish what was staged, signed elsewhere, and return its version. Raises PushRefused."""
        staged = await self.check_signed(envelope, undo, plan)
        signed = Signed.read(envelope), Signed.read(undo)
        self._releases.files.keep(staged.contents)
        if staged.is_renewal_of(self._releases.published):
            author, plan = RENEWAL, AT_ONCE
        self._releases.refused = staged.refused
        version = await self._publisher.publish(*signed, author, plan)
        self._builder.staged = None
        return version

    # ---------------------------------------------------------------------------------------------- Equus, the way back

    async def offer_agent(self, version: str, wheels: Mapping[str, bytes], author: str, plan: Plan) -> None:
        """Send an Equus out with the set. Raises PushRefused; then the one before stays."""
        self._refuse_a_second()
        builder, split = self._builder, pieces.split(wheels)
        entries = {name: manifest.entry(content) for name, content in split.items()}
        before = builder.agent, builder.wheels
        named = {name: {"sha256": entry.sha256, "size": entry.size} for name, entry in entries.items()}
        builder.agent = {"version": version, "files": named}
        builder.wheels = {entries[name].sha256: content for name, content in split.items()}
        try:
            await builder.refresh(author, plan, ())
        except (PushRefused, StoreFailed):
            builder.agent, builder.wheels = before
            raise

    async def undo(self, author: str) -> int:
        """Publish N+1, the files that were promoted before, and return its version. Raises PushRefused."""
        self._refuse_what_was_restored()
        return await self._go_back(author)

    async def _go_back(self, author: str) -> int:
        version = await self._way_back.go(author)
        self._builder.went_back()
        return version
