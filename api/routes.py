"""The route table: every operation of the API, in the order in which its document lists them."""

from __future__ import annotations

from starlette.routing import BaseRoute

from api import (
    backfills,
    bulk,
    calendars,
    callbacks,
    cancelling,
    claims,
    completions,
    docs,
    doctor,
    edits,
    events,
    executions,
    fleet,
    graphs,
    groups,
    health,
    hosts,
    jobs,
    keys,
    letters,
    openapi,
    queues,
    schedules,
    secrets,
    stats,
)
from api.operations import Operation
from engine.access import Scope

READ, WRITE, WORKER, ADMIN = Scope.READ, Scope.WRITE, Scope.WORKER, Scope.ADMIN

_JOB = "/v1/jobs/{job_id}"
_EXECUTION = "/v1/executions/{execution_id}"
_DEAD = "/v1/dead/{execution_id}"
_GROUP = "/v1/groups/{group}"
_LEASED = "/internal/executions/{execution_id}"

OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", "/", None, health.index),
    Operation("GET", "/healthz", None, health.healthz),
    Operation("GET", "/readyz", None, health.readyz),
    Operation("GET", "/openapi.json", None, openapi.show),
    Operation("GET", "/docs", None, docs.show),
    Operation("POST", "/v1/jobs", WRITE, jobs.create, by_group=True),
    Operation("GET", "/v1/jobs", READ, jobs.index, by_group=True),
    Operation("POST", "/v1/jobs/bulk", WRITE, bulk.create, by_group=True),
    Operation("POST", "/v1/jobs/bulk-delete", WRITE, bulk.delete, by_group=True),
    Operation("GET", _JOB, READ, jobs.show, by_group=True),
    Operation("PUT", _JOB, WRITE, edits.put, by_group=True),
    Operation("PATCH", _JOB, WRITE, edits.patch, by_group=True),
    Operation("DELETE", _JOB, WRITE, jobs.delete, by_group=True),
    Operation("POST", f"{_JOB}/run", WRITE, jobs.run, by_group=True),
    Operation("POST", f"{_JOB}/pause", WRITE, jobs.pause, by_group=True),
    Operation("POST", f"{_JOB}/resume", WRITE, jobs.resume, by_group=True),
    Operation("GET", f"{_JOB}/executions", READ, executions.index, by_group=True),
    Operation("POST", f"{_JOB}/cancel", WRITE, cancelling.cancel_all, by_group=True),
    Operation("GET", "/v1/executions", READ, executions.index_all, by_group=True),
    Operation("GET", _EXECUTION, READ, executions.show, by_group=True),
    Operation("POST", f"{_EXECUTION}/cancel", WRITE, cancelling.cancel_one, by_group=True),
    Operation("POST", f"{_EXECUTION}/rerun", WRITE, graphs.run_again, by_group=True),
    Operation("GET", f"{_JOB}/graph", READ, graphs.around, by_group=True),
    Operation("GET", "/v1/graphs/{job_id}/runs/{time}", READ, graphs.run, by_group=True),
    Operation("GET", f"{_JOB}/upcoming", READ, schedules.upcoming, by_group=True),
    Operation("GET", f"{_JOB}/explain", READ, schedules.explain_time, by_group=True),
    Operation("POST", "/v1/schedules/preview", READ, schedules.preview, by_group=True),
    Operation("POST", f"{_JOB}/backfills", WRITE, backfills.create, by_group=True),
    Operation("GET", f"{_JOB}/backfill", READ, backfills.show, by_group=True),
    Operation("DELETE", f"{_JOB}/backfill", WRITE, backfills.cancel, by_group=True),
    Operation("POST", f"{_JOB}/secrets", WRITE, secrets.create_of_job, by_group=True),
    Operation("GET", f"{_JOB}/secrets", READ, secrets.index_of_job, by_group=True),
    Operation(
        "DELETE", f"{_JOB}/secrets/{{secret_id}}", WRITE, secrets.delete_of_job, by_group=True
    ),
    Operation("GET", "/v1/groups", READ, groups.index, by_group=True),
    Operation("GET", _GROUP, READ, groups.show, by_group=True),
    Operation("POST", f"{_GROUP}/pause", WRITE, groups.pause, by_group=True),
    Operation("POST", f"{_GROUP}/resume", WRITE, groups.resume, by_group=True),
    Operation("DELETE", _GROUP, WRITE, groups.delete, by_group=True),
    Operation("POST", f"{_GROUP}/secrets", WRITE, secrets.create_of_group, by_group=True),
    Operation("GET", f"{_GROUP}/secrets", READ, secrets.index_of_group, by_group=True),
    Operation(
        "DELETE", f"{_GROUP}/secrets/{{secret_id}}", WRITE, secrets.delete_of_group, by_group=True
    ),
    Operation("POST", "/v1/keys", ADMIN, keys.create),
    Operation("GET", "/v1/keys", ADMIN, keys.index),
    Operation("DELETE", "/v1/keys/{key_id}", ADMIN, keys.revoke),
    Operation("POST", "/v1/keys/{key_id}/rotate", ADMIN, keys.rotate),
    Operation("GET", "/v1/calendars", READ, calendars.index, by_group=True),
    Operation("GET", "/v1/calendars/{name}", READ, calendars.show, by_group=True),
    Operation("PUT", "/v1/calendars/{name}", WRITE, calendars.put),
    Operation("DELETE", "/v1/calendars/{name}", WRITE, calendars.delete),
    Operation("GET", "/v1/dead", READ, letters.index, by_group=True),
    Operation("POST", "/v1/dead/redrive", WRITE, letters.redrive_many, by_group=True),
    Operation("POST", "/v1/dead/discard", WRITE, letters.discard_many, by_group=True),
    Operation("GET", _DEAD, READ, letters.show, by_group=True),
    Operation("DELETE", _DEAD, WRITE, letters.discard, by_group=True),
    Operation("POST", f"{_DEAD}/redrive", WRITE, letters.redrive, by_group=True),
    Operation("GET", "/v1/queues", READ, queues.index),
    Operation("GET", "/v1/queues/{queue}", READ, queues.show),
    Operation("PUT", "/v1/queues/{queue}", WRITE, queues.put),
    Operation("POST", "/v1/queues/{queue}/pause", WRITE, queues.pause),
    Operation("POST", "/v1/queues/{queue}/resume", WRITE, queues.resume),
    Operation("GET", "/v1/hosts", READ, hosts.index),
    Operation("GET", "/v1/hosts/{host}", READ, hosts.show),
    Operation("PUT", "/v1/hosts/{host}", WRITE, hosts.put),
    Operation("DELETE", "/v1/hosts/{host}", WRITE, hosts.delete),
    Operation("GET", "/v1/shards", READ, fleet.shards),
    Operation("GET", "/v1/schedulers", READ, fleet.schedulers),
    Operation("GET", "/v1/workers", READ, fleet.workers),
    Operation("GET", "/v1/server", READ, fleet.server),
    Operation("GET", "/v1/stats", READ, stats.show),
    Operation("GET", "/v1/doctor", READ, doctor.show),
    Operation("GET", "/v1/doctor/shards/{shard}", READ, doctor.shard),
    Operation("GET", "/v1/events", READ, events.listen, by_group=True),
    Operation("POST", "/v1/callbacks/{token}", None, callbacks.report),
    Operation("POST", "/internal/executions/claim", WORKER, claims.claim),
    Operation("POST", "/internal/executions/complete", WORKER, completions.complete_many),
    Operation("POST", f"{_LEASED}/heartbeat", WORKER, completions.heartbeat),
    Operation("POST", f"{_LEASED}/complete", WORKER, completions.complete),
    Operation("POST", f"{_LEASED}/fail", WORKER, completions.fail),
)

ROUTES: list[BaseRoute] = [operation.route() for operation in OPERATIONS]
