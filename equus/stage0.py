"""Keep the name under which agents of version 0.1 start a trial of a newer version.

An agent that runs code of 0.1 replaces itself by `python -P -m equus.stage0 STATE VERSION ARGUMENTS...`. If its package
was upgraded on disk since it started, that command finds this file. Newer agents use equus.code.launcher, which has all
of the code. docs/agent.rst lists what each version must do for the others.
"""

from __future__ import annotations

from equus.code.launcher import main

if __name__ == "__main__":
    main()
