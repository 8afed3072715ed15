"""Keys: where a job lives, and that a shard's keys share a slot."""

from __future__ import annotations

import pytest

from engine.keys import SLOTS, Layout, Shard, bucket_of, slot_of, spread_tags, waiting_bucket


def test_the_keys_of_a_shard_are_spelled_so() -> None:
    shard = Shard(0, "t")
    assert [shard.jobs, shard.plans, shard.buckets, shard.lease, shard.fence] == [
        "wc:{t}:jobs",
        "wc:{t}:plans",
        "wc:{t}:buckets",
        "wc:{t}:lease",
        "wc:{t}:fence",
    ]
    assert [shard.dead, shard.backfills, shard.ledger] == [
        "wc:{t}:dead",
        "wc:{t}:backfills",
        "wc:{t}:ledger",
    ]
    assert [shard.gates, shard.waiting, shard.letter("a@1"), shard.effects("a@1")] == [
        "wc:{t}:gates",
        "wc:{t}:due:@",
        "wc:{t}:letter:a@1",
        "wc:{t}:effects:a@1",
    ]
    assert [shard.job("a"), shard.runs("a"), shard.due("7"), shard.ready("q")] == [
        "wc:{t}:job:a",
        "wc:{t}:runs:a",
        "wc:{t}:due:7",
        "wc:{t}:ready:q",
    ]


def test_the_lists_of_jobs_begin_with_the_key_that_every_consumer_has() -> None:
    shard = Shard(0, "t")
    assert [shard.groups, shard.group_names] == [
        f"{shard.jobs}:groups",
        f"{shard.jobs}:group_names",
    ]
    assert [shard.jobs_of_group("a"), shard.jobs_with_tag("b")] == [
        f"{shard.jobs}:group:a",
        f"{shard.jobs}:tag:b",
    ]


def test_a_prefix_and_what_follows_is_the_key() -> None:
    shard = Shard(0, "t")
    assert shard.job_prefix + "a" == shard.job("a")
    assert shard.runs_prefix + "a" == shard.runs("a")
    assert shard.due_prefix + "7" == shard.due("7")
    assert shard.ready_prefix + "q" == shard.ready("q")
    assert shard.letter_prefix + "a@1" == shard.letter("a@1")


@pytest.mark.parametrize(
    ("lane", "stream", "bucket"),
    [
        ("q/mail", "mail", "@q/mail"),
        ("h/a.test:8080", "mail:high", "@h/a.test:8080:high"),
        ("g/mail/blue", "mail:low", "@g/mail/blue:low"),
    ],
)
def test_what_waits_for_a_permit_is_apart_by_priority(lane: str, stream: str, bucket: str) -> None:
    assert waiting_bucket(lane, stream) == bucket


@pytest.mark.parametrize(
    ("due_at", "bucket"), [(0, "0"), (59_999, "0"), (60_000, "1"), (1_800_000_000_000, "30000000")]
)
def test_a_bucket_is_a_minute(due_at: int, bucket: str) -> None:
    assert bucket_of(due_at) == bucket


@pytest.mark.parametrize(
    ("tag", "slot"), [("123456789", 12_739), ("foo", 12_182), ("user1000", 3_443)]
)
def test_a_slot_is_what_the_cluster_specification_says(tag: str, slot: int) -> None:
    assert slot_of(tag) == slot


@pytest.mark.parametrize("count", [1, 3, 16, 256])
def test_shards_lie_one_in_each_equal_slice_of_the_slots(count: int) -> None:
    tags = spread_tags(count)
    assert [slot_of(tag) * count // SLOTS for tag in tags] == list(range(count))
    assert all(tag.isalnum() and len(tag) <= 3 for tag in tags)


@pytest.mark.parametrize("masters", [2, 3, 4, 5, 6, 8])
def test_sixteen_shards_are_shared_evenly_by_any_few_masters(masters: int) -> None:
    owned = [0] * masters
    for tag in spread_tags(16):
        owned[slot_of(tag) * masters // SLOTS] += 1
    assert max(owned) - min(owned) <= 1


def test_tags_are_the_same_in_every_process() -> None:
    assert spread_tags(4) == spread_tags(4) == ("3", "2", "1", "0")


@pytest.mark.parametrize(
    ("job_id", "crc"), [("123456789", 0xCBF43926), ("job-0", 0x3B450AA9), ("a", 0xE8B7BE43)]
)
def test_a_job_lives_in_the_shard_that_the_crc_of_its_id_names(job_id: str, crc: int) -> None:
    layout = Layout(spread_tags(16))
    assert layout.shard_of(job_id).index == crc % 16


def test_jobs_spread_over_all_shards() -> None:
    layout = Layout(spread_tags(16))
    counts = [0] * 16
    for n in range(16_000):
        counts[layout.shard_of(f"job-{n}").index] += 1
    assert min(counts) > 800
