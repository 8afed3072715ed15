"""What the harness makes of peers: jobs as words, records, rounds, rows, tables. Nothing is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.peers import rounds
from bench.peers.contract import RECORD, Jobs
from bench.peers.install import Installation
from bench.peers.peer import Peer, Sizes, due_in, due_later_in, lengths
from bench.peers.records import Records, count_ready, count_records, percentile
from bench.peers.rounds import Measured, plan, run_rounds
from bench.peers.runtimes import Npm, Own, Venv
from bench.peers.table import PEERS
from bench.peers.tables import page
from bench.peers.workloads import Figures
from bench.scenarios import peers
from bench.stage import Stage
from engine.embedded import EmbeddedServer
from engine.errors import BadInput, Unusable

NOWHERE = Installation(Path("/nowhere"), Path("/nowhere/redis"))


def peer(name: str, sizes: Sizes) -> Peer:
    return Peer(name, Own("none"), "as it comes", sizes, registers_per_s=1)


# Jobs


def test_jobs_are_the_same_after_a_command_line() -> None:
    jobs = Jobs("once", 7, 1_000, 70)
    assert Jobs.parse(jobs.words()) == jobs


def test_jobs_fall_due_evenly() -> None:
    jobs = Jobs("once", 4, 1_000, 2_000)
    assert [jobs.due_ms(n) for n in range(4)] == [1_000, 1_500, 2_000, 2_500]
    assert jobs.due(1).isoformat() == "1970-01-01T00:00:01.500000+00:00"


def test_batches_have_every_job_once() -> None:
    assert [*map(list, Jobs("once", 5).batches(2))] == [[0, 1], [2, 3], [4]]


def test_what_waits_is_counted_up_to_the_last_job_and_what_recurs_from_there_on() -> None:
    jobs = Jobs("once", 4, 1_000, 2_000)
    assert due_in("z", 2)(jobs) == [("ZCOUNT", "z", "-inf", "6002")]
    assert due_later_in("z", 2)(jobs) == [("ZCOUNT", "z", "(6002", "+inf")]
    assert lengths("LLEN a", "ZCOUNT b 1 2")(jobs) == [("LLEN", "a"), ("ZCOUNT", "b", "1", "2")]


def test_our_own_jobs_wait_in_every_minute_in_which_they_are_due() -> None:
    keys = [key for _, key in PEERS["waterclock"].waiting(Jobs("once", 9, 59_000, 2_000))]
    assert len({*keys}) == 32
    assert {key.rpartition(":")[2] for key in keys} == {"0", "1"}


# Records


def test_jobs_that_ran_twice_and_not_at_all_are_counted(tmp_path: Path) -> None:
    written = [(0, 1.0), (2, 1.7), (2, 1.6)]
    (tmp_path / "1.records").write_bytes(b"".join(RECORD.pack(*each) for each in written[:2]))
    (tmp_path / "2.records").write_bytes(RECORD.pack(*written[2]) + b"begun")
    (tmp_path / "2.ready").touch()
    assert (count_records(tmp_path), count_ready(tmp_path)) == (3, 1)
    records = Records.read(tmp_path)
    assert (records.first_s(), records.last_s()) == (1.0, 1.7)
    jobs = Jobs("once", 4, 1_000, 1_000)
    assert records.count(jobs) == {"executed": 3, "doubled": 1, "lost": 2}
    assert records.lags_ms(jobs) == pytest.approx([0, 100, 200])


def test_a_percentile_is_the_value_below_which_that_part_lies() -> None:
    values = [float(n) for n in range(100)]
    assert [percentile(values, part) for part in (0.5, 0.99, 1)] == [50, 99, 99]


# Rounds


def test_work_is_in_proportion_and_left_out_where_a_peer_has_none() -> None:
    sizes = Sizes(spike=1_000, recurring=0, immediate=100, rates=(10, 20))
    planned = plan([peer("a", sizes)], ["spike", "recurring", "steady", "immediate"], 0.5)
    assert [(each.workload, each.amount) for each in planned] == [
        ("spike", 500),
        ("steady", 10),
        ("steady", 20),
        ("immediate", 50),
    ]


async def test_peers_take_turns_and_what_fails_stops_none_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []

    async def spike(who: Peer, count: int, on: Installation) -> Figures:
        order.append(who.name)
        if who.name == "b":
            raise Unusable("b is broken")
        return {"triggers_per_s": len(order), "lost": len(order) % 2}

    monkeypatch.setattr(rounds, "WORKLOADS", {"spike": spike})
    sizes = Sizes(spike=100, recurring=0, immediate=0)
    planned = plan([peer(name, sizes) for name in "abc"], ["spike"], 1)
    await run_rounds(planned, 3, NOWHERE, lambda _: None)
    assert order == [*"abc", *"cba", *"abc"]
    assert [each.figures() for each in planned] == [
        {"triggers_per_s": 6, "lost": 1},
        {},
        {"triggers_per_s": 4, "lost": 1},
    ]
    assert planned[1].row("1.0")["errors"] == ["b is broken"] * 3


# What is installed


def test_what_is_not_installed_is_told(tmp_path: Path) -> None:
    for runtime in (Venv("on_arq", ("arq",)), Npm("bullmq.js", "bullmq")):
        with pytest.raises(Unusable, match="is not there"):
            runtime.command(tmp_path)
    with pytest.raises(Unusable, match=r"run `python -m bench\.peers install"):
        Installation.find(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": "bullmq,celery"}, "--only: there is no 'celery'; there are waterclock"),
        ({"workloads": "spikes"}, "--workloads: there is no 'spikes'; there are spike"),
        ({"rounds": "0"}, "--rounds is a number from 1 on, not '0'"),
        ({"rounds": "two"}, "--rounds is a number from 1 on, not 'two'"),
    ],
)
async def test_options_that_are_wrong_are_refused(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis/run").touch()
    server = EmbeddedServer(tmp_path)
    stage = Stage("", 100, True, server, {"folder": str(tmp_path), **options})
    with pytest.raises(BadInput, match=message):
        await peers.run(stage)


async def test_a_server_of_somebody_is_refused() -> None:
    with pytest.raises(BadInput, match="leave --url out"):
        await peers.run(Stage("redis://127.0.0.1", 100, True))


# Tables


def test_the_best_of_a_column_is_bold_and_lags_are_held_against_those_of_their_rate() -> None:
    runs: list[tuple[str, str, int, Figures]] = [
        ("a", "spike", 100, {"triggers_per_s": 1_000, "completed_per_s": 10}),
        ("b", "spike", 50, {"completed_per_s": 20}),
        ("a", "steady", 1_000, {"lag_ms_p50": 5, "lag_ms_p99": 8}),
        ("a", "steady", 100, {"lag_ms_p50": 9, "lag_ms_p99": 9}),
        ("b", "steady", 100, {"lag_ms_p50": 3, "lag_ms_p99": 10}),
    ]
    sizes = Sizes(spike=1, recurring=0, immediate=0)
    rows = [
        Measured(peer(name, sizes), workload, amount, [figures], []).row("1.0")
        for name, workload, amount, figures in runs
    ]
    rows[1]["errors"].append("it  fell\nover")
    text = page({"peers": rows, "skipped": {"c": "is not there"}}, "Measured on a machine.")
    assert "\nMeasured on a machine.\n" in text
    assert (
        "| a | 1,000 (100) | 10 (100) | – | – |"
        " 5 (1,000/s); 9 (100/s) | 8 (1,000/s); **9** (100/s) |\n" in text
    )
    assert "| b | – | **20** (50) | – | – | **3** (100/s) | 10 (100/s) |\n" in text
    assert "| a | 1.0 | as it comes |\n" in text
    assert "- spike of b: it fell over\n" in text
    assert "- c: is not there\n" in text
