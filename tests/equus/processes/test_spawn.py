"""Test programs of the host: they start without a shell, have limits, and end with all their children."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from equus.processes import spawn
from equus.processes.spawn import Finished, close_spawner, run_program

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "MARK": "x y"}


@pytest.fixture(autouse=True)
def spawner() -> Iterator[None]:
    yield
    close_spawner()


def shell(script: str, timeout: float = 60.0, **settings: object) -> Finished:
    return run_program(["/bin/sh", "-c", script], timeout, ENVIRONMENT, **settings)  # type: ignore[arg-type]


def processes_with(mark: str) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command = (folder / "cmdline").read_bytes()
                dead = (folder / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            except OSError:
                continue
            if mark.encode() in command and not dead:
                found.append(int(folder.name))
    return found


def test_what_a_program_is_given() -> None:
    """A program gets the given environment and no more, `/` as its folder, an empty input, and no descriptor of the
    agent.
    """
    done = shell("env; pwd; cat; ls /proc/self/fd | wc -l; echo err >&2; exit 3")
    lines = done.stdout.decode().splitlines()
    assert done.exit_status == 3
    assert done.stderr == b"err\n"
    assert (done.timed_out, done.truncated) == (False, False)
    assert {line for line in lines if line.startswith(("PATH", "MARK"))} == {"PATH=/usr/bin:/bin", "MARK=x y"}
    assert not [line for line in lines if line.startswith(("PYTHON", "HOME", "LD_"))]
    assert lines[-2:] == ["/", "4"]  # 0, 1, 2 and the folder that ls reads


@pytest.mark.adversary(41)
def test_arguments_are_not_words_of_a_shell() -> None:
    """Arguments reach the program as they are, whatever a shell would make of them."""
    odd = ["$(id)", "; rm -rf", "a b", "'", "", "\n", "*"]
    done = run_program(["/usr/bin/printf", "<%s>", *odd], 60, ENVIRONMENT)
    assert done.stdout.decode() == "".join(f"<{text}>" for text in odd)


@pytest.mark.adversary(42)
def test_over_time_is_asked_then_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is over its time gets SIGTERM first, and is killed half a second later if it ignores that."""
    deaf = shell("trap '' TERM; while :; do sleep 0.05; done", timeout=3.0)
    assert (deaf.exit_status, deaf.timed_out) == (-9, True)
    assert spawn.TERM_GRACE == 0.5
    monkeypatch.setattr(spawn, "TERM_GRACE", 60.0)  # a busy machine may take longer than half a second to say `bye`
    polite = shell("trap 'echo bye; exit 7' TERM; echo here; while :; do sleep 0.05; done", timeout=3.0)
    assert (polite.exit_status, polite.timed_out, polite.stdout) == (7, True, b"here\nbye\n")


DESCENDANTS = {
    "a daemon": "(setsid sleep 98{n} >/dev/null 2>&1 &) ; echo started",
    "a daemon twice removed": "(setsid sh -c '(setsid sleep 98{n} &) ; exit' >/dev/null 2>&1 &) ; echo started",
    "one that keeps the output open": "setsid sleep 98{n} & echo started",
    "one that ignores SIGTERM": "(trap '' TERM HUP; setsid sleep 98{n}) & echo started",
}


@pytest.mark.adversary(42)
@pytest.mark.parametrize("name", DESCENDANTS)
def test_no_descendant_is_left(name: str) -> None:
    """A process that leaves its group is killed with the program that started it, and does not hold up the call."""
    number = f"{list(DESCENDANTS).index(name)}{os.getpid()}"
    done = shell(DESCENDANTS[name].replace("{n}", number))
    assert (done.exit_status, done.timed_out, done.stdout) == (0, False, b"started\n")
    assert processes_with(f"98{number}") == []


def test_a_family_that_times_out_is_killed_too() -> None:
    """The children of a program are killed too when the program itself is over its time."""
    mark = f"97{os.getpid()}"
    assert shell(f"(setsid sleep {mark} &) ; sleep {mark}", timeout=0.3).timed_out
    assert processes_with(mark) == []


@pytest.mark.parametrize(("length", "truncated"), [(65_536, False), (65_537, True), (3_000_000, True)])
def test_output_has_a_cap(length: int, truncated: bool) -> None:
    """64 KiB of output are kept, and the program goes on, so that its exit status counts."""
    done = shell(f"head -c {length} /dev/zero; exit 2")
    assert (done.exit_status, len(done.stdout), done.truncated) == (2, min(length, 65_536), truncated)


@pytest.mark.adversary(42)
def test_a_flood_is_killed() -> None:
    """A program that writes without an end is killed long before its time."""
    done = run_program(["/usr/bin/yes"], 600, ENVIRONMENT)
    assert (done.exit_status, done.timed_out, done.truncated, done.flooded) == (-9, False, True, True)


def test_a_program_that_is_killed_for_another_reason_is_no_flood() -> None:
    """A program that is killed for another reason, or that writes much and ends, is no flood."""
    for script in ("kill -9 $$", "head -c 4000000 /dev/zero"):
        assert run_program(["/bin/sh", "-c", script], 30, ENVIRONMENT).flooded is False


@pytest.mark.adversary(42)
def test_a_program_that_closes_its_output_and_stays() -> None:
    """A program that closes its output and runs on is waited for until its time is over."""
    assert shell("exec >&- 2>&-; sleep 60", timeout=0.3).timed_out


@pytest.mark.parametrize(
    ("argv", "env", "timeout"),
    [
        ([], {}, 1.0),
        (["true"], {}, 1.0),
        (["/bin/true", "a\0b"], {}, 1.0),
        (["/bin/true"], {"LD_PRELOAD": "/tmp/x.so"}, 1.0),
        (["/bin/true"], {}, 0.0),
        (["/bin/true"], {}, 3601.0),
        (["/bin/true", "x" * 131_072], {}, 1.0),
    ],
)
def test_calls_that_are_wrong(argv: list[str], env: dict[str, str], timeout: float) -> None:
    """A wrong call is refused before any program starts."""
    with pytest.raises(ValueError):
        run_program(argv, timeout, env)


def test_a_program_that_is_not_there() -> None:
    """A missing or forbidden program raises the system's own error with the file's name."""
    with pytest.raises(FileNotFoundError) as fault:
        run_program(["/no/such/program"], 1, ENVIRONMENT)
    assert fault.value.filename == "/no/such/program"
    with pytest.raises(PermissionError):
        run_program(["/etc/passwd"], 1, ENVIRONMENT)


def test_the_spawner_comes_back() -> None:
    """A spawner that was killed is started again at the next call."""
    assert shell("echo 1").stdout == b"1\n"
    process = spawn._SPAWNER._process
    assert process is not None
    process.kill()
    process.wait()
    assert shell("echo 2").stdout == b"2\n"
