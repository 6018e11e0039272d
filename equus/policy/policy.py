"""Read the host's own policy, which decides what checks may do here. No message from Helen can change it.

A TOML file is laid over the built-in default (figures of this host, and its loopback network), so it holds only what
differs. A key that doesn't exist is refused, because a misspelt denial would otherwise be a grant. Everything but
`load` is pure. docs/policy.rst is the description.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal

from attrs import asdict, field, frozen

from equus.policy import networks as policy_networks
from equus.policy.advice import advice, network_line
from equus.policy.grants import NOTHING, Grant
from equus.policy.host_names import canonical, fits
from equus.policy.plugin_templates import Plugin, Program
from equus.policy.policy_file import read_trusted
from equus.policy.policy_text import PolicyError, read_policy
from equus.policy.shell import ShellPolicy

__all__ = ["DEFAULT_PATH", "Grant", "Limits", "Policy", "PolicyError"]

DEFAULT_PATH = Path("/etc/equus/policy.toml")


@frozen
class Limits:
    """Limits on the resources of checks."""

    parallel: int = 8  # checks at once
    queue: int = 1000  # checks that wait
    timeout_max: float = 300.0  # seconds of wall time, whatever a check or a schedule asks for
    cpu_max: float = 300.0  # seconds of CPU time
    memory_mib: int = 64  # address space of a worker, over that of an idle one
    calls: int = 200  # host calls of one run
    moved_mib: int = 8  # bytes of those calls, both ways


@frozen
class Policy:
    """Describes one host's policy. `path` is the file it came from, None for the built-in default."""

    path: str | None = None
    isolation: Literal["strong", "weak"] = "strong"
    pushed_code: Literal["signed", "frozen", "refuse"] = "signed"
    one_shot: Literal["signed", "refuse"] = "signed"  # one-off code: runs by a signed order
    limits: Limits = field(factory=Limits)
    grants: Mapping[str, Grant] = field(factory=dict)
    plugins: Mapping[str, Plugin] = field(factory=dict)
    upgrade: bool = False  # the agent may replace itself by a version that a signed manifest brings
    shell: ShellPolicy | None = None  # people who may log in; None: nobody
    programs: Mapping[str, Program] = field(factory=dict)  # those whose output checks read themselves

    @classmethod
    def load(cls, path: Path | str | None = None) -> Policy:
        """Return the policy of the file `path`, or of DEFAULT_PATH if it exists, or else the built-in default.

        Raises PolicyError if the file can't be read, can be changed by other users, or has a fault.
        """
        if path is None and not os.path.lexists(DEFAULT_PATH):
            return cls.parse(b"", None)
        chosen = DEFAULT_PATH if path is None else Path(path)
        return cls.parse(read_trusted(chosen), str(chosen))

    @classmethod
    def parse(cls, text: bytes, path: str | None) -> Policy:
        """Return the policy of a file's text; `path` is named in errors. Raises PolicyError if the text has a fault."""
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
            settings.shell,
            settings.programs,
        )

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of the settings: equal for hosts that allow the same, however their files are written."""
        document = asdict(self, recurse=True)
        del document["path"]
        if self.shell is None:  # hosts that let nobody in keep the digest that they had before this existed
            del document["shell"]
        if not self.programs:
            del document["programs"]
        for grant in document["grants"].values():
            if not grant["owners"]:  # hosts that don't use it keep the digest that they had before it existed
                del grant["owners"]
        return hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()

    def granted(self, capability: str) -> bool:
        """Return True if checks may use the capability at all."""
        return capability in self.grants

    def missing(self, capability: str) -> str:
        """Return the sentence for a capability that is not granted, with the line that would grant it."""
        return f'this host does not grant "{capability}": {self.advice(capability)}'

    def may_connect(self, capability: str, ip: str, port: int | None) -> bool:
        """Return True if a check may reach this address. `port` is None if the protocol has none."""
        return self.connect_refusal(capability, ip, port) is None

    def connect_refusal(self, capability: str, ip: str, port: int | None) -> str | None:
        """Return a sentence if a check may not reach this address, else None. Names must be resolved before."""
        grant = self.grants.get(capability)
        if grant is None:
            return self.missing(capability)
        why = policy_networks.refusal(ip, port, grant.networks)
        if why is None or "never" in why:
            return why
        return f"{why} to {capability}: {self.advice(capability, network_line(ip, port))}"

    def look_up_refusal(self, capability: str, host: str) -> str | None:
        """Return a sentence if a host's name may not be asked of a name server, else None.

        The question itself leaves the host, so it is asked only where an answer could be granted.
        """
        grant = self.grants.get(capability)
        if grant is None:
            return self.missing(capability)
        line = f'names = ["{host}"]'
        if grant.names:
            if fits(host, grant.names):
                return None
            return f"{host} is none of the names that {capability} looks up: {self.advice(capability, line)}"
        if not policy_networks.is_loopback_only(grant.networks):
            return None
        why = f"{host} is not looked up, because only loopback is granted to {capability}"
        return f"{why}: {self.advice(capability, line)}, and networks with its address"

    def names_host(self, capability: str, host: str) -> bool:
        """Return True if this very name stands in `names`; a pattern names none."""
        return canonical(host) in self._grant(capability).names

    def question_refusal(self, name: str) -> str | None:
        """Return a sentence if `dns` may not ask its name server for this name, else None."""
        patterns = self._grant("dns").names
        if not patterns or fits(name, patterns):
            return None
        return self.refusal("dns", f"a question for {name}", f'names = ["{name}"]')

    def named_refusal(self, capability: str, what: str, port: int | None, refusals: Collection[str]) -> str:
        """Return one sentence for all addresses of a host, without them: the caller may not know them."""
        if all("never" in why for why in refusals):
            return f"{what} has only addresses that are never reached, such as link-local or a cloud's metadata service"
        where = what if port is None else f"{what} port {port}"
        advice = self.advice(capability, f"networks = [{{ cidr = ... }}] with the address of {what}")
        return f"{where} has no address that is granted to {capability}: {advice}"

    def may_see_disk(self, path: str) -> bool:
        """Return True if `disk` covers this mount point or path."""
        return self._grant("disk").root_above(path) is not None

    def may_see_commands(self) -> bool:
        """Return True if `procs` shows command lines, which hold secrets on many hosts."""
        return self._grant("procs").command_lines

    def may_see_unit(self, unit: str) -> bool:
        """Return True if `systemd` covers a unit, by its name or by a pattern that ends in `*`."""
        return self._grant("systemd").covers_unit(unit)

    def may_read_journal(self, unit: str) -> bool:
        """Return True if `journal` covers the entries of a unit; "*" stands for those of all units together."""
        return self._grant("journal").covers_unit(unit)

    def file_root(self, path: str) -> str | None:
        """Return the granted root above a file, for openat2(RESOLVE_BENEATH), or None. No link is followed here."""
        return self._grant("file").root_above(path)

    def may_connect_unix(self, path: str) -> bool:
        """Return True if `unix` covers this very socket."""
        return path in self._grant("unix").paths

    def plugin(self, name: str) -> Plugin | None:
        """Return the plugin of this name, or None if checks may not run it."""
        return self.plugins.get(name) if self.granted("plugin") and self._grant("plugin").covers_name(name) else None

    def program(self, name: str) -> Program | None:
        """Return the program of this name, or None if checks may not run it."""
        return self.programs.get(name) if self.granted("program") and self._grant("program").covers_name(name) else None

    def named_programs(self, kind: str) -> Collection[str]:
        """Return the names of all "plugin"s or "program"s that are written down, granted or not."""
        return self.plugins if kind == "plugin" else self.programs

    def pushed_code_refusal(self, isolation: str) -> str | None:
        """Return a sentence if no code from the network runs here, else None. `isolation` is the Runner's."""
        where = self.path or DEFAULT_PATH
        if self.pushed_code == "refuse":
            return f'{where} says pushed_code = "refuse": only the checks of a local folder run here'
        if isolation != "strong" and self.isolation != "weak":
            return (
                "this host cannot confine checks (no seccomp), so code from the network is refused; "
                f'write isolation = "weak" into {where} to accept that'
            )
        return None

    def newer_set_refusal(self) -> str | None:
        """Return a sentence if no newer check set than the one held is taken here, else None."""
        if self.pushed_code != "frozen":
            return None
        return f'{self.path} says pushed_code = "frozen": the set in use stays until that is changed'

    def one_off_refusal(self) -> str | None:
        """Return a sentence if no one-off code runs here, whichever keys have signed its order; else None."""
        where = self.path or DEFAULT_PATH
        if self.one_shot == "refuse":
            return f'{where} says one_shot = "refuse": only checks of the set in use run here'
        if self.pushed_code != "signed":
            return f'{where} says pushed_code = "{self.pushed_code}": no code that is new to this host runs here'
        return None

    def refusal(self, capability: str, what: str, setting: str) -> str:
        """Return the sentence for `what`, which the grant does not cover. `setting` is the line that would."""
        return f"{what} is not granted: {self.advice(capability, setting)}"

    def _grant(self, capability: str) -> Grant:
        return self.grants.get(capability, NOTHING)

    def advice(self, capability: str, setting: str | None = None) -> str:
        """Return the advice which line to add to which section; without `setting`, an example that does little harm."""
        return advice(self.path or DEFAULT_PATH, capability, setting)


class PolicyInForce:
    """Holds the policy that the agent follows now, for objects that outlive a change of it."""

    def __init__(self, policy: Policy) -> None:
        self.current = policy
