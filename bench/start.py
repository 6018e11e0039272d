"""How long one waits: quickstart to the first result on screen, an agent to `connected`, `helen --help`. Medians.

    python bench/start.py [--rounds 5]

Each figure is wall time from the start of a process, with fresh state and files that are in the page cache. The load of
the machine and the cost of an empty interpreter are printed beside them: on a busy machine the figures say little.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from helen.cli.local.processes import EQUUS, Local

HELEN = "from helen.cli.main import main; main(prog_name='helen')"
LIMITS = {"quickstart": 2.0, "equus": 1.2}  # seconds that the product is held to, on a quiet machine
# As installed: pip compiles what it installs, so a shell that forbids bytecode must not count.
UNSET = ("HELEN_", "EQUUS_", "PYTHONDONTWRITEBYTECODE")
COLOURLESS = {key: value for key, value in os.environ.items() if not key.startswith(UNSET)}


def until_line(words: list[str], is_it: Callable[[str], bool]) -> float:
    """Seconds until a process prints a line that fits; then it is ended."""
    began = time.monotonic()
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, env=COLOURLESS | {"PYTHONUNBUFFERED": "1"}
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if is_it(line):
                    return time.monotonic() - began
        finally:
            process.terminate()
    raise SystemExit(f"{words}: ended without the line that was waited for")


def quickstart() -> float:
    """To the first line that names a check of this machine."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        words = [sys.executable, "-c", HELEN, "quickstart", "--state", folder]
        return until_line(words, lambda line: "/load " in line or "/memory " in line)


def equus(local: Local, number: int) -> float:
    """With an identity that it has already, as after a reboot."""
    local.start_agent(f"bench-{number}")
    log, state = local.log(f"bench-{number}"), local.folder / f"bench-{number}"
    while "connected to" not in log.read_text():
        time.sleep(0.05)
    local.end_agent(f"bench-{number}")
    words = [sys.executable, "-c", EQUUS, "--server", local.run["agents"], "--state", str(state)]
    return until_line(words, lambda line: "connected to" in line)


def command(*words: str) -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL, env=COLOURLESS)
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = range(parser.parse_args().rounds)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    command("-c", HELEN, "--help")
    figures = {
        "python -c pass": [command("-c", "pass") for _ in rounds],
        "helen --help": [command("-c", HELEN, "--help") for _ in rounds],
        "quickstart": [quickstart() for _ in rounds],
    }
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        local = Local(Path(folder))
        try:
            local.start_helen("127.0.0.1:0", "127.0.0.1:0")
            local.wait_for_helen()
            figures["equus"] = [equus(local, number) for number in rounds]
        finally:
            local.stop()
    for name, took in figures.items():
        limit = f"  (held to {LIMITS[name]:g} s)" if name in LIMITS else ""
        print(f"{name:<16} median {statistics.median(took):6.3f} s, best {min(took):6.3f} s{limit}")


if __name__ == "__main__":
    main()
