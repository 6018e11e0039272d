"""Describe the five drawings of docs/drawings.rst: the boxes are written here, the names in them come from the code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from canvas import LINE, PAD, WIDTH, Canvas, box_height
from facts import ROOT, code, message, strings, threads

EQUUS_X, HELEN_X, LANE = 12, 372, 336  # the two sides of a walk


def processes() -> Canvas:
    """Draw the processes of a server and of a monitored machine, with their threads."""
    canvas = Canvas("Processes and threads of Helen and Equus")
    named = threads("helen", "equus", "zerotask") | {"reactor": "Twisted"}
    server(canvas, named)
    monitored(canvas, named)
    canvas.arrow([(472, 62), (420, 62)], both=True)
    canvas.text(441, 54, "TLS", "label", "middle")
    canvas.text(441, 80, "4166", "label", "middle")
    return canvas


def server(canvas: Canvas, named: dict[str, str]) -> None:
    """Draw Helen's process with its threads, and the processes beside it."""
    canvas.room(12, 12, 408, 420, "the server's machine")
    canvas.room(24, 40, 384, 246, "twistd helen: one process")
    y = 68.0
    for name, lines in {
        "reactor": ["connections, schedules, states, HTTP;", "it never waits for a disk or a child"],
        "journal-writer": ["WAL, one sync for a group"],
        "journal-sealer": ["closed WALs to Parquet"],
        "helen.storage.database": ["SQLite"],
    }.items():
        known(named, name)
        y += canvas.box(36, y, 360, f"thread {name}", lines) + 6
    for module in ("helen.library.linter", "helen.pipeline.__main__", "helen.notify.child_program"):
        code(module)
    canvas.box(24, 304, 114, "equus lint", ["reads changed", "Lua, confined"])
    canvas.box(143, 304, 139, "helen pipeline", ["Spark: reads", "the segments"])
    canvas.box(287, 304, 121, "a command", ["or Apprise, a", "message each"])
    for x in (84, 347):
        canvas.arrow([(x, 286), (x, 304)])


def monitored(canvas: Canvas, named: dict[str, str]) -> None:
    """Draw the agent and the processes of its sandbox."""
    x, width = 472, 222
    known(named, "spool")
    canvas.room(462, 12, 250, 420, "a monitored machine")
    agent = canvas.box(x, 40, width, "equus, the agent", ["link, schedule; no Lua", "thread spool: its files"])
    zygote = 40 + agent + 36
    lines = ["forked before keys are", "read; forks the workers"]
    fork = zygote + canvas.box(x, zygote, width, "zygote", lines, [code("equus.sandbox.zygote")])
    worker = fork + 36
    lines = ["Lua, behind seccomp and", "limits; then gone"]
    calls = worker + canvas.box(x, worker, width, "worker, one a run", lines, [code("equus.sandbox.worker")])
    lines = ["performs host calls, as", "this host's policy allows"]
    canvas.box(x, calls + 24, width, "broker", lines, [code("equus.sandbox.broker")])
    canvas.arrow([(510, 40 + agent), (510, zygote)], "a job", (520, zygote - 14), "start")
    canvas.arrow([(510, fork), (510, worker)], "fork", (520, worker - 14), "start")
    canvas.arrow([(694, worker + 20), (703, worker + 20), (703, 62), (694, 62)])
    canvas.text(692, worker - 14, "the result", "label", "end")
    canvas.arrow([(510, calls), (510, calls + 24)], both=True)


def known(found: dict[str, str], name: str) -> None:
    """Refuse a thread's name that no code gives: the drawing would be stale."""
    if name not in found:
        raise LookupError(f"no thread is called {name!r}")


MEANWHILE = "meanwhile"  # the step follows from the last one of its own side
Step = tuple[str, str, list[str], list[str]]  # side ("E" or "H", or "" in a single column), title, lines, code

