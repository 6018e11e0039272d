"""Brings each level of the rollups up to its source: `cascade` makes the buckets anew that new rows have touched.

A level notes in each entry of its log how far it has seen its source. Replaced rows leave the files that count in the
same entry, so anybody's sum is right; late rows of a large day are only added (adding.py), and so are those of a day
that the source has forgotten. A file of the level that can't be read is no reason to stop: its day is made anew as a
whole, as long as the source has it. A level of an older format is brought up once all of its rows count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import date

from attrs import frozen
from pyspark.sql import SparkSession

from helen.pipeline.lake.damaged_files import Damage, unreadable
from helen.pipeline.lake.delta_log import note_format
from helen.pipeline.lake.kept_days import kept_from
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import held, may_repeat
from helen.pipeline.lake.levels import Level, derived
from helen.pipeline.lake.log_entries import File, Kept
from helen.pipeline.rollup.adding import choose
from helen.pipeline.rollup.job import Made, make, stage
from helen.pipeline.rollup.unseen import is_unseen

Say = Callable[[str], None]


def cascade(
    spark: SparkSession, lake: Lake, levels: Iterable[Level] | None = None, say: Say = lambda line: None
) -> dict[str, int]:
    """Bring these levels, by default all, up to their sources. Returns the rows made: {"h1": 60, "d1": 12}.

    Files of a source that can't be read are left out, and named at the end. So are those of a level of an older format,
    which stays as it is until they are mended; the other levels go on. Raises LakeDamaged.
    """
    chosen, damage = derived(lake.levels) if levels is None else levels, Damage()
    for level in derived(lake.levels):
        make_live(spark, lake, level, damage, say)
    found = {level.name: _follow(spark, lake, level, damage, say) for level in chosen if _is_ready(lake, level)}
    damage.tell()
    return found


def make_live(spark: SparkSession, lake: Lake, level: Level, damage: Damage, say: Say = lambda line: None) -> None:
    """Take the rows that don't count out of a level's table of an older format.

    A day with files that can't be read stays as it is, and the table keeps its format until they are mended.
    """
    by_day: dict[date, list[File]] = defaultdict(list)
    with lake.turn:
        opened = lake.open(level.name)
        if opened is None or lake.is_live(level.name):
            return
        for file in lake.files(level.name):
            by_day[file.day or date.min].append(file)
    is_whole = True
    for day, files in sorted(by_day.items()):
        if may_repeat(held(lake, level.name, files)):
            say(f"{level.name} {day}: rows that don't count any more are taken out")
            done = damage.without(lake, level.name, files, lambda found: _put_together(spark, lake, level, found))
            is_whole = is_whole and done is not None
    if is_whole:
        with lake.turn:
            note_format(opened)


def _put_together(spark: SparkSession, lake: Lake, level: Level, files: Sequence[File]) -> int:
    """Replace the files of a day by the rows of them that count. Returns how many these are."""
    staged = stage(spark, lake, level.name, level.name, files)
    with lake.turn:
        unseen = any(is_unseen(lake, level, file) for file in files)
        return lake.publish(level.name, staged, {}, files, fresh=unseen)


def _is_ready(lake: Lake, level: Level) -> bool:
    """Return True if each row of a level and of the level that it follows counts."""
    return all(lake.is_live(each.name) for each in derived(lake.levels) if each.name in (level.name, level.source))


@frozen
class _Step:
    """Holds the work of a level for new files of its source: `near` ones share buckets with them, as `old` do.

    `newest` is the highest time that the source has. Both keep the days from `since` on: rows of days before are added.
    """

    spark: SparkSession
    lake: Lake
    level: Level
    source: str
    version: int
    fresh: Sequence[File]
    near: Sequence[File]
    old: Sequence[File]
    newest: int
    since: date

    def make(self, sound: Sequence[File], lost: Collection[date] = ()) -> Made:
        """Stage the level's rows from these files of its source; of days that are lost everything is made anew."""
        paths = {file.path for file in sound}
        new = [file for file in self.near if file.path in paths and (file in self.fresh or self._begins(file) in lost)]
        old = [file for file in self.kept_files() if file.day not in lost]
        partial = {self._begins(file) for file in self.near if file.path not in paths}
        adding = choose(self.level, self.fresh, self.newest, old, self.since, partial)
        return make(self.spark, self.lake, self.source, self.level.name, sound, new, self.version, old, adding)

    def make_sound(self, damage: Damage) -> Made:
        """Do it with all files of the source that can be read; the others are noted."""
        made = damage.without(self.lake, self.source, self.near, self.make)
        return self.make(self._sound()) if made is None else made

    def make_anew(self, damage: Damage, say: Say) -> tuple[Made, set[date]] | None:
        """Do it where files of the level itself can't be read: their days are made anew, and returned.

        None if the source can't be read there either; then both are noted, and nothing is done. A file of a day that is
        not kept is noted, and stays as it is: nothing of it is needed to add rows.
        """
        bad = self.bad_files()
        days, sound = {file.day for file in bad if file.day is not None}, self._sound()
        lost = {self._begins(file) for file in self.near if file not in sound}
        damage.note(self.lake, self.level.name, [file for file in self.old if file not in self.kept_files()])
        if days & lost:
            damage.note(self.lake, self.level.name, bad)
            return None
        for day in sorted(days):
            say(f"{self.level.name} {day} has a file that can't be read: the day is made anew")
        return self.make(sound, days), days

    def kept_files(self) -> list[File]:
        """Return the level's own files of days that are kept: rows of others are never made anew."""
        return [file for file in self.old if (file.day or date.min) >= self.since]

    def bad_files(self) -> list[File]:
        """Return those of them that can't be read."""
        return [file for file in self.kept_files() if unreadable(self.lake, self.level.name, file) is not None]

    def _sound(self) -> list[File]:
        return [file for file in self.near if unreadable(self.lake, self.source, file) is None]

    def _begins(self, file: File) -> date:
        """Return the day on which the bucket begins that a file of the source has a part in."""
        return self.level.days_near(file.day or date.min)[0]

    def publish(self, made: Made, lost: set[date]) -> int:
        """Publish the new rows in place of those of the old files. Returns the rows made."""
        with self.lake.turn:
            return self._publish(made, lost)

    def _publish(self, made: Made, lost: set[date]) -> int:
        by_path = {str(self.lake.path(self.level.name) / file.path): file for file in self.old}
        replaced = {of: by_path[of] for _, of in made.kept}
        replaced |= {path: file for path, file in by_path.items() if file.day in lost}
        rest = [(path, by_path[of]) for path, of in made.kept if path is not None]
        kept = [Kept.of(path, file, is_unseen(self.lake, self.level, file)) for path, file in rest]
        transactions = {f"cascade:{self.source}": self.version}
        return self.lake.publish(
            self.level.name, made.paths, transactions, [*replaced.values()], kept=kept, adding=made.adding
        )


