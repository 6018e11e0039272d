"""Serves `zerotask node --module helen.pipeline_tasks`, the old name of helen.jobs.pipeline_tasks."""

from __future__ import annotations

from helen.jobs.pipeline_tasks import *  # noqa: F403
