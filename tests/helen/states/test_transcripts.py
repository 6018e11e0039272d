"""Tests tables of (time, input) -> events, one for each rule of docs/states.rst."""

from __future__ import annotations

import pytest
from acting import play

from helen.states.model import Rule

ONE = Rule(attempts=1, flap_start=None)  # the first result counts: for tables about something else
TABLES: dict[str, tuple[str, dict[str, Rule]]] = {}


def table(title: str, text: str, **rules: Rule) -> None:
    assert title not in TABLES
    TABLES[title] = text, rules


table("three bad results in a row confirm a problem, one good one a recovery", """
    0    ok                 | -> ok
    60   critical           | -> critical soft 1; hold problem critical: soft
    70   critical           |
    80   critical           | -> critical; notify problem critical
    140  critical           |
    200  ok                 | -> ok; notify recovery ok
""")  # fmt: skip

table("what is not confirmed is nobody's news, and that is said too", """
    0    ok                 | -> ok
    60   critical           | -> critical soft 1; hold problem critical: soft
    120  warning            | -> warning soft 2; hold problem warning: soft
    180  ok                 | -> ok; drop problem ok
    240  critical           | -> critical soft 1; hold problem critical: soft
""")  # fmt: skip

table("a retry is asked for as long as it is soft", """
    0    ok                 | -> ok
    60   critical           | -> critical soft 1; again 65; hold problem critical: soft
    65   critical           | again 70
    70   critical           | -> critical; notify problem critical
    130  critical           |
""", c=Rule(retry=5))  # fmt: skip

table("recovery has a count of its own", """
    0    ok                 | -> ok
    60   critical           | -> critical; notify problem critical
    120  ok                 | -> ok soft 1
    180  critical           | -> critical
    240  ok                 | -> ok soft 1
    300  ok                 | -> ok; notify recovery ok
""", c=Rule(attempts=1, recover=2, flap_start=None))  # fmt: skip

table("from one bad status to another the first result counts", """
    0    ok                 | -> ok
    60   warning            | -> warning soft 1; hold problem warning: soft
    120  warning            | -> warning; notify problem warning
    180  critical           | -> critical; notify change critical
    240  warning            | -> warning; notify change warning
    300  ok                 | -> ok; notify recovery ok
""", c=Rule(attempts=2, flap_start=None))  # fmt: skip

table("a bad first result is soft, a good one counts", """
    0    critical           | -> critical soft 1; hold problem critical: soft
    60   ok                 | -> ok; drop problem ok
""")  # fmt: skip

table("another reason for the same status is a change of state but no news", """
    0    unknown            | -> unknown; notify problem unknown
    60   unknown reason=timeout | -> unknown (timeout)
    120  unknown reason=timeout |
    180  unknown            | -> unknown
""", c=ONE)  # fmt: skip

# ------------------------------------------------------------------------------------------------ flapping

table("while it flaps one message stands for all, and its end is exactly one more", """
    0    ok                 | -> ok
    60   critical           | -> critical; notify problem critical
    120  ok                 | -> ok; notify recovery ok
    180  critical           | flap on at 17.7; -> critical; notify flapping critical
    240  ok                 | -> ok
    300  critical           | -> critical
    360  critical           |
    420  critical           |
    480  critical           |
    540  critical           |
    600  critical           |
    660  critical           |
    720  critical           |
    780  critical           |
    840  critical           |
    900  critical           |
    960  critical           |
    1020 critical           |
    1080 critical           |
    1140 critical           |
    1200 critical           |
    1260 critical           |
    1320 critical           | flap off, critical; notify flapping-ended critical
    1380 critical           |
    1440 ok                 | -> ok; notify recovery ok
""", c=Rule(attempts=1, flap_start=17, flap_stop=14))  # fmt: skip

