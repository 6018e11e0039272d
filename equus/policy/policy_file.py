"""Read the file of a policy, if only root or the agent's user could have written it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from equus.policy.file_ownership import ownership_fault
from equus.policy.policy_text import PolicyError

# A policy is a page or two; more is a mistake, such as a path to something else.
POLICY_BYTES = 1_048_576


def read_trusted(path: Path) -> bytes:
    """Return the text of a policy file. Raises PolicyError if it can't be read or is not to be trusted. Blocking."""
    try:
        fault = ownership_fault(path)
        if fault is not None:
            raise PolicyError(f"{fault} (a user who can write the policy decides what checks may do here)")
        with open(path, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise PolicyError(f"{path} is not a regular file")
            text = file.read(POLICY_BYTES + 1)
    except OSError as fault_of_system:
        raise PolicyError(f"{path} cannot be read: {fault_of_system.strerror}") from None
    if len(text) > POLICY_BYTES:
        raise PolicyError(f"{path} is larger than {POLICY_BYTES} bytes")
    return text
