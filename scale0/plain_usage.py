"""Makes a twistd command report faulty options in one sentence.

twistd itself prints all usage, its own and that of every plugin, before it says what was wrong.
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.python import usage


class PlainOptions(usage.Options):
    """Parses options, and ends the process with one sentence if they are faulty.

    `program` is the command's name, which stands before the sentence.
    """

    program = ""

    def parseOptions(self, options: Any = None) -> None:
        """Parse under twistd, or raise SystemExit; without a parent command raise UsageError."""
        try:
            super().parseOptions(options)
        except usage.UsageError as error:
            if self.parent is None:
                raise
            sentence = str(error).rstrip(".")
            print(f"{self.program}: {sentence}. `twistd {self.program} --help` lists the options.", file=sys.stderr)
            raise SystemExit(1) from error