table("it is told of the end even if all is as it was before", """
    0    ok                 | -> ok
    60   critical           | -> critical soft 1; hold problem critical: soft
    120  ok                 | flap on at 11.9; -> ok; notify flapping ok
    180  ok                 |
    240  ok                 |
    300  ok                 |
    360  ok                 |
    420  ok                 |
    480  ok                 |
    540  ok                 |
    600  ok                 |
    660  ok                 |
    720  ok                 |
    780  ok                 |
    840  ok                 |
    900  ok                 |
    960  ok                 |
    1020 ok                 |
    1080 ok                 |
    1140 ok                 |
    1200 ok                 |
    1260 ok                 | flap off, ok; notify flapping-ended ok
    1320 ok                 |
""", c=Rule(flap_start=10, flap_stop=8))  # fmt: skip

table("flapping ends when results do, with the final state", """
    0    ok                 | -> ok
    60   critical           | -> critical; notify problem critical
    120  ok                 | flap on at 11.9; -> ok; notify flapping ok
    400  tick               | @370 flap off, unknown; @370 -> unknown (stale); @370 notify flapping-ended unknown
    500  ok                 | -> ok; notify recovery ok
""", c=Rule(attempts=1, flap_start=10, flap_stop=8, stale=250))  # fmt: skip

table("flapping that nobody heard of ends without a message", """
    0    downtime id=d until=1000 |
    10   ok                 | -> ok
    60   critical           | -> critical; hold problem critical: downtime d
    120  ok                 | flap on at 11.9; -> ok; hold flapping ok: downtime d
    400  tick               | @370 flap off, unknown; @370 -> unknown (stale)
                            | @370 hold flapping-ended unknown: downtime d
    500  ok                 | -> ok; drop flapping-ended ok
""", c=Rule(attempts=1, flap_start=10, flap_stop=8, stale=250))  # fmt: skip

# ------------------------------------------------------------------------------------------------ stale and away

table("stale at its deadline, not at the next look; the next result ends it", """
    0    ok                 | -> ok
    60   ok                 |
    500  tick               | @160 -> unknown (stale); @160 notify problem unknown
    900  tick               |
    960  ok                 | -> ok; notify recovery ok
    1100 tick               | @1060 -> unknown (stale); @1060 notify problem unknown
""", c=Rule(stale=100))  # fmt: skip

table("what never ran is stale, too", """
    99   tick               |
    100  tick               | -> unknown (stale); notify problem unknown
""", c=Rule(stale=100))  # fmt: skip

table("after silence a bad result is soft again", """
    0    ok                 | -> ok
    100  tick               | -> unknown (stale); notify problem unknown
    200  critical           | -> critical soft 1; hold problem critical: soft
    210  critical           | -> critical; notify change critical
""", c=Rule(attempts=2, stale=100))  # fmt: skip

table("an agent that goes away is one message; its checks are unknown, and held back", """
    0    ok                 | -> ok
    10   down               |
    200  tick               | @70 a/equus:link -> critical (agent-away); @70 a/equus:link notify problem critical
                            | @70 -> unknown (agent-away); @70 hold problem unknown: dependency a/equus:link
    900  up                 | a/equus:link -> ok; a/equus:link notify recovery ok; -> unknown (pending)
                            | hold problem unknown: pending
    930  ok                 | -> ok; drop problem ok
""", c=Rule(stale=100))  # fmt: skip

table("an agent that was away and brings nothing is told of at the check's deadline", """
    0    ok                 | -> ok
    10   down               |
    75   up                 | @70 a/equus:link -> critical (agent-away); @70 a/equus:link notify problem critical
                            | @70 -> unknown (agent-away); @70 hold problem unknown: dependency a/equus:link
                            | a/equus:link -> ok; a/equus:link notify recovery ok; -> unknown (pending)
                            | hold problem unknown: pending
    300  tick               | @175 -> unknown (stale); @175 notify problem unknown
""", c=Rule(stale=100))  # fmt: skip

table("a short cut is nobody's news, and staleness counts from its end", """
    0    ok                 | -> ok
    10   down               |
    60   up                 |
    159  tick               |
    160  tick               | -> unknown (stale); notify problem unknown
""", c=Rule(stale=100))  # fmt: skip

