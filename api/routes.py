"""The route table: every method and path of the API, and the function that answers it."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from api import executions, health, jobs

ROUTES: list[BaseRoute] = [
    Route("/", health.index),
    Route("/healthz", health.healthz),
    Route("/readyz", health.readyz),
    Route("/v1/jobs", jobs.create, methods=["POST"]),
    Route("/v1/jobs", jobs.index),
    Route("/v1/jobs/{job_id}", jobs.show),
    Route("/v1/jobs/{job_id}", jobs.delete, methods=["DELETE"]),
    Route("/v1/jobs/{job_id}/run", jobs.run, methods=["POST"]),
    Route("/v1/jobs/{job_id}/pause", jobs.pause, methods=["POST"]),
    Route("/v1/jobs/{job_id}/resume", jobs.resume, methods=["POST"]),
    Route("/v1/jobs/{job_id}/executions", executions.index),
    Route("/internal/executions/claim", executions.claim, methods=["POST"]),
    Route("/internal/executions/{execution_id}/complete", executions.complete, methods=["POST"]),
]
