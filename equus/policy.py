"""The host's own policy: what checks may do here, whoever sends them. Read from a TOML file that Helen can't change.

A file is laid over the built-in default (figures of this host, and its loopback network), so it says only what
differs. A key that doesn't exist is refused, because a misspelt denial would otherwise be a grant. Everything but
`load` is pure. docs/policy.rst is the description.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from attrs import asdict, field, frozen

from equus.sandbox import addresses
from equus.sandbox.addresses import Network
from equus.sandbox.ownership import ownership_fault
from equus.sandbox.plugins import Plugin, is_beneath
from equus.sandbox.policy_file import PolicyError, read_policy

__all__ = ["DEFAULT_PATH", "Grant", "Limits", "Policy", "PolicyError"]

DEFAULT_PATH = Path("/etc/equus/policy.toml")
# A policy is a page or two; more is a mistake, such as a path to something else.
POLICY_BYTES = 1_048_576
# What to write for a capability that isn't granted, as an example that does little harm.
_EXAMPLES = {
    "disk": 'paths = ["/"]',
    "file": 'paths = ["/var/log"]',
    "unix": 'paths = ["/run/docker.sock"]',
    "systemd": 'units = ["nginx.service"]',
    "plugin": 'names = ["check_ntp"]',
    **dict.fromkeys(("tcp", "udp", "icmp", "tls", "http", "dns"), 'networks = [{ cidr = "10.0.0.0/8" }]'),
}


@frozen
class Grant:
    """What one capability may touch. Only the settings that the capability has are ever filled."""

    paths: tuple[str, ...] = ()
    networks: tuple[Network, ...] = ()
    units: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    command_lines: bool = False


@frozen
class Limits:
    """What checks may use up."""

    parallel: int = 8  # checks at once
    queue: int = 1000  # checks that wait
    timeout_max: float = 300.0  # seconds of wall time, whatever a check or a schedule asks for
    cpu_max: float = 300.0  # seconds of CPU time
    memory_mib: int = 64  # address space of a worker, over that of an idle one
    calls: int = 200  # host calls of one run
    moved_mib: int = 8  # bytes of those calls, both ways


@frozen
class Policy:
    """One host's policy. `path` is the file it came from, None for the built-in default."""

    path: str | None = None
    isolation: Literal["strong", "weak"] = "strong"
    pushed_code: Literal["signed", "frozen", "refuse"] = "signed"
    one_shot: Literal["signed", "refuse"] = "signed"  # whether code may run that is in no set, by an order for it
    limits: Limits = field(factory=Limits)
    grants: Mapping[str, Grant] = field(factory=dict)
    plugins: Mapping[str, Plugin] = field(factory=dict)
    upgrade: bool = False  # whether the agent may replace itself by a version that a signed manifest brings

    @classmethod
    def load(cls, path: Path | str | None = None) -> Policy:
        """The policy of a file; without one, of DEFAULT_PATH if it exists, else the default. Raises PolicyError."""
        if path is None and not os.path.lexists(DEFAULT_PATH):
            return cls.parse(b"", None)
        chosen = DEFAULT_PATH if path is None else Path(path)
        return cls.parse(_read_trusted(chosen), str(chosen))

    @classmethod
    def parse(cls, text: bytes, path: str | None) -> Policy:
        """The policy that a file's text says. `path` is for its error sentences."""
        settings = read_policy(text, path or "the policy")
        return cls(
            path,
            settings.isolation,
            settings.pushed_code,
            settings.one_shot,
            Limits(**settings.limits),
            {name: Grant(**chosen) for name, chosen in settings.grants.items()},
            settings.plugins,
            settings.upgrade,
        )

    @property
    def digest(self) -> str:
        """SHA-256 of what the policy means: equal for hosts that allow the same, however their files are written."""
        document = asdict(self, recurse=True)
        del document["path"]
        return hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()

    # -------------------------------------------------------------------------------------------- what is granted

    def granted(self, capability: str) -> bool:
        """Whether checks may use the capability at all."""
        return capability in self.grants

    def missing(self, capability: str) -> str:
        """The sentence for a capability that isn't granted: what to write where."""
        return f'this host does not grant "{capability}": {self.advice(capability)}'

    def may_connect(self, capability: str, ip: str, port: int | None) -> bool:
        """Whether a check may reach this address, after names were resolved. port None: the protocol has none."""
        return self.connect_refusal(capability, ip, port) is None

    def connect_refusal(self, capability: str, ip: str, port: int | None) -> str | None:
        """Why it may not, as a sentence, or None."""
        grant = self.grants.get(capability)
        if grant is None:
            return self.missing(capability)
        why = addresses.refusal(ip, port, grant.networks)
        if why is None or "never" in why:
            return why
        return f"{why} to {capability}: {self.advice(capability, _network_line(ip, port))}"

    def may_see_disk(self, path: str) -> bool:
        """Whether `disk` covers this mount point or a path on it."""
        return self._beneath("disk", path) is not None

    def may_see_commands(self) -> bool:
        """Whether `procs` shows command lines, which hold secrets on many hosts."""
        return self.granted("procs") and self.grants["procs"].command_lines

    def may_see_unit(self, unit: str) -> bool:
        """Whether `systemd` covers a unit. A pattern ends in `*`."""
        units = self.grants["systemd"].units if self.granted("systemd") else ()
        return any(unit == known or (known.endswith("*") and unit.startswith(known[:-1])) for known in units)

    def file_root(self, path: str) -> str | None:
        """The granted root that a file lies beneath, for openat2(RESOLVE_BENEATH); links are not followed here."""
        return self._beneath("file", path)

    def may_connect_unix(self, path: str) -> bool:
        """Whether `unix` covers this very socket."""
        return self.granted("unix") and path in self.grants["unix"].paths

    def plugin(self, name: str) -> Plugin | None:
        """The program of this name, if checks may run it."""
        if not self.granted("plugin"):
            return None
        names = self.grants["plugin"].names
        return self.plugins.get(name) if not names or name in names else None

    def accepts_pushed_code(self, isolation: str) -> str | None:
        """Why code from the network is not run here, or None. `isolation` is the Runner's."""
        where = self.path or DEFAULT_PATH
        if self.pushed_code == "refuse":
            return f'{where} says pushed_code = "refuse": only the checks of a local folder run here'
        if isolation != "strong" and self.isolation != "weak":
            return (
                "this host cannot confine checks (no seccomp), so code from the network is refused; "
                f'write isolation = "weak" into {where} to accept that'
            )
        return None

    def accepts_one_shots(self) -> str | None:
        """Why no code runs here that is in no set, whoever has signed an order for it, or None."""
        where = self.path or DEFAULT_PATH
        if self.one_shot == "refuse":
            return f'{where} says one_shot = "refuse": only checks of the set in use run here'
        if self.pushed_code != "signed":
            return f'{where} says pushed_code = "{self.pushed_code}": no code that is new to this host runs here'
        return None

    def refusal(self, capability: str, what: str, setting: str) -> str:
        """A sentence for something that a granted capability doesn't cover. setting: the TOML line that would."""
        return f"{what} is not granted: {self.advice(capability, setting)}"

    def _beneath(self, capability: str, path: str) -> str | None:
        roots = self.grants[capability].paths if self.granted(capability) else ()
        return next((root for root in roots if is_beneath(path, root)), None)

    def advice(self, capability: str, setting: str | None = None) -> str:
        """What to write where. `setting` is the TOML line; without one, an example that does little harm."""
        line = setting or _EXAMPLES.get(capability, "allow = true")
        return f"add to {self.path or DEFAULT_PATH}, section [caps.{capability}]: {line}"


def _network_line(ip: str, port: int | None) -> str:
    address = addresses.parse_address(ip)
    bits = 32 if address is not None and address.version == 4 else 128
    ports = "" if port is None else f", ports = [{port}]"
    return f'networks = [{{ cidr = "{address}/{bits}"{ports} }}]'


def _read_trusted(path: Path) -> bytes:
    """The text of a policy file that nobody but root (or who runs us) could have written."""
    try:
        fault = ownership_fault(path)
        if fault is not None:
            raise PolicyError(f"{fault} (whoever can write the policy decides what checks may do here)")
        with open(path, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise PolicyError(f"{path} is not a regular file")
            text = file.read(POLICY_BYTES + 1)
    except OSError as fault_of_system:
        raise PolicyError(f"{path} cannot be read: {fault_of_system.strerror}") from None
    if len(text) > POLICY_BYTES:
        raise PolicyError(f"{path} is larger than {POLICY_BYTES} bytes")
    return text
