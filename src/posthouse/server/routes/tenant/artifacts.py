"""Artifacts of jobs: uploaded by workers, listed and downloaded by tenants."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Header, Query, Request, Response

from posthouse.blobs import BlobStore, validate_artifact_name
from posthouse.errors import WrongOffset
from posthouse.identity import Permission
from posthouse.insights.job_details import ArtifactInfo, get_artifact, list_artifacts
from posthouse.server.artifacts import UploadRange, Uploads
from posthouse.server.http.auth import Access, allow
from posthouse.server.http.files import download
from posthouse.server.http.requests import file_body
from posthouse.server.http.responses import json_response
from posthouse.server.routes.worker.fleet import Worker, as_json
from posthouse.server.routes.worker.jobs import LeaseToken
from posthouse.storage.attempts import artifact_for_job, save_artifact

router = APIRouter(tags=["artifacts"])
Reader = Annotated[Access, allow(Permission.JOBS_READ)]
Sha256 = Annotated[
    str | None, Header(alias="X-Content-SHA256", description="SHA-256 of the whole artifact in hex.")
]
_OF_WORKERS = "/worker/jobs/{job_id}/artifacts/{name:path}"


def _store(request: Request) -> BlobStore:
    store: BlobStore = request.app.state.store
    return store


def _uploads(request: Request) -> Uploads:
    uploads: Uploads = request.app.state.uploads
    return uploads


@router.get("/jobs/{job_id}/artifacts", response_model=list[ArtifactInfo])
async def find(job_id: UUID, access: Reader) -> Response:
    """List the artifacts of a job."""
    async with access.transaction() as db:
        return json_response(await list_artifacts(db, job_id, tenant=access.principal.tenant))


@router.get("/jobs/{job_id}/artifacts/{name:path}", response_class=Response)
async def download_artifact(job_id: UUID, name: str, request: Request, access: Reader) -> Response:
    """Download an artifact.

    Supports the `Range` header.
    """
    async with access.transaction() as db:
        found = await get_artifact(db, job_id, validate_artifact_name(name), tenant=access.principal.tenant)
    return download(_store(request), found, request.headers.get("range"))


@router.put(_OF_WORKERS, response_class=Response, status_code=201)
async def upload_artifact(
    job_id: UUID,
    name: str,
    token: LeaseToken,
    request: Request,
    worker: Worker,
    sha256: Sha256 = None,
) -> Response:
    """Upload an artifact.

    The body is the content. To make the upload resumable, send pieces with a `Content-Range` header each;
    after a lost connection, `HEAD` returns the number of bytes received. The artifact is stored when all
    bytes were received and the checksum matches.
    """
    validate_artifact_name(name)
    await worker.get_attempt(job_id, token)
    piece = UploadRange.of(request.headers.get("content-range"))
    uploads = _uploads(request)
    try:
        content = file_body(request, uploads.limit)
        arrived, done = await uploads.take(job_id, name, sha256, piece, content)
    except WrongOffset as error:
        offset = await uploads.offset(job_id, name, sha256)
        answer = as_json(code=error.code, detail=str(error), status=409, title="Conflict", type="about:blank")
        answer.status_code, answer.media_type = 409, "application/problem+json"
        answer.headers["Upload-Offset"] = str(offset)
        return answer
    if done is None:
        answer = as_json(arrived=arrived)
        answer.status_code = 202
        answer.headers["Upload-Offset"] = str(arrived)
        return answer
    blob_key, digest = done
    kept = {"name": name, "size": digest.size, "sha256": digest.sha256.hex()}
    kind = request.headers.get("x-artifact-type", "application/octet-stream")[:200]
    try:
        await save_artifact(
            worker.workers.connections, job_id, token, name=name, blob_key=blob_key, size=digest.size,
            sha256=digest.sha256, type=kind,
        )  # fmt: skip
    except BaseException:
        await _store(request).delete(blob_key)
        raise
    answer = as_json(**kept)
    answer.status_code = 201
    return answer


@router.head(_OF_WORKERS, response_class=Response)
async def show_upload(
    job_id: UUID,
    name: str,
    token: LeaseToken,
    request: Request,
    worker: Worker,
    sha256: Sha256 = None,
) -> Response:
    """Get the offset of an upload.

    The `Upload-Offset` header contains the number of bytes received.
    """
    await worker.get_attempt(job_id, token)
    offset = await _uploads(request).offset(job_id, validate_artifact_name(name), sha256)
    return Response(headers={"Upload-Offset": str(offset)})


@router.get(_OF_WORKERS, response_class=Response)
async def download_job_artifact(
    job_id: UUID,
    name: str,
    token: LeaseToken,
    request: Request,
    worker: Worker,
    of: Annotated[
        UUID | None, Query(description="Another job of the same tenant that owns the artifact.")
    ] = None,
) -> Response:
    """Download an artifact for a running job.

    The artifact belongs to this job or to another job of its tenant. Supports the `Range` header.
    """
    await worker.get_attempt(job_id, token)
    found = await artifact_for_job(
        worker.workers.connections, job_id, token, validate_artifact_name(name), of
    )
    return download(_store(request), found, request.headers.get("range"))
