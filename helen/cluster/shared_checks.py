"""Shares the set of checks that agents run between all Helens: the newest counts, at whichever it was pushed.

    {"manifest": base64 of the signed envelope, "undo": the same or null, "by": the Helen that published it}

Files do not travel with it: a Helen fetches those that it lacks by their hashes, from the publisher or from any other,
and accepts what fits the hash. Versions of manifests only rise, and agents refuse older ones: a set with a version that
some of our agents are past already is released anew, by a Helen that can sign.

A set counts only if its signatures are good by the keys in force: no Helen publishes or adopts it otherwise. Helens
that are new at one moment publish their sets before they hear which keys the network uses. Then the publisher of the
set that counts signs it anew. If it doesn't for GRACE seconds, the Helens that hold the set do, each at a moment of
its own: all at once they would make as many sets. After them Helens that can't even verify it replace it by their own
set, and at once where there was a push since. A set that has expired is replaced in the same way: no Helen is left
that could have signed it in time.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger

from equus_protocol import manifest
from equus_protocol.manifest import FileEntry, ManifestDocument, ManifestRefused
from groundwork.counts import count
from helen.cluster.shared_part import NotYet
from helen.library.library import Library
from helen.library.linter import LintFailed
from helen.library.published import Published, PushRefused, all_files
from helen.storage.database import StoreFailed

GRACE = 120.0  # seconds in which the publisher of a set may sign it anew: a restart takes less
TURNS = 60.0  # seconds after it over which the Helens that hold the set are spread: one signs, the others hear of it
LOST = 240.0  # seconds after which Helens that can't take it replace it: all that hold it have had their turn by then
AT_ONCE = 16  # files that are asked for together: 16 MiB at most on their way to us

Fetch = Callable[[str, str], "Deferred[bytes | None]"]


class ChecksPart:
    """Publishes and adopts sets. `fetch(identity, sha256)` asks another Helen for a file.

    `others()` returns the identities of those that live; `keys()` the version of the network's signing keys, if they
    are in force here, None otherwise. `again(seconds)` has `wanted` called once more then.
    """

    log = Logger()
    names = ("checks",)
    in_memory = False

    def __init__(
        self, library: Library, identity: str, wall: Callable[[], float], fetch: Fetch,
        others: Callable[[], Iterable[str]], keys: Callable[[], int | None], seconds: Callable[[], float],
        again: Callable[[float], None],
    ) -> None:  # fmt: skip
        self._library, self._identity, self._wall = library, identity, wall
        self._fetch, self._others, self._keys, self._seconds, self._again = fetch, others, keys, seconds, again
        self._waits: tuple[tuple[str, int | None], float, Any] = (
            ("", None),
            0.0,
            None,
        )  # set and keys, since when (steady), what was published then

    def wanted(self, name: str, value: Any) -> Any:
        """Return our set if it is another one than the network's, and is signed by the keys in force."""
        published = self._library.published
        if published is None:
            return None
        if not self._library.keys.have_signed(published.envelope):
            is_ours = value is None or value["by"] == self._identity
            left = 0.0 if is_ours else self._turn(published.digest) - self._waited(published.digest)
            if left <= 0.0:
                self._library.look()  # signs it anew, if the keys are here; the new set is published then
            else:
                self._again(left)
            return None
        if value is not None and digest_of(value) == published.digest:
            return None
        undo = self._library.releases.undo_envelope
        return {
            "manifest": base64.b64encode(published.envelope).decode(),
            "undo": None if undo is None else base64.b64encode(undo).decode(),
            "by": self._identity,
        }

    async def adopt(self, name: str, value: Any) -> None:
        """Fetch the files of the network's set and release it here. Raises NotYet if that can't be done."""
        published = self._library.published
        if published is not None and digest_of(value) == published.digest:
            return
        envelope = base64.b64decode(value["manifest"])
        undo = None if value["undo"] is None else base64.b64decode(value["undo"])
        if self._is_given_up(envelope, digest_of(value)) and await self._have_better(envelope):
            return  # ours is published instead
        documents = [self._verified(each, value["by"]) for each in (envelope, undo) if each is not None]
        contents = await self._gather(documents, value["by"])
        try:
            await self._library.adopt(envelope, undo, contents, value["by"])
        except (PushRefused, LintFailed, StoreFailed) as error:
            raise NotYet(f"the checks of {value['by']} are not in force here: {error}") from error

    def _is_given_up(self, envelope: bytes, digest: str) -> bool:
        """Return True if the network's set is void by the network's keys, and no Helen will sign it anew."""
        if self._keys() is None or not self._is_void(envelope):
            return False
        waited = self._waited(digest)
        was_pushed = self._waits[2] not in (None, _pushed(self._library.published))
        return waited >= LOST or was_pushed

    def _turn(self, digest: str) -> float:
        """Return the seconds after which this Helen signs a set in its publisher's place, if no other has.

        They come from a hash: each Helen has its own view of which others live, so that two might count themselves
        first.
        """
        lot = hashlib.sha256(f"{self._identity} {digest}".encode()).digest()
        return GRACE + TURNS * int.from_bytes(lot[:4]) / 2**32

    def _waited(self, digest: str) -> float:
        """Return the seconds since this set has been known to be void by these keys."""
        about = digest, self._keys()
        if self._waits[0] != about:
            self._waits = about, self._seconds(), _pushed(self._library.published)
        return self._seconds() - self._waits[1]

    async def _have_better(self, envelope: bytes) -> bool:
        """Return True if the set published here can be adopted by all.

        A set without files is no better than one with.
        """
        published = self._library.published
        if published is None or self._is_void(published.envelope):
            await self._library.look()
            published = self._library.published
        if published is None or self._is_void(published.envelope):
            return False
        return bool(published.files) or not _files_of(envelope)

    def _is_void(self, envelope: bytes) -> bool:
        """Return True if no Helen can adopt the set.

        One that is signed but unreadable is of a newer Helen, and is not void.
        """
        try:
            self._verify(envelope)
        except ManifestRefused as refused:
            return refused.reason == "expired" or not self._library.keys.have_signed(envelope)
        return False

    def _verify(self, envelope: bytes) -> ManifestDocument:
        keys = self._library.keys
        return manifest.verify(envelope, keys.public, self._wall(), threshold=keys.threshold, typed=keys.typed)

    def _verified(self, envelope: bytes, by: str) -> ManifestDocument:
        try:
            return self._verify(envelope)
        except ManifestRefused as refused:
            hint = ""
            if refused.reason == "expired":
                hint = (
                    f". {by}, which published it, signs it anew once it is back, or waits for `helen push --key` there"
                )
            elif not self._library.keys.have_signed(envelope):
                hint = f". {by}, which published it, signs it anew if it is up"
            hint = hint and f"{hint}; `helen push` here replaces it"
            raise NotYet(f"the set of checks of the network is refused: {refused}{hint}") from refused

    async def _gather(self, documents: list[ManifestDocument], by: str) -> dict[str, bytes]:
        """Return all files by hash: those that are here, and the others from Helens that have them."""
        entries = {entry.sha256: entry for each in documents for entry in all_files(each).values()}
        contents: dict[str, bytes] = {}
        missing: list[FileEntry] = []
        for sha256, entry in entries.items():
            content = await self._library.releases.files.find(sha256)
            if content is None:
                missing.append(entry)
            else:
                contents[sha256] = content
        for first in range(0, len(missing), AT_ONCE):
            some = missing[first : first + AT_ONCE]
            found = await gatherResults([self._fetch_one(entry, by) for entry in some], consumeErrors=True)
            contents |= {entry.sha256: content for entry, content in zip(some, found, strict=True)}
        if missing:
            self.log.info("{files} of checks fetched from other Helens", files=count(len(missing), "file"))
        return contents

    def _fetch_one(self, entry: FileEntry, by: str) -> Deferred[bytes]:
        return Deferred.fromCoroutine(self._fetch_from_any(entry, by))

    async def _fetch_from_any(self, entry: FileEntry, by: str) -> bytes:
        for identity in dict.fromkeys([by, *self._others()]):
            content = await self._fetch(identity, entry.sha256) if identity != self._identity else None
            if content is None:
                continue
            if len(content) == entry.size and hashlib.sha256(content).hexdigest() == entry.sha256:
                return content
            self.log.error("{identity} gave another file than {sha256}", identity=identity, sha256=entry.sha256)
        raise NotYet(f"no Helen in reach has the file {entry.sha256} of the newest set of checks")


def _pushed(published: Published | None) -> Any:
    """Return what only a push changes: the same files have another digest when they are signed anew."""
    return None if published is None else (published.files, published.document.agent)


def _files_of(envelope: bytes) -> bool:
    try:
        return bool(manifest.read_unverified(envelope).files)
    except ManifestRefused:
        return False


def digest_of(value: Any) -> str:
    """Return the digest of the manifest in a document; if it is none, a digest that no published set has."""
    try:
        return manifest.read_unverified(base64.b64decode(value["manifest"])).digest
    except ManifestRefused:
        return hashlib.sha256(value["manifest"].encode()).hexdigest()
