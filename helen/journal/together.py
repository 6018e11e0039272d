"""Runs helen.journal.verify_many under its old name: `python -m helen.journal.together STATE STATE ...`."""

from __future__ import annotations

import sys

from helen.journal.verify_many import main

if __name__ == "__main__":
    print("helen.journal.together is called helen.journal.verify_many now", file=sys.stderr)
    sys.exit(main())
