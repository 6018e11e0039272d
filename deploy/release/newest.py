"""Tries the newest versions that setup.cfg allows, and says which of them broke what: `./dev newest [TEST...]`.

The locks keep CI still; this is run beside it, each week for instance. A failure that is there with the locked versions
too is none of theirs. For each that is left every newer package is tried by itself, beside the locked ones.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import attrs
from packaging.markers import Marker

sys.path.insert(0, str(Path(__file__).parent))

from lock import Pin, read_lock
from trials import TOOLS, Unusable, failures

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "newest"
LOCK = ROOT / "requirements" / "test.lock"
EXTRAS = ("dev", "spark", "jre")

Try = Callable[[Mapping[str, str], frozenset[str]], frozenset[str]]


@attrs.frozen
class Change:
    """A package with its locked version and the newest one; "" where a lock has none."""

    name: str
    locked: str
    newest: str

    def __str__(self) -> str:
        return f"{self.name} {self.locked or 'none'} -> {self.newest or 'none'}"


def versions(pins: Iterable[Pin]) -> dict[str, str]:
    """Return the versions that are installed on this machine, by name."""
    return {pin.name: pin.version for pin in pins if not pin.marker or Marker(pin.marker).evaluate()}


def changes(locked: Mapping[str, str], newest: Mapping[str, str]) -> list[Change]:
    """Return what differs between two locks, by name."""
    names = sorted(locked.keys() | newest.keys())
    found = (Change(name, locked.get(name, ""), newest.get(name, "")) for name in names)
    return [each for each in found if each.locked != each.newest]


def blame(broken: frozenset[str], changed: Iterable[Change], attempt: Try) -> dict[str, list[Change]]:
    """Return for each failure the packages that bring it about, each alone beside the locked versions.

    `attempt` takes versions that differ from the locked ones and failures to look for, and returns those that are
    there. An empty list: it takes several of the packages together.
    """
    found: dict[str, list[Change]] = {each: [] for each in sorted(broken)}
    for change in changed:
        if change.newest:
            for failure in attempt({change.name: change.newest}, broken) & broken:
                found[failure].append(change)
    return found


def sentences(found: Mapping[str, list[Change]]) -> list[str]:
    """Return a line for each failure: what fails, and by which package."""
    by_several = "no newer package alone; several together"
    return [f"{failure}: {', '.join(map(str, by)) or by_several}" for failure, by in found.items()]


def _uv(*words: str) -> None:
    done = subprocess.run([Path(sys.executable).with_name("uv"), *words], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise Unusable(f"uv {' '.join(words[:2])}: {done.stderr.strip()[-1000:]}")


def _resolve(index: list[str]) -> Path:
    """Return a lock of the newest versions that setup.cfg allows."""
    lock = WORK / "newest.lock"
    lock.unlink(missing_ok=True)  # uv would keep what it has
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    options = ["--quiet", "--universal", "--python-version", "3.11", "--generate-hashes", *index]
    options += ["--no-emit-index-url", "--no-emit-find-links", "--output-file", str(lock)]
    _uv("pip", "compile", *options, "setup.cfg", "requirements/build.in", *extras)
    return lock


def _environment(name: str, lock: Path, index: list[str], others: Mapping[str, str]) -> Path:
    """Return an environment of a lock, with other versions of some packages and what these need."""
    home = WORK / name
    to = ["--quiet", "--python", str(home), *index]
    _uv("venv", "--quiet", "--clear", "--python", sys.executable, str(home))
    _uv("pip", "sync", *to, "--require-hashes", str(lock))
    if others:
        _uv("pip", "install", *to, *(f"{each}=={version}" for each, version in others.items()))
    editable = ["--no-deps", "--no-build-isolation", "--config-settings", "editable_mode=compat", "--editable", "."]
    _uv("pip", "install", *to, *editable)
    return home


def run(tests: list[str], index: list[str]) -> int:
    """Print what is newer and what of it breaks something; return the exit status. Raises Unusable."""
    WORK.mkdir(parents=True, exist_ok=True)
    lock = _resolve(index)
    changed = changes(versions(read_lock(LOCK)), versions(read_lock(lock)))
    print(f"newer than requirements/test.lock: {', '.join(map(str, changed)) or 'nothing'}", flush=True)
    if not changed:
        return 0

    def attempt(others: Mapping[str, str], wanted: frozenset[str]) -> frozenset[str]:
        home = _environment("locked", LOCK, index, others)
        return failures(ROOT, home, sorted(wanted - TOOLS.keys()), sorted(wanted & TOOLS.keys()))

    failed = failures(ROOT, _environment("newest", lock, index, {}), tests or ["tests"])
    broken = failed - attempt({}, failed) if failed else failed
    print("\n".join([f"with the locked versions, too: {each}" for each in sorted(failed - broken)]))
    print("\n".join(sentences(blame(broken, changed, attempt))) or "nothing broke")
    return int(bool(broken))


def main() -> None:
    words = sys.argv[1:]
    index = ["--default-index", words[1]] if words[:1] == ["--index"] else []
    try:
        sys.exit(run(words[len(index) :], index))
    except (Unusable, OSError, ValueError) as error:
        raise SystemExit(f"newest: {error}") from None


if __name__ == "__main__":
    main()
