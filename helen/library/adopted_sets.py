"""Takes over a check set that another Helen has published: the folder, and what agents are offered, become that set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from equus_protocol import manifest
from equus_protocol.manifest import ManifestDocument
from helen.library import check_folder
from helen.library.lint_cache import Verdicts
from helen.library.published import PushRefused, Signed
from helen.library.publisher import Publisher
from helen.library.releases import Releases
from helen.library.set_builder import SetBuilder
from helen.library.way_back import WayBack
from helen.library.withheld_files import Refusal, refuse
from helen.rollout.rollout import AT_ONCE


class AdoptedSets:
    """Brings this server in line with another one. `aside` is where files go that the other's set replaces.

    The lock of helen.library.library keeps its coroutines from overlapping. `clock`: unix seconds.
    """

    log = Logger()

    def __init__(
        self, builder: SetBuilder, releases: Releases, publisher: Publisher, way_back: WayBack, verdicts: Verdicts,
        clock: Callable[[], float], aside: Path | None,
    ) -> None:  # fmt: skip
        self._builder = builder
        self._releases = releases
        self._publisher = publisher
        self._way_back = way_back
        self._verdicts = verdicts
        self._clock = clock
        self._aside = aside

    async def adopt(self, envelope: bytes, undo: bytes | None, contents: Mapping[str, bytes], by: str) -> None:
        """Adopt a set whose signatures have been verified; `contents`: its files by hash, `by`: the other Helen.

        Raises PushRefused, LintFailed or StoreFailed.
        """
        new, builder = Signed.read(envelope), self._builder
        document = new.document
        files = {name: contents[entry.sha256] for name, entry in document.files.items()}
        await self._verdicts.judge(files, document.files, [document.files, *builder.served()])
        self._releases.files.keep(contents)
        left = await self._become(files, document, by)
        builder.agent, builder.wheels, builder.staged = document.agent, {}, None
        author = f"the network, by {by}"
        if self._releases.can_follow(new):
            await self._publisher.adopt(new, None if undo is None else Signed.read(undo), author, left)
        else:
            await self._number_anew(document, contents, author)

    async def _number_anew(self, document: ManifestDocument, contents: Mapping[str, bytes], author: str) -> None:
        """Release the files of a set whose version is too old for agents here. Raises PushRefused without keys."""
        if not self._builder.keys.private:
            self._builder.stage(dict(document.files), dict(contents), ())
            raise PushRefused("agents here hold a newer version: sign it anew, with `helen push --key FILE`")
        if self._releases.rollout is not None:
            await self._way_back.go(author)
        await self._builder.release(dict(document.files), author, AT_ONCE)

    async def _become(self, files: Mapping[str, bytes], document: ManifestDocument, by: str) -> Refusal | None:
        """Replace the folder by another server's set; the old files go to `aside`.

        Returns a Refusal of what the folder holds instead, if that failed.
        """
        folder = self._builder.folder
        try:
            await deferToThread(check_folder.become, folder, files, self._aside)
        except OSError as error:
            self.log.error("{folder} stays as it is: {error}", folder=folder, error=error)
        try:
            reading = await deferToThread(check_folder.read, folder)
        except OSError:
            return None
        self._builder.have_seen(reading)
        found = {name: manifest.entry(content) for name, content in reading.files.items()}
        return refuse(document.version, self._clock(), f"{by} has published other files", found, document.files)
