"""Secrets of webhooks over HTTP: make one for a job or a group, list them, end one.

A secret is in the answer that makes it, and in no other.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from api.access import caller_of
from api.backend import backend_of
from api.jobs import job_id_of
from api.operations import contract
from api.rules import ask, shown
from api.taken import Taken
from api.wire import JsonResponse, read_body, rfc_3339
from engine.codec.secrets import StoredSecret
from engine.errors import NotFound
from engine.names import QUEUE
from engine.store.jobs import get_job
from engine.store.secrets import Owner, create_secret, delete_secret, list_secrets
from engine.webhooks import LONGEST, PREFIX, SHORTEST, parse_secret, secret_text

LONGEST_OVERLAP_MS = 30 * 86_400_000


def _check(secret: SecretStr) -> SecretStr:
    ask(lambda: parse_secret(secret.get_secret_value()))
    return secret


_SECRET = shown(
    "string",
    f"`{PREFIX}` and {SHORTEST} to {LONGEST} bytes in Base64.",
    format="webhook-secret",
    writeOnly=True,
)


class CreateSecret(Taken):
    """The body that makes a secret. It need not be sent."""

    secret: Annotated[SecretStr, AfterValidator(_check), _SECRET] | None = None
    """One of the caller's own; a random one if there is none."""
    overlap_ms: int = Field(86_400_000, ge=0, le=LONGEST_OVERLAP_MS)
    """How long the secret before this one stays valid."""


class SecretOut(TypedDict):
    id: str
    created_at: str
    expires_at: str | None
    """When it ends; null for the newest, which has no end."""


class NewSecretOut(SecretOut):
    secret: str


class SecretsOut(TypedDict):
    secrets: list[SecretOut]
    """Those that are valid, the newest first."""


@contract(body=CreateSecret, may_be_empty=True, gives=NewSecretOut, status=201)
async def create_of_job(request: Request) -> Response:
    """Make a secret that signs the webhooks of a job. 201 with the secret, which no other answer
    holds. The one before is valid for `overlap_ms` more; a third one ends the first."""
    return await _create(request, await _job_of(request))


@contract(body=CreateSecret, may_be_empty=True, gives=NewSecretOut, status=201)
async def create_of_group(request: Request) -> Response:
    """Make a secret that signs the webhooks of a group's jobs, as one of a job is made."""
    return await _create(request, _group_of(request))


@contract(gives=SecretsOut)
async def index_of_job(request: Request) -> Response:
    """Answer which secrets of a job are valid, without the secrets."""
    return await _index(request, await _job_of(request))


@contract(gives=SecretsOut)
async def index_of_group(request: Request) -> Response:
    """Answer which secrets of a group are valid, without the secrets."""
    return await _index(request, _group_of(request))


@contract(status=204)
async def delete_of_job(request: Request) -> Response:
    """End a secret of a job within a second. Where it was the newest, the one before has no end any
    more."""
    return await _delete(request, await _job_of(request))


@contract(status=204)
async def delete_of_group(request: Request) -> Response:
    """End a secret of a group, as one of a job is ended."""
    return await _delete(request, _group_of(request))


async def _create(request: Request, owner: Owner) -> Response:
    backend = backend_of(request)
    body = await read_body(request, CreateSecret, may_be_empty=True)
    made, secret = await create_secret(
        backend.store,
        owner,
        backend.clock.now_ms(),
        given=parse_secret(body.secret.get_secret_value()) if body.secret else None,
        overlap_ms=body.overlap_ms,
    )
    shown: NewSecretOut = {**_shown(made), "secret": secret_text(secret)}
    return JsonResponse(shown, 201, {"Cache-Control": "no-store"})


async def _index(request: Request, owner: Owner) -> Response:
    backend = backend_of(request)
    found = await list_secrets(backend.store, owner, backend.clock.now_ms())
    return JsonResponse({"secrets": [_shown(secret) for secret in found]})


async def _delete(request: Request, owner: Owner) -> Response:
    backend = backend_of(request)
    secret_id: str = request.path_params["secret_id"]
    await delete_secret(backend.store, owner, secret_id, backend.clock.now_ms())
    return Response(status_code=204)


async def _job_of(request: Request) -> Owner:
    """Return the job in the path. Refuses with NotFound one that is not there for the caller."""
    job_id = job_id_of(request)
    job = (await get_job(backend_of(request).store, job_id)).job
    if not caller_of(request).sees(job.group):
        raise NotFound(f"there is no job {job_id}")
    return Owner.of_job(job)


def _group_of(request: Request) -> Owner:
    """Return the group in the path: any that a job may name is there."""
    group: str = request.path_params["group"]
    if not QUEUE.fullmatch(group) or not caller_of(request).sees(group):
        raise NotFound("there is no group of this name")
    return Owner.of_group(group)


def _shown(secret: StoredSecret) -> SecretOut:
    ends_at = secret.expires_at
    return {
        "id": secret.id,
        "created_at": rfc_3339(secret.created_at),
        "expires_at": None if ends_at is None else rfc_3339(ends_at),
    }
