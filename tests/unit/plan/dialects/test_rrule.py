"""Recurrence rules: what they mean, dateutil's own walk from DTSTART, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from dateutil.rrule import rrulestr

from engine.errors import BadExpression, NeverFires
from engine.plan import Cron, Plan, parse_schedule

NOW = 1_767_225_600_000
"""2026-01-01T00:00:00Z, a Thursday."""


def times(expr: str, n: int, timezone: str = "UTC", now: int = NOW) -> list[str]:
    plan = Plan.of(parse_schedule(expr, timezone, now=now))
    return [
        f"{datetime.fromtimestamp(at / 1000, UTC):%m-%d %H:%M:%S}"
        for at in plan.upcoming(now, now, n)
    ]


def refusal(expr: str) -> str:
    with pytest.raises(BadExpression) as caught:
        parse_schedule(expr, now=NOW, dialect="rrule")
    assert caught.value.field == "schedule_expr"
    return caught.value.message


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1000


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ("FREQ=DAILY;BYHOUR=9", ["01-01 09:00:00", "01-02 09:00:00"]),
        ("rrule:freq=daily;byhour=9;byminute=30", ["01-01 09:30:00", "01-02 09:30:00"]),
        ("RRULE:FREQ=WEEKLY;BYDAY=MO,FR", ["01-02 00:00:00", "01-05 00:00:00"]),
        ("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17", ["01-30 17:00:00", "02-27 17:00:00"]),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", ["01-30 00:00:00", "02-27 00:00:00"]),
        ("FREQ=MONTHLY;BYMONTHDAY=-1", ["01-31 00:00:00", "02-28 00:00:00"]),
        ("FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=13;BYDAY=FR", ["03-13 00:00:00", "03-13 00:00:00"]),
        ("FREQ=HOURLY;INTERVAL=5", ["01-01 05:00:00", "01-01 10:00:00"]),
        ("FREQ=MINUTELY;INTERVAL=25;BYHOUR=8", ["01-01 08:20:00", "01-01 08:45:00"]),
        ("FREQ=SECONDLY;INTERVAL=50;BYMINUTE=1", ["01-01 00:01:40", "01-01 01:01:40"]),
        (
            "DTSTART:20260105T090000 RRULE:FREQ=WEEKLY;INTERVAL=2",
            ["01-05 09:00:00", "01-19 09:00:00"],
        ),
        (
            "DTSTART:20251230T090000;RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH;WKST=SU",
            ["01-01 09:00:00", "01-12 09:00:00"],
        ),
        (
            "DTSTART:20240229T120000\nRRULE:FREQ=YEARLY",
            ["02-29 12:00:00", "02-29 12:00:00"],
        ),
    ],
)
def test_a_rule_means_these_times(expr: str, expected: list[str]) -> None:
    assert times(expr, 2) == expected


def test_a_rule_without_a_start_begins_today_at_midnight_in_the_zone_of_the_job() -> None:
    evening = at("2026-01-01T20:00:00+00:00")
    assert parse_schedule("FREQ=DAILY", "Asia/Tokyo", now=evening) == Cron(
        "DTSTART:20260102T000000 RRULE:FREQ=DAILY", "Asia/Tokyo", "rrule"
    )


@pytest.mark.parametrize(
    ("start", "timezone"),
    [
        ("DTSTART:20260301T090000", "Europe/Berlin"),
        ("DTSTART:20260301T090000Z", "UTC"),
        ("DTSTART;TZID=America/New_York:20260301T090000", "America/New_York"),
        ("dtstart;value=date-time;tzid=Asia/Tokyo:20260301T090000", "Asia/Tokyo"),
    ],
)
def test_the_start_may_name_the_zone(start: str, timezone: str) -> None:
    schedule = parse_schedule(f"{start} RRULE:FREQ=DAILY", "Europe/Berlin", now=NOW)
    assert schedule == Cron("DTSTART:20260301T090000 RRULE:FREQ=DAILY", timezone, "rrule")


@pytest.mark.parametrize(
    ("end", "last"),
    [
        ("COUNT=3", "01-03 09:00:00"),
        ("UNTIL=20260103", "01-03 09:00:00"),
        ("UNTIL=20260103T085959", "01-02 09:00:00"),
        ("UNTIL=20260103T090000", "01-03 09:00:00"),
        ("UNTIL=20260103T090000Z", "01-03 09:00:00"),
    ],
)
def test_a_rule_ends_with_its_count_or_its_last_time(end: str, last: str) -> None:
    found = times(f"DTSTART:20260101T090000Z RRULE:FREQ=DAILY;{end}", 50)
    assert found[-1] == last
    assert found[0] == "01-01 09:00:00"


def test_until_in_utc_is_an_instant_also_in_another_zone() -> None:
    expr = "DTSTART;TZID=America/New_York:20260101T090000 RRULE:FREQ=DAILY;UNTIL=20260102T1{}Z"
    assert times(expr.format("40000"), 9) == ["01-01 14:00:00", "01-02 14:00:00"]
    assert times(expr.format("35959"), 9) == ["01-01 14:00:00"]


def test_a_count_that_is_used_up_never_fires() -> None:
    with pytest.raises(NeverFires):
        parse_schedule("DTSTART:20250101T090000Z RRULE:FREQ=DAILY;COUNT=3", now=NOW)


def test_a_plan_keeps_the_times_whenever_it_is_read_again() -> None:
    plan = Plan.of(parse_schedule("FREQ=DAILY;INTERVAL=3;BYHOUR=9", "Europe/Berlin", now=NOW))
    again = Plan.from_canonical(plan.canonical)
    assert again.upcoming(NOW, NOW, 20) == plan.upcoming(NOW, NOW, 20)


@pytest.mark.parametrize(
    ("rule", "spring", "autumn"),
    [
        (
            "FREQ=DAILY;BYHOUR=2;BYMINUTE=30",
            ["03-29 01:00:00", "03-30 00:30:00"],
            ["10-25 00:30:00", "10-26 01:30:00"],
        ),
        (
            "FREQ=MINUTELY;BYHOUR=2;BYMINUTE=30",
            ["03-30 00:30:00", "03-31 00:30:00"],
            ["10-25 00:30:00", "10-25 01:30:00"],
        ),
    ],
)
def test_daily_rules_are_for_fixed_times_and_finer_ones_follow_elapsed_time(
    rule: str, spring: list[str], autumn: list[str]
) -> None:
    assert times(rule, 2, "Europe/Berlin", at("2026-03-28T12:00:00+00:00")) == spring
    assert times(rule, 2, "Europe/Berlin", at("2026-10-24T12:00:00+00:00")) == autumn


@pytest.mark.parametrize(
    "expr",
    [
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=DAILY;BYSETPOS=2",
        "FREQ=DAILY;INTERVAL=7;BYDAY=MO",
        "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6",
        "FREQ=SECONDLY;BYHOUR=9;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=SECONDLY;INTERVAL=2;BYSECOND=1",
        "FREQ=SECONDLY;INTERVAL=604800;BYDAY=MO",
        "FREQ=HOURLY;INTERVAL=24;BYHOUR=9",
        "FREQ=MINUTELY;INTERVAL=1440;BYMINUTE=1",
    ],
)
def test_a_rule_without_a_time_is_found_out_and_never_fires(expr: str) -> None:
    with pytest.raises(NeverFires):
        parse_schedule(expr, now=NOW)


def test_a_second_of_the_year_is_found_from_any_second_of_it() -> None:
    expr = "FREQ=SECONDLY;INTERVAL=7;BYMONTH=1;BYMONTHDAY=1;BYHOUR=9;BYMINUTE=59;BYSECOND=59"
    plan = Plan.of(parse_schedule(f"DTSTART:20260101T000003 RRULE:{expr}", now=NOW))
    found = plan.upcoming(NOW, NOW, 3)
    start = NOW + 3000
    for first in found:
        assert (first - start) % 7000 == 0
        assert f"{datetime.fromtimestamp(first / 1000, UTC):%m-%d %H:%M:%S}" == "01-01 09:59:59"
    assert plan.first_after(found[0] + 1, NOW) == found[1]


@pytest.mark.parametrize(
    ("expr", "parts"),
    [
        ("FREQ=FORTNIGHTLY", ["FREQ", "'FORTNIGHTLY'", "character 6 ", "YEARLY"]),
        ("RRULE:INTERVAL=2", ["FREQ", "YEARLY"]),
        ("DTSTART:20260101T000000", ["FREQ: missing"]),
        ("FREQ=DAILY;BYHOUR=9,24", ["BYHOUR", "'24'", "character 21 ", "0 to 23"]),
        ("FREQ=MONTHLY;BYMONTHDAY=0", ["BYMONTHDAY", "'0'", "without 0"]),
        ("FREQ=DAILY;INTERVAL=0", ["INTERVAL", "'0'", "1 to"]),
        ("FREQ=DAILY;BYHOUR=x", ["BYHOUR", "'X'"]),
        ("FREQ=DAILY;BYHOUR", ["'BYHOUR'", "character 12 ", "no part"]),
        ("FREQ=DAILY;BYEASTER=0", ["'BYEASTER=0'", "no part"]),
        ("FREQ=DAILY;FREQ=DAILY", ["FREQ", "second time"]),
        ("FREQ=WEEKLY;BYDAY=XX", ["BYDAY", "'XX'", "MO, TU"]),
        ("FREQ=WEEKLY;BYDAY=1MO", ["BYDAY", "'1MO'", "MONTHLY and YEARLY"]),
        ("FREQ=MONTHLY;BYDAY=1MO,TU", ["BYDAY", "'1MO,TU'", "number them all"]),
        ("FREQ=WEEKLY;WKST=1", ["WKST", "'1'"]),
        ("FREQ=DAILY;COUNT=3", ["COUNT", "'3'", "DTSTART"]),
        ("DTSTART:20260101T000000 FREQ=DAILY;COUNT=1001", ["COUNT", "1 to 1000"]),
        ("DTSTART:20260101 FREQ=DAILY;COUNT=3;UNTIL=20260201", ["UNTIL", "COUNT"]),
        ("FREQ=DAILY;UNTIL=tomorrow", ["UNTIL", "'TOMORROW'", "YYYYMMDD"]),
        ("DTSTART:20260230T000000 FREQ=DAILY", ["DTSTART", "'20260230T000000'", "calendar"]),
        ("DTSTART:tomorrow FREQ=DAILY", ["DTSTART", "'tomorrow'"]),
        ("DTSTART;X=1:20260101T000000 FREQ=DAILY", ["DTSTART", "TZID=zone"]),
        ("DTSTART;TZID=Europe/Berln:20260101T000000 FREQ=DAILY", ["character 14", "Europe/Berlin"]),
        ("DTSTART:22000101T000000 FREQ=DAILY", ["DTSTART", "1900 to 2199"]),
        ("FREQ=DAILY RDATE:20260101T000000", ["'RDATE:20260101T000000'", "one RRULE"]),
        ("FREQ=HOURLY;BYMINUTE=0,30;BYSETPOS=1", ["BYSETPOS", "DAILY or coarser"]),
        (
            "FREQ=DAILY;BYMINUTE=0,10,20,30,40,50;BYSECOND=0,5,10,15,20,25,30,35,40,45,50;"
            "BYHOUR=0,1,2,3,4",
            ["288 times a day", "MINUTELY"],
        ),
    ],
)
def test_a_refusal_names_the_part_the_text_the_place_and_what_is_right(
    expr: str, parts: list[str]
) -> None:
    message = refusal(expr)
    assert [part for part in parts if part not in message] == []


@pytest.mark.parametrize("seed", range(60))
def test_the_times_are_those_that_dateutil_reaches_from_the_start(seed: int) -> None:
    rng = Random(seed)
    rule, span = random_rule(rng)
    start = datetime(2025, rng.randint(1, 12), rng.randint(1, 28), rng.randint(0, 23), 30, 15)  # noqa: DTZ001
    plan = Plan("cron", expr=f"DTSTART:{start:%Y%m%dT%H%M%S} RRULE:{rule}", dialect="rrule")
    walk = rrulestr(f"RRULE:{rule}", dtstart=start)
    for after in (start - timedelta(days=1), start + span * rng.random(), start + span):
        expected = [f"{moment}" for moment in walk.xafter(after, count=5)]
        after_at = at(f"{after.replace(microsecond=0)}+00:00")
        found = plan.upcoming(after_at, 0, 5)
        assert [f"{datetime.fromtimestamp(at / 1000, UTC):%F %T}" for at in found] == expected, rule


def random_rule(rng: Random) -> tuple[str, timedelta]:
    """Return a rule that has times, and a span that dateutil can walk."""

    def some(low: int, high: int, most: int = 3) -> str:
        return ",".join(map(str, sorted(rng.sample(range(low, high + 1), rng.randint(1, most)))))

    frequency, days = rng.choice(
        [
            *(("YEARLY", 9000), ("MONTHLY", 3000), ("WEEKLY", 900), ("DAILY", 400)),
            *(("HOURLY", 90), ("MINUTELY", 9), ("SECONDLY", 1)),
        ]
    )
    interval = rng.choice([1, 1, 2, 3, 5, 7])
    parts = [f"FREQ={frequency}", f"INTERVAL={interval}"]
    by_day = ",".join(rng.sample(["MO", "TU", "WE", "TH", "FR", "SA", "SU"], 3))
    optional = [f"BYDAY={by_day}", f"BYMONTH={some(1, 12, 6)}", f"WKST={rng.choice(['MO', 'SU'])}"]
    if frequency in ("YEARLY", "MONTHLY"):
        optional += ["BYMONTHDAY=-1,5,20", "BYDAY=1MO,-1FR", "BYDAY=MO,TU,WE,TH,FR;BYSETPOS=1,-1"]
        optional += ["BYYEARDAY=1,-1,100", "BYWEEKNO=1,20,53"] if frequency == "YEARLY" else []
    if frequency not in ("MINUTELY", "SECONDLY"):
        optional += [f"BYMINUTE={some(0, 59)}", f"BYSECOND={some(0, 59)}"]
    if frequency not in ("HOURLY", "MINUTELY", "SECONDLY"):
        optional += [f"BYHOUR={some(0, 23)}"]
    names = set()
    for part in rng.sample(optional, rng.randint(0, 3)):
        if part.split("=")[0] not in names and not (interval > 1 and part.startswith("BYWEEKNO")):
            names.add(part.split("=")[0])
            parts.append(part)
    return ";".join(parts), timedelta(days=days)
