"""Every Redis key, spelled once, with the type of what it holds.

All keys of a shard carry the shard's hash tag in braces, right after the prefix, so that they share
a cluster slot and one script may touch them all. Text that a user chose stands after the tag, where
it cannot pick a slot. Scripts get these names in KEYS, or a prefix in ARGV where a batch touches a
key per job.
"""

from __future__ import annotations

import binascii
import string
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

PREFIX = "wc"
"""What every key begins with, before a colon."""

LAYOUT = "wc:layout"
"""string: JSON `{version, hash, tags}`, written once; every process reads it (see `Layout`)."""

FROZEN = "wc:frozen"
"""string: JSON `{phase, at}` while the deployment is moving or has moved (store/phase.py); else
absent."""

SCHEDULERS = "wc:schedulers"
"""zset: scheduler name → the server time at which it counts as gone. How shards are shared out."""

STARTS = "wc:{wc:schedulers}:starts"
"""zset: the newest starts of the deployment, each scored by itself. Its tag puts it into the slot
of `SCHEDULERS`: who finds nobody alive there notes a start in the same step
(lua/announce_scheduler.lua)."""

PROCESSES = "wc:processes"
"""hash: scheduler or worker → JSON of what it last said of itself (store/processes.py). It only
informs: nothing is decided by it."""

CALENDARS = "wc:calendars"
"""hash: calendar name → `<version> <JSON>`; field `@stamp` counts all changes."""

ZONES = "wc:zones"
"""hash: edition of the time zone database → its rules, packed (codec/zones.py); those by which next
times were worked out that are not looked through yet, and the newest."""

QUEUES = "wc:queues"
"""hash: queue → JSON of its settings (store/limits.py)."""

HOSTS = "wc:hosts"
"""hash: host of http targets → JSON of its limits."""

PUSHBACK = "wc:pushback"
"""hash: host → JSON of when it last asked for less, and for how long."""

SIGNING = "wc:signing"
"""string: the random key that signs the URLs on which targets report. Made by the first process
that needs it."""

SECRETS = "wc:secrets"
"""hash: `job:<id>` or `group:<name>` → the secrets that sign its webhooks (codec/secrets.py);
`mark:<hex>` → whose secret that is."""

API_KEYS = "wc:keys"
"""hash: id of an API key → JSON of what it may do, and the SHA-256 of the key (codec/api_keys.py);
field `@stamp` is another one after every change."""

API_KEYS_USED = "wc:keys:used"
"""hash: id of an API key → when it was last used, to the minute."""

GRAPH = "wc:graph"
"""hash: job that depends on others → how it matches them, and their ids, a blank between two. In
one place, so that circles are seen."""


def request_key(digest: str) -> str:
    """hash with a TTL: a request with an Idempotency-Key, and how it was answered
    (lua/begin_request.lua)."""
    return f"{PREFIX}:request:{digest}"


GROUP = "workers"
"""The one consumer group of every ready stream."""

LAYOUT_VERSION = 2
SLOTS = 16_384
BUCKET_MS = 60_000


def waiting_bucket(lane: str, stream: str) -> str:
    """Return the name of the bucket in which executions of a stream wait for a lane's permits."""
    _, colon, priority = stream.partition(":")
    return f"@{lane}{colon}{priority}"


