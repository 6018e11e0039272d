"""Options of a twistd command whose faults are one sentence, and nothing else in front of it.

twistd prints all that it knows of usage, its own and that of every plugin, before it says what was wrong.
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.python import usage


class PlainOptions(usage.Options):  # type: ignore[misc]
    """`program` is the command's name, which stands before the sentence. Elsewhere than under twistd it just raises."""

    program = ""

    def parseOptions(self, options: Any = None) -> None:
        try:
            super().parseOptions(options)
        except usage.UsageError as error:
            if self.parent is None:
                raise
            sentence = str(error).rstrip(".")
            print(f"{self.program}: {sentence}. `twistd {self.program} --help` lists the options.", file=sys.stderr)
            raise SystemExit(1) from error
