"""Names the actions of ZeroTask: what each method takes, and what the method of a task takes. Pure.

Tasks of `equus.*` are Helen's: they ask every agent, or publish checks to all of them. So are those of `pipeline.*`,
which read the results of every agent, or delete what is kept of them. All other tasks are plain.
"""

from __future__ import annotations

from groundwork.authority import FLEET, Action

SUBMIT = Action("task", None)
RUN = Action("run", "operate", FLEET)  # agents are named by patterns in the task: the Helen that has it looks them up
PUSH = Action("push", "push", FLEET)
WORK = Action("work", None)
ANSWER_FOR_AGENTS = Action("answer-for-agents", "helen", FLEET)
REPORT = Action("history-report", "read", FLEET)
CHANGE_HISTORY = Action("history-change", "admin", FLEET)  # a task says for how many days results are kept
LOOK_AT_TASKS = Action("tasks-look", "read")
CHANGE_TASKS = Action("tasks-change", "admin")

CHECK_TASK, PUSH_TASK = "equus.check", "equus.push"
OF_HELEN = "equus."
REPORT_TASK, OF_HISTORY = "pipeline.report", "pipeline."
STORED = "mdp:"  # a stored request of Titanic, which the broker sends to a service


def submitting(method: str) -> Action:
    """Return the action of submitting a task of this method; a stored request has that of the task or the agent."""
    wanted = method.removeprefix(STORED)
    if wanted == CHECK_TASK or wanted.startswith(f"{CHECK_TASK}."):
        return RUN
    if method == PUSH_TASK:
        return PUSH
    if method.startswith(STORED) and (wanted == "helen" or wanted.startswith((OF_HELEN, "helen.", "zerotask."))):
        return RUN if wanted.startswith(OF_HELEN) else CHANGE_TASKS
    if method.startswith(OF_HISTORY):
        return REPORT if method == REPORT_TASK else CHANGE_HISTORY
    return PUSH if method.startswith(OF_HELEN) else SUBMIT  # a method of Helen that is not known takes the most


def serving(method: str) -> Action:
    """Return the action of a node that serves a method, which may end in `*`."""
    literal = method.removesuffix("*")
    reserved = (OF_HELEN, OF_HISTORY)
    is_of_helen = literal.startswith(reserved) or (
        method.endswith("*") and any(r.startswith(literal) for r in reserved)
    )
    return ANSWER_FOR_AGENTS if is_of_helen else WORK
