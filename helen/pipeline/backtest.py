"""What would have been with other rules: the recorded results once more through the judgement that Helen herself uses.

Each run is done twice, with the rules as recorded and with those that are tried, so that the two differ by the rules
alone. Agents that depend on each other are judged together; all others are spread over Spark's tasks.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from attrs import evolve, fields, frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from helen.judged import Decision, Flapping, Result, Rule, Transition
from helen.pipeline.days import MICROS, date_of
from helen.pipeline.errors import PipelineError
from helen.pipeline.lake import Lake
from helen.pipeline.partials import moment
from helen.pipeline.schema import ASKED, ddl
from helen.pipeline.shown import Report
from helen.timeline import AgentRules, Said, Timeline, run
from helen.trials import HERSELF

WARM_UP = 86_400 * MICROS  # of results before the days that count, so that states are known when these begin
GROUPS = 64  # more than any machine of this size has cores; a timeline of its own for each costs little
RECORDED, TRIED = "recorded", "tried"
SAID = ("transition", "flap", "decision")  # what the state machine wrote
OUTPUTS = (*SAID, "notice")  # what is no input of a replay
RESULT = "result"
EVENTS = pa.schema(
    [("side", pa.string()), ("agent", pa.string()), ("check_id", pa.string()), ("kind", pa.string()),
     ("what", pa.string()), ("at", pa.float64()), ("delay", pa.float64())]
)  # fmt: skip
Overrides = Sequence[tuple[str, Mapping[str, Any]]]
Happened = tuple[str, str, str, str, float]  # agent, check_id, kind, what, when


def read_overrides(path: Path) -> Overrides:
    """A TOML file: a table for each pattern of check ids, with the fields of a rule that are to be different."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PipelineError(f"{path} can't be read: {error}") from error
    known = [each.name for each in fields(Rule)]
    for pattern, changed in document.items():
        if not isinstance(changed, dict) or not changed.keys() <= set(known):
            raise PipelineError(
                f'{path}: ["{pattern}"] takes {", ".join(known)}; one of what is there is none of these.'
            )
        for name, value in changed.items():
            if name != "depends" and (isinstance(value, bool) or not isinstance(value, int | float) or value < 0):
                raise PipelineError(f'{path}: {name} of ["{pattern}"] is a number, not {value!r}.')
    if not document:
        raise PipelineError(f'{path} changes nothing: write a table such as ["disk*"] with attempts = 5.')
    return [(pattern, _tuples(changed)) for pattern, changed in document.items()]


def changed(check_id: str, rule: Rule, overrides: Overrides) -> Rule:
    """The rule with what the patterns that fit say, the last one last."""
    for pattern, values in overrides:
        if fnmatchcase(check_id, pattern):
            rule = evolve(rule, **values)
    return rule


@frozen
class Task:
    """Runs in Spark's workers: rows sorted by group, Helen and `at` -> events of both sides."""

    begin: float
    overrides: Overrides

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: tuple[int, int] | None = None
        sides: dict[str, Replay] = {}
        for batch in batches:
            rows: list[dict[str, Any]] = []
            for row in batch.to_pylist():
                if (row["team"], row["helen"]) != held:
                    held = row["team"], row["helen"]
                    sides = {RECORDED: Replay(()), TRIED: Replay(self.overrides)}
                for side, replay in sides.items():
                    rows += [
                        {"side": side, **event} for event in replay.feed(row) if event["at"] >= self.begin
                    ]  # fmt: skip
            yield pa.RecordBatch.from_pylist(rows, schema=EVENTS)


