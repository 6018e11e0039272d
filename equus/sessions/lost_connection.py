"""Explain in one sentence why a connection to Helen has ended."""

from __future__ import annotations

from attrs import frozen
from twisted.python.failure import Failure

from equus.link.connection import Connection
from equus.link.trust import explain
from equus.sessions.membership import Membership

NOT_ENROLLED, IN_USE = "not-enrolled", "identity-in-use"  # errors with a next step for the operator


def explain_loss(connection: Connection, reason: Failure, trouble: str | None, membership: Membership) -> str:
    """Return why a connection has ended. `trouble` is why the peer was not believed to be Helen, or None."""
    if connection.error.startswith(NOT_ENROLLED):
        expired = membership.trouble()
        return "Helen said error not-enrolled: " + (
            "our certificate is unknown or revoked there; enrol again with --join TOKEN"
            + (f" ({expired})" if expired is not None else "")
            if membership.identity is not None
            else f"the token is used, expired, or not for the name {membership.name}, which was asked for;"
            f" ask for a new one with `helen token --agent {membership.name}`, or give another --name"
        )
    if connection.error.startswith(IN_USE):
        return (
            "Helen said error identity-in-use: another machine is connected with our certificate. "
            "Is one a clone of the other? Enrol one of them anew, with an empty state folder"
        )
    if connection.error:
        return f"Helen said error {connection.error}"
    if connection.violation:
        return "Helen broke the protocol"
    return explain(reason, trouble)


@frozen
class Loss:
    """Tells what an agent makes of a lost connection: why it ended, and whether no later attempt can be better."""

    why: str
    is_hopeless: bool = False


def judge_loss(
    connection: Connection, reason: Failure, trouble: str | None, membership: Membership, once: bool
) -> Loss:
    """Explain a loss, and fall back to an older certificate or token where Helen refused the newer one.

    `trouble` as in `explain_loss`. With `once` the agent makes one attempt, so there is nothing to fall back to.
    """
    why = explain_loss(connection, reason, trouble, membership)
    is_refused = connection.error.startswith(NOT_ENROLLED)
    is_hopeless = membership.must_join and (is_refused or trouble is not None)  # no later attempt makes the token good
    if is_hopeless and not once and membership.fall_back():
        kept = ": ".join(filter(None, ["going on with the certificate of before", membership.trouble()]))
        return Loss(f"{why}; {kept}")
    if is_refused and not once and membership.join_again():
        return Loss(f"{why}; trying the token that this agent was started with", is_hopeless)
    return Loss(why, is_hopeless)
