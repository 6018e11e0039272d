"""Tests that locks agree with setup.cfg and among each other; a release has SBOMs, and sums that only
its key can sign.
"""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "deploy" / "release"))

from lock import Pin, read_lock  # noqa: E402
from release import complete  # noqa: E402

LOCKS = {
    "agent": "shell", "kit": "zmq", "server": "zmq cron top apprise forwards promql shell",
    "pipeline": "zmq cron top apprise forwards promql spark jre",
    "mcp": "mcp", "dev": "dev", "test": "dev spark jre",
}  # fmt: skip
SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg")


def wanted(*extras: str) -> list[Requirement]:
    """Return what setup.cfg requires with these extras; %(name)s of another extra is filled in by the reader."""
    texts = [SETUP["options"]["install_requires"], *(SETUP["options.extras_require"][extra] for extra in extras)]
    return [Requirement(line) for text in texts for line in text.splitlines() if line and not line.startswith("#")]


def pins_of(name: str) -> dict[str, Pin]:
    return {pin.name: pin for pin in read_lock(ROOT / "requirements" / f"{name}.lock")}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_satisfies_setup_cfg(name: str) -> None:
    """Each requirement is there, in a version that is allowed, and so is what builds the package (F88)."""
    pins = pins_of(name)
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    wrong = [
        str(requirement)
        for requirement in [*wanted(*LOCKS[name].split()), *map(Requirement, build)]
        if (pin := pins.get(canonicalize_name(requirement.name))) is None
        or not requirement.specifier.contains(pin.version)
    ]
    assert wrong == [], "run `./dev lock`"


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_is_whole(name: str) -> None:
    """Each package has hashes, nothing says where it comes from, and who tests has what users get (F88)."""
    text = (ROOT / "requirements" / f"{name}.lock").read_text()
    assert not re.search(r"https?:|file:|--index|--extra|--find-links|@ ", text)
    tested, pins = pins_of("test"), pins_of(name)
    assert {pin.name: pin.version for pin in pins.values() if pin.version != tested[pin.name].version} == {}
    assert all(pin.hashes for pin in pins.values())


def test_a_server_has_no_other_server_of_http() -> None:
    """The SDK of `helen mcp` brings one, so it is in a lock of its own, and in those for development."""
    brings = {"mcp", "uvicorn", "starlette"}
    found = {name: sorted(brings & pins_of(name).keys()) for name in LOCKS}
    assert {name for name, names in found.items() if names} == {"mcp", "dev", "test"}
    assert found["mcp"] == sorted(brings)


def test_a_release_has_the_locks_by_which_users_install() -> None:
    """`./dev build` completes a release with them; those for development and for the kit are not among them."""
    line = next(line for line in (ROOT / "dev").read_text().splitlines() if "deploy/release/release.py" in line)
    assert "requirements/{agent,server,pipeline,mcp}.lock" in line
    assert set(LOCKS) == {"agent", "server", "pipeline", "mcp", "dev", "test", "kit"}


def test_what_is_no_lock(tmp_path: Path) -> None:
    """A package without a hash, or by its address, is refused with what to do (F88)."""
    for line in (
        "attrs==26.1.0",
        "attrs @ https://example.org/attrs.whl",
        "attrs>=2 \\\n    --hash=sha256:" + "0" * 64,
    ):
        (tmp_path / "x.lock").write_text(f"# made by hand\n{line}\n")
        with pytest.raises(ValueError, match=r"no package with its hashes.*\./dev lock"):
            read_lock(tmp_path / "x.lock")


# ---------------------------------------------------------------------------------------------- a release


@pytest.fixture
def key(tmp_path: Path) -> Path:
    openssl(tmp_path, "genpkey", "-algorithm", "ed25519", "-out", "key.pem")
    openssl(tmp_path, "pkey", "-in", "key.pem", "-pubout", "-out", "key.pub")
    return tmp_path / "key.pem"


@pytest.fixture
def dist(tmp_path: Path, key: Path) -> Path:
    """Return a folder as `./dev build --sign` makes it, but for the wheel's content."""
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / "helen_equus-0.1.0-py3-none-any.whl").write_bytes(b"a wheel")
    complete(folder, [ROOT / "requirements" / f"{name}.lock" for name in ("agent", "server")], key)
    return folder


def openssl(folder: Path, *words: str) -> int:
    return subprocess.run(["openssl", *words], cwd=folder, capture_output=True, check=False).returncode


def verified(dist: Path) -> bool:
    """Return the outcome of the two commands of README.rst."""
    signed = openssl(
        dist,
        "pkeyutl",
        "-verify",
        "-pubin",
        "-inkey",
        "../key.pub",
        "-rawin",
        "-in",
        "SHA256SUMS",
        "-sigfile",
        "SHA256SUMS.sig",
    )
    summed = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=dist, capture_output=True, check=False
    )
    return (signed, summed.returncode) == (0, 0)