table("an agent that comes and goes all the time hides no stale check", """
    0    ok                 | -> ok
    50   down               |
    55   up                 |
    140  down               |
    145  up                 |
    230  down               |
    235  up                 |
    320  down               | @300 -> unknown (stale); @300 notify problem unknown
""", c=Rule(stale=100))  # fmt: skip

table("while it is cut off, and not yet called away, only three deadlines make it stale", """
    0    ok                 | -> ok
    10   down               |
    299  tick               |
    300  tick               | -> unknown (stale); notify problem unknown
""", c=Rule(stale=100), link=Rule(away=500))  # fmt: skip

table("a restart of Helen raises nothing; what is broken afterwards is found", """
    0    ok                 | -> ok
    10   helen_stop         |
    11   down               |
    400  helen_start        |
    420  up                 |
    430  ok                 |
    529  tick               |
    530  tick               | -> unknown (stale); notify problem unknown
""", c=Rule(stale=100))  # fmt: skip

table("after a crash of Helen an agent that doesn't come back is away", """
    0    ok                 | -> ok
    400  helen_start        |
    459  tick               |
    460  tick               | a/equus:link -> critical (agent-away); a/equus:link notify problem critical
                            | -> unknown (agent-away); hold problem unknown: dependency a/equus:link
""", c=Rule(stale=100))  # fmt: skip

# ------------------------------------------------------------------------------------------------ acknowledgements

table("an acknowledgement ends with a change", """
    0    ok                 | -> ok
    60   warning            | -> warning; notify problem warning
    70   ack owner=eva      |
    120  warning            |
    180  critical           | -> critical; ack by eva ends; notify change critical
""", c=ONE)  # fmt: skip

table("a sticky one ends with recovery only", """
    0    ok                 | -> ok
    60   warning            | -> warning; notify problem warning
    70   ack owner=eva sticky=yes |
    180  critical           | -> critical; hold change critical: acknowledged eva
    240  ok                 | -> ok; ack by eva ends; notify recovery ok
""", c=ONE)  # fmt: skip

table("still broken when it expires: told at once", """
    0    ok                 | -> ok
    60   critical           | -> critical; notify problem critical
    70   ack owner=eva until=500 |
    600  tick               | @500 ack by eva ends; @500 notify still critical
""", c=ONE)  # fmt: skip

table("taken back: told at once; what is well can't be acknowledged", """
    0    ok                 | -> ok
    10   ack owner=eva      |
    60   critical           | -> critical; notify problem critical
    70   ack owner=eva      |
    80   ack owner=kim      |
    90   unack owner=kim    | ack by kim ends; notify still critical
    95   unack owner=kim    |
""", c=ONE)  # fmt: skip

table("acknowledged while soft: nobody is told when it is confirmed", """
    0    ok                 | -> ok
    60   critical           | -> critical soft 1; hold problem critical: soft
    70   ack owner=eva      | hold problem critical: soft, acknowledged eva
    80   critical           | -> critical; hold problem critical: acknowledged eva
    90   ok                 | -> ok; ack by eva ends; drop problem ok
""", c=Rule(attempts=2, flap_start=None))  # fmt: skip

table("it outlives a time in which nothing is known", """
    0    ok                 | -> ok
    60   critical           | -> critical; notify problem critical
    70   ack owner=eva      |
    200  tick               | @160 -> unknown (stale); @160 hold change unknown: acknowledged eva
    210  critical           | -> critical; drop change critical
    220  ok                 | -> ok; ack by eva ends; notify recovery ok
""", c=Rule(attempts=1, stale=100, flap_start=None))  # fmt: skip

# ------------------------------------------------------------------------------------------------ downtimes, silences

table("still broken when a downtime ends: told at once", """
    0    ok                 | -> ok
    50   downtime id=d until=500 |
    60   critical           | -> critical; hold problem critical: downtime d
    600  tick               | @500 notify problem critical
    660  critical           |
""", c=ONE)  # fmt: skip

table("also of what was told before", """
    0    ok                 | -> ok
    60   critical           | -> critical; notify problem critical
    70   silence id=s until=500 |
    600  tick               | @500 notify still critical
""", c=ONE)  # fmt: skip

