"""Jobs of other schedulers, read from what those write: text in, drafts and refusals out. Pure.

Reading order: imported (what comes out), entry (what all importers share), documents (JSON and YAML
within bounds), and then a module for each scheduler. Nothing of a source is dropped without a word:
a field is carried over, or noted, or stands in its importer's table of what means nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from engine.errors import BadInput
from engine.importers import (
    apscheduler,
    celery,
    crontab,
    django_celery_beat,
    eventbridge,
    kubernetes,
    quartz,
    redbeat,
    sidekiq,
)
from engine.importers.documents import read_documents
from engine.importers.imported import Draft, Imported, Note, Options, Refusal
from engine.importers.naming import with_own_ids
from engine.importers.recognise import recognise_source

__all__ = [
    "IMPORTERS",
    "Draft",
    "Imported",
    "Importer",
    "Note",
    "Options",
    "Refusal",
    "read_documents",
    "read_from",
    "recognise_source",
    "with_own_ids",
]


class Importer(NamedTuple):
    """One scheduler: what is read of it, and the function that does."""

    reads: str
    read: Callable[[str, Options], Imported]


IMPORTERS = {
    "crontab": Importer("a crontab, of a user or of the system", crontab.read),
    "eventbridge": Importer("JSON of `aws scheduler get-schedule`, one or many", eventbridge.read),
    "kubernetes": Importer("CronJobs, as YAML or JSON", kubernetes.read),
    "celery": Importer(
        "`beat_schedule` in Python source (read, not run), JSON or YAML", celery.read
    ),
    "django-celery-beat": Importer(
        "JSON of `manage.py dumpdata django_celery_beat`", django_celery_beat.read
    ),
    "redbeat": Importer("JSON of the definitions in Redis", redbeat.read),
    "quartz": Importer("`job_scheduling_data` XML, of Quartz.NET too", quartz.read),
    "apscheduler": Importer("JSON that the snippet below writes", apscheduler.read),
    "sidekiq": Importer("YAML of sidekiq-cron and sidekiq-scheduler", sidekiq.read),
}
"""What `waterclock import --from` takes."""


def read_from(source: str, text: str, options: Options) -> Imported:
    """Return what a text of that scheduler comes to. Refuses with BadInput a text that is none."""
    if source not in IMPORTERS:
        raise BadInput(f"unknown source {source[:64]!r}; known are {', '.join(IMPORTERS)}")
    return IMPORTERS[source].read(text, options)