def test_a_release_is_verified(dist: Path) -> None:
    """A release is verified by OpenSSL and coreutils, not by our own program; each file of it is under the signature
    (F88).
    """
    assert verified(dist)
    named = {line.split("  ")[1] for line in (dist / "SHA256SUMS").read_text().splitlines()}
    assert named == {path.name for path in dist.iterdir()} - {"SHA256SUMS", "SHA256SUMS.sig"}
    assert len(named) == 5


@pytest.mark.parametrize(
    "name",
    [
        "helen_equus-0.1.0-py3-none-any.whl",
        "helen-equus-0.1.0-server.lock",
        "SHA256SUMS",
        "SHA256SUMS.sig",
        "../key.pub",
    ],
)
def test_a_release_that_was_changed(dist: Path, key: Path, name: str) -> None:
    """A release is refused if one byte of any file has changed, or under another key (F88)."""
    if name == "../key.pub":
        openssl(dist.parent, "genpkey", "-algorithm", "ed25519", "-out", "other.pem")
        openssl(dist.parent, "pkey", "-in", "other.pem", "-pubout", "-out", "key.pub")
    else:
        content = bytearray((dist / name).read_bytes())
        content[3] ^= 1
        (dist / name).write_bytes(content)
    assert not verified(dist)


def test_keys_that_sign_nothing(tmp_path: Path, key: Path) -> None:
    """A key of another kind is refused with a sentence, and so is a file that is no key (F88)."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "helen_equus-1-py3-none-any.whl").write_bytes(b"")
    openssl(tmp_path, "genpkey", "-algorithm", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "ec.pem")
    (tmp_path / "none.pem").write_text("none")
    with pytest.raises(ValueError, match=r"ec.pem is no Ed25519 key. Make one: openssl genpkey"):
        complete(tmp_path / "d", [], tmp_path / "ec.pem")
    with pytest.raises(ValueError, match=r"none.pem: "):
        complete(tmp_path / "d", [], tmp_path / "none.pem")
    assert not (tmp_path / "d" / "SHA256SUMS.sig").exists()


def test_the_sbom(dist: Path) -> None:
    """The SBOM is CycloneDX 1.6, has each package of the lock with its hashes, and shows what needs what (F88)."""
    text = (dist / "helen-equus-0.1.0-server.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text.replace('"library"', '"book"')) is not None
    document: dict[str, Any] = json.loads(text)
    ours = document["metadata"]["component"]
    assert (ours["name"], ours["version"], ours["hashes"][0]["alg"]) == ("helen-equus", "0.1.0", "SHA-256")
    parts = {part["name"]: part for part in document["components"]}
    pins = pins_of("server")
    assert {name: part["version"] for name, part in parts.items()} == {pin.name: pin.version for pin in pins.values()}
    files = parts["twisted"]["externalReferences"][0]
    assert {each["content"] for each in files["hashes"]} == set(pins["twisted"].hashes)
    needs = {each["ref"]: set(each.get("dependsOn", ())) for each in document["dependencies"]}
    first = needs[ours["bom-ref"]]
    assert {parts[name]["bom-ref"] for name in ("twisted", "lupa", "pyzmq")} <= first
    assert parts["idna"]["bom-ref"] not in first
    assert parts["pycparser"]["bom-ref"] in needs[parts["cffi"]["bom-ref"]]
    reached, left = set(), {ours["bom-ref"]}
    while left:
        reached |= left
        left = {need for ref in left for need in needs[ref]} - reached
    assert {part["bom-ref"] for part in parts.values()} - reached <= {parts["setuptools"]["bom-ref"]}  # it builds
    assert "://" not in "".join(part["purl"] for part in parts.values())


# ---------------------------------------------------------------------------------------------- ./dev lock

UV = """#!/bin/sh
while [ $# -gt 0 ]; do if [ "$1" = --output-file ]; then echo made > "$2"; fi; shift; done
"""


def test_locks_are_made_anew_in_the_environment_that_is_there(tmp_path: Path) -> None:
    """All locks are made anew, and the environment stays although setup.cfg has changed: a new one would lack what
    locks name.
    """
    shutil.copy(ROOT / "dev", tmp_path / "dev")
    for name in ("setup.cfg", "pyproject.toml"):
        (tmp_path / name).write_text("changed\n")
    (tmp_path / "requirements").mkdir()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / ".made-from").write_text("of another setup.cfg\n")
    for name, script in (("uv", UV), ("pip", "#!/bin/sh\nexit 1\n")):
        (tmp_path / ".venv" / "bin" / name).write_text(script)
        (tmp_path / ".venv" / "bin" / name).chmod(0o755)
    subprocess.run([tmp_path / "dev", "lock"], check=True)
    assert (tmp_path / ".venv" / ".made-from").read_text() == "of another setup.cfg\n"
    made = {path.name for path in (tmp_path / "requirements").iterdir()}
    assert made == {f"{name}.lock" for name in LOCKS}
