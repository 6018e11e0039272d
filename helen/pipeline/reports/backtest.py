"""Tries other rules on the past: runs the recorded results once more through the state machine that Helen uses.

Each run is done twice, with the rules as recorded and with those that are tried, so that the two differ by the rules
alone. Agents that depend on each other are judged together; all others are spread over Spark's tasks.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pyarrow as pa
from attrs import evolve, fields, frozen
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import MICROS, date_of
from helen.pipeline.lake.schema import ASKED, ddl
from helen.pipeline.rollup.frames import moment
from helen.pipeline.worker_memory import GivingBack
from helen.states.agent_rules import AgentRules
from helen.states.events import Decision, Flapping, Transition
from helen.states.fleet_states import CheckEvent, run
from helen.states.fleet_timeline import Timeline
from helen.states.inputs import Result
from helen.states.model import Rule

WARM_UP = 86_400 * MICROS  # of results before the days that count, so that states are known when these begin
GROUPS = 64  # more than any machine of this size has cores; a timeline of its own for each costs little
RECORDED, TRIED = "recorded", "tried"
STATE_KINDS = ("transition", "flap", "decision")  # what the state machine wrote
OUTPUTS = (*STATE_KINDS, "notice")  # no inputs of a replay
RESULT = "result"
EVENTS = pa.schema(
    [("side", pa.string()), ("agent", pa.string()), ("check_id", pa.string()), ("kind", pa.string()),
     ("what", pa.string()), ("at", pa.float64()), ("delay", pa.float64())]
)  # fmt: skip
PAIRS = pa.schema([("agent", pa.string()), ("parent", pa.string())])
Overrides = Sequence[tuple[str, Mapping[str, Any]]]


def read_overrides(path: Path) -> Overrides:
    """Read a TOML file: a table for each pattern of check ids, with the fields of a rule that are to be different.

    Raises PipelineError if it can't be read, or holds anything else.
    """
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PipelineError(f"{path} can't be read: {error}") from error
    known = [each.name for each in fields(Rule)]
    for pattern, changed in document.items():
        if not isinstance(changed, dict) or not changed.keys() <= set(known):
            raise PipelineError(f'{path}: ["{pattern}"] takes {", ".join(known)}; and no other field.')
        for name, value in changed.items():
            if name != "depends" and (isinstance(value, bool) or not isinstance(value, int | float) or value < 0):
                raise PipelineError(f'{path}: {name} of ["{pattern}"] is a number, not {value!r}.')
    if not document:
        raise PipelineError(f'{path} changes nothing: write a table such as ["disk*"] with attempts = 5.')
    return [(pattern, _tuples(changed)) for pattern, changed in document.items()]


def changed(check_id: str, rule: Rule, overrides: Overrides) -> Rule:
    """Return the rule with the fields of all patterns that fit, the last one last."""
    for pattern, values in overrides:
        if fnmatchcase(check_id, pattern):
            rule = evolve(rule, **values)
    return rule


@frozen
class Task:
    """Turns rows sorted by group, Helen and `at` into events of both sides, in Spark's workers."""

    begin: float
    overrides: Overrides

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: tuple[int, int] | None = None
        sides: dict[str, Replay] = {}
        for batch in batches:
            rows: list[dict[str, Any]] = []
            for row in batch.to_pylist():
                if (row["agent_group"], row["helen"]) != held:
                    held = row["agent_group"], row["helen"]
                    sides = {RECORDED: Replay(()), TRIED: Replay(self.overrides)}
                for side, replay in sides.items():
                    rows += [
                        {"side": side, **event} for event in replay.feed(row) if event["at"] >= self.begin
                    ]  # fmt: skip
            yield pa.RecordBatch.from_pylist(rows, schema=EVENTS)


