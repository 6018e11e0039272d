"""Write the two documents in which an agent tells Helen about itself: that of `loaded`, and its self-report."""

from __future__ import annotations

from typing import Any

from equus import health, host
from equus.agent_parts import Parts
from equus.code.news import STALE
from equus.label_source import LabelSource
from equus.schedule.received_schedule import ReceivedSchedule
from equus.schedule.runner import ScheduleRunner


class AgentReports:
    """Reads the parts of an agent anew for each document."""

    def __init__(self, parts: Parts, labels: LabelSource, schedule: ReceivedSchedule, runner: ScheduleRunner) -> None:
        self._parts, self._labels, self._schedule, self._runner = parts, labels, schedule, runner
        self._facts = host.facts()
        self._began = parts.reactor.seconds()

    def loaded(self) -> dict[str, Any]:
        """Return the document of `loaded` without the spool.

        Its keys are `files`, `labels`, `host`, `equus`, `isolation`, `policy`; where something was refused, `manifest`,
        `upgrade`, `schedule`, `labels-from`; and `withheld`, a list of sentences about Helens that keep news back.
        """
        parts, updater, labels = self._parts, self._parts.updater, self._labels
        report: dict[str, Any] = {
            "files": updater.checks.report(),
            "labels": dict(labels.labels),
            "host": self._facts,
            "equus": parts.version,
            "isolation": parts.runner.isolation,
            "policy": parts.policy.current.digest,
        }
        stale = updater.stale()
        if updater.trouble is not None:
            report["manifest"] = updater.trouble
        elif stale is not None:
            report["manifest"] = {"reason": "frozen", "text": STALE}
        if updater.news.withheld:
            report["withheld"] = list(updater.news.withheld.values())
        if updater.upgrader is not None and updater.upgrader.trouble is not None:
            report["upgrade"] = updater.upgrader.trouble
        if labels.fault is not None:
            report["labels-from"] = {"reason": "unreadable", "text": labels.fault}
        if parts.programs:
            report["tunnels"] = list(parts.programs)
        for program in parts.programs.values():
            report |= program.report()
        if self._schedule.refused:
            report["schedule"] = list(self._schedule.refused[:100])
        return report

    def health(self) -> health.Health:
        """Return what the self-report tells of this agent."""
        parts = self._parts
        checks, spool = parts.updater.checks, parts.writer.state
        return health.Health(
            version=parts.version,
            totals=self._runner.totals,
            worst=self._runner.worst(health.WORST),
            entries=len(self._runner.entries),
            spool_depth=spool.depth,
            spool_bytes=spool.size,
            worker_kills=parts.runner.kills,
            waiting=parts.runner.waiting,
            resident=host.resident_bytes(),
            uptime=parts.reactor.seconds() - self._began,
            code=checks.digest,
            policy=parts.policy.current.digest,
            isolation=parts.runner.isolation,
            refused=sum(file.error is not None for file in checks.files.values()),
            trouble=parts.updater.trouble,
            spool_fault=spool.fault,
            unbound_secrets=parts.runner.unbound_secrets,
            news=[*filter(None, [parts.updater.stale()]), *parts.updater.news.withheld.values()],
        )
