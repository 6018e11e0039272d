"""Names the actions of the broker network: what each command, service and management command takes. Pure.

Services of Helens are reserved: `equus.AGENT`, `helen`, `helen.ID`, and `zerotask.broker`. A peer without a role offers
and asks all others.
"""

from __future__ import annotations

from groundwork.authority import AGENTS, FLEET, Action, Target

AGENT_SERVICE = "equus."
TASKS = "zerotask.broker"

NEGOTIATE = Action("negotiate", None)  # and all that belongs to a session: heartbeats, its end, the way to a broker
OFFER = Action("offer", None)
OFFER_AGENT = Action("offer-agent", "helen", AGENTS)
OFFER_HELEN = Action("offer-helen", "helen")
OFFER_TASKS = Action("offer-tasks", "zerotask")
ASK = Action("ask", None)
CHECK = Action("run", "operate", AGENTS)  # as POST /runs of Helen's API
ASK_HELEN = Action("read", "read")
ANSWER = Action("answer", None)  # a request that this worker was given
PASS_ON = Action("pass-on", None)  # between brokers; what is passed on has the action of its service
SHARE = Action("share", None)
DOCUMENT = Action("document", "helen", FLEET)  # what Helens share: check sets, keys, agents
LOOK_AT_BROKER = Action("broker-look", "read")
CHANGE_BROKER = Action("broker-change", "admin")

COMMANDS: dict[str, Action] = {
    "CHECKCONFIG": NEGOTIATE,
    "READY": OFFER,
    "SERVICES": OFFER,
    "HEARTBEAT": NEGOTIATE,
    "REQUEST": ASK,
    "PARTIAL": ANSWER,
    "FINAL": ANSWER,
    "CANCEL": ASK,
    "MANAGEMENTREQ": LOOK_AT_BROKER,
    "NEEDBROKER": NEGOTIATE,
    "DISCONNECT": NEGOTIATE,
    "FORWARD": PASS_ON,
    "TABLE": PASS_ON,
    "TABLEREQ": PASS_ON,
    "PUBLISH": SHARE,
    "PUBLISHED": SHARE,
    "DOCUMENTS": SHARE,
    "CONFIG": NEGOTIATE,
    "CONFIGACK": NEGOTIATE,
    "FORCENEGOTIATE": NEGOTIATE,
    "DISCONNECTERROR": NEGOTIATE,
}


def is_of_helens(service: str) -> bool:
    """Return True if a service stands for an agent or for a Helen."""
    return service == "helen" or service.startswith((AGENT_SERVICE, "helen."))


def offering(service: str) -> Action:
    """Return the action of offering a service."""
    if service.startswith(AGENT_SERVICE):
        return OFFER_AGENT
    if is_of_helens(service):
        return OFFER_HELEN
    return OFFER_TASKS if service == TASKS else OFFER


def asking(service: str) -> Action:
    """Return the action of a request for a service; tasks are judged one by one by the broker of tasks itself."""
    if service.startswith(AGENT_SERVICE):
        return CHECK
    return ASK_HELEN if is_of_helens(service) else ASK


def target_of(service: str) -> Target:
    """Return the agent that a service stands for, none for other services."""
    return Target(service.removeprefix(AGENT_SERVICE) if service.startswith(AGENT_SERVICE) else "")
