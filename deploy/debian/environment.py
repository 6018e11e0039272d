"""Makes the environment that the packages bring to /opt/helen: a lock's packages and the wheel, for Debian's Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PYTHON = Path("/usr/bin/python3")  # Debian's; a newer one of the builder's is not on the machines of users
HOME = "opt/helen"


def python_version() -> tuple[int, int]:
    """Return major and minor version of Debian's Python. Raises ValueError if it is missing or too old."""
    try:
        words = [str(PYTHON), "-c", "import sys; print(*sys.version_info[:2])"]
        major, minor = map(int, subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(f"{PYTHON} does not run ({error}): apt-get install python3") from None
    if (major, minor) < (3, 11):
        raise ValueError(f"{PYTHON} is {major}.{minor}, and 3.11 is needed: build on Debian 12, Ubuntu 24.04 or newer")
    return major, minor


def make_environment(root: Path, wheel: Path, lock: Path, index: str) -> Path:
    """Make ROOT/opt/helen as if ROOT were /, and return it. Installs by hashes alone; `index` "" is uv's own default.

    Raises ValueError with the last words of a step that fails.
    """
    home = root / HOME
    chosen = ["--default-index", index] if index else []
    to = ["--python", str(home), "--link-mode", "copy"]
    _uv("venv", "--quiet", "--python", str(PYTHON), str(home))
    _uv("pip", "install", "--quiet", *to, *chosen, "--require-hashes", "--requirement", str(lock))
    _uv("pip", "install", "--quiet", *to, "--no-deps", "--no-index", str(wheel))
    _move(home, root)
    _compile(home, root)
    return home


def _uv(*words: str) -> None:
    program = Path(sys.executable).with_name("uv")
    done = subprocess.run([program, *words], capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"uv {words[0]}: {done.stderr.strip()[-500:]}")


def _move(home: Path, root: Path) -> None:
    """Let programs name the place where they will be, not the one where they were made."""
    (home / ".lock").unlink(missing_ok=True)
    for path in [*(home / "bin").iterdir(), home / "pyvenv.cfg"]:
        if not path.is_symlink() and str(root).encode() in (content := path.read_bytes()):
            path.write_bytes(content.replace(str(root).encode(), b""))


def _compile(home: Path, root: Path) -> None:
    """Bring bytecode: else root's first run would write some that dpkg knows nothing of."""
    words = ["-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/"]
    done = subprocess.run([PYTHON, *words, str(home / "lib")], capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"the bytecode of {home} can't be made: {done.stdout.strip()[-500:]}")
