"""Tell how a set of a folder stands against the newest version at its source. Blocks on files and on git."""

from __future__ import annotations

from attrs import frozen

from helen.sets.check_set import CheckSet, judge_api, read_set, version_order
from helen.sets.pins import Pin
from helen.sets.refused import SetRefused
from helen.sets.sources import Source, read_source

MOST_TAGS = 20  # that are looked at; each is a copy of the repository


@frozen
class Standing:
    """Tells the newest version of a set, None if it can't be looked at, and in words what that means."""

    newest: str | None
    words: str
    is_current: bool = False


def standing_of(name: str, pin: Pin) -> Standing:
    """Return how a set stands; a source that can't be read is said in words."""
    try:
        source, found = _newest(pin)
        if found.name != name:
            return Standing(None, f"{source} holds another set now, {found.name}")
        ours = version_order(pin.version)
        if found.order == ours and found.digest != pin.digest:
            return Standing(found.version, "its bytes were changed there: ask its author")
        if found.order < ours:
            return Standing(found.version, f"only {found.version} is there, older than yours")
        if found.order == ours:
            return Standing(found.version, "current", True)
        judge_api(found)
    except SetRefused as error:
        return Standing(None, str(error))
    words = f"`helen checks add {source}`"
    return Standing(found.version, words if found.key == pin.key else f"signed by another key, {found.key_id}: {words}")


def _newest(pin: Pin) -> tuple[Source, CheckSet]:
    """Return the newest version and where it is. Raises SetRefused.

    A tag whose set has another version, such as the year of a release, counts for nothing.
    """
    source = read_source(pin.source)
    tags = source.tags_above(pin.version)
    for tag in tags[:MOST_TAGS]:
        files = tag.files()
        if tag.holds_its_version(files):
            return tag, read_set(files)
    if len(tags) > MOST_TAGS:
        raise SetRefused(
            f"the {MOST_TAGS} highest tags have sets of other versions: ask its author which one is newest"
        )
    return source, read_set(source.files())
