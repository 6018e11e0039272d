"""Takes passive results for the checks that passive.toml declares: durable before they are confirmed, never twice.

Each is a result like an agent's: it goes through the journal, steps a state, and people are told. A host without an
agent is a name in the roster that is never asked. The newest result of each check is kept in the store, since the next
one may be a day away; with it the last ids, so that a submission which is sent again after a restart is known.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen
from twisted.internet.defer import Deferred, TimeoutError
from twisted.logger import Logger

from equus_protocol import results
from equus_protocol.codec import MAX_BLOB
from helen.agents.roster import Agent, Latest
from helen.evaluation.evaluator import Evaluator
from helen.journal.values import JournalError, Origin, StoredResult
from helen.passive.declarations import MAX_OF_HOST, NOTHING, Declared, Passive, PassiveError, checked_id, read
from helen.passive.firing_alerts import PREFIX, FiringAlerts
from helen.passive.rate_limit import RateLimit
from helen.passive.submission import NoSubmission, NotAllowed, NotDeclared, NotTaken, Submission, TooOften
from helen.passive.submission_keys import SubmissionKeys, digest_of
from helen.sessions.session_service import SessionService
from helen.states.model import Rule
from helen.storage import agent_rows
from helen.storage.config_file import ConfigFile
from helen.storage.database import StoreClosed

FILE = "passive.toml"
KEPT = "passive:"  # before the keys of the newest results, in kv: passive:HOST/CHECK
IDS_KEPT = 50  # of each check, the newest: a client that repeats something does so before it has sent much else
MAX_ID = 200  # characters of one
MAX_KEPT = 16_384  # bytes of a result in the store; of a longer one only status and summary are kept
DURABLE_SECONDS = 20.0  # that a client waits for the disk
RESULTS_A_MINUTE, RESULTS_AT_ONCE = 6_000.0, 2_000  # of one host: 100 a second, and a site's checks in one burst

Key = tuple[str, str]


@frozen
class Reading:
    """Holds the content of passive.toml, its pings by the secret codes in their URLs, and what proves that a host
    reports.
    """

    config: Passive = NOTHING
    by_code: dict[str, Declared] = field(factory=dict)
    digests: frozenset[bytes] = frozenset()  # of the keys of all hosts


class PassiveIntake:
    """Takes results, and keeps roster and rules in step with passive.toml.

    `state`: Helen's directory; `wall`: unix seconds; `steady`: monotonic seconds.
    """

    log = Logger()

    def __init__(
        self, sessions: SessionService, evaluator: Evaluator, state: Path, wall: Callable[[], float],
        steady: Callable[[], float], reactor: Any,
    ) -> None:  # fmt: skip
        self.keys = SubmissionKeys.load(state / "passive.key")
        self.config_file = ConfigFile[Reading](
            reactor, state / FILE, sessions.store, FILE, self._read, PassiveError, self._on_config
        )  # fmt: skip
        self._sessions, self._evaluator, self._wall, self._steady = sessions, evaluator, wall, steady
        self._reactor = reactor
        self._reading = Reading()
        self._from_patterns: dict[str, set[str]] = {}  # host -> checks that exist because a pattern covers them
        self._ids: dict[Key, OrderedDict[str, Deferred[None] | None]] = {}  # None: it is on disk
        self._kept: dict[str, set[str]] = {}  # host -> checks of which the store has a result
        self.firing = FiringAlerts(self._keep_firing)
        self._limit = RateLimit(RESULTS_A_MINUTE, RESULTS_AT_ONCE)
        self._has_begun = False
        self.labels_of_target: Callable[[str], Mapping[str, str] | None] = lambda name: None  # None: it is no target
        sessions.results.is_outside = self._is_outside

    def why_kept(self, name: str) -> str:
        """Return in a few words why no agent gets this name by a token without one: it reports from outside, or ""."""
        return "a name that reports from outside" if name in self.config.hosts else ""

    @property
    def config(self) -> Passive:
        """Return the declarations that are in force."""
        return self._reading.config

    # ---------------------------------------------------------------------------------------------- declarations

    async def start(self, kept: Mapping[str, str], recovered: Iterable[Any]) -> None:
        """Read the declarations and the newest results; no rule follows from them before `begin`.

        `kept`: the store's small facts; `recovered`: records that were not in a segment when Helen started.
        """
        for agent, rules in self._evaluator.timeline.rules.items():
            self._from_patterns[agent] = {check_id for check_id, rule in rules.checks.items() if rule.passive}
        for key, text in kept.items():
            if key.startswith(KEPT):
                self._restore(key.removeprefix(KEPT), text)
            elif key.startswith(PREFIX):
                self.firing.restore(key, text)
        for record in recovered:
            if isinstance(record, StoredResult) and record.entry.origin is Origin.PASSIVE:
                self._restore_id(record)
        await self.config_file.start(kept.get(FILE))

    def begin(self) -> None:
        """Put the declarations into force, now and at each change of the file; called once schedules are known."""
        self._has_begun = True
        self._restate_all(self.config.hosts.keys())

    def stop(self) -> None:
        """Watch the file no longer."""
        self.config_file.stop()

    def _read(self, text: str) -> Reading:
        """Read the file; for a thread: each ping's code is a computation of its own. Raises PassiveError."""
        config = read(text)
        codes = {self.keys.ping(ping): ping for ping in config.pings()}
        return Reading(config, codes, self.keys.digests(config))

    def _on_config(self) -> None:
        before, self._reading = self.config, self.config_file.config or Reading()
        self._sessions.results.declared = self.config.hosts.keys()
        if self._has_begun:
            self._restate_all(before.hosts.keys() | self.config.hosts.keys())

    def _restate_all(self, names: Iterable[str]) -> None:
        self._sessions.fair_turns.walk(sorted({*names, *self._kept}), self.restate)

    def restate(self, name: str) -> None:
        """Bring the roster and the rules of this name in step with the declarations."""
        roster = self._sessions.roster
        labels = self._labels_of(name)
        if labels is None and name not in roster.agents:
            self._forget_undeclared(name)
            return
        agent = roster.agents[name] if labels is None else roster.host(name)
        if agent.is_host and labels is None:
            self._evaluator.forget(name)
            roster.forget(name)
            self._forget_undeclared(name)
            return
        if agent.is_host and labels is not None:
            agent.given = labels
            roster.settle_labels(agent)
        delivery = self._sessions.delivery
        self._evaluator.write_rules(agent, delivery.schedule_of(agent), delivery.assignments.rule_defaults)
        self._forget_undeclared(name)

    def _labels_of(self, name: str) -> dict[str, str] | None:
        """Return the labels of a host that is declared here, or as a target; None for another name."""
        declared, target = self.config.hosts.get(name), self.labels_of_target(name)
        if declared is None and target is None:
            return None
        return {**(target or {}), **({} if declared is None else declared.labels)}

    def rules_of(self, name: str) -> dict[str, Rule]:
        """Return the rules of a host's declared checks, by their ids."""
        return self.config.rules(name, self._from_patterns.get(name, ()))

    def _forget_undeclared(self, name: str) -> None:
        """Forget the results of checks that are declared no more."""
        agent = self._sessions.roster.agents.get(name)
        for check_id in sorted(self._kept.get(name, ())):
            if self.config.of(name, check_id) is None:
                self._kept[name].discard(check_id)
                self._ids.pop((name, check_id), None)
                self.firing.forget((name, check_id))
                self._from_patterns.get(name, set()).discard(check_id)
                if agent is not None:
                    agent.drop(check_id)
                self._store(agent_rows.drop, f"{KEPT}{name}/{check_id}")

    def find(self, host: str, check_id: str) -> Declared:
        """Return the declaration for this check.

        Raises NoSubmission for an id that can't be one, NotDeclared if there is none, and NotAllowed if an agent runs a
        check of this name; the text says what to do.
        """
        name = host if host in self.config.hosts else host.lower()
        try:
            declared = self.config.of(name, checked_id(check_id))
        except ValueError as error:
            raise NoSubmission(str(error)) from error
        if declared is None:
            raise NotDeclared(
                f"nothing from outside is expected of {name[:80]}/{check_id[:80]}:"
                " `helen passive add HOST/CHECK` declares it"
            )
        rule = self._evaluator.rule_of(name, check_id)
        if rule is not None and not rule.passive and not declared.override:
            raise NotAllowed(
                f"{name}/{check_id} is run by the agent {name}: with `override = true` in {FILE} others may"
                " speak for it"
            )
        return declared

    def _is_outside(self, name: str, check_id: str) -> bool:
        """Return True for a check that is declared for a name, and that the agent of that name isn't to run itself."""
        if self.config.of(name, check_id) is None:
            return False
        rule = self._evaluator.rule_of(name, check_id)
        if rule is not None and not rule.passive:
            return False
        agent = self._sessions.roster.know(name)
        return all(entry.id != check_id for entry in self._sessions.delivery.schedule_of(agent))

    def ping(self, code: str) -> Declared | None:
        """Return the ping that has this code in its URL."""
        return self._reading.by_code.get(code)

    def knows_key(self, given: str) -> bool:
        """Return True for a key with which some host reports, whichever one that is."""
        return digest_of(given) in self._reading.digests

    # ---------------------------------------------------------------------------------------------- results

    async def submit(self, given: Submission) -> bool:
        """Return once it is on disk: True for a new result, False for one with an id that is known.

        Raises NoSubmission, NotDeclared, NotAllowed, TooOften, or NotTaken if it did not get to the disk.
        """
        declared = self.find(given.host, given.check)
        key = declared.host, given.check
        if given.id is not None and len(given.id) > MAX_ID:
            raise NoSubmission(f"an id has at most {MAX_ID} characters")
        ids = self._ids.setdefault(key, OrderedDict()) if given.id is not None else {}
        if given.id is not None and given.id in ids:
            before = ids[given.id]
            if before is not None:
                await self._until_kept(before)
            return False
        self._check_rate(declared.host)
        self._add_from_pattern(declared, given.check)
        document = dict(given.document) | {"via": given.via} | ({"id": given.id} if given.id is not None else {})
        done = self._append(key, document, Origin.PASSIVE)
        if given.within is not None:
            self.expect(key, given.within, given.why)
        if given.id is not None:
            ids[given.id] = done
        done.addCallback(lambda _: self._is_kept(key, given.id, document))
        await self._until_kept(done)
        return True

    async def note(self, declared: Declared, document: Mapping[str, Any], via: str) -> None:
        """Keep a note that is read beside the results: it is in the history, and steps no state.

        Raises NoSubmission if it is too long, and NotTaken if it did not get to the disk.
        """
        done = self._append((declared.host, declared.id), dict(document) | {"via": via}, Origin.ASKED)
        await self._until_kept(done)

    def expect(self, key: Key, within: float, why: str) -> None:
        """Expect the next result within so many seconds, whatever the file says. Raises NotTaken if that fails."""
        try:
            self._sessions.journal.change("expect", {"within": within, "why": why}, *key)
        except JournalError as error:
            raise NotTaken(str(error)) from error

    def _check_rate(self, host: str) -> None:
        wait = self._limit.take(host, self._steady())
        if wait:
            raise TooOften(f"{host} reports more than {RESULTS_A_MINUTE:g} results a minute", wait)

    def _add_from_pattern(self, declared: Declared, check_id: str) -> None:
        """Give a check that only a pattern declares a rule of its own, at its first result."""
        if not declared.is_pattern or self._evaluator.rule_of(declared.host, check_id) is not None:
            return
        known = self._from_patterns.setdefault(declared.host, set())
        if len(known) + len(self.config.named.get(declared.host, ())) >= MAX_OF_HOST:
            raise TooOften(f"{declared.host} has {MAX_OF_HOST} checks; no further one is taken", 3_600.0)
        known.add(check_id)
        self.restate(declared.host)

    def _append(self, key: Key, document: Mapping[str, Any], origin: Origin) -> Deferred[None]:
        blob = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
        if len(blob) > MAX_BLOB:
            raise NoSubmission(f"a result has at most {MAX_BLOB} bytes")
        try:
            done = self._sessions.results.submit(*key, blob, origin)
        except JournalError as error:
            raise NotTaken(str(error)) from error
        if done is None:
            raise NotTaken("too much waits for the disk: send it again in a while")
        return done

    async def _until_kept(self, done: Deferred[None]) -> None:
        """Wait for the disk. The client may give up; the result under way is kept all the same."""
        follower: Deferred[None] = Deferred()

        def pass_on(value: Any) -> Any:
            if not follower.called:
                follower.callback(None)
            return value

        done.addBoth(pass_on)
        follower.addTimeout(DURABLE_SECONDS, self._reactor)
        try:
            await follower
        except TimeoutError as error:
            raise NotTaken("it is not on disk yet: send it again, with the same id if it has one") from error

    # ---------------------------------------------------------------------------------------------- the store

    def _is_kept(self, key: Key, given_id: str | None, document: Mapping[str, Any]) -> None:
        ids: dict[str, Deferred[None] | None] = self._ids.get(key) or {}
        if given_id is not None and given_id in ids:
            ids[given_id] = None
            while len(ids) > IDS_KEPT:
                ids.pop(next(iter(ids)))
        result = {name: value for name, value in document.items() if name != "output"}
        if len(json.dumps(result)) > MAX_KEPT:
            result = {"status": result.get("status"), "summary": str(result.get("summary", ""))[:1_000]}
        kept = {"received": self._wall(), "said": result, "ids": [name for name, done in ids.items() if done is None]}
        self._kept.setdefault(key[0], set()).add(key[1])
        self._store(agent_rows.put, KEPT + "/".join(key), json.dumps(kept))

    def _keep_firing(self, key: str, text: str | None) -> None:
        self._store(*((agent_rows.drop, key) if text is None else (agent_rows.put, key, text)))

    def _store(self, work: Any, *args: Any) -> None:
        self._sessions.store.call(work, *args).addErrback(
            lambda failure: None if failure.check(StoreClosed)
            else self.log.error("what {file} declares: {why}", file=FILE, why=failure.getErrorMessage())
        )  # fmt: skip

    def _restore(self, name: str, text: str) -> None:
        """Take the newest result of a check from before this start, unless the journal has a newer one."""
        host, _, check_id = name.partition("/")
        kept = json.loads(text)
        result = results.parse(json.dumps(kept["said"]).encode())
        agent = self._sessions.roster.host(host)
        if check_id not in agent.latest:
            self._show(agent, check_id, kept["received"], result)
        self._kept.setdefault(host, set()).add(check_id)
        self._ids[host, check_id] = OrderedDict.fromkeys(kept["ids"])

    def _show(self, agent: Agent, check_id: str, received: float, result: results.ResultDocument) -> None:
        agent.take(
            Latest(
                check_id, result.status, result.summary, received, result.reason, None, result.took_ms, result.metrics
            )
        )

    def _restore_id(self, record: StoredResult) -> None:
        """Take the id of a result that the journal has, and the store perhaps not."""
        document = json.loads(record.entry.blob)
        if isinstance(document.get("id"), str):
            self._ids.setdefault((record.entry.agent, record.entry.check_id), OrderedDict())[document["id"]] = None
