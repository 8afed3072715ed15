"""The route table: every operation of the API, in the order in which its document lists them."""

from __future__ import annotations

from starlette.routing import BaseRoute

from api import (
    backfills,
    calendars,
    callbacks,
    cancelling,
    claims,
    completions,
    edits,
    executions,
    graphs,
    health,
    hosts,
    jobs,
    letters,
    queues,
    schedules,
)
from api.operations import Operation
from engine.access import Scope

READ, WRITE, WORKER, ADMIN = Scope.READ, Scope.WRITE, Scope.WORKER, Scope.ADMIN

_JOB = "/v1/jobs/{job_id}"
_EXECUTION = "/v1/executions/{execution_id}"
_DEAD = "/v1/dead/{execution_id}"
_LEASED = "/internal/executions/{execution_id}"

OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", "/", None, health.index),
    Operation("GET", "/healthz", None, health.healthz),
    Operation("GET", "/readyz", None, health.readyz),
    Operation("POST", "/v1/jobs", WRITE, jobs.create),
    Operation("GET", "/v1/jobs", READ, jobs.index),
    Operation("GET", _JOB, READ, jobs.show),
    Operation("PUT", _JOB, WRITE, edits.put),
    Operation("PATCH", _JOB, WRITE, edits.patch),
    Operation("DELETE", _JOB, WRITE, jobs.delete),
    Operation("POST", f"{_JOB}/run", WRITE, jobs.run),
    Operation("POST", f"{_JOB}/pause", WRITE, jobs.pause),
    Operation("POST", f"{_JOB}/resume", WRITE, jobs.resume),
    Operation("GET", f"{_JOB}/executions", READ, executions.index),
    Operation("POST", f"{_JOB}/cancel", WRITE, cancelling.cancel_all),
    Operation("POST", f"{_EXECUTION}/cancel", WRITE, cancelling.cancel_one),
    Operation("POST", f"{_EXECUTION}/rerun", WRITE, graphs.run_again),
    Operation("GET", f"{_JOB}/graph", READ, graphs.around),
    Operation("GET", "/v1/graphs/{job_id}/runs/{time}", READ, graphs.run),
    Operation("GET", f"{_JOB}/upcoming", READ, schedules.upcoming),
    Operation("GET", f"{_JOB}/explain", READ, schedules.explain_time),
    Operation("POST", "/v1/schedules/preview", READ, schedules.preview),
    Operation("POST", f"{_JOB}/backfills", WRITE, backfills.create),
    Operation("GET", f"{_JOB}/backfill", READ, backfills.show),
    Operation("DELETE", f"{_JOB}/backfill", WRITE, backfills.cancel),
    Operation("GET", "/v1/calendars", READ, calendars.index),
    Operation("GET", "/v1/calendars/{name}", READ, calendars.show),
    Operation("PUT", "/v1/calendars/{name}", WRITE, calendars.put),
    Operation("DELETE", "/v1/calendars/{name}", WRITE, calendars.delete),
    Operation("GET", "/v1/dead", READ, letters.index),
    Operation("POST", "/v1/dead/redrive", WRITE, letters.redrive_many),
    Operation("POST", "/v1/dead/discard", WRITE, letters.discard_many),
    Operation("GET", _DEAD, READ, letters.show),
    Operation("DELETE", _DEAD, WRITE, letters.discard),
    Operation("POST", f"{_DEAD}/redrive", WRITE, letters.redrive),
    Operation("GET", "/v1/queues", READ, queues.index),
    Operation("GET", "/v1/queues/{queue}", READ, queues.show),
    Operation("PUT", "/v1/queues/{queue}", WRITE, queues.put),
    Operation("POST", "/v1/queues/{queue}/pause", WRITE, queues.pause),
    Operation("POST", "/v1/queues/{queue}/resume", WRITE, queues.resume),
    Operation("GET", "/v1/hosts", READ, hosts.index),
    Operation("GET", "/v1/hosts/{host}", READ, hosts.show),
    Operation("PUT", "/v1/hosts/{host}", WRITE, hosts.put),
    Operation("DELETE", "/v1/hosts/{host}", WRITE, hosts.delete),
    Operation("POST", "/v1/callbacks/{token}", None, callbacks.report),
    Operation("POST", "/internal/executions/claim", WORKER, claims.claim),
    Operation("POST", "/internal/executions/complete", WORKER, completions.complete_many),
    Operation("POST", f"{_LEASED}/heartbeat", WORKER, completions.heartbeat),
    Operation("POST", f"{_LEASED}/complete", WORKER, completions.complete),
    Operation("POST", f"{_LEASED}/fail", WORKER, completions.fail),
)

ROUTES: list[BaseRoute] = [operation.route() for operation in OPERATIONS]