table("what broke and mended within a downtime is nobody's news", """
    0    ok                 | -> ok
    50   downtime id=d until=500 |
    60   critical           | -> critical; hold problem critical: downtime d
    120  ok                 | -> ok; drop problem ok
    600  tick               |
""", c=ONE)  # fmt: skip

table("a recovery of what was told is never held back", """
    0    ok                 | -> ok
    60   critical           | -> critical; notify problem critical
    70   downtime id=d until=500 |
    120  ok                 | -> ok; notify recovery ok
    180  critical           | -> critical; hold problem critical: downtime d
""", c=ONE)  # fmt: skip

table("of several that overlap the last one counts, and each is named", """
    0    ok                 | -> ok
    50   downtime id=d until=500 |
    60   critical           | -> critical; hold problem critical: downtime d
    70   silence id=s until=700 | hold problem critical: downtime d, silence s
    600  tick               | @500 hold problem critical: silence s
    800  tick               | @700 notify problem critical
""", c=ONE)  # fmt: skip

table("cancelled: told at once; changed in its middle: not told", """
    0    ok                 | -> ok
    50   downtime id=d until=500 |
    60   critical           | -> critical; hold problem critical: downtime d
    70   downtime id=d until=900 |
    600  cancel id=d author=eva | notify problem critical
""", c=ONE)  # fmt: skip

table("a downtime that doesn't cover it any more lets go of it", """
    0    ok                 | -> ok
    50   downtime id=d until=500 |
    60   critical           | -> critical; hold problem critical: downtime d
    70   downtime id=d until=500 agents=b | notify problem critical
""", c=ONE)  # fmt: skip

table("one that begins later", """
    0    ok                 | -> ok
    10   downtime id=d begin=50 until=500 checks=c* |
    40   critical           | -> critical; notify problem critical
    45   ok                 | -> ok; notify recovery ok
    50   critical           | -> critical; hold problem critical: downtime d
""", c=ONE)  # fmt: skip

table("one that ended while Helen was down is told of at its start", """
    0    ok                 | -> ok
    50   downtime id=d until=500 |
    60   critical           | -> critical; hold problem critical: downtime d
    70   helen_stop         |
    900  helen_start        | @500 notify problem critical
""", c=ONE)  # fmt: skip

# ------------------------------------------------------------------------------------------------ dependencies

table("one cause, one message; what is still broken afterwards is told after a result of its own", """
    0    a/p ok             | a/p -> ok
    1    ok                 | -> ok
    60   a/p critical       | a/p -> critical; a/p notify problem critical
    61   critical           | -> critical; hold problem critical: dependency a/p
    120  a/p ok             | a/p -> ok; a/p notify recovery ok; hold problem critical: awaiting a/p
    121  critical           | notify problem critical
""", p=ONE, c=Rule(attempts=1, depends=("a/p",), flap_start=None))  # fmt: skip

table("what got well with its parent was nobody's news", """
    0    a/p ok             | a/p -> ok
    1    ok                 | -> ok
    60   a/p critical       | a/p -> critical; a/p notify problem critical
    61   critical           | -> critical; hold problem critical: dependency a/p
    120  a/p ok             | a/p -> ok; a/p notify recovery ok; hold problem critical: awaiting a/p
    121  ok                 | -> ok; drop problem ok
""", p=ONE, c=Rule(attempts=1, depends=("a/p",), flap_start=None))  # fmt: skip

table("a parent that is not confirmed yet holds back as well: no order of two results matters", """
    0    a/p ok             | a/p -> ok
    1    ok                 | -> ok
    60   a/p critical       | a/p -> critical soft 1; a/p hold problem critical: soft
    61   critical           | -> critical; hold problem critical: dependency a/p
    70   a/p critical       | a/p -> critical; a/p notify problem critical
""", p=Rule(attempts=2), c=Rule(attempts=1, depends=("a/p",), flap_start=None))  # fmt: skip

