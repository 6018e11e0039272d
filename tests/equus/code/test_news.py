"""Test news that are kept from an agent: its own clock finds them, and it tells log, self-report and Helens."""

import json

import pytest
from attrs import evolve
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from equus import health
from equus.agent import TICK
from equus.code import news
from equus.code.news import MOST, STALE, News
from equus.link.questions import ANSWER_WITHIN
from equus.link.route import AVOIDED, MAX_RETRY_AFTER, Route
from equus.settings import parse_server
from equus_protocol import delivery, freshness, roots
from equus_protocol import messages as m
from equus_protocol.freshness import LIFE, Freshness
from equus_protocol.manifest import ManifestRefused, build, entry, read_unverified, sign

ANNA, ONLINE = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in range(2))
EMPTY, HOUR = m.Schedule(1, b"[]"), 3_600.0
FILE = b"return { load }"
A, B = "a.example:4166", "b.example:4166"
SILENT = f"answers pings, and has not answered `manifest` or `fetch` for {ANSWER_WITHIN:g} s"


@pytest.fixture
def agent(memory_agent):
    """Return an agent that has pinned a root with an online key."""
    made = memory_agent()
    pem = ANNA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    made.identities.pin(pem, roots.sign(roots.build(1, [ANNA.public_key()], 1, ONLINE.public_key()), [ANNA]))
    made.membership.trusted_keys.refresh()
    return made


class Helen:
    """Answers `manifest` and `fetch`, or keeps them back; pings are always answered."""

    def __init__(self, agent, answers=True):
        self.agent, self.answers, self.reports, self.asked = agent, answers, [], 0
        self.helen = agent.meet()
        self.take(self.helen.say(EMPTY))

    def take(self, heard):
        while heard:
            message = heard.pop(0)
            if isinstance(message, m.Ping):
                heard += self.helen.say(m.Pong(message.message_id))
            elif isinstance(message, m.AskManifest):
                self.asked, self.open = self.asked + 1, message.message_id
                if self.answers:
                    heard += self.helen.say(m.Manifest(message.message_id, self.blob()))
            elif isinstance(message, m.Fetch):
                heard += self.helen.say(m.File(message.message_id, message.sha256, FILE))
            elif isinstance(message, m.Loaded):
                self.reports.append(json.loads(message.blob))

    def blob(self):
        envelope = sign(build({"load.lua": entry(FILE)}, 1, 0.0, 2_000_000_000.0), [ANNA])
        word = freshness.build(read_unverified(envelope), self.agent.wall())
        return delivery.attach(envelope, freshness.sign(word, ONLINE), [])

    def live(self, seconds, step=10.0):
        """Let time go by in steps that are no stall, so that each timer of the connection fires."""
        for _ in range(int(seconds / step)):
            self.agent.clock.advance(step)
            self.take(self.helen.say(m.Pong(1)))


def self_report(agent):
    """Return what the agent says of itself now, as the check `equus`."""
    return health.document(agent.agent.services.reports.health(), 0.0)


def test_a_question_ends_and_can_be_asked_again(agent):
    """A question ends after 30 s without an answer, the trouble is reported, and a late answer does no harm (F43)."""
    helen = Helen(agent, answers=False)
    assert (helen.asked, agent.updater.is_busy) == (1, True)
    helen.live(ANSWER_WITHIN - 10)
    assert agent.updater.is_busy
    helen.live(10)
    assert (agent.updater.is_busy, helen.reports[-1]["manifest"]["reason"]) == (False, "unanswered")
    assert helen.reports[-1]["withheld"] == [f"helen.example:4166 {SILENT}"]
    helen.answers = True
    helen.take(helen.helen.say(m.Manifest(1, helen.blob())))
    assert helen.helen.equus.violation == ""
    helen.take(helen.helen.say(m.Reload()))
    assert "manifest" not in helen.reports[-1] and "withheld" not in helen.reports[-1]
    assert agent.updater.manifest.version == 1


def test_forty_hours_without_an_answer(agent):
    """A Helen that never answers `manifest` is asked once in vain, and the self-report warns within a day (F43)."""
    helen = Helen(agent)
    assert helen.reports[-1].get("manifest") is None
    helen.answers = False
    helen.live(LIFE / 2 - TICK)
    assert "manifest" not in helen.reports[-1] and self_report(agent)["status"] == "ok"
    helen.live(2 * TICK + ANSWER_WITHIN)
    assert helen.reports[-1]["manifest"]["reason"] == "unanswered"
    helen.live(28 * HOUR)
    told = self_report(agent)
    assert told["status"] == "warning"
    assert "for 40 h " in told["output"] and SILENT in told["output"]
    assert helen.asked == 2  # one that was answered, one that is overdue: ids of questions are not used up
    helen.answers = True
    helen.take(helen.helen.say(m.Manifest(helen.open, helen.blob())))
    helen.live(15 * 60 + 2 * TICK)
    assert ("manifest" in helen.reports[-1], self_report(agent)["status"]) == (False, "ok")


