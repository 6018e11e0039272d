"""Runs `python -m helen.pipeline`, which `helen pipeline` becomes."""

from __future__ import annotations

import os
import sys

from groundwork import arrow_memory

arrow_memory.choose_pool(os.environ)
arrow_memory.choose_arenas(os.environ)
try:
    from helen.pipeline.commands import main
except ModuleNotFoundError as error:
    if error.name is None or error.name.startswith("helen"):
        raise
    sys.exit(
        f"error: {error.name} is not installed, which the history on Spark needs: pip install 'helen-equus[spark]'"
        " (and 'helen-equus[spark,jre]' where there is no Java)."
    )

if __name__ == "__main__":
    main(prog_name="helen pipeline")
