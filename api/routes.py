"""The route table: every method and path of the API, and the function that answers it."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from api import backfills, calendars, edits, executions, health, jobs, schedules

ROUTES: list[BaseRoute] = [
    Route("/", health.index),
    Route("/healthz", health.healthz),
    Route("/readyz", health.readyz),
    Route("/v1/jobs", jobs.create, methods=["POST"]),
    Route("/v1/jobs", jobs.index),
    Route("/v1/jobs/{job_id}", jobs.show),
    Route("/v1/jobs/{job_id}", edits.put, methods=["PUT"]),
    Route("/v1/jobs/{job_id}", edits.patch, methods=["PATCH"]),
    Route("/v1/jobs/{job_id}", jobs.delete, methods=["DELETE"]),
    Route("/v1/jobs/{job_id}/run", jobs.run, methods=["POST"]),
    Route("/v1/jobs/{job_id}/pause", jobs.pause, methods=["POST"]),
    Route("/v1/jobs/{job_id}/resume", jobs.resume, methods=["POST"]),
    Route("/v1/jobs/{job_id}/executions", executions.index),
    Route("/v1/jobs/{job_id}/upcoming", schedules.upcoming),
    Route("/v1/jobs/{job_id}/explain", schedules.explain_time),
    Route("/v1/schedules/preview", schedules.preview, methods=["POST"]),
    Route("/v1/jobs/{job_id}/backfills", backfills.create, methods=["POST"]),
    Route("/v1/jobs/{job_id}/backfill", backfills.show),
    Route("/v1/jobs/{job_id}/backfill", backfills.cancel, methods=["DELETE"]),
    Route("/v1/calendars", calendars.index),
    Route("/v1/calendars/{name}", calendars.show),
    Route("/v1/calendars/{name}", calendars.put, methods=["PUT"]),
    Route("/v1/calendars/{name}", calendars.delete, methods=["DELETE"]),
    Route("/internal/executions/claim", executions.claim, methods=["POST"]),
    Route("/internal/executions/{execution_id}/heartbeat", executions.heartbeat, methods=["POST"]),
    Route("/internal/executions/{execution_id}/complete", executions.complete, methods=["POST"]),
]
