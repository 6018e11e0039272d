"""Define the words and the number of metrics that workers, agents and Helen agree on.

They stand apart from the table of fields (result_fields.py), so that a worker of checks need not load that.
"""

from __future__ import annotations

STATUS_WORDS = ("ok", "warning", "critical", "unknown")
MAX_METRICS = 1_000  # of one result; all of them are counted in `truncated` if there are more