class Replay:
    """One timeline, fed with rows in the order of `at`."""

    def __init__(self, overrides: Overrides) -> None:
        self.timeline = Timeline()
        self._overrides = overrides

    def feed(self, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The events that come of one row."""
        at, agent, check = row["received"].timestamp(), row["agent"], row["check_id"]
        if row["kind"] != RESULT:
            document = self._document(row["kind"], json.loads(row["document"]))
            return self._told(run(self.timeline.change(row["kind"], at, agent, check, document)))
        started = row["started"]
        ended = None if started is None else started.timestamp() + (row["took_ms"] or 0.0) / 1000
        given = Result(at, row["status"], ended, row["spool"], row["sequence"], row["reason"], row["code"], "")
        told = run(self._unruled(agent, check))
        return self._told(told + run(self.timeline.result(agent, check, given)))

    def _document(self, kind: str, document: dict[str, Any]) -> dict[str, Any]:
        if kind != "rule":
            return document
        checks = {
            check: changed(check, Rule.from_json(rule), self._overrides).to_json()
            for check, rule in document.get("checks", {}).items()
        }
        return {**document, "checks": checks}

    def _unruled(self, agent: str, check: str) -> Iterator[Said | None]:
        """A check that nobody assigned has the usual rule, which may be one to be changed as well."""
        rules = self.timeline.rules.get(agent, AgentRules())
        if check in rules.checks or not self._overrides:
            return
        rule = changed(check, Rule(), self._overrides)
        if rule != Rule():
            yield from self.timeline.set_rules(agent, evolve(rules, checks={**rules.checks, check: rule}))

    def _told(self, said: Sequence[Said]) -> list[dict[str, Any]]:
        found = []
        for each in said:
            event, what, delay = each.event, "", None
            if isinstance(event, Transition):
                what = "hard" if not event.now.attempt else "soft"
            elif isinstance(event, Flapping):
                what = "begun" if event.on else "ended"
            elif isinstance(event, Decision):
                what = f"{event.action} {event.what}"
                state = self.timeline.states.get((each.agent, each.check_id))
                if what == "notify problem" and state is not None:
                    delay = event.at - state.shown.since
            else:
                continue
            found.append({"agent": each.agent, "check_id": each.check_id, "kind": event.KIND, "what": what,
                          "at": event.at, "delay": delay})  # fmt: skip
        return found


def backtest(
    spark: SparkSession, lake: Lake, begin: int, end: int, overrides: Overrides
) -> list[dict[str, Any]]:  # fmt: skip
    """Events of both sides between two moments, in microseconds."""
    changes = lake.frame(spark, "changes").where(~F.col("kind").isin(*OUTPUTS) & (F.col("received") < moment(end)))
    names = lake.rows("series")
    teams = teams_of({row["agent"] for row in names}, _parents(changes))
    numbered = [(row["series"], row["agent"], row["check_id"], teams[row["agent"]]) for row in names]
    known = F.broadcast(spark.createDataFrame(numbered, "series int, agent string, check_id string, team int"))
    days = (date_of(begin - WARM_UP), date_of(end))
    results = lake.frame(spark, "results", lake.files("results", days)).where(
        (F.col("origin") != ASKED) & (F.col("received") >= moment(begin - WARM_UP)) & (F.col("received") < moment(end))
    )
    wanted = [
        "helen",
        "at",
        "series",
        "received",
        "started",
        "took_ms",
        "status",
        "spool",
        "sequence",
        "reason",
        "code",
    ]
    rows = results.select(*wanted, F.lit(RESULT).alias("kind"), F.lit(None).cast("string").alias("document"))
    everything = rows.join(known, "series").unionByName(
        _changes(spark, changes, known, teams), allowMissingColumns=True
    )
    ordered = everything.repartition("team").sortWithinPartitions("team", "helen", "at")
    task = Task(begin / MICROS, overrides)
    found: list[dict[str, Any]] = ordered.mapInArrow(task, ddl(EVENTS)).toArrow().to_pylist()
    return found


def teams_of(agents: Iterable[str], pairs: Iterable[tuple[str, str]]) -> dict[str, int]:
    """A number for each agent; those that depend on each other, however far round, have the same."""
    leader = {agent: agent for agent in agents}

    def top(agent: str) -> str:
        while leader.setdefault(agent, agent) != agent:
            leader[agent] = leader[leader[agent]]
            agent = leader[agent]
        return agent

    for one, other in pairs:
        leader[top(one)] = top(other)
    tops = sorted({top(agent) for agent in leader})
    numbers = {name: at % GROUPS for at, name in enumerate(tops)}
    return {agent: numbers[top(agent)] for agent in leader}


def written(lake: Lake, spark: SparkSession, begin: int, end: int) -> Counter[Happened]:
    """What Helen herself wrote between two moments, as often as she did."""
    names = {row["series"]: (row["agent"], row["check_id"]) for row in lake.rows("series")}
    told = lake.frame(spark, "changes").where(F.col("kind").isin(*SAID) & F.col("series").isNotNull())
    late = 3600 * MICROS  # a deadline is written some seconds after its own time
    told = told.where(F.col("received").between(moment(begin), moment(end + late)))
    found: Counter[Happened] = Counter()
    for row in told.select("series", "kind", "document").collect():
        document = json.loads(row.document)
        what = _what(row.kind, document)
        if what is not None and begin <= document["at"] * MICROS < end and names[row.series] != HERSELF:
            found[(*names[row.series], row.kind, what, round(document["at"], 3))] += 1
    return found


def compared(events: Iterable[Mapping[str, Any]], wrote: Counter[Happened]) -> str:
    """Whether the replay by the recorded rules is what was: a sentence for the report."""
    again = Counter(
        (event["agent"], event["check_id"], event["kind"], event["what"], round(event["at"], 3))
        for event in events if event["side"] == RECORDED
    )  # fmt: skip
    same = (again & wrote).total()
    if same == wrote.total() == again.total():
        return f"The replay by the recorded rules gave all {same} changes, flaps and decisions that Helen wrote."
    return (
        f"The replay by the recorded rules gave {same} of the {wrote.total()} changes, flaps and decisions that Helen"
        f" wrote, and {again.total() - same} others: states from before the first replayed day aren't known to it."
    )


def _what(kind: str, document: Mapping[str, Any]) -> str | None:
    """The word that an event of a replay has for it."""
    if kind == "transition":
        return "soft" if document["now"]["attempt"] else "hard"
    if kind == "flap":
        return "begun" if document["on"] else "ended"
    return f"{document['action']} {document['what']}" if "what" in document else None  # the end of an ack is no alert


def summary(events: Iterable[Mapping[str, Any]], begin: int, end: int, notes: Sequence[str] = ()) -> Report:
    """Both sides beside each other, for each check id and in all."""
    sides: dict[str, dict[str, list[Mapping[str, Any]]]] = defaultdict(lambda: {RECORDED: [], TRIED: []})
    for event in events:
        for name in (event["check_id"], "(all)"):
            sides[name][event["side"]].append(event)
    rows = []
    for name in sorted(sides, key=lambda name: (name == "(all)", name)):
        before, after = (_figures(sides[name][side]) for side in (RECORDED, TRIED))
        row: dict[str, Any] = {"check": name}
        for figure in before:
            row[figure], row[f"{figure}_tried"] = before[figure], after[figure]
        rows.append(row)
    columns = list(rows[-1]) if rows else ["check"]
    days = (end - begin) / MICROS / 86_400
    return Report(f"Back-test over {days:g} days", columns, rows, notes if rows else ["Nothing would have happened."])


def _figures(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    delays = [event["delay"] for event in events if event["delay"] is not None]
    return {
        "alerts": sum(event["what"].startswith("notify") and event["what"] != "notify recovery" for event in events),
        "recoveries": sum(event["what"] == "notify recovery" for event in events),
        "held": sum(event["what"].startswith("hold") for event in events),
        "flaps": sum(event["kind"] == "flap" and event["what"] == "begun" for event in events),
        "changes": sum(event["what"] == "hard" for event in events),
        "delay_s": round(median(delays), 1) if delays else None,
    }


def _parents(changes: DataFrame) -> list[tuple[str, str]]:
    """Who depends on whom, of all rules ever recorded."""
    pairs = set()
    for row in changes.where(F.col("kind") == "rule").select("document").collect():
        document = json.loads(row.document)
        for rule in document.get("checks", {}).values():
            for parent in rule.get("depends", ()):
                if "/" in parent and "agent" in document:
                    pairs.add((document["agent"], parent.partition("/")[0]))
    return sorted(pairs)


def _changes(spark: SparkSession, changes: DataFrame, known: DataFrame, teams: Mapping[str, int]) -> DataFrame:
    """Changes about one agent go to its team, all others to every team."""
    of_series = changes.where(F.col("series").isNotNull()).join(known, "series")
    about = F.coalesce(F.get_json_object("document", "$.agent"), F.lit(""))
    others = changes.where(F.col("series").isNull()).withColumn("about", about)
    numbered = F.broadcast(spark.createDataFrame(sorted(teams.items()), "about string, team int"))
    of_agents = others.join(numbered, "about").withColumn("agent", F.col("about"))
    each = F.broadcast(spark.createDataFrame([(team,) for team in sorted(set(teams.values()))], "team int"))
    of_all = others.join(numbered, "about", "left_anti").crossJoin(each)
    wanted = ["helen", "at", "received", "kind", "document", "team"]
    parts = [of_series.select(*wanted, "agent", "check_id"), of_agents.select(*wanted, "agent"), of_all.select(*wanted)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part, allowMissingColumns=True)
    return whole


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