class Replay:
    """Runs one timeline over rows in the order of `at`."""

    def __init__(self, overrides: Overrides) -> None:
        self.timeline = Timeline()
        self._overrides = overrides

    def feed(self, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the events that come of one row."""
        at, agent, check = row["received"].timestamp(), row["agent"], row["check_id"]
        if row["kind"] != RESULT:
            document = self._document(row["kind"], json.loads(row["document"]))
            return self._events_of(run(self.timeline.change(row["kind"], at, agent, check, document)))
        started = row["started"]
        ended = None if started is None else started.timestamp() + (row["took_ms"] or 0.0) / 1000
        given = Result(at, row["status"], ended, row["spool"], row["sequence"], row["reason"], row["code"], "")
        events = run(self._assign_rule(agent, check))
        return self._events_of(events + run(self.timeline.result(agent, check, given)))

    def _document(self, kind: str, document: dict[str, Any]) -> dict[str, Any]:
        if kind != "rule":
            return document
        checks = {
            check: changed(check, Rule.from_json(rule), self._overrides).to_json()
            for check, rule in document.get("checks", {}).items()
        }
        return {**document, "checks": checks}

    def _assign_rule(self, agent: str, check: str) -> Iterator[CheckEvent | None]:
        """Give a check without an assignment its rule: the usual one, which may be one to be changed as well."""
        rules = self.timeline.rules.get(agent, AgentRules())
        if check in rules.checks or not self._overrides:
            return
        rule = changed(check, Rule(), self._overrides)
        if rule != Rule():
            yield from self.timeline.set_rules(agent, evolve(rules, checks={**rules.checks, check: rule}))

    def _events_of(self, events: Sequence[CheckEvent]) -> list[dict[str, Any]]:
        found = []
        for each in events:
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


def backtest(spark: SparkSession, lake: Lake, begin: int, end: int, overrides: Overrides) -> DataFrame:
    """Return events of both sides between two moments, in microseconds since 1970.

    They are as many as there were changes, so Spark keeps them on its disks: call `unpersist` behind the last look.
    """
    changes = lake.frame(spark, "changes").where(~F.col("kind").isin(*OUTPUTS) & (F.col("received") < moment(end)))
    names = lake.rows("series")
    groups = groups_of({row["agent"] for row in names}, _parents(changes))
    numbered = [(row["series"], row["agent"], row["check_id"], groups[row["agent"]]) for row in names]
    known = F.broadcast(spark.createDataFrame(numbered, "series int, agent string, check_id string, agent_group int"))
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
        _changes(spark, changes, known, groups), allowMissingColumns=True
    )
    ordered = everything.repartition("agent_group").sortWithinPartitions("agent_group", "helen", "at")
    task = Task(begin / MICROS, overrides)
    return ordered.mapInArrow(GivingBack(task), ddl(EVENTS)).persist(StorageLevel.DISK_ONLY)


def groups_of(agents: Iterable[str], pairs: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return a number for each agent; agents that depend on each other, however far round, have the same."""
    leader = {agent: agent for agent in agents}

    def top(agent: str) -> str:
        """Return the agent that stands for the group of another one."""
        while leader.setdefault(agent, agent) != agent:
            leader[agent] = leader[leader[agent]]
            agent = leader[agent]
        return agent

    for one, other in pairs:
        leader[top(one)] = top(other)
    tops = sorted({top(agent) for agent in leader})
    numbers = {name: at % GROUPS for at, name in enumerate(tops)}
    return {agent: numbers[top(agent)] for agent in leader}


def _parents(changes: DataFrame) -> list[tuple[str, str]]:
    """Return the pairs of agents of which the first depends on the second, by all rules ever recorded, each once."""
    rules = changes.where(F.col("kind") == "rule").select("document")
    pairs = rules.mapInArrow(GivingBack(pairs_of_rules), ddl(PAIRS)).distinct()
    return sorted((row["agent"], row["parent"]) for row in pairs.collect())


def pairs_of_rules(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the agents of rules with those that their checks depend on, each pair once for each batch."""
    for batch in batches:
        pairs = {
            (document["agent"], parent.partition("/")[0])
            for document in map(json.loads, batch.column(0).to_pylist())
            if "agent" in document
            for rule in document.get("checks", {}).values()
            for parent in rule.get("depends", ())
            if "/" in parent
        }
        rows = [{"agent": agent, "parent": parent} for agent, parent in sorted(pairs)]
        yield pa.RecordBatch.from_pylist(rows, schema=PAIRS)


def _changes(spark: SparkSession, changes: DataFrame, known: DataFrame, groups: Mapping[str, int]) -> DataFrame:
    """Return the changes by group: those about one agent for its group, all others for every group."""
    of_series = changes.where(F.col("series").isNotNull()).join(known, "series")
    about = F.coalesce(F.get_json_object("document", "$.agent"), F.lit(""))
    others = changes.where(F.col("series").isNull()).withColumn("about", about)
    numbered = F.broadcast(spark.createDataFrame(sorted(groups.items()), "about string, agent_group int"))
    of_agents = others.join(numbered, "about").withColumn("agent", F.col("about"))
    each = F.broadcast(
        spark.createDataFrame([(agent_group,) for agent_group in sorted(set(groups.values()))], "agent_group int")
    )
    of_all = others.join(numbered, "about", "left_anti").crossJoin(each)
    wanted = ["helen", "at", "received", "kind", "document", "agent_group"]
    parts = [of_series.select(*wanted, "agent", "check_id"), of_agents.select(*wanted, "agent"), of_all.select(*wanted)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part, allowMissingColumns=True)
    return whole


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