table("never a recovery: the child was told of first", """
    0    a/p ok             | a/p -> ok
    1    ok                 | -> ok
    59   critical           | -> critical; notify problem critical
    60   a/p critical       | a/p -> critical; a/p notify problem critical
    61   ok                 | -> ok; notify recovery ok
    62   critical           | -> critical; hold problem critical: dependency a/p
""", p=ONE, c=Rule(attempts=1, depends=("a/p",), flap_start=None))  # fmt: skip

table("a chain over several agents", """
    0    critical           | -> critical; notify problem critical
    1    b/c critical       | b/c -> critical; b/c hold problem critical: dependency a/c
    2    d/c critical       | d/c -> critical; d/c hold problem critical: dependency b/c
    3    ok                 | -> ok; notify recovery ok; b/c hold problem critical: awaiting a/c
    4    b/c ok             | b/c -> ok; b/c drop problem ok; d/c hold problem critical: awaiting b/c
    5    d/c critical       | d/c notify problem critical
""", c=ONE, b__c=Rule(attempts=1, depends=("a/c",)), d__c=Rule(attempts=1, depends=("b/c",)))  # fmt: skip

CHILD = Rule(attempts=1, depends=("g/p",), flap_start=None)

table("a parent whose agent goes away has not recovered (F27)", """
    0    g/p critical       | g/p -> critical; g/p notify problem critical
    1    critical           | -> critical; hold problem critical: dependency g/p
    2    down agent=g       |
    62   tick               | g/equus:link -> critical (agent-away)
                            | g/equus:link notify problem critical; g/p -> unknown (agent-away)
                            | g/p hold change unknown: dependency g/equus:link
                            | hold problem critical: dependency g/p, dependency g/equus:link
    70   critical           |
    80   up agent=g         | g/equus:link -> ok; g/equus:link notify recovery ok; g/p -> unknown (pending)
                            | g/p hold change unknown: pending
                            | hold problem critical: dependency g/p, awaiting g/equus:link
    85   critical           | hold problem critical: dependency g/p
    90   g/p critical       | g/p -> critical; g/p drop change critical
    95   critical           |
    99   g/p ok             | g/p -> ok; g/p notify recovery ok; hold problem critical: awaiting g/p
    101  critical           | notify problem critical
""", g__p=ONE, c=CHILD)  # fmt: skip

table("a parent that is stale, or that ends by a timeout, has not recovered (F27)", """
    0    g/p critical       | g/p -> critical; g/p notify problem critical
    1    critical           | -> critical; hold problem critical: dependency g/p
    50   tick               | @40 g/p -> unknown (stale); @40 g/p notify change unknown
    60   critical           |
    61   g/p unknown reason=timeout | g/p -> unknown (timeout)
    62   critical           |
    63   g/p critical       | g/p -> critical; g/p notify change critical
    64   g/p unknown        | g/p -> unknown; g/p notify change unknown
    65   critical           |
    66   g/p warning        | g/p -> warning; g/p notify change warning; hold problem critical: awaiting g/p
    67   critical           | notify problem critical
    68   g/p unknown        | g/p -> unknown; g/p notify change unknown
    69   ok                 | -> ok; notify recovery ok
    70   critical           | -> critical; notify problem critical
""", g__p=Rule(attempts=1, stale=40.0, flap_start=None), c=CHILD)  # fmt: skip

table("a parent that was only critical at first sight, and of which nothing is known since (F27)", """
    0    g/p ok             | g/p -> ok
    5    g/p critical       | g/p -> critical soft 1; g/p hold problem critical: soft
    6    critical           | -> critical; hold problem critical: dependency g/p
    10   g/p unknown reason=timeout | g/p -> unknown (timeout) soft 2; g/p hold problem unknown: soft
    11   critical           |
    15   g/p ok             | g/p -> ok; g/p drop problem ok; hold problem critical: awaiting g/p
    16   critical           | notify problem critical
""", g__p=Rule(flap_start=None), c=CHILD)  # fmt: skip