def _follow(spark: SparkSession, lake: Lake, level: Level, damage: Damage, say: Say) -> int:
    assert level.source is not None
    with lake.turn:
        done, files = lake.done(level.name, f"cascade:{level.source}"), lake.files(level.source)
        # Of a day that the source has forgotten in part nothing can be made anew. Where the level itself has forgotten
        # it, the levels that follow have it already.
        since = max(kept_from(lake, level.source), kept_from(lake, level.name))
    fresh = [file for file in files if file.fresh and file.version + 1 > done]
    fresh = [file for file in fresh if file.adds or level.days_near(file.day or date.min)[0] >= since]
    if not fresh:
        return 0
    days = {near for file in fresh if file.day is not None for near in level.days_near(file.day)}
    begins = {level.days_near(day)[0] for day in days}
    with lake.turn:
        old = [file for file in lake.files(level.name) if file.day in begins]
    version, near = max(file.version for file in fresh) + 1, [file for file in files if file.day in days]
    step = _Step(spark, lake, level, level.source, version, fresh, near, old, _newest(lake, level.source, files), since)
    try:
        return step.publish(step.make_sound(damage), set())
    except Exception:
        if not step.bad_files():
            raise
    anew = step.make_anew(damage, say)
    return 0 if anew is None else step.publish(*anew)


def _newest(lake: Lake, table: str, files: Sequence[File]) -> int:
    """Return the highest time in these files of a rollup, microseconds since 1970."""
    last = max(file.day or date.min for file in files)
    return max(file.end for file in held(lake, table, [file for file in files if (file.day or date.min) == last]))
