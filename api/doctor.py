"""The doctor over HTTP: what is wrong with the deployment, and what to do."""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from api.backend import backend_of
from api.operations import contract
from api.wire import JsonResponse
from engine.doctor import Finding, Verdict, collect, examine
from engine.errors import NotFound
from engine.store.audit import Audit, audit_shard


class FindingOut(TypedDict):
    check: str
    verdict: str
    """`ok`; `warn`: it works, and is not as it should be; `fail`: jobs do not run, or would be
    lost."""
    found: str
    advice: str | None


class DoctorOut(TypedDict):
    is_well: bool
    """Whether no verdict is `fail`."""
    findings: list[FindingOut]


class AuditOut(TypedDict):
    shard: int
    jobs: int
    members: int
    """Members of the due index that were looked at."""
    faults: dict[str, int]
    examples: list[str]


@contract(gives=DoctorOut)
async def show(request: Request) -> Response:
    """Answer what there is to say about server, fleet, work, and a sample of the index."""
    backend = backend_of(request)
    found = examine(await collect(backend.store, backend.clock))
    return JsonResponse(doctor_out(found))


@contract(gives=AuditOut)
async def shard(request: Request) -> Response:
    """Answer whether the index of one shard agrees with its records, all of them: it takes seconds
    for hundreds of thousands of jobs."""
    store, number = backend_of(request).store, request.path_params["shard"]
    if not re.fullmatch("[0-9]{1,3}", number) or int(number) >= len(store.layout.shards):
        raise NotFound(f"the shards are 0 to {len(store.layout.shards) - 1}")
    audit = await audit_shard(store, store.layout.shards[int(number)])
    return JsonResponse(_audit_out(int(number), audit))


def doctor_out(findings: list[Finding]) -> DoctorOut:
    return {
        "is_well": all(finding.verdict is not Verdict.FAIL for finding in findings),
        "findings": [
            {
                "check": finding.check,
                "verdict": finding.verdict,
                "found": finding.found,
                "advice": finding.advice,
            }
            for finding in findings
        ],
    }


def _audit_out(number: int, audit: Audit) -> AuditOut:
    return {
        "shard": number,
        "jobs": audit.jobs,
        "members": audit.members,
        "faults": dict(audit.faults),
        "examples": audit.examples,
    }