table("a child that breaks, or comes, while nothing is known of its critical parent (F27)", """
    0    g/p critical       | g/p -> critical; g/p notify problem critical
    1    down agent=g       |
    61   tick               | g/equus:link -> critical (agent-away)
                            | g/equus:link notify problem critical; g/p -> unknown (agent-away)
                            | g/p hold change unknown: dependency g/equus:link
    70   critical           | -> critical; hold problem critical: dependency g/p, dependency g/equus:link
    71   rule depends=      | hold problem critical: dependency g/equus:link, awaiting g/p
                            | hold problem critical: awaiting g/p, awaiting g/equus:link
    72   rule depends=g/p   | hold problem critical: awaiting g/p, awaiting g/equus:link, dependency g/p
                            | hold problem critical: awaiting g/p, awaiting g/equus:link, dependency g/p, dependency\
 g/equus:link
""", g__p=ONE, c=CHILD)  # fmt: skip

table("a parent that is run no more holds nobody back (F27)", """
    0    g/p critical       | g/p -> critical; g/p notify problem critical
    1    critical           | -> critical; hold problem critical: dependency g/p
    50   tick               | @40 g/p -> unknown (stale); @40 g/p notify change unknown
    60   g/p retire         | g/p -> unknown (retired); g/p notify closed unknown; hold problem critical: awaiting g/p
    61   critical           | notify problem critical
""", g__p=Rule(attempts=1, stale=40.0, flap_start=None), c=CHILD)  # fmt: skip

table("what a version said that is taken back never counted for the children (F27)", """
    0    g/p unknown        | g/p -> unknown; g/p notify problem unknown
    1    open version=2 agents=g checks=p |
    2    g/p critical       | g/p -> critical; g/p notify change critical
    3    critical           | -> critical; hold problem critical: dependency g/p
    4    back version=2 agents=g | g/p -> unknown; g/p notify change unknown; hold problem critical: awaiting g/p
    5    critical           | notify problem critical
""", g__p=ONE, c=CHILD)  # fmt: skip

table("a circle holds nobody back", """
    0    b/c critical       | b/c -> critical; b/c notify problem critical
    1    critical           | -> critical; hold problem critical: dependency b/c
""", c=Rule(attempts=1, depends=("b/c", "a/c")), b__c=Rule(attempts=1, depends=("a/c",)))  # fmt: skip

table("a parent that is given later", """
    0    a/p critical       | a/p -> critical; a/p notify problem critical
    1    rule depends=a/p   |
    2    critical           | -> critical; hold problem critical: dependency a/p
    3    rule depends=      | hold problem critical: awaiting a/p
    4    critical           | notify problem critical
""", p=ONE, c=ONE)  # fmt: skip

# ------------------------------------------------------------------------------------------------ late and skewed

table("what waited in a spool fills the history, and moves nothing back", """
    0    ok ended=0         | -> ok
    60   ok ended=60        |
    900  critical ended=120 |
    901  critical ended=180 |
    902  critical ended=240 |
    903  critical ended=850 | -> critical; notify problem critical
    904  ok ended=900       | -> ok; notify recovery ok
""", c=Rule(attempts=1, flap_start=None))  # fmt: skip

table("late results are history", """
    0    ok ended=0         | -> ok
    50   critical ended=-60 |
    60   critical ended=55 sequence=0 |
    70   ok ended=70        |
""", c=Rule(attempts=1, stale=100))  # fmt: skip

table("of two spools the newer result counts", """
    0    ok ended=0 spool=x | -> ok
    20   critical ended=20 spool=x | -> critical; notify problem critical
    21   ok ended=19 spool=y |
    22   ok ended=21 spool=y | -> ok; notify recovery ok
""", c=ONE)  # fmt: skip

table("a clock that is an hour behind freezes nothing after the second result", """
    0    ok ended=-3600     |
    30   ok ended=-3570     | -> ok
    60   ok ended=-3540     |
    90   critical ended=-3510 | -> critical; notify problem critical
""", c=ONE)  # fmt: skip

table("a clock that is set back by an hour", """
    0    ok ended=3600      | -> ok
    30   ok ended=3630      |
    60   critical ended=60  |
    90   critical ended=90  |
    130  critical ended=130 | -> critical; notify problem critical
""", c=ONE)  # fmt: skip

