"""Tries other rules on the past: runs the recorded results once more through the state machine that Helen uses.

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

from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import MICROS, date_of
from helen.pipeline.lake.schema import ASKED, ddl
from helen.pipeline.reports.report_formats import Report
from helen.pipeline.rollup.frames import moment
from helen.states.agent_rules import AgentRules
from helen.states.events import Decision, Flapping, Transition
from helen.states.fleet_states import CheckEvent, run
from helen.states.fleet_timeline import RESERVED, Timeline
from helen.states.inputs import Result
from helen.states.model import LINK, Rule
from helen.states.rollout_trials import ROLLOUT_KEY

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
Overrides = Sequence[tuple[str, Mapping[str, Any]]]
EventKey = tuple[str, str, str, str, float]  # agent, check_id, kind, what, when


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


def backtest(
    spark: SparkSession, lake: Lake, begin: int, end: int, overrides: Overrides
) -> list[dict[str, Any]]:  # fmt: skip
    """Return events of both sides between two moments, in microseconds since 1970."""
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
    found: list[dict[str, Any]] = ordered.mapInArrow(task, ddl(EVENTS)).toArrow().to_pylist()
    return found


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


def recorded_events(lake: Lake, spark: SparkSession, begin: int, end: int) -> Counter[EventKey]:
    """Count the events that Helen itself wrote between two moments, in microseconds since 1970."""
    names = {row["series"]: (row["agent"], row["check_id"]) for row in lake.rows("series")}
    rows = lake.frame(spark, "changes").where(F.col("kind").isin(*STATE_KINDS) & F.col("series").isNotNull())
    late = 3600 * MICROS  # a deadline is written some seconds after its own time
    rows = rows.where(F.col("received").between(moment(begin), moment(end + late)))
    found: Counter[EventKey] = Counter()
    for row in rows.select("series", "kind", "document").collect():
        document = json.loads(row.document)
        what = _what(row.kind, document)
        if what is not None and begin <= document["at"] * MICROS < end and _is_of_a_check(*names[row.series]):
            found[(*names[row.series], row.kind, what, round(document["at"], 3))] += 1
    return found


def _is_of_a_check(agent: str, check: str) -> bool:
    """Return False for what Helen tells without a state: of a rollout, of a quota."""
    return (agent, check) != ROLLOUT_KEY and (check == LINK or not check.startswith(RESERVED))


def comparison(events: Iterable[Mapping[str, Any]], wrote: Counter[EventKey]) -> str:
    """Return a sentence for the report: does the replay by the recorded rules give the events that Helen wrote?"""
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
    """Return the word that an event of a replay has for a change; None for one that is no alert."""
    if kind == "transition":
        return "soft" if document["now"]["attempt"] else "hard"
    if kind == "flap":
        return "begun" if document["on"] else "ended"
    return f"{document['action']} {document['what']}" if "what" in document else None  # the end of an ack is no alert


def summary(events: Iterable[Mapping[str, Any]], begin: int, end: int, notes: Sequence[str] = ()) -> Report:
    """Return a report with both sides beside each other, for each check id and in all."""
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
    """Return the pairs of agents of which the first depends on the second, by all rules ever recorded."""
    pairs = set()
    for row in changes.where(F.col("kind") == "rule").select("document").collect():
        document = json.loads(row.document)
        for rule in document.get("checks", {}).values():
            for parent in rule.get("depends", ()):
                if "/" in parent and "agent" in document:
                    pairs.add((document["agent"], parent.partition("/")[0]))
    return sorted(pairs)


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
