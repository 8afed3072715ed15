"""Which scheduler a text comes from, where the text says so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from engine.errors import BadInput
from engine.importers import celery_source
from engine.importers.documents import read_documents

_CANNOT = "the file does not say which scheduler it comes from; say it with --from"


def recognise_source(text: str, filename: str = "-") -> str:
    """Return the name of the importer that reads this text. Refuses with BadInput what no importer
    is sure of; a crontab is whatever has no other shape, and the name of one."""
    begin, path = text.lstrip()[:1], PurePath(filename)
    if begin == "<":
        return "quartz"
    if path.suffix == ".py":
        return "celery"
    if "cron" in path.name and path.suffix not in (".json", ".yml", ".yaml"):
        return "crontab"
    try:
        documents = read_documents(text)
    except BadInput:
        if path.suffix in (".json", ".yml", ".yaml"):
            raise
        documents = []
    for document in documents:
        name = _of_document(document)
        if name:
            return name
    raise BadInput(_CANNOT)


def _of_document(document: Any) -> str | None:
    if isinstance(document, list):
        first = document[0] if document else None
        return _of_document(first) if isinstance(first, dict) else None
    if not isinstance(document, dict):
        return None
    keys = {str(key).lstrip(":") for key in document}
    if "apiVersion" in keys and "kind" in keys:
        return "kubernetes"
    if keys & {"Schedules", "ScheduleExpression"}:
        return "eventbridge"
    if {"model", "fields"} <= keys:
        return "django-celery-beat"
    if keys & {*celery_source.SCHEDULES}:
        return "celery"
    if isinstance(document.get("jobs"), list) or {"func", "trigger"} <= keys:
        return "apscheduler"
    if keys & {"scheduler", "schedule"} and "task" not in keys:
        return "sidekiq"
    return _of_entry(document) or _of_entries(document)


def _of_entries(document: dict[Any, Any]) -> str | None:
    for key, value in document.items():
        if "redbeat:" in str(key) or (isinstance(value, dict) and "definition" in value):
            return "redbeat"
        if isinstance(value, dict) and (name := _of_entry(value)):
            return name
    return None


def _of_entry(entry: Mapping[Any, Any]) -> str | None:
    keys = {str(key).lstrip(":") for key in entry}
    if {"task", "schedule"} <= keys:
        schedule = entry.get("schedule")
        is_stored = isinstance(schedule, dict) and "__type__" in schedule
        return "redbeat" if is_stored and "name" in keys else "celery"
    if keys & {"cron", "every", "interval", "at", "in"}:
        return "sidekiq"
    return None