def test_nobody_to_ask(agent):
    """A set whose word of freshness is a day old is told to the next Helen at once, before that has answered (F43)."""
    helen = Helen(agent)
    agent.part(helen.helen)
    agent.clock.pump([TICK] * int(LIFE / TICK + 2))
    assert self_report(agent)["summary"].startswith("for 24 h ")
    other = Helen(agent, answers=False)
    assert other.reports[0]["manifest"] == {"reason": "frozen", "text": STALE}
    agent.part(other.helen)
    assert "manifest" not in Helen(agent).reports[-1]


def again(agent, memory_agent, away=0.0, ahead=0.0):
    """Return the agent started anew, after `away` seconds and with a clock that is ahead by `ahead` seconds."""
    agent.close()
    agent.clock.advance(away)
    restarted = memory_agent()
    if ahead:
        restarted.updater.news._wall = lambda: restarted.wall() + ahead
        restarted.updater.news.restore(restarted.state)
    return restarted


@pytest.mark.parametrize(
    ("away", "ahead", "is_told"),
    [(0.0, 0.0, False), (4 * HOUR, 0.0, False), (5 * HOUR, 0.0, True), (5 * HOUR, -40 * HOUR, False),
     (0.0, 40 * HOUR, True)],
)  # fmt: skip
def test_a_start_makes_no_news_younger(agent, memory_agent, away, ahead, is_told):
    """A start of the agent does not make a word of freshness younger, and the time while it was off counts."""
    agent.part(Helen(agent).helen)
    agent.clock.pump([TICK] * int(20 * HOUR / TICK))
    restarted = again(agent, memory_agent, away, ahead)
    assert (restarted.updater.stale() is not None) is is_told
    assert restarted.updater.news.age >= 19 * HOUR  # whatever the clock says
    if ahead <= 0:  # else our own clock makes every word old
        other = Helen(restarted)
        assert (other.reports[-1].get("manifest"), restarted.updater.stale()) == (None, None)


def test_starts_every_hour_hide_nothing(agent, memory_agent):
    """Starts every hour do not hide that the set is stale, even if the clock begins at the same time at each start."""
    agent.part(Helen(agent).helen)
    begin = agent.wall()
    for _ in range(26):
        agent.clock.pump([TICK] * 65)
        agent = again(agent, memory_agent)
        agent.updater.news._wall = lambda: begin
        agent.updater.news.restore(agent.state)
    assert agent.updater.stale() is not None


def test_an_older_word_is_refused_after_a_start(agent, memory_agent):
    """The newest word of freshness is remembered over a start, and an older one of another set is refused; one dated
    ahead is forgotten.
    """
    agent.part(Helen(agent).helen)
    seen = agent.updater.news.proof
    agent.clock.pump([TICK] * 60)
    restarted = again(agent, memory_agent)
    assert restarted.updater.news.proof == seen
    other = evolve(seen, digest="e" * 64)
    assert freshness_refuses(other.created - 1, restarted.updater.news.proof)
    assert again(restarted, memory_agent, ahead=-2 * HOUR).updater.news.proof is None


def freshness_refuses(created, seen):
    envelope = sign(build({"x.lua": entry(FILE)}, 2, 0.0, 2_000_000_000.0), [ANNA])
    document = read_unverified(envelope)
    word = freshness.sign(freshness.build(document, created), ONLINE)
    with pytest.raises(ManifestRefused, match="older than the word"):
        freshness.verify(word, ONLINE.public_key(), document, created + 10, seen=seen)
    return True


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b"3", b"\xff", b'{"age": -1, "at": 0, "proof": null}', b'{"age": NaN, "at": 0, "proof": null}',
     b'{"age": 1, "at": 1, "proof": [1]}', b'{"age": 1, "at": true, "proof": null}', b'{"age": 1, "at": 1}',
     b'{"age": 1e999, "at": 0, "proof": null}', b'{"age": 1, "at": 1, "proof": [1e999, "d", 2]}'],
)  # fmt: skip
def test_a_damaged_age(tmp_path, content):
    """A damaged file of the age lets the age begin anew, as if the file were missing."""
    (tmp_path / news.AGE_FILE).write_bytes(content)
    held = News(lambda: 100.0, lambda: 5.0)
    held.restore(tmp_path)
    assert (held.age, held.proof) == (0.0, None)


