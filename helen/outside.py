"""Results from outside: taken for what STATE/passive.toml declares, durable before they are acknowledged, never twice.

Each is a result like an agent's: it goes through the journal, steps a state, and people are told. Hosts without an
agent are names in the roster that nobody asks anything. What was said last is kept in the store, since the next word
may be a day away; with it the last ids, so that a submission which is sent again after a restart is known.
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
from helen import records
from helen.house import House
from helen.journal.values import JournalError, Origin, StoredResult
from helen.judge import Judge
from helen.judged import Rule
from helen.passive import MAX_OF_HOST, NOTHING, Declared, Passive, PassiveError, checked_id, read
from helen.quota import Quota
from helen.roster import Agent, Latest
from helen.store import StoreClosed
from helen.submission_keys import SubmissionKeys
from helen.submissions import NoSubmission, NotAllowed, NotDeclared, NotTaken, Submission, TooOften
from helen.textbook import TextBook

FILE = "passive.toml"
KEPT = "passive:"  # of what each check said last, in kv: passive:HOST/CHECK
IDS_KEPT = 50  # of each check, the newest: who sends something again does so before it has sent much else
MAX_ID = 200  # characters of one
MAX_KEPT = 16_384  # bytes of one in the store; of a longer one the metrics are left out
DURABLE_SECONDS = 20.0  # that whoever submits waits for the disk
RESULTS_A_MINUTE, RESULTS_AT_ONCE = 6_000.0, 2_000  # of one host: 100 a second, and a site's checks in one burst

Key = tuple[str, str]


@frozen
class Reading:
    """The file, and the pings by what is secret in their URLs."""

    config: Passive = NOTHING
    by_code: dict[str, Declared] = field(factory=dict)


class Outside:
    """`state` is Helen's directory, `wall` and `steady` are her clocks."""

    log = Logger()

    def __init__(
        self, house: House, judge: Judge, state: Path, wall: Callable[[], float], steady: Callable[[], float],
        reactor: Any,
    ) -> None:  # fmt: skip
        self.keys = SubmissionKeys.load(state / "passive.key")
        self.book = TextBook[Reading](
            reactor, state / FILE, house.store, FILE, self._read, PassiveError, self._on_config
        )  # fmt: skip
        self._house, self._judge, self._wall, self._steady = house, judge, wall, steady
        self._reactor = reactor
        self._reading = Reading()
        self._born: dict[str, set[str]] = {}  # checks that exist because a pattern covers them
        self._ids: dict[Key, OrderedDict[str, Deferred[None] | None]] = {}  # None: it is on disk
        self._kept: dict[str, set[str]] = {}  # checks of each host that the store knows something of
        self._quota = Quota(RESULTS_A_MINUTE, RESULTS_AT_ONCE)
        self._has_begun = False
        judge.passive = self._rules

    @property
    def config(self) -> Passive:
        return self._reading.config

    # ---------------------------------------------------------------------------------------------- what is declared

    async def start(self, kept: Mapping[str, str], recovered: Iterable[Any]) -> None:
        """Know what is declared; before anybody is ruled by it.

        `kept`: the store's small facts; `recovered`: records that were not in a segment when Helen started.
        """
        for agent, rules in self._judge.timeline.rules.items():
            self._born[agent] = {check_id for check_id, rule in rules.checks.items() if rule.passive}
        for key, text in kept.items():
            if key.startswith(KEPT):
                self._recall(key.removeprefix(KEPT), text)
        for record in recovered:
            if isinstance(record, StoredResult) and record.entry.origin is Origin.PASSIVE:
                self._recall_id(record)
        await self.book.start(kept.get(FILE))

    def begin(self) -> None:
        """Once it is known what agents run: from here on each change of the file counts."""
        self._has_begun = True
        self._restate_all(self.config.hosts.keys())

    def stop(self) -> None:
        self.book.stop()

    def _read(self, text: str) -> Reading:
        """In a thread: each ping's code is a computation of its own."""
        config = read(text)
        return Reading(config, {self.keys.ping(ping): ping for ping in config.pings()})

    def _on_config(self) -> None:
        before, self._reading = self.config, self.book.config or Reading()
        if self._has_begun:
            self._restate_all(before.hosts.keys() | self.config.hosts.keys())

    def _restate_all(self, names: Iterable[str]) -> None:
        self._house.turns.walk(sorted({*names, *self._kept}), self.restate)

    def restate(self, name: str) -> None:
        """Bring the roster and the rules to what the file says of this name."""
        roster = self._house.roster
        declared = self.config.hosts.get(name)
        if declared is None and name not in roster.agents:
            self._forget_words(name)
            return
        agent = roster.agents[name] if declared is None else roster.host(name)
        if agent.is_host and declared is None:
            self._judge.forget(name)
            roster.forget(name)
            self._forget_words(name)
            return
        if agent.is_host and declared is not None:
            agent.labels = dict(declared.labels)
        supply = self._house.supply
        self._judge.rule(agent, supply.schedule_of(agent), supply.assignments.judge)
        self._forget_words(name)

    def _rules(self, name: str) -> dict[str, Rule]:
        return self.config.rules(name, self._born.get(name, ()))

    def _forget_words(self, name: str) -> None:
        """Of checks that are declared no more."""
        agent = self._house.roster.agents.get(name)
        for check_id in sorted(self._kept.get(name, ())):
            if self.config.of(name, check_id) is None:
                self._kept[name].discard(check_id)
                self._ids.pop((name, check_id), None)
                self._born.get(name, set()).discard(check_id)
                if agent is not None:
                    agent.drop(check_id)
                self._store(records.drop, f"{KEPT}{name}/{check_id}")

    def find(self, host: str, check_id: str) -> Declared:
        """What is declared for this name. Raises NotDeclared or NotAllowed, with what to do about it."""
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
        rule = self._judge.rule_of(name, check_id)
        if rule is not None and not rule.passive and not declared.override:
            raise NotAllowed(
                f"{name}/{check_id} is run by the agent {name}: with `override = true` in {FILE} others may"
                " speak for it"
            )
        return declared

    def ping(self, code: str) -> Declared | None:
        """Whose URL has this code."""
        return self._reading.by_code.get(code)

    # ---------------------------------------------------------------------------------------------- what is said

    async def submit(self, given: Submission) -> bool:
        """Returns once it is on disk: True for a new one, False for one whose id is known. Raises what is above."""
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
        self._judge_quota(declared.host)
        self._bear(declared, given.check)
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
        """Something to be read beside the results; it is in the history and steps nothing."""
        done = self._append((declared.host, declared.id), dict(document) | {"via": via}, Origin.ASKED)
        await self._until_kept(done)

    def expect(self, key: Key, within: float, why: str) -> None:
        """The next result has to come in time, whatever the file says."""
        try:
            self._house.journal.change("expect", {"within": within, "why": why}, *key)
        except JournalError as error:
            raise NotTaken(str(error)) from error

    def _judge_quota(self, host: str) -> None:
        wait = self._quota.take(host, self._steady())
        if wait:
            raise TooOften(f"{host} reports more than {RESULTS_A_MINUTE:g} results a minute", wait)

    def _bear(self, declared: Declared, check_id: str) -> None:
        """The first word of a check that only a pattern declares: from here on it has a rule of its own."""
        if not declared.is_pattern or self._judge.rule_of(declared.host, check_id) is not None:
            return
        born = self._born.setdefault(declared.host, set())
        if len(born) + len(self.config.named.get(declared.host, ())) >= MAX_OF_HOST:
            raise TooOften(f"{declared.host} has {MAX_OF_HOST} checks; no further one is taken", 3_600.0)
        born.add(check_id)
        self.restate(declared.host)

    def _append(self, key: Key, document: Mapping[str, Any], origin: Origin) -> Deferred[None]:
        blob = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
        if len(blob) > MAX_BLOB:
            raise NoSubmission(f"a result has at most {MAX_BLOB} bytes")
        try:
            done = self._house.submit(*key, blob, origin)
        except JournalError as error:
            raise NotTaken(str(error)) from error
        if done is None:
            raise NotTaken("too much waits for the disk: send it again in a while")
        return done

    async def _until_kept(self, done: Deferred[None]) -> None:
        """Whoever waits may give up; what is under way goes on."""
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

    # ---------------------------------------------------------------------------------------------- remembered

    def _is_kept(self, key: Key, given_id: str | None, document: Mapping[str, Any]) -> None:
        ids = self._ids.get(key, {})
        if given_id is not None and given_id in ids:
            ids[given_id] = None
            while len(ids) > IDS_KEPT:
                ids.pop(next(iter(ids)))
        said = {name: value for name, value in document.items() if name != "output"}
        if len(json.dumps(said)) > MAX_KEPT:
            said = {"status": said.get("status"), "summary": str(said.get("summary", ""))[:1_000]}
        kept = {"received": self._wall(), "said": said, "ids": [name for name, done in ids.items() if done is None]}
        self._kept.setdefault(key[0], set()).add(key[1])
        self._store(records.put, KEPT + "/".join(key), json.dumps(kept))

    def _store(self, work: Any, *args: Any) -> None:
        self._house.store.call(work, *args).addErrback(
            lambda failure: None if failure.check(StoreClosed)
            else self.log.error("what {file} declares: {why}", file=FILE, why=failure.getErrorMessage())
        )  # fmt: skip

    def _recall(self, name: str, text: str) -> None:
        """What a check said before this start, unless the journal knows something newer."""
        host, _, check_id = name.partition("/")
        kept = json.loads(text)
        said = results.parse(json.dumps(kept["said"]).encode())
        agent = self._house.roster.host(host)
        if check_id not in agent.latest:
            self._show(agent, check_id, kept["received"], said)
        self._kept.setdefault(host, set()).add(check_id)
        self._ids[host, check_id] = OrderedDict.fromkeys(kept["ids"])

    def _show(self, agent: Agent, check_id: str, received: float, said: results.ResultDocument) -> None:
        agent.took(Latest(check_id, said.status, said.summary, received, said.reason, None, said.took_ms, said.metrics))

    def _recall_id(self, record: StoredResult) -> None:
        """One that the journal has, and the store perhaps not."""
        document = json.loads(record.entry.blob)
        if isinstance(document.get("id"), str):
            self._ids.setdefault((record.entry.agent, record.entry.check_id), OrderedDict())[document["id"]] = None
