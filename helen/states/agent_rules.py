"""Holds the rules of one agent: its labels, the rule of each check and of its link. They are a `rule` record. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from helen.states.model import Rule

NO_RULE = Rule()  # for checks without an assignment: passive results, and those that came before the first rule


@frozen
class AgentRules:
    """Holds the checks that an agent runs, each with its rule; the labels that windows match; the rule of its link."""

    labels: dict[str, str] = field(factory=dict)
    checks: dict[str, Rule] = field(factory=dict)
    link: Rule = NO_RULE


def rules_to_json(rules: AgentRules) -> dict[str, Any]:
    """Return the document of a `rule` record: `labels`, `checks` (rules by check_id) and `link` (a rule)."""
    checks = {name: rule.to_json() for name, rule in rules.checks.items()}
    return {"labels": rules.labels, "checks": checks, "link": rules.link.to_json()}


def rules_from_json(document: Mapping[str, Any]) -> AgentRules:
    """Read the document of a `rule` record; older ones have no `link`."""
    checks = {name: Rule.from_json(rule) for name, rule in document["checks"].items()}
    return AgentRules(dict(document["labels"]), checks, Rule.from_json(document.get("link", {})))