@pytest.mark.parametrize("step", [-40 * HOUR, 40 * HOUR])
def test_a_clock_that_is_set_changes_no_age(agent, step):
    """A clock that is set neither hides the age of the word nor makes a new one old, because monotonic seconds count
    (F43).
    """
    helen = Helen(agent)
    before = agent.wall
    agent.updater.news._wall = lambda: before() + step
    helen.live(TICK)
    assert agent.updater.news.age == pytest.approx(TICK, abs=15)
    helen.answers = False
    helen.live(LIFE)
    assert agent.updater.news.stale() is not None


def test_every_other_helen_hears_of_it(agent):
    """The agent leaves a silent Helen if it knows another one, and tells that one of the silence (F43)."""
    agent.route._configured = (parse_server(A), parse_server(B))
    helen = Helen(agent, answers=False)
    helen.helen.equus.helen = A
    helen.live(ANSWER_WITHIN)
    assert helen.helen.transport.ended == "lost"
    agent.part(helen.helen)
    assert agent.route.server.address == B
    other = Helen(agent)
    assert other.reports[0]["withheld"] == [f"{A} {SILENT}"]
    assert "withheld" in other.reports[-1] and "manifest" not in other.reports[-1]
    assert self_report(agent)["summary"] == f"{A} {SILENT}"


def test_no_silent_way_back_to_version_1(agent, memory_agent):
    """A Helen that has spoken version 2 and refuses it, or says no word of it, is reported, also after restarts
    (F43).
    """
    helen = Helen(agent)
    address = helen.helen.equus.helen
    helen.helen.say(m.Error("unsupported-protocol-version"))
    agent.part(helen.helen)
    again = agent.meet()
    assert again.hello == [m.Hello(1, "0.1")]
    assert agent.updater.news.withheld == {
        address: f"{address} spoke version 2 before and refuses it now: no code comes from it"
    }
    agent.close()
    restarted = memory_agent()
    quiet = restarted.meet()
    for _ in range(8):
        restarted.clock.advance(TICK / 4)
        quiet.hear()
    assert restarted.updater.news.withheld == {
        address: f"{address} spoke version 2 before and speaks version 1 now: no code comes from it"
    }


def test_a_first_helen_of_version_1_is_no_downgrade(agent):
    """A Helen that never spoke version 2 is not reported as a downgrade."""
    quiet = agent.meet()
    for _ in range(8):
        agent.clock.advance(TICK / 4)
        quiet.hear()
    assert agent.updater.news.withheld == {}


def test_what_is_remembered_has_a_bound():
    """Silent Helens are remembered up to a number, the oldest is dropped first, and one that answers is forgotten."""
    held = News(lambda: 0.0, lambda: 0.0)
    for number in range(MOST + 3):
        held.kept_back(f"h{number}", "is silent")
    assert (len(held.withheld), "h2" in held.withheld, "h3" in held.withheld) == (MOST, False, True)
    held.answered("h3")
    assert "h3" not in held.withheld


@pytest.mark.parametrize("content", [b"{", b"3", b"[1, null]", b"\xff"])
def test_a_damaged_file_of_speakers(tmp_path, content):
    """A damaged file of speakers is read as if no Helen had been met."""
    (tmp_path / news.FILE).write_bytes(content)
    assert news.load_speakers(tmp_path) == frozenset()


def test_an_older_word_does_not_make_the_set_older():
    """An older word of another Helen changes nothing: the newest one counts."""
    now = 100_000.0
    held = News(lambda: now, lambda: now)
    newest = Freshness(1, "d", now - 10)
    held.proven(newest)
    held.proven(evolve(newest, created=now - 5_000))
    assert (held.proof, held.age) == (newest, 10.0)


def test_no_helen_sends_agents_away_for_long():
    """An agent waits an hour at most, whatever `retry-after` Helen sends (F72)."""
    assert MAX_RETRY_AFTER == HOUR
    for said in ("3600", "3601", "86400", "999999999"):
        route = Route([parse_server(A)])
        route.ended(0.0, error=f"shutting-down;retry-after={said}")
        assert HOUR <= route.delay <= HOUR + 1.0


def test_a_helen_that_keeps_news_back_is_passed_over_for_an_hour():
    """A Helen that keeps news back is passed over for an hour if there is another one, and dialled all the same
    if not.
    """
    route = Route([parse_server(A), parse_server(B)])
    route.avoid(A, 0.0)
    route.ended(0.0, lived=100.0)
    assert route.server.address == B
    route.ended(AVOIDED, lived=100.0)
    assert route.server.address == A
    alone = Route([parse_server(A)])
    alone.avoid(A, 0.0)
    alone.ended(0.0)
    assert alone.server.address == A
