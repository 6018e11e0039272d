"""Test the Debian packages: their fields, and their life: install, upgrade, downgrade, remove, purge."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from a_debian import Debian, a_debian
from debian_packages import NEW, OLD
from helen_running import wait_until

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "deploy" / "debian"))

from make import debian_version, pack  # noqa: E402
from packages import ROLES, UNITS, Role, filled, lay_role  # noqa: E402

ROLE = {role.package: role for role in ROLES}
# What it is asked for the first time after /run/refuses was made, a start or a stop, it does not do.
SYSTEMCTL = """#!/bin/sh
echo "$@" >> /run/said
[ "$1" != --system ] || [ "$2" != is-enabled ] || echo enabled
case "$1" in try-restart|stop) ! rm /run/refuses 2>/dev/null ;; esac
"""


@pytest.mark.parametrize(
    ("version", "wanted"),
    [("1.2.0", "1.2.0-1"), ("1.2.0rc2", "1.2.0~rc2-1"), ("1.2.0a1", "1.2.0~a1-1"), ("1.2.0.dev3", "1.2.0~dev3-1")],
)
def test_a_version_as_dpkg_orders_it(version: str, wanted: str) -> None:
    """A version is written as dpkg orders it: a candidate comes before its release (20)."""
    assert debian_version(Path(f"helen_equus-{version}-py3-none-any.whl")) == wanted
    order = ["dpkg", "--compare-versions", wanted, "le", "1.2.0-1"]
    assert subprocess.run(order, check=False).returncode == 0


def test_what_is_no_wheel(tmp_path: Path) -> None:
    """A file that is no wheel is named, with the command that builds one (20)."""
    with pytest.raises(ValueError, match=r"helen\.zip is no wheel: build one with `\./dev build`"):
        debian_version(tmp_path / "helen.zip")
    words = [ROOT / "deploy/debian/make.py", tmp_path / "a-1-py3-none-any.whl", tmp_path / "no.lock", tmp_path]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("deb: uv pip: ")
    assert "no.lock" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.package)
def test_the_package_of_a_role(tmp_path: Path, role: Role) -> None:
    """The package of a role has its units unchanged, settings that dpkg keeps, a user, and scripts that sh can read
    (20).
    """
    lay_role(tmp_path / role.package, role, "1.4-1")
    package = pack(tmp_path / role.package, tmp_path)
    assert package.name == f"{role.package}_1.4-1_all.deb"
    shown = subprocess.run(
        ["dpkg-deb", "--show", "--showformat", "${Depends}", package], capture_output=True, text=True
    )
    assert "helen-equus (= 1.4-1)" in shown.stdout
    subprocess.run(["dpkg-deb", "--raw-extract", package, tmp_path / "out"], check=True)
    for unit in role.units:
        assert (tmp_path / "out/usr/lib/systemd/system" / unit).read_text() == (UNITS / unit).read_text()
    assert (tmp_path / "out/DEBIAN/conffiles").read_text() == f"/etc/{role.user}/{role.user}.env\n"
    for name in ("postinst", "prerm", "postrm"):
        script = tmp_path / "out/DEBIAN" / name
        assert "@" not in script.read_text()
        assert subprocess.run(["sh", "-n", script], check=False).returncode == 0


def test_units_read_the_settings_of_their_package() -> None:
    """The unit of a role reads the settings of its package, and starts programs of /opt/helen, which helen-equus brings
    (20).
    """
    for role in ROLES:
        text = (UNITS / f"{role.user}.service").read_text()
        assert re.search(rf"^EnvironmentFile=-?/etc/{role.user}/{role.user}\.env$", text, re.M)
        assert re.search(r"^ExecStart=/opt/helen/bin/", text, re.M)
        assert f"deb-systemd-invoke stop {' '.join(role.units)}" in filled("deb-systemd-invoke stop @units@", role)


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.package)
@pytest.mark.parametrize(
    ("script", "words", "said"),
    [
        ("postinst", ["configure", "1.3-1"], "%s.service did not start again: journalctl -u %s.service\n"),
        ("prerm", ["remove"], "%s.service did not stop: systemctl status %s.service\n"),
    ],
)
def test_a_unit_that_fails_leaves_the_package_whole(
    tmp_path: Path, role: Role, script: str, words: list[str], said: str
) -> None:
    """A script of dpkg reports a unit that fails, and succeeds, because the package would otherwise stay
    half-configured (20).
    """
    text = filled((ROOT / "deploy/debian/scripts" / script).read_text(), role)
    (tmp_path / "run").mkdir()
    (tmp_path / script).write_text(text.replace("/run/systemd/system", f"{tmp_path}/run").replace("/var/lib", "/"))
    for name in ("systemctl", "systemd-sysusers", "install", "deb-systemd-invoke"):
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {1 if name.startswith('deb') else 0}\n")
        (tmp_path / name).chmod(0o755)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh", tmp_path / script, *words], capture_output=True, text=True, env=path)
    assert (done.returncode, done.stderr) == (0, said % (role.user, role.user))


# ---------------------------------------------------------------------------------------------- their life


@pytest.fixture
def debian(tmp_path: Path) -> Iterator[Debian]:
    """Yield a Debian whose systemd prints what it was asked, and does nothing."""
    with a_debian(tmp_path) as opened:
        opened.script(
            "rm -f /usr/sbin/policy-rc.d; mkdir -p /run/systemd/system; cat > /usr/local/sbin/systemctl <<'E'\n"
            + SYSTEMCTL
            + "E\nchmod 755 /usr/local/sbin/systemctl"
        )
        yield opened


def install(debian: Debian, packages: list[Path]) -> str:
    """Return what dpkg says of packages that it installs."""
    for package in packages:
        shutil.copyfile(package, debian.shared / package.name)
    inside = " ".join(f"/mnt/test/{package.name}" for package in packages)
    return debian.script(f"dpkg --install --force-unsafe-io {inside} 2>&1; dpkg --audit")


def asked(debian: Debian) -> list[str]:
    """Return what systemd was asked since this was called last."""
    return debian.script("touch /run/said; cat /run/said; rm /run/said").splitlines()


def what_helen_holds(debian: Debian, name: str) -> tuple[str, str, str]:
    """Run Helen once as its user, with a token that is made if it is not there; return version, tokens, its keys."""
    options = "--state /var/lib/helen --listen 127.0.0.1:0 --web off"
    start = f"exec runuser -u helen -- /opt/helen/bin/twistd -n --pidfile= helen {options}"
    log = debian.shared / "helen.log"
    with open(log, "a") as out:
        process = subprocess.Popen(debian.words("sh", "-c", start), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        read = ("cat", "/var/lib/helen/run.json")
        run = json.loads(
            wait_until(lambda: process.poll() is None and debian.tried(*read).stdout, log.read_text(), 180)
        )
        if name not in (listed := debian.does("helen", "web-token", "list", "--state", "/var/lib/helen")):
            debian.does("helen", "web-token", "add", name, "--scope", "read", "--state", "/var/lib/helen")
            listed = debian.does("helen", "web-token", "list", "--state", "/var/lib/helen")
        debian.does("kill", str(run["pid"]))
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    keys = debian.script("cd /var/lib/helen; sha256sum ca/ca.key ca/ca.pem signing.key; stat -c %U helen.db ca/ca.key")
    return run["version"], listed, keys


@pytest.mark.long
@pytest.mark.integration
def test_the_life_of_the_packages(debian: Debian, packages: dict[str, list[Path]]) -> None:
    """Upgrade, downgrade and removal keep state and settings, and a purge removes those of its role alone (20)."""
    install(debian, packages[OLD])
    assert debian.does("helen", "--version") == f"helen, version {OLD}\n"
    assert debian.does("dpkg", "--verify", "helen-equus", "helen-server", "equus-agent") == ""
    assert (
        debian.does("stat", "-c", "%U:%G %a", "/var/lib/helen", "/var/lib/equus")
        == "helen:helen 700\nequus:equus 700\n"
    )
    debian.does("/opt/helen/bin/python", "-c", "import bcrypt, appdirs, equus.shell")  # logins through an agent
    assert asked(debian) == ["--system daemon-reload"] * 2  # and nothing was started
    debian.script("echo HELEN_NAME=helen.example >> /etc/helen/helen.env; echo EQUUS_JOIN=x > /etc/equus/join.env")
    before = what_helen_holds(debian, "ann")
    assert (before[0], "ann" in before[1]) == (OLD, True)

    install(debian, packages[NEW])
    assert debian.does("helen", "--version") == f"helen, version {NEW}\n"
    assert asked(debian) == [
        "--system daemon-reload", "try-restart helen.service", "--system daemon-reload", "try-restart equus.service"
    ]  # fmt: skip
    assert what_helen_holds(debian, "ann") == (NEW, *before[1:])

    debian.does("touch", "/run/refuses")
    assert "helen.service did not start again: journalctl -u helen.service" in install(debian, packages[OLD])
    assert what_helen_holds(debian, "ann") == before
    gone = debian.does(
        "sh", "-c", "find /opt/helen -name of_the_new_one.py -o -name __pycache__ -newer /run/said | wc -l"
    )
    assert gone == "0\n"
    assert "HELEN_NAME=helen.example" in debian.does("cat", "/etc/helen/helen.env")

    asked(debian)
    debian.does("touch", "/run/refuses")
    debian.does("dpkg", "--remove", "helen-server", "equus-agent", "helen-equus")
    assert "stop helen.service helen-agents.socket helen-web.socket" in asked(debian)
    assert debian.tried("ls", "/opt/helen").returncode == 2  # not a file is left, bytecode included
    debian.does(
        "test", "-s", "/var/lib/helen/helen.db", "-a", "-s", "/etc/helen/helen.env", "-a", "-d", "/var/lib/equus"
    )

    debian.does("dpkg", "--purge", "helen-server")
    assert debian.tried("ls", "/var/lib/helen", "/etc/helen").returncode == 2
    debian.does("test", "-s", "/etc/equus/equus.env", "-a", "-s", "/etc/equus/join.env", "-a", "-d", "/var/lib/equus")
    debian.does("dpkg", "--purge", "equus-agent")
    assert debian.tried("ls", "/var/lib/equus").stdout == ""
    assert debian.does("id", "-u", "helen") != "0\n"  # users stay
