"""Starts the zygote and the broker, and starts them again when they die. Imports neither Twisted nor threads.

Both are new interpreters, not forks of the agent: they hold no key, no descriptor and no memory of it, and starting
them again later is the same act as the first start. They load while the agent is still importing Twisted.
"""

from __future__ import annotations

from pathlib import Path


class Processes:
    """The two processes of the sandbox. equus/main.py calls `start` first thing."""

    @classmethod
    def start(
        cls,
        policy_path: Path | None = None,
        state: Path | None = None,
        registry: str = "equus.capabilities.registry",
        python_path: tuple[Path, ...] = (),
    ) -> Processes:
        """Start both and return at once.

        policy_path: as for Policy.load. state: the agent's state folder (audit.log, the checks' own state); None keeps
        neither. registry: the module whose CALLS the broker performs; python_path: where else to look for it.
        """
        raise NotImplementedError

    def close(self) -> None:
        """End both. Runner.stop() does this."""
        raise NotImplementedError