# A step is `SIDE title | line / line | module:Name, module`; between two of them stand messages, `> sent by Equus`
# or `< sent by Helen`, and remarks, `= text`.
RESULT = """
E It is due | The runner gives a job to the sandbox. | equus.schedule.runner:ScheduleRunner
E It runs | A worker runs the check; exactly one / document comes back, whatever happens. | equus.sandbox.runner:Runner
E It is on the agent's disk | It gets the next number of the spool, and / is synced. Only then it is sent. | equus.spool.spool_thread:SpoolThread
> report
H It is received | Decoded, and queued for the disk. | helen.sessions.result_intake:ResultIntake
H It is on Helen's disk | A number that is there already is dropped. / One sync for all of some 10 ms. | helen.journal.writer:Writer
< ack
E It is forgotten | The spool lets go of all up to that number. | equus.sessions.report_sender:ReportSender
= meanwhile
H It is evaluated | A step of the state machine: perhaps a / transition, perhaps a decision. | helen.evaluation.evaluator:Evaluator, helen.states.machine:step
H It is history | A WAL of 10 s or 20,000 results becomes a / Parquet segment. | helen.journal.sealer:Sealer
"""  # noqa: E501
PUSH = """
H A file changes | In the folder, or by helen push. | helen.library.check_folder:FolderWatch
H It is linted and tested | By equus lint, in a process of its own. | helen.library.linter:Linter
H Two manifests are signed | N, and N+1 that would undo it. | helen.library.set_builder:SetBuilder
H The first ring opens | Members are chosen by a hash of name and / version. | helen.rollout.rings, helen.sessions.rollout_control:RolloutControl
< reload
E The agent asks | For the manifest, which it verifies, / then for the files that it lacks. | equus.code.update:Updater
> manifest, fetch
H Helen delivers | Files by their hashes. | helen.sessions.delivery:Delivery
< manifest, file
E The agent swaps the set | Compiled in the sandbox, then one rename. / Running checks end on the old code. | equus.code.library:LibraryStore
> loaded
H The gate compares | New results with old ones, on the same / agents. Alerts about them are held back. | helen.rollout.gates:Evidence
= passed: next ring; failed: N+1 goes to all
H It is for all, or taken back | The timeline is told which, and forgets / results of a bad version. | helen.rollout.rollout
"""  # noqa: E501
NOTIFICATION = """
. The state machine steps | Results and deadlines, in order of the / journal, give events. | helen.states.machine:step
. It decides | notify; hold, with each reason; or drop | helen.states.alert_decisions:decide
. The decision is durable | A record `decision` in the journal. | helen.evaluation.evaluator:Evaluator
. It is routed | By its labels, down the tree of rules. | helen.notify.routing:route
. It is grouped | group_wait, group_interval, repeat_interval, / the channel's rate. | helen.notify.grouping:Groups
. The message is in the store | One transaction, before anything is sent. | helen.notify.outbox:Outbox
"""


def read_steps(table: str) -> list[Step | str]:
    """Return the steps of a table, and as texts the messages and remarks between them.

    Raises Stale if a module, a name in it, or a message is gone.
    """
    found: list[Step | str] = []
    for line in table.strip().splitlines():
        mark, _, rest = line.partition(" ")
        if mark in "<>":
            sender = "EQUUS" if mark == ">" else "HELEN"
            found.append(", ".join(message(command, sender) for command in rest.split(", ")))
        elif mark == "=":
            found.append(rest)
        else:
            title, lines, where = rest.split(" | ")
            places = [code(module, name) for module, _, name in (each.partition(":") for each in where.split(", "))]
            found.append((mark, title, lines.split(" / "), places))
    return found


def walk(title: str, left: str, right: str, steps: list[Step | str]) -> Canvas:
    """Draw steps from top to bottom on two sides; a text between two steps is the message that goes across."""
    canvas = Canvas(title)
    heights = [box_height(step[2], step[3]) for step in steps if not isinstance(step, str)]
    total = sum(heights) + 26 * (len(heights) - 1) + 44
    canvas.room(EQUUS_X - 4, 8, LANE, total, left)
    canvas.room(HELEN_X - 8, 8, LANE + 4, total, right)
    y, number, before, label = 36.0, 0, "", ""
    bottom = dict.fromkeys("EH", 0.0)
    for step in steps:
        if isinstance(step, str):
            label = step
            continue
        side, name, lines, where = step
        number += 1
        x, width = (EQUUS_X + 4, LANE - 16) if side == "E" else (HELEN_X, LANE - 12)
        if before == side or label == MEANWHILE:
            canvas.arrow([(x + 14, bottom[side]), (x + 14, y)], label, (x + 24, y - 8), "start")
        elif before:
            going = (EQUUS_X + LANE - 40, HELEN_X + 40) if before == "E" else (HELEN_X + 40, EQUUS_X + LANE - 40)
            canvas.arrow([(going[0], y - 26), (going[0], y - 13), (going[1], y - 13), (going[1], y)])
            if label:
                at = (going[0] - 8, "end") if before == "E" else (going[0] + 8, "start")
                canvas.text(at[0], y - 9, label, "label", at[1])
        y += canvas.box(x, y, width, f"{number}. {name}", lines, where) + 26
        before, label, bottom[side] = side, "", y - 26
    return canvas


def result() -> Canvas:
    """Draw the walk of one result from the check to the segment."""
    return walk("A result's walk", "Equus, the agent", "Helen, the server", read_steps(RESULT))


def push() -> Canvas:
    """Draw the walk of a changed check from the folder to all agents, or back."""
    return walk("A push's walk", "Equus, an agent of the open ring", "Helen, the server", read_steps(PUSH))


