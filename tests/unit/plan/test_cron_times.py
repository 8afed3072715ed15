"""When cron fires: dates, the star rule, and what daylight saving does in zones of every kind."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from engine.errors import BadInput
from engine.plan import Cron, Plan, parse_schedule
from engine.plan.cron_eval import FIXED_TIME, WILDCARD, DstRule, first_after
from engine.plan.dialects.vixie import parse_cron
from engine.plan.zones import Segment, Zone, load_zone

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"


def millis(local: str, timezone: str) -> int:
    return int(datetime.fromisoformat(local).replace(tzinfo=ZoneInfo(timezone)).timestamp()) * 1000


def local_times(expr: str, timezone: str, start: str, n: int) -> list[str]:
    """The next `n` times as local `2026-03-29 03:00+0200`."""
    after = millis(start, timezone)
    times = Plan.of(Cron(expr, timezone)).upcoming(after, after, n)
    zone = ZoneInfo(timezone)
    return [datetime.fromtimestamp(at / 1000, zone).strftime("%Y-%m-%d %H:%M%z") for at in times]


def assert_times(expr: str, timezone: str, start: str, expected: list[str]) -> None:
    """Compare with the expected times, each of which may leave out the year, day or offset."""
    times = local_times(expr, timezone, start, len(expected))
    shown = [want if want in time else time for time, want in zip(times, expected, strict=True)]
    assert shown == expected


@pytest.mark.parametrize(
    ("expr", "timezone", "start", "expected"),
    [
        ("30 2 * * *", BERLIN, "2026-03-28 12:00", ["03-29 03:00+0200", "03-30 02:30"]),
        ("0 2 * * *", LORD_HOWE, "2026-10-03 12:00", ["10-04 02:30+1100", "10-05 02:00"]),
        ("0 0 * * *", "America/Sao_Paulo", "2018-11-03 12:00", ["11-04 01:00", "11-05 00:00"]),
        ("0 0 * * *", "America/Santiago", "2026-09-05 12:00", ["09-06 01:00", "09-07 00:00"]),
        ("0 0 * * *", "Asia/Beirut", "2026-03-28 12:00", ["03-29 01:00", "03-30 00:00"]),
        ("0 0 * * 5", "Africa/Cairo", "2026-04-20 12:00", ["04-24 01:00", "05-01 00:00"]),
        ("15 2 * * *", "Africa/Casablanca", "2026-03-21 12:00", ["03-22 03:00", "03-23 02:15"]),
    ],
)
def test_a_fixed_time_in_a_gap_fires_at_the_first_instant_after_it(
    expr: str, timezone: str, start: str, expected: list[str]
) -> None:
    assert_times(expr, timezone, start, expected)


@pytest.mark.parametrize("expr", ["15,45 2 * * *", "15 2,3 * * *", "0,30 2 * * *"])
def test_all_fixed_times_of_a_gap_are_one_firing(expr: str) -> None:
    times = local_times(expr, BERLIN, "2026-03-29 00:00", 2)
    assert times[0] == "2026-03-29 03:00+0200"
    assert times[1] > "2026-03-29 03:00+0200"


def test_a_fixed_time_at_the_end_of_a_gap_coincides_with_one_inside_it() -> None:
    assert_times("0,30 2-3 * * *", BERLIN, "2026-03-29 00:00", ["29 03:00", "29 03:30", "30 02:00"])


@pytest.mark.parametrize(
    ("expr", "timezone", "start", "expected"),
    [
        ("30 2 * * *", BERLIN, "2026-10-24 12:00", ["10-25 02:30+0200", "10-26 02:30"]),
        ("45 1 * * *", NEW_YORK, "2026-10-31 18:00", ["11-01 01:45-0400", "11-02 01:45"]),
        (
            "15 1,2,3 * * *",
            NEW_YORK,
            "2026-11-01 00:00",
            ["01:15-0400", "02:15-0500", "03:15"],
        ),
        ("45 1 * * *", LORD_HOWE, "2026-04-04 12:00", ["04-05 01:45+1100", "04-06 01:45"]),
        (
            "30 23 * * *",
            "America/Santiago",
            "2026-04-04 12:00",
            ["04-04 23:30-0300", "04-05 23:30"],
        ),
        ("30 23 * * *", "Africa/Cairo", "2026-10-29 12:00", ["10-29 23:30+0300", "10-30 23:30"]),
        ("30 23 * * *", "Asia/Beirut", "2026-10-24 12:00", ["10-24 23:30+0300", "10-25 23:30"]),
    ],
)
def test_a_fixed_time_fires_once_in_the_autumn_hour(
    expr: str, timezone: str, start: str, expected: list[str]
) -> None:
    assert_times(expr, timezone, start, expected)


@pytest.mark.parametrize(
    ("expr", "timezone", "start", "expected"),
    [
        ("*/30 2 * * *", BERLIN, "2026-03-28 12:00", ["03-30 02:00", "03-30 02:30"]),
        ("0 */2 * * *", BERLIN, "2026-03-29 01:00", ["04:00+0200", "06:00"]),
        ("*/10 0-13/2 * * *", "Africa/Casablanca", "2026-03-22 00:55", ["04:00+0100", "04:10"]),
        ("22 */15 * * SUN", LORD_HOWE, "2026-10-03 23:26", ["04 00:22", "04 15:22"]),
        ("*/30 0 * * *", "America/Santiago", "2026-09-05 12:00", ["09-07 00:00", "09-07 00:30"]),
    ],
)
def test_a_wildcard_job_fires_at_existing_times_only_in_spring(
    expr: str, timezone: str, start: str, expected: list[str]
) -> None:
    assert_times(expr, timezone, start, expected)


@pytest.mark.parametrize(
    ("expr", "timezone", "start", "expected"),
    [
        (
            "*/30 2 * * *",
            BERLIN,
            "2026-10-24 12:00",
            ["02:00+0200", "02:30+0200", "02:00+0100", "02:30+0100", "26 02:00"],
        ),
        (
            "30 * * * *",
            BERLIN,
            "2026-10-25 01:00",
            ["01:30", "02:30+0200", "02:30+0100", "03:30"],
        ),
        ("0 */2 * * *", BERLIN, "2026-10-25 01:00", ["02:00+0200", "02:00+0100", "04:00"]),
        (
            "9-51/5 * * * *",
            LORD_HOWE,
            "2026-04-05 01:41",
            ["01:44+1100", "01:49+1100", "01:34+1030", "01:39+1030", "01:44+1030", "01:49+1030"],
        ),
    ],
)
def test_a_wildcard_job_fires_in_both_passes_of_the_autumn_hour(
    expr: str, timezone: str, start: str, expected: list[str]
) -> None:
    assert_times(expr, timezone, start, expected)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ("0 0 * * *", ["29 00:00-1000", "31 00:00+1400", "01 00:00"]),
        ("30 2 * * *", ["29 02:30-1000", "31 02:30+1400", "01 02:30"]),
        ("0 */12 * * *", ["29 00:00", "29 12:00-1000", "31 00:00+1400", "31 12:00"]),
        ("30 2 * * 5", ["2012-01-06 02:30"]),
    ],
)
def test_the_day_that_apia_left_out_has_no_firing(expr: str, expected: list[str]) -> None:
    # The clock went from Thursday the 29th to Saturday the 31st.
    assert_times(expr, "Pacific/Apia", "2011-12-28 23:59", expected)


@pytest.mark.parametrize(
    ("dst", "spring", "autumn"),
    [
        (FIXED_TIME, ["29 03:00+0200"], ["25 02:30+0200"]),
        (WILDCARD, [], ["25 02:30+0200", "25 02:30+0100"]),
        (DstRule("skip", "first"), [], ["25 02:30+0200"]),
        (DstRule("run_after", "second"), ["29 03:00+0200"], ["25 02:30+0100"]),
        (DstRule("skip", "second"), [], ["25 02:30+0100"]),
        (DstRule("run_after", "both"), ["29 03:00+0200"], ["25 02:30+0200", "25 02:30+0100"]),
    ],
)
def test_either_half_of_the_dst_rule_can_be_chosen(
    dst: DstRule, spring: list[str], autumn: list[str]
) -> None:
    zone, fields = load_zone(BERLIN), parse_cron("30 2 * * *")

    def times_of_day(day: str) -> list[str]:
        at: int | None = millis(day, BERLIN) // 1000 - 1
        found = []
        while (at := first_after(fields, zone, dst, at or 0)) is not None:
            time = datetime.fromtimestamp(at, ZoneInfo(BERLIN)).strftime("%Y-%m-%d %H:%M%z")
            if time[:10] != day:
                break
            found.append(time[8:])
        return found

    assert times_of_day("2026-03-29") == spring
    assert times_of_day("2026-10-25") == autumn
    assert times_of_day("2026-06-01") == ["01 02:30+0200"]


@pytest.mark.parametrize(
    ("expr", "start", "expected"),
    [
        ("0 0 */2 * 1", "2026-06-01 12:00", ["06-15 00:00", "06-29 00:00"]),
        ("0 0 1-7 * */7", "2026-06-01 12:00", ["06-07 00:00", "07-05 00:00"]),
        ("0 0 * * 1", "2026-06-01 12:00", ["06-08 00:00", "06-15 00:00"]),
        ("0 0 2 * *", "2026-06-01 12:00", ["06-02 00:00", "07-02 00:00"]),
        ("0 0 *,3 * 1", "2026-06-01 12:00", ["06-08 00:00", "06-15 00:00"]),
    ],
)
def test_both_day_fields_must_match_if_one_starts_with_a_star(
    expr: str, start: str, expected: list[str]
) -> None:
    assert_times(expr, "UTC", start, expected)


@pytest.mark.parametrize(
    ("expr", "start", "expected"),
    [
        ("0 12 13 * 5", "2026-01-01", ["01-02 12:00", "01-09 12:00", "01-13 12:00"]),
        ("0 0 30 2 1", "2026-01-01", ["02-02 00:00", "02-09 00:00"]),
        ("0 0 31 2 0", "2026-01-01", ["02-01 00:00", "02-08 00:00"]),
        ("0 0 1,* * 1", "2026-01-01", ["01-02 00:00", "01-03 00:00"]),
    ],
)
def test_either_day_field_may_match_if_both_are_restricted(
    expr: str, start: str, expected: list[str]
) -> None:
    assert_times(expr, "UTC", start, expected)


@pytest.mark.parametrize(
    ("expr", "start", "expected"),
    [
        ("5-5 * * * *", "2026-01-01", ["00:05", "01:05"]),
        ("0 9 * * MON-MON", "2026-01-01", ["2026-01-05 09:00", "2026-01-12 09:00"]),
        ("59/15 * * * *", "2026-01-01", ["00:59", "01:59"]),
        ("*/60 * * * *", "2026-01-01", ["01:00", "02:00"]),
        ("*/40 * * * *", "2026-01-01", ["00:40", "01:00", "01:40"]),
        ("0 0 31 1,2 *", "2026-02-01", ["2027-01-31 00:00", "2028-01-31 00:00"]),
        ("0 0 29 2 *", "2096-03-01", ["2104-02-29 00:00"]),
        ("59 23 31 12 *", "2026-12-31 23:59", ["2027-12-31 23:59"]),
    ],
)
def test_these_expressions_mean_what_vixie_says(expr: str, start: str, expected: list[str]) -> None:
    assert_times(expr, "UTC", start, expected)


def test_a_leap_day_that_must_be_a_sunday_is_found_across_the_year_2100() -> None:
    expected = ["2088-02-29 00:00", "2128-02-29 00:00", "2156-02-29 00:00"]
    for timezone in ("UTC", BERLIN):
        assert_times("0 0 29 2 */7", timezone, "2061-01-01", expected)


def test_an_offset_is_no_timezone() -> None:
    with pytest.raises(BadInput, match="IANA") as caught:
        parse_schedule("0 9 * * *", "+01:00", now=0)
    assert caught.value.field == "timezone"


def test_times_end_quietly_before_the_calendar_does() -> None:
    fields, zone = parse_cron("0 0 29 2 *"), load_zone(BERLIN)
    at: int | None = millis("9990-01-01", "UTC") // 1000
    found = []
    while (at := first_after(fields, zone, FIXED_TIME, at or 0)) is not None:
        found.append(datetime.fromtimestamp(at, ZoneInfo(BERLIN)).year)
    assert found == [9992, 9996]
    assert first_after(fields, zone, FIXED_TIME, 10**14) is None


class SplitZone(Zone):
    """An overlap at 100 h, ten minutes after one window ends; the next ends at 900 h."""

    def __init__(self) -> None:
        hour = 3600
        overlap, cut, later = 100 * hour, 100 * hour - 600, 900 * hour
        self._segments = [
            Segment(-(10**12), cut, hour, hour, hour),
            Segment(cut, overlap, hour, hour, 0),
            Segment(overlap, later, hour, 0, 0),
            Segment(later, 10**12, 0, 0, 0),
        ]

    def segment(self, at: int) -> Segment:
        return next(segment for segment in self._segments if at < segment.end)


@pytest.mark.parametrize("minutes_before", [5, 15, 3000, 6000])
def test_a_window_that_ends_just_before_an_overlap_hides_nothing(minutes_before: int) -> None:
    # Local 100:00 to 101:00, on 5 January 1970 from 04:00, comes twice.
    fields, overlap = parse_cron("*/30 4 5 1 *"), 100 * 3600
    expected = [at for at in (-60, -30, 0, 30) if at > -minutes_before]
    found, at = [], overlap - minutes_before * 60
    for _ in expected:
        following = first_after(fields, SplitZone(), WILDCARD, at)
        assert following is not None
        found.append((following - overlap) // 60)
        at = following
    assert found == expected


def test_years_without_a_matching_date_are_leapt_over(monkeypatch: pytest.MonkeyPatch) -> None:
    zone, visited = Zone(BERLIN), []
    find = zone.segment

    def counted(at: int) -> Segment:
        visited.append(at)
        return find(at)

    monkeypatch.setattr(zone, "segment", counted)
    fields = parse_cron("0 0 29 2 */7")
    at = first_after(fields, zone, FIXED_TIME, millis("2089-01-01", BERLIN) // 1000)
    assert at == millis("2128-02-29", BERLIN) // 1000
    assert len(visited) <= 4


def test_a_year_of_daily_jobs_has_one_firing_a_day_in_every_kind_of_zone() -> None:
    for timezone in (BERLIN, LORD_HOWE, "America/Santiago", "Africa/Casablanca", "Asia/Beirut"):
        for expr in ("30 2 * * *", "0 0 * * *", "45 23 * * *", "15 1 * * *"):
            times = local_times(expr, timezone, "2025-12-31 23:59", 365)
            first = datetime(2026, 1, 1)  # noqa: DTZ001 local dates are compared as text
            days = [f"{first + timedelta(days=n):%Y-%m-%d}" for n in range(365)]
            assert [time[:10] for time in times] == days, (timezone, expr)
