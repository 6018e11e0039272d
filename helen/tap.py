"""Reads the options of `twistd helen`. They start helen/service.py."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from groundwork import arrow_memory

arrow_memory.choose_pool(os.environ, arrow_memory.KEEPING)  # before Arrow is loaded, which looks once

from twisted.internet import reactor as the_reactor  # noqa: E402
from twisted.python import usage  # noqa: E402

from groundwork.safe_log import guard_log  # noqa: E402
from groundwork.steady_reactor import use_monotonic_clock  # noqa: E402
from helen.service import HelenService  # noqa: E402
from helen.settings import settings  # noqa: E402
from helen.settings.settings import DEFAULT_PORT, Settings, SettingsError  # noqa: E402
from scale0.plain_usage import PlainOptions  # noqa: E402

use_monotonic_clock(the_reactor)  # before anything is scheduled


class Options(PlainOptions):
    """Declares the flags of `twistd helen`; each is a HELEN_* variable and a line of --config FILE, too."""

    program = "helen"
    synopsis = "[options]"
    longdesc = "The server that Equus agents report to. Each flag is a HELEN_* variable and a line of --config, too."
    optParameters = [
        ["state", None, None, "Directory of all that must not be forgotten; made if missing"],
        ["listen", None, None, f"HOST:PORT for agents (*:{DEFAULT_PORT}); port 0 is any free one"],
        ["web", None, None, f"HOST:PORT of the HTTP API and the pages ({settings.DEFAULT_WEB}), or off"],
        ["web-tls", None, None, "CERT,KEY: PEM files with which --web speaks TLS; read again when they change"],
        ["checks", None, None, "Folder of .lua checks (STATE/checks, filled with the shipped ones)"],
        ["signing-keys", None, None, "File of public keys: check sets are signed elsewhere, with helen push --key"],
        ["minimum-equus", None, None, "Agents older than this version are told to reload"],
        ["retention", None, None, "How long history segments are kept once the pipeline has them (7d)"],
        ["rings", None, None, "How every push goes out, changes of the folder too: 1%,10%,100%, or off for at once"],
        ["transport", None, None, "What carries agents' TLS: hub, or stock for Twisted's own, which costs more"],
        ["scale0-identity", None, None, "Name of this Helen in a Scale0 network (the first --name)"],
        ["embed-scale0", None, None, "Configuration of a Scale0 broker that runs in this process"],
        ["network-key", None, None, "Key of a network of Helens that share checks, assignments, agents, downtimes"],
        ["zerotask", None, None, "ZeroTask broker to work for, tcp://HOST:PORT, with #NAME for its key"],
        ["zerotask-listen", None, None, "Where the broker of --embed-zerotask listens (a socket in STATE/zerotask)"],
        ["curve-key", None, None, "CURVE pair of this Helen, as `scale0ctl keygen` writes it"],
        ["authorized-keys", None, None, "Folder of public CURVE keys: peers that may connect, and brokers"],
        ["config", None, None, "TOML file with any of these settings"],
    ]
    optFlags = [
        ["embed-zerotask", None, "Host a ZeroTask broker in this process: questions that last, helen jobs"],
        ["insecure-network", None, "For trials: peers of Scale0 and ZeroTask need no key to do what is Helen's"],
        ["mute", None, "Tell nobody anything: no notification leaves, for a look at a copy or a restored state"],
        ["web-plain", None, "Let browsers log in over plain HTTP from other machines: anyone between reads the cookie"],
        ["insecure-plaintext", None, "Speak TCP without TLS: any peer may be any agent"],
    ]

    def __init__(self) -> None:
        super().__init__()
        self["name"] = []
        self["trust-label"] = []
        self["scale0"] = []
        self["quota"] = []

    def opt_name(self, name: str) -> None:
        """Name a host or address for which Helen's certificate shall be good; may be given several times."""
        self["name"].append(name)

    def opt_trust_label(self, key: str) -> None:
        """Let agents' own labels under this key steer routes, rings and checks; may be given several times."""
        self["trust-label"].append(key)

    def opt_quota(self, quota: str) -> None:
        """Set what each agent may send, NAME=BURST/A_MINUTE, or make, NAME=MOST; may be given several times."""
        self["quota"].append(quota)

    def opt_scale0(self, endpoint: str) -> None:
        """Join a Scale0 broker at its backend port, tcp://HOST:PORT, with #NAME for its key; others are spares."""
        self["scale0"].append(endpoint)

    def postOptions(self) -> None:
        """Read the settings. Raises UsageError, one sentence, if a setting can't be used or an extra is missing."""
        try:
            self.settings = self.read_settings()
        except SettingsError as error:
            raise usage.UsageError(str(error)) from error
        if self.settings.network.is_wanted and importlib.util.find_spec("zmq") is None:
            raise usage.UsageError("Scale0 and ZeroTask need pyzmq: pip install 'helen-equus[zmq]'")

    def read_settings(self) -> Settings:
        """Return the settings from all their sources; again at each SIGHUP. Raises SettingsError."""
        flags = {name: value for name, value in self.items() if name != "config"}
        config = self["config"] or os.environ.get("HELEN_CONFIG")
        return settings.read(settings.gather(flags, os.environ, Path(config) if config else None))


def makeService(options: Options) -> HelenService:
    """Return the service. twistd calls this before it becomes a daemon, so nothing is opened yet."""
    guard_log()
    return HelenService(the_reactor, options.settings, options.read_settings)