def bucket_of(due_at: int) -> str:
    """Return the name of the bucket (a minute of the due index) that holds `due_at`."""
    return str(due_at // BUCKET_MS)


@dataclass(frozen=True)
class Shard:
    """The keys of one shard."""

    index: int
    tag: str

    def __hash__(self) -> int:
        return self.index  # of one layout, where it names the shard; asked for on each read

    def _key(self, rest: str) -> str:
        return f"wc:{{{self.tag}}}:{rest}"

    # One key each

    @cached_property
    def jobs(self) -> str:
        """zset, all scores 0: the shard's job ids in byte order, for lists and prefix search."""
        return self._key("jobs")

    @cached_property
    def groups(self) -> str:
        """hash: group → bytes of its jobs' payloads; only groups that have jobs."""
        return f"{self.jobs}:groups"

    @cached_property
    def group_names(self) -> str:
        """zset, all scores 0: the same groups, in byte order."""
        return f"{self.jobs}:group_names"

    @cached_property
    def plans(self) -> str:
        """hash: plan id → canonical plan."""
        return self._key("plans")

    @cached_property
    def buckets(self) -> str:
        """zset: the open buckets by minute; `@<stream>` and `@<lane>` have score +inf."""
        return self._key("buckets")

    @cached_property
    def lease(self) -> str:
        """string with a TTL: the holder, a scheduler's name."""
        return self._key("lease")

    @cached_property
    def fence(self) -> str:
        """hash: `token` and `holder` of the newest lease ever granted."""
        return self._key("fence")

    @cached_property
    def zones(self) -> str:
        """set: the editions of the time zone database by which next times of the shard may have
        been worked out."""
        return self._key("zones")

    @cached_property
    def frozen(self) -> str:
        """hash: `phase`, and `group:<stream>` → where that stream's group stood; absent unless the
        deployment is moving or has moved. Scripts find it by the tag (lua/lib/frozen.lua)."""
        return self._key("frozen")

    @cached_property
    def ran_at(self) -> str:
        """string with a TTL: the newest nominal time among executions of deleted jobs; what new
        jobs start by themselves, or by hand, is later."""
        return self._key("ran_at")

    @cached_property
    def dead(self) -> str:
        """zset: dead-lettered execution ids by time."""
        return self._key("dead")

    @cached_property
    def gates(self) -> str:
        """hash: permits and counts of what is limited (lua/lib/gates.lua); absent while nothing
        is."""
        return self._key("gates")

    @cached_property
    def outbox(self) -> str:
        """stream: ends of executions on their way to the jobs that depend on them."""
        return self._key("outbox")

    @cached_property
    def awaiting(self) -> str:
        """zset: `<job>@<time>` of what may hear more of its upstream jobs that counts, by when it
        last heard."""
        return self._key("awaiting")

    @cached_property
    def backfills(self) -> str:
        """set: ids of the jobs whose backfill is not at its end."""
        return self._key("backfills")

    @cached_property
    def ledger(self) -> str:
        """stream, capped: field `events`, JSON lines of all that happened."""
        return self._key("ledger")

    # One key per job, bucket or queue: a prefix and what follows it

    @cached_property
    def job_prefix(self) -> str:
        return self._key("job:")

    @cached_property
    def runs_prefix(self) -> str:
        return self._key("runs:")

    @cached_property
    def due_prefix(self) -> str:
        return self._key("due:")

    @cached_property
    def ready_prefix(self) -> str:
        return self._key("ready:")

    @cached_property
    def letter_prefix(self) -> str:
        return self._key("letter:")

    def job(self, job_id: str) -> str:
        """hash: one job (fields in codec.py)."""
        return self.job_prefix + job_id

    def jobs_of_group(self, group: str) -> str:
        """zset, all scores 0: the ids of a group's jobs. Begins as `jobs` does, as scripts that
        have that key alone rely on (lua/lib/index.lua); so do the other lists of jobs."""
        return f"{self.jobs}:group:{group}"

    def jobs_with_tag(self, tag: str) -> str:
        """zset, all scores 0: the ids of the jobs that have a tag."""
        return f"{self.jobs}:tag:{tag}"

    def runs(self, job_id: str) -> str:
        """list, capped: the job's last records, newest first."""
        return self.runs_prefix + job_id

    def due(self, bucket: str) -> str:
        """zset: members `<plan id>|<job id>`, or `<execution id>` for an attempt, by due time."""
        return self.due_prefix + bucket

    @cached_property
    def waiting(self) -> str:
        """hash: member → its bucket, for those that wait for a permit. Buckets `@<lane>` hold
        them."""
        return self.due_prefix + "@"

    def ready(self, stream: str) -> str:
        """stream: executions waiting for a worker, with consumer group `workers`."""
        return self.ready_prefix + stream

    @cached_property
    def dependents_prefix(self) -> str:
        return self._key("dependents:")

    @cached_property
    def arrivals_prefix(self) -> str:
        return self._key("arrivals:")

    @cached_property
    def inputs_prefix(self) -> str:
        return self._key("inputs:")

    def dependents(self, job_id: str) -> str:
        """zset, all scores 0: the jobs that depend on this one."""
        return self.dependents_prefix + job_id

    def arrivals(self, job_id: str, time: int | str) -> str:
        """hash: what a job has heard of its upstream jobs for one time (lua/lib/arrivals.lua)."""
        return f"{self.arrivals_prefix}{job_id}@{time}"

    def inputs(self, job_id: str) -> str:
        """hash: nominal time → JSON of what upstream jobs gave, for executions not at their end."""
        return self.inputs_prefix + job_id

    def letter(self, execution_id: str) -> str:
        """hash: one dead letter (fields in lua/lib/letters.lua)."""
        return self.letter_prefix + execution_id

    def effects(self, execution_id: str) -> str:
        """hash with a TTL: name of a side effect → what it gave."""
        return self._key("effects:") + execution_id


@dataclass(frozen=True)
class Layout:
    """How the deployment is cut into shards: fixed when the first process starts."""

    tags: tuple[str, ...]

    @cached_property
    def shards(self) -> tuple[Shard, ...]:
        return tuple(Shard(index, tag) for index, tag in enumerate(self.tags))

    def shard_of(self, job_id: str) -> Shard:
        """Return the shard of a job: CRC-32 (IEEE 802.3) of its id, modulo the number of shards."""
        return self.shards[zlib.crc32(job_id.encode()) % len(self.tags)]


def slot_of(tag: str) -> int:
    """Return the cluster slot of a hash tag: CRC-16/XMODEM modulo 16,384."""
    return binascii.crc_hqx(tag.encode(), 0) % SLOTS


def spread_tags(count: int) -> tuple[str, ...]:
    """Return `count` short hash tags whose slots lie evenly over 0–16,383, one in each equal slice.

    So a cluster whose masters own equal ranges of slots gives each an even share of the shards.
    """
    tags: dict[int, str] = {}
    for tag in _short_words():
        # The middle half of a slice: ranges that are cut a little differently still split shards
        # evenly.
        position = slot_of(tag) * count / SLOTS
        if 0.25 <= position % 1 < 0.75:
            tags.setdefault(int(position), tag)
        if len(tags) == count:
            break
    return tuple(tags[index] for index in range(count))


def _short_words() -> Iterator[str]:
    alphabet = string.ascii_lowercase + string.digits
    words = [""]
    while True:
        words = [word + letter for word in words for letter in alphabet]
        yield from words
