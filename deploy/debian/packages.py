"""Lays out the three packages: helen-equus has the programs, helen-server and equus-agent a unit and its user each.

A machine has one environment however many of its roles it takes, and each role is removed and purged by itself.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import attrs

HERE = Path(__file__).parent
UNITS = HERE.parent / "systemd"
PROGRAMS = ("helen", "equus", "scale0ctl", "zerotask")
MAINTAINER = "The Helen and Equus project <packages@helen.invalid>"
COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Files: *
Copyright: the authors of Helen and Equus
License: MIT
Comment: /opt/helen has packages of others, each with its licence in its dist-info folder.
"""


@attrs.frozen
class Role:
    """A package with a unit: its name, the user that the unit runs as, the units, and its description."""

    package: str
    user: str
    units: tuple[str, ...]
    summary: str


ROLES = (
    Role(
        "helen-server", "helen", ("helen.service", "helen-agents.socket", "helen-web.socket"),
        "Helen, the monitoring server",
    ),
    Role("equus-agent", "equus", ("equus.service",), "Equus, the monitoring agent"),
)  # fmt: skip


def lay_programs(root: Path, version: str, python: tuple[int, int], architecture: str) -> None:
    """Complete ROOT, which has opt/helen, to the package of the programs."""
    (root / "usr/bin").mkdir(parents=True)
    for name in PROGRAMS:
        (root / "usr/bin" / name).symlink_to(f"/opt/helen/bin/{name}")
    major, minor = python
    # Compiled modules and their folder are of one minor version.
    needs = f"python3 (>= {major}.{minor}~), python3 (<< {major}.{minor + 1}~), libc6 (>= 2.28)"
    summary = "Programs of Helen and Equus, with their Python environment"
    _describe(root, "helen-equus", version, architecture, needs, summary)


def lay_role(root: Path, role: Role, version: str) -> None:
    """Make ROOT the package of a role: units, user, settings and the scripts of its life."""
    _copy([UNITS / unit for unit in role.units], root / "usr/lib/systemd/system")
    _copy([HERE / "files" / f"{role.user}.env"], root / "etc" / role.user)
    users = root / "usr/lib/sysusers.d"
    users.mkdir(parents=True)
    (users / f"{role.user}.conf").write_text(f'u {role.user} - "{role.summary}" /var/lib/{role.user}\n')
    needs = f"helen-equus (= {version}), systemd (>= 247), init-system-helpers (>= 1.52)"
    control = _describe(root, role.package, version, "all", needs, role.summary)
    (control / "conffiles").write_text(f"/etc/{role.user}/{role.user}.env\n")
    for script in sorted((HERE / "scripts").iterdir()):
        (control / script.name).write_text(filled(script.read_text(), role))
        (control / script.name).chmod(0o755)


def filled(script: str, role: Role) -> str:
    """Return the text of a maintainer script for a role."""
    return script.replace("@user@", role.user).replace("@units@", " ".join(role.units))


def _copy(files: list[Path], folder: Path) -> None:
    folder.mkdir(parents=True)
    for path in files:
        shutil.copyfile(path, folder / path.name)


def _describe(root: Path, package: str, version: str, architecture: str, needs: str, summary: str) -> Path:
    """Write the control file and the copyright; return the control folder."""
    doc = root / "usr/share/doc" / package
    doc.mkdir(parents=True)
    (doc / "copyright").write_text(COPYRIGHT)
    control = root / "DEBIAN"
    control.mkdir()
    fields = {
        "Package": package, "Version": version, "Architecture": architecture, "Maintainer": MAINTAINER,
        "Section": "admin", "Priority": "optional", "Depends": needs, "Description": summary,
    }  # fmt: skip
    (control / "control").write_text("".join(f"{name}: {value}\n" for name, value in fields.items()))
    return control
