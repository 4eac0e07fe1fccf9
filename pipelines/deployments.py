"""The deployments: how flows are offered in the Prefect UI, and the pool that runs them."""

from __future__ import annotations

import contextlib
from typing import Any

from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectAlreadyExists
from prefect.schedules import Cron, Schedule
from prefect.types.entrypoint import EntrypointType
from prefect.workers.process import ProcessWorker

from pipelines.corpus import corpus
from pipelines.embeddings import embeddings
from pipelines.settings import ENVIRONMENT, Settings
from pipelines.train import TRAIN_FLOWS

POOL = "lexloom"
NIGHTLY = "0 2 * * *"
AT_ONCE = 4
"""Flow runs at once. What they compute shares the CPUs of one Ray; this bounds their memory."""


def register(settings: Settings) -> list[str]:
    """Create or renew the work pool and all deployments on the configured Prefect server.

    Schedules are made with a new deployment and never touched again: what was switched on or
    changed in the UI stays.

    Returns:
        the names of the deployments, ``flow/deployment``.
    """
    nightly = Cron(NIGHTLY, timezone=settings.timezone, slug="nightly", active=False)
    offers: list[tuple[Flow[..., Any], str, Schedule | None]] = [
        (embeddings, "embeddings", None),
        (embeddings, "nightly", nightly),
        (corpus, "corpus", None),
        *((flow, flow.name, None) for flow in TRAIN_FLOWS),
    ]
    with get_client(sync_client=True) as client:
        _ensure_pool(client)
        return [_deploy(flow, name, schedule) for flow, name, schedule in offers]


def _ensure_pool(client: SyncPrefectClient) -> None:
    template = ProcessWorker.get_default_base_job_template()
    pool = WorkPoolCreate(
        name=POOL, type="process", base_job_template=template, concurrency_limit=AT_ONCE
    )
    with contextlib.suppress(ObjectAlreadyExists):
        client.create_work_pool(pool)


def _deploy(flow: Flow[..., Any], name: str, schedule: Schedule | None) -> str:
    deployment = RunnerDeployment.from_flow(
        flow,
        name=name,
        schedule=schedule,
        work_pool_name=POOL,
        job_variables={"env": dict(ENVIRONMENT)},
        # The worker has lexloom installed: nothing is fetched or copied for a run.
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    # An empty list keeps the schedules of a deployment that is there; None would clear them.
    deployment.apply(schedules=[])
    return deployment.full_name
