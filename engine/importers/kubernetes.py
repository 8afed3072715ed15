"""Kubernetes: CronJobs of `kubectl get cronjob -o yaml`, of manifests, and of lists of them.

A CronJob starts pods, which nothing here can do. So its job waits for a worker of yours, which gets
the whole pod template as its payload; or, with `--shell`, a command runs on the machine of a
worker, without its image.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

from engine.errors import BadInput
from engine.importers.documents import read_documents
from engine.importers.entry import Entry, read_each
from engine.importers.imported import Draft, Fields, Imported, Note, Options
from engine.importers.naming import queue_of
from engine.names import MOST_TAGS

OVERLAPS = {"Allow": "allow", "Forbid": "skip", "Replace": "replace"}
BACKOFF_MS = 10_000
LONGEST_BACKOFF_MS = 360_000
DEFAULT_BACKOFF_LIMIT = 6
MOST_DEADLINE_S = 366 * 86_400

MEANINGLESS = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "managedFields"),
    *("ownerReferences", "finalizers", "generateName"),
)
"""What the cluster knows of the object, in its metadata."""

_REFERENCE = re.compile(r"\$\([A-Za-z_][A-Za-z0-9_]*\)")
ENVELOPE = ("apiVersion", "kind", "status")
"""Of which kind it is, and what the cluster saw of its runs."""

NO_POD = ("restartPolicy", "name")
"""Of a pod, where a command takes its place: it is tried again by the retry policy, and its
container needs no name."""

_PODS = "how the cluster runs pods; tell your worker"
_JOB_FIELDS = (
    *("completions", "parallelism", "completionMode", "ttlSecondsAfterFinished", "suspend"),
    *("podFailurePolicy", "selector", "manualSelector", "backoffLimitPerIndex", "managedBy"),
    *("maxFailedIndexes", "podReplacementPolicy", "successPolicy"),
)


def read(text: str, options: Options) -> Imported:
    """Return the CronJobs of a text. Refuses with BadInput what is neither YAML nor JSON. Other
    kinds of object are noted."""
    jobs: list[tuple[str, Any]] = []
    notes = []
    for number, item in enumerate(_objects(read_documents(text)), start=1):
        kind = item.get("kind") if isinstance(item, dict) else None
        name = _name_of(item)
        if kind == "CronJob" or not isinstance(item, dict):
            jobs.append((f"object {number}" + (f", {name}" if name else ""), item))
        else:
            notes.append(Note(f"object {number}", f"{kind} {name}", "is no CronJob: left out"))
    return read_each(jobs, lambda place, item: _read(place, item, options), *notes)


def _objects(documents: list[Any]) -> Iterator[Any]:
    for document in documents:
        if isinstance(document, dict) and str(document.get("kind", "")).endswith("List"):
            yield from Fields(document).items("items")
        elif isinstance(document, list):
            yield from document
        else:
            yield document


def _name_of(item: Any) -> str | None:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return str(name) if name else None


def _read(place: str, item: Any, options: Options) -> Draft:
    fields = Fields(item)
    for name in ENVELOPE:
        fields.take(name)
    metadata, spec = fields.inner("metadata"), fields.inner("spec")
    for name in MEANINGLESS:
        metadata.take(name)
    name, namespace = metadata.word("name"), metadata.text("namespace")
    entry = Entry(f"{namespace}.{name}" if namespace else name, options)
    entry.schedule(spec.word("schedule"), "k8s", spec.text("timeZone"))
    entry.paused = spec.flag("suspend")
    _overlap(entry, spec)
    _misfire(entry, spec)
    entry.group("metadata.namespace", namespace)
    _tags(entry, metadata)
    job = spec.inner("jobTemplate").inner("spec")
    _retry(entry, job)
    _what(entry, f"{namespace}/{name}" if namespace else name, job)
    entry.note_all(metadata, {"annotations": "jobs have no annotations"})
    entry.note_all(
        spec,
        dict.fromkeys(
            ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"),
            "one limit holds for all jobs; see WATERCLOCK_HISTORY_LIMIT",
        ),
    )
    entry.note_all(spec.inner("jobTemplate"), {"metadata": _PODS})
    entry.note_all(job, dict.fromkeys(_JOB_FIELDS, _PODS))
    return entry.draft(place, fields)


def _overlap(entry: Entry, spec: Fields) -> None:
    policy = spec.text("concurrencyPolicy") or "Allow"
    if policy not in OVERLAPS:
        raise BadInput(f"spec.concurrencyPolicy is one of {', '.join(OVERLAPS)}")
    entry.body["overlap"] = OVERLAPS[policy]


def _misfire(entry: Entry, spec: Fields) -> None:
    """Too late for the deadline is not run at all; without one the latest missed time is."""
    seconds = spec.whole("startingDeadlineSeconds")
    if seconds is None:
        return
    if seconds < 0:
        raise BadInput("spec.startingDeadlineSeconds is 0 or more")
    grace_s = min(seconds, MOST_DEADLINE_S)
    if grace_s < seconds:
        entry.note("spec.startingDeadlineSeconds", seconds, "a year is as good: it is that")
    entry.body["misfire"] = {"policy": "skip", "grace_ms": grace_s * 1000}


def _tags(entry: Entry, metadata: Fields) -> None:
    labels = metadata.take("labels")
    if not labels:
        return
    if not isinstance(labels, dict):
        raise BadInput("metadata.labels must be a mapping")
    tags = list(dict.fromkeys(queue_of(f"{key}-{label}") for key, label in labels.items()))
    entry.body["tags"] = tags[:MOST_TAGS]
    more = "" if len(tags) <= MOST_TAGS else f", the first {MOST_TAGS} of them"
    entry.note("metadata.labels", labels, f"labels are tags here{more}", f"they are {tags[0]}, …")


def _retry(entry: Entry, job: Fields) -> None:
    limit, deadline_s = job.whole("backoffLimit"), job.whole("activeDeadlineSeconds")
    more = {"base_ms": BACKOFF_MS, "max_ms": LONGEST_BACKOFF_MS}
    if deadline_s is not None:
        path = job.path_of("activeDeadlineSeconds")
        more["deadline_ms"] = entry.within(path, deadline_s * 1000)
    attempts = (DEFAULT_BACKOFF_LIMIT if limit is None else limit) + 1
    entry.retry(job.path_of("backoffLimit"), attempts, **more)


def _what(entry: Entry, name: str, job: Fields) -> None:
    template = job.inner("template")
    containers = template.inner("spec").items("containers")
    if not containers:
        raise BadInput(f"{template.path}.spec.containers is missing: there is nothing to run")
    if entry.options.shell and name not in entry.options.targets:
        _shell(entry, template.inner("spec"), containers)
        entry.note_all(template, {"metadata": "a command is in no pod"})
        return
    entry.run(name, {"name": name, "pod": template.take_all()})
    if entry.body["target"]["type"] == "worker":
        why = "pods are not started from here: the job waits for a worker of yours"
        advice = "its payload is the pod template; --shell makes a command of it"
        entry.note(f"{template.path}.spec.containers", containers, why, advice)


def _shell(entry: Entry, pod: Fields, containers: list[Any]) -> None:
    path = pod.path_of("containers")
    if len(containers) > 1 or pod.items("initContainers"):
        raise BadInput(f"{path}: a command is one container; import it without --shell")
    container = Fields(containers[0], f"{path}[0]")
    words = [*container.items("command"), *container.items("args")]
    if "command" not in container:
        raise BadInput(f"{path}[0].command is missing: what the image runs is not known here")
    command = shlex.join(map(str, words))
    target = {"type": "shell", "command": command, "cwd": container.text("workingDir")}
    env = _environment(entry, container)
    entry.body["target"] = {name: value for name, value in {**target, "env": env}.items() if value}
    entry.note_all(
        container,
        {
            "image": "the command runs on the worker's machine; install there what it needs",
            "envFrom": "variables come from the job alone",
        },
    )
    if found := _REFERENCE.search(command):
        why = "references to variables are not filled in"
        entry.note(f"{path}[0].args", found[0], why, "write $NAME, in sh -c")
    for name in NO_POD:
        pod.take(name)
        container.take(name)
    for field, value in [*container.left(), *pod.left()]:
        entry.note(field, value, "a command has no such thing")
    pod.take_all()


def _environment(entry: Entry, container: Fields) -> dict[str, str]:
    found = {}
    for number, item in enumerate(container.items("env")):
        variable = Fields(item, f"{container.path}.env[{number}]")
        name = variable.word("name")
        if variable.take("valueFrom") is not None:
            why = "is read from the cluster, which is not there"
            entry.note(variable.path, name, why, "put it into a file that the command reads")
        else:
            found[name] = variable.text("value") or ""
        for path, value in variable.left():
            entry.note(path, value, "a variable has no such thing")
    return found