table("a second that Helen's clock takes back counts as none", """
    100  ok                 | -> ok
    99   critical           | @100 -> critical; @100 notify problem critical
    99.5 helen_stop         |
""", c=ONE)  # fmt: skip

# ------------------------------------------------------------------------------------------------ coming and going

table("what is watched no more is closed for those who were told", """
    0    critical           | -> critical; notify problem critical
    10   retire             | -> unknown (retired); notify closed critical
    20   critical           | -> critical soft 1; hold problem critical: soft
""", c=ONE)  # fmt: skip

table("a run that was on its way when its check was retired brings nothing back (F30)", """
    0    critical ended=0   | -> critical; notify problem critical
    10   retire             | -> unknown (retired); notify closed critical
    11   critical ended=10  |
    900  critical ended=899 |
    901  rule attempts=1    |
    950  critical ended=949 | -> critical; notify problem critical
    960  retire             | -> unknown (retired); notify closed critical
    970  forgotten          | a/equus:link -> unknown (retired)
    980  ok ended=979       | -> ok
""", c=ONE)  # fmt: skip

table("an agent that is taken out of service closes all that is open of it", """
    0    critical           | -> critical; notify problem critical
    10   forgotten          | -> unknown (retired); notify closed critical; a/equus:link -> unknown (retired)
    11   down               |
    500  tick               |
    600  up                 | a/equus:link -> ok
""", c=ONE)  # fmt: skip

table("an agent's own reports are no checks", """
    0    a/equus:gap unknown |
    1    a/equus:link critical |
""", c=ONE)  # fmt: skip

table("a rule that allows less shortens what is running", """
    0    ok                 | -> ok
    10   rule stale=20      |
    30   tick               | @20 -> unknown (stale); @20 notify problem unknown
""", c=Rule(attempts=1, stale=1000))  # fmt: skip


# ------------------------------------------------------------------------------------------------ from outside

OUTSIDE = Rule(attempts=1, flap_start=None, passive=True, stale=100, missing=2)

table("what comes from outside doesn't care whether an agent of that name is there", """
    0    ok                 | -> ok
    10   down               |
    90   ok                 | @30 a/equus:link -> critical (agent-away); @30 a/equus:link notify problem critical
    95   critical           | -> critical; notify problem critical
    100  up                 | a/equus:link -> ok; a/equus:link notify recovery ok
    110  ok                 | -> ok; notify recovery ok
""", c=OUTSIDE, link=Rule(away=20))  # fmt: skip

table("a result that doesn't come in time is what the rule says", """
    0    ok                 | -> ok
    150  tick               | @100 -> critical (stale); @100 notify problem critical
    200  ok                 | -> ok; notify recovery ok
""", c=OUTSIDE)  # fmt: skip

table("the next result may be expected sooner, or later, than by the rule; then the rule holds again", """
    0    ok                 | -> ok
    0    expect within=20   |
    15   ok                 |
    110  ok                 |
    110  expect within=500  |
    400  ok                 |
    600  tick               | @500 -> critical (stale); @500 notify problem critical
    610  ok                 | -> ok; notify recovery ok
    610  expect within=20   |
    700  tick               | @630 -> critical (stale); @630 notify problem critical
    700  expect within=50   |
    800  tick               |
    810  ok                 | -> ok; notify recovery ok
""", c=OUTSIDE)  # fmt: skip

table("what was expected while Helen was away is expected from its start on", """
    0    ok                 | -> ok
    0    expect within=50   |
    500  helen_start        |
    555  tick               | @550 -> critical (stale); @550 notify problem critical
""", c=OUTSIDE)  # fmt: skip

table("the clock of whoever sends it is nobody's clock that we know", """
    0    ok ended=-5000     |
    10   critical ended=9   | -> critical; notify problem critical
    20   ok ended=5000      | -> ok; notify recovery ok
    30   ok                 |
""", c=OUTSIDE)  # fmt: skip


@pytest.mark.parametrize("title", TABLES)
def test_a_table(title: str) -> None:
    """Each input has the events that stand beside it, and no others."""
    text, rules = TABLES[title]
    play(text, **rules)
