"""Is the process that answers questions in PromQL: frames come on its standard input, answers go out on the other.

    python -m helen.promql.answering

It is a process of its own so that no question holds Helen up, whatever it takes: memory is bounded by the kernel, and
Helen ends it when the time is over. It ends by itself when its input does.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import traceback
from pathlib import Path
from typing import BinaryIO

import msgspec

from helen.agents.sight import Sight
from helen.promql.archive import Facts
from helen.promql.errors import MEMORY
from helen.promql.kept_pieces import KeptPieces
from helen.promql.parameters import Parameters
from helen.promql.questions import ask
from helen.promql.wire import Answered, Asked, Frame, Unsealed, packed, read_frame

KEPT = 448 << 20  # bytes that the process may have behind an answer, with what it keeps: one that has more ends
NICE = 5  # below Helen, whose agents wait for it


def answer(
    asked: Asked, agents: dict[str, dict[str, str]], results: list[Unsealed], kept: KeptPieces | None = None
) -> Answered:
    """Return the answer to a question, with what was told before it, and what questions before it have read."""
    sight = None if asked.on is None else Sight(tuple(asked.on), {})

    def sees(name: str) -> bool:
        return sight is None or sight.fits(name, agents.get(name, {}))

    facts = Facts(Path(asked.state), Path(asked.lake), agents, sees, results)
    given = Parameters(asked.given, round(asked.now * 1000))
    return Answered(*ask(asked.path, given, facts, kept or KeptPieces()))


def serve(source: BinaryIO, target: BinaryIO) -> None:
    """Answer one question after the other, until the input ends or the process has taken much memory."""
    agents, results, kept = dict[str, dict[str, str]](), list[Unsealed](), KeptPieces()
    decode = msgspec.msgpack.Decoder(Frame).decode
    while (body := read_frame(source)) is not None:
        frame = decode(body)
        if frame.told is not None:
            agents.update(frame.told.agents)
            results += frame.told.results
        if frame.asked is None:
            continue
        try:
            found = answer(frame.asked, agents, results, kept)
        except Exception:
            found = Answered(500, b"", traceback.format_exc())
        is_last = resident() > KEPT
        target.write(packed(Answered(found.status, found.body, found.fault, is_last)))
        target.flush()
        if is_last:
            return
        agents, results = {}, []


def resident() -> int:
    """Return the bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()


def main() -> None:
    """Serve on the standard input and output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: Helen ends this process
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    os.nice(NICE)
    target = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    serve(sys.stdin.buffer, target)


if __name__ == "__main__":
    main()
