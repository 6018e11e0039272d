"""The rows of the table of routes: helen/web/table.py says what they are for."""

from __future__ import annotations

from helen.web.table import Route

V1 = "/api/v1"

ROUTES: tuple[Route, ...] = (
    Route("GET", "/livez", None, "Whether this process answers"),
    Route("GET", "/readyz", None, "Whether Helen can take results"),
    Route("GET", "/healthz", None, "The same as /readyz"),
    Route("GET", "/metrics", "metrics", "Figures of Helen and her fleet for Prometheus"),
    # ---------------------------------------------------------------------------------------------- reading
    Route("GET", f"{V1}/status", "read", "All in all"),
    Route("GET", f"{V1}/agents", "read", "The agents, connected or not"),
    Route("GET", f"{V1}/agents/<name>", "read", "One agent, its files, results and schedule"),
    Route("GET", f"{V1}/results", "read", "The latest results"),
    Route("GET", f"{V1}/states", "read", "The judged states"),
    Route("GET", f"{V1}/states/<agent>/<path:check>", "read", "The judged state of one check"),
    Route("GET", f"{V1}/explain/<agent>/<path:check>", "read", "Why a check is in its state, and who was told"),
    Route("GET", f"{V1}/windows", "read", "Downtimes and silences"),
    Route("GET", f"{V1}/events", "read", "What changes, as it changes", streams=True),
    Route("GET", f"{V1}/checks", "read", "The published checks"),
    Route("GET", f"{V1}/assignments", "read", "What runs where, as text"),
    Route("GET", f"{V1}/push", "read", "How far the newest set of checks has come"),
    Route("GET", f"{V1}/keys", "read", "Who signs sets of checks"),
    Route("GET", f"{V1}/jobs", "read", "Questions that last"),
    Route("GET", f"{V1}/jobs/<job_id>", "read", "One of them"),
    Route("GET", f"{V1}/jobs/<job_id>/follow", "read", "Its answers as they come", streams=True),
    Route("GET", f"{V1}/notifications", "read", "Channels and the outbox"),
    Route("GET", f"{V1}/web-tokens", "admin", "Tokens of this API"),
    Route("GET", f"{V1}/passive", "read", "What may report from outside"),
    Route("GET", f"{V1}/passive/keys/<host>", "admin", "The key with which a host reports"),
    Route("GET", f"{V1}/passive/pings/<host>/<path:check>", "admin", "The URLs of a ping"),
    # ---------------------------------------------------------------------------------------------- directing
    Route("POST", f"{V1}/web-tokens", "admin", "Make a token of this API"),
    Route("POST", f"{V1}/web-tokens/<name>/revoke", "admin", "A token opens nothing any more"),
    Route("POST", f"{V1}/tokens", "admin", "A token with which an agent joins"),
    Route("POST", f"{V1}/certificates", "admin", "A certificate for an agent"),
    Route("POST", f"{V1}/agents/<name>/revoke", "admin", "Shut an agent out"),
    Route("POST", f"{V1}/agents/<name>/forget", "admin", "Take an agent off all lists"),
    Route("PUT", f"{V1}/assignments", "admin", "Replace what runs where", "assign"),
    Route("POST", f"{V1}/runs", "operate", "Run a check now", "run", streams=True),
    Route("POST", f"{V1}/acks", "operate", "Take a problem over", "ack"),
    Route("POST", f"{V1}/acks/clear", "operate", "Take an acknowledgement back", "ack-clear"),
    Route("POST", f"{V1}/windows", "operate", "Open a downtime or silence", "window"),
    Route("POST", f"{V1}/windows/<name>/cancel", "operate", "End one", "window-cancel"),
    Route("POST", f"{V1}/jobs", "operate", "Ask agents, and wait for those that are away", "job"),
    Route("POST", f"{V1}/jobs/<job_id>/cancel", "operate", "Ask no further", "job-cancel"),
    Route("POST", f"{V1}/jobs/<job_id>/retry", "operate", "Ask those again that have not answered", "job-retry"),
    Route("POST", f"{V1}/notifications/route", "read", "Who would be told"),
    Route("POST", f"{V1}/notifications/check", "read", "Whether a notifications.toml could be used"),
    Route("POST", f"{V1}/notifications/test", "operate", "Send a test through a channel", "notify-test"),
    Route("POST", f"{V1}/notifications/<name>/retry", "operate", "Try to deliver a message again", "notify-retry"),
    Route("POST", f"{V1}/notifications/<name>/drop", "operate", "Give a message up", "notify-drop"),
    Route("PUT", f"{V1}/passive", "admin", "Replace what may report from outside", "passive"),
    Route("POST", f"{V1}/push", "push", "Validate, sign and publish checks", "push"),
    Route("POST", f"{V1}/push/signed", "push", "Publish what was signed elsewhere", "push-signed"),
    Route("POST", f"{V1}/once", "push", "Run code that is in no set", streams=True),
    Route("POST", f"{V1}/push/agent", "admin", "Send an Equus out", "push-agent"),
    Route("POST", f"{V1}/push/undo", "push", "Go back to the set before", "push-undo"),
    Route("POST", f"{V1}/keys", "admin", "Change who signs", "keys"),
    # ---------------------------------------------------------------------------------------------- from outside
    Route("POST", f"{V1}/passive/results", None, "A result from outside", own=True),
    Route("POST", "/v1/actions/process-check-result", None, "A result, as Icinga takes it", own=True),
    Route("GET", "/nrdp", None, "Results, as NRDP takes them", own=True),
    Route("POST", "/nrdp", None, "Results, as NRDP takes them", own=True),
    Route("GET", "/nrdp/", None, "Results, as NRDP takes them", own=True),
    Route("POST", "/nrdp/", None, "Results, as NRDP takes them", own=True),
    Route("GET", "/ping/<code>", None, "A job is done", own=True),
    Route("POST", "/ping/<code>", None, "A job is done", own=True),
    Route("GET", "/ping/<code>/<rest>", None, "A job begins, fails, or ends with a status", own=True),
    Route("POST", "/ping/<code>/<rest>", None, "A job begins, fails, or ends with a status", own=True),
    Route("GET", "/ping/<code>/<name>/<signal>", None, "The same by its name", own=True),
    Route("POST", "/ping/<code>/<name>/<signal>", None, "The same by its name", own=True),
)  # fmt: skip

BY_KEY: dict[tuple[str, str], Route] = {route.key: route for route in ROUTES}