def notification() -> Canvas:
    """Draw the way from an evaluated result to a message, and back into the history."""
    canvas = Canvas("From a decision to a notification")
    left, width, right, wide = 12, 330, 396, 312
    y, places = 12.0, []
    for _, title, lines, where in read_steps(NOTIFICATION):
        if places:
            canvas.arrow([(left + 40, y - 18), (left + 40, y)])
        height = canvas.box(left, y, width, title, lines, where)
        places.append((y, height))
        y += height + 18
    sent = places[-1][0] + places[-1][1] / 2
    top = channels(canvas, right, sent, wide)
    canvas.arrow([(left + width, sent), (right, sent)])
    assert {"transition", "decision", "notice"} <= set(strings("helen.journal.values", "CHANGE_KINDS"))
    noted = places[2][0]
    lines = ["A `notice`: grouped, sent, failed ..."]
    height = canvas.box(
        right, noted - 30, wide, "What became of it", lines, [code("helen.notify.notifier", "Notifier")]
    )
    canvas.arrow([(right + 60, top), (right + 60, noted - 30 + height)])
    canvas.arrow([(right, noted + 8), (left + width, noted + 8)])
    lines = ["Reads transitions, decisions and notices", "of the check from the journal."]
    height = canvas.box(right, 12, wide, "helen explain", lines, [code("helen.explain.explain")])
    canvas.arrow([(right + 60, noted - 30), (right + 60, 12 + height)])
    return canvas


def channels(canvas: Canvas, x: float, middle: float, width: float) -> float:
    """Draw the kinds of channels that the code has, and return where their area begins."""
    kinds = [
        strings(f"helen.notify.channels.{path.stem}", f"{path.stem.capitalize()}.type_name")[0]
        for path in sorted((ROOT / "helen/notify/channels").glob("*.py"))
        if is_channel(path)
    ]
    tall = 34 + len(kinds) * 34
    top = middle - tall / 2 - 60
    canvas.room(x, top, width, tall, "channels")
    for number, kind in enumerate(kinds):
        canvas.box(x + 12, top + 28 + number * 34, width - 24, "", [kind], [])
    canvas.text(x + 8, top + tall + 16, "a failed try: again after 5 s, 10 s ...", "label")
    return top


def is_channel(path: Path) -> bool:
    """Return True for a module of helen/notify/channels that has a type of channel."""
    return f"class {path.stem.capitalize()}" in path.read_text() and "type_name: ClassVar[str] = " in path.read_text()


def network() -> Canvas:
    """Draw three Helens with their agents, two brokers between them, and the documents that they share."""
    canvas = Canvas("Three Helens and their brokers")
    shared = sorted({name for path in sorted((ROOT / "helen/cluster").glob("*.py")) for name in shared_by(path)})
    helens = ((12, "h1"), (254, "h2"), (496, "h3"))
    code("helen.cluster.scale0_backend")
    for x, name in helens:
        canvas.box(x, 12, 212, "agents", [f"equus {name}-a, {name}-b ..."])
        canvas.arrow([(x + 106, 56), (x + 106, 92)], "TLS", (x + 114, 78), "start", both=True)
        canvas.box(
            x,
            92,
            212,
            f"Helen {name}",
            [f"offers helen, helen.{name},", "equus.NAME for each agent"],
            ["cluster/scale0_backend.py"],
        )
    for x, name in ((96, "b1"), (424, "b2")):
        canvas.box(
            x,
            240,
            200,
            f"broker {name}",
            ["requests to workers; keeps", "the shared documents"],
            [code("scale0.broker.service", "BrokerService")],
        )
    canvas.arrow([(118, 168), (170, 240)], both=True)
    canvas.arrow([(340, 168), (270, 240)], both=True)
    canvas.arrow([(602, 168), (550, 240)], both=True)
    canvas.arrow([(296, 278), (424, 278)], "peers, CURVE", both=True)
    canvas.text(424, 336, "if a broker is gone, each calls another", "label")
    canvas.box(96, 352, 200, "any frontend", ["asks equus.h2-a"])
    canvas.arrow([(196, 352), (196, 316)])
    canvas.room(330, 356, 378, 28 + 4 * LINE + PAD, "shared by Helens with one --network-key")
    lines = wrapped(", ".join(shared), 52)
    for number, line in enumerate(lines):
        canvas.text(330 + PAD, 356 + 36 + number * LINE, line, "code")
    canvas.text(330 + PAD, 356 + 36 + len(lines) * LINE, "each a signed document; the newest counts", "")
    return canvas


def shared_by(path: Path) -> list[str]:
    """Return the names of the documents that a part of helen/cluster shares; agents are sixteen, drawn as one."""
    text = path.read_text()
    if "names = NAMES" in text:
        return ["agents.0-f"]
    found = [line.split("=", 1)[1] for line in text.splitlines() if line.strip().startswith('names = ("')]
    return [each.strip(' (),"') for each in found]


def wrapped(text: str, most: int) -> list[str]:
    """Return a list of names as lines of at most this many letters."""
    lines = [""]
    for each in text.split(", "):
        if len(lines[-1]) + len(each) + 2 > most:
            lines.append("")
        lines[-1] += f"{each}, "
    return [*lines[:-1], lines[-1].rstrip(", ")]


SCENES: dict[str, Callable[[], Canvas]] = {
    "processes": processes,
    "result": result,
    "push": push,
    "notification": notification,
    "network": network,
}
assert WIDTH >= HELEN_X + LANE
