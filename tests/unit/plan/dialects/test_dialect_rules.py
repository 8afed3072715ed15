"""The rules on which dialects differ, one by one: weekdays, both day fields, ranges and steps."""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import BadExpression, BadInput, NeverFires
from engine.plan import Cron, Every, Once, Plan, parse_schedule

NOW = 1_767_225_600_000
"""2026-01-01T00:00:00Z, a Thursday."""
NEW_YEAR = date(2026, 1, 1)


def times(dialect: str, expr: str, n: int, start: date = NEW_YEAR) -> list[datetime]:
    after = int(datetime(start.year, start.month, start.day, tzinfo=UTC).timestamp()) * 1000 - 1
    found = Plan.of(Cron(expr, "UTC", dialect)).upcoming(after, after, n)
    return [datetime.fromtimestamp(at / 1000, UTC) for at in found]


def days(dialect: str, expr: str, n: int, start: date = NEW_YEAR) -> list[str]:
    return [f"{at:%m-%d}" for at in times(dialect, expr, n, start)]


def refusal(dialect: str, expr: str) -> str:
    with pytest.raises(BadExpression) as caught:
        parse_schedule(expr, now=NOW, dialect=dialect)
    assert caught.value.field == "schedule_expr"
    return caught.value.message


@pytest.mark.parametrize(
    ("dialect", "expr"),
    [
        ("vixie", "0 0 * * 5"),
        ("jenkins", "0 0 * * 5"),
        ("k8s", "0 0 * * 5"),
        ("node", "0 0 0 * * 5"),
        ("airflow", "0 0 * * 5"),
        ("spring", "0 0 0 * * 5"),
        ("quartz", "0 0 0 ? * 6"),
        ("aws", "cron(0 0 ? * 6 *)"),
    ],
)
def test_friday_has_the_number_of_its_dialect(dialect: str, expr: str) -> None:
    assert days(dialect, expr, 3) == ["01-02", "01-09", "01-16"]


@pytest.mark.parametrize(
    ("dialect", "expr"),
    [
        ("vixie", "0 0 * * 7"),
        ("jenkins", "0 0 * * 7"),
        ("node", "0 0 * * 7"),
        ("airflow", "0 0 * * 7"),
        ("spring", "0 0 0 * * 7"),
        ("spring", "0 0 0 * * 0"),
        ("quartz", "0 0 0 ? * 1"),
        ("aws", "cron(0 0 ? * 1 *)"),
        ("k8s", "0 0 * * 0"),
    ],
)
def test_sunday_has_the_numbers_of_its_dialect(dialect: str, expr: str) -> None:
    assert days(dialect, expr, 2) == ["01-04", "01-11"]


@pytest.mark.parametrize(
    ("dialect", "expr", "wanted"),
    [
        ("k8s", "0 0 * * 7", "0-6"),
        ("quartz", "0 0 0 ? * 0", "1-7"),
        ("spring", "* * * * * 8", "0-7"),
    ],
)
def test_a_weekday_of_another_dialect_is_refused(dialect: str, expr: str, wanted: str) -> None:
    assert f"is not in {wanted} or" in refusal(dialect, expr)


@pytest.mark.parametrize(
    ("dialect", "expr", "expected"),
    [
        # Restricted to the 13th, and to Fridays: 13 February and 13 March are both.
        ("vixie", "0 0 13 * 5", ["01-02", "01-09", "01-13"]),
        ("k8s", "0 0 13 * 5", ["01-02", "01-09", "01-13"]),
        ("node", "0 0 13 * 5", ["01-02", "01-09", "01-13"]),
        ("airflow", "0 0 13 * 5", ["01-02", "01-09", "01-13"]),
        ("jenkins", "0 0 13 * 5", ["02-13", "03-13", "11-13"]),
        ("spring", "0 0 0 13 * 5", ["02-13", "03-13", "11-13"]),
        # A star with a step is a star to cronie, and a restriction to the others.
        ("vixie", "0 0 */10 * 0", ["01-11", "02-01", "03-01"]),
        ("k8s", "0 0 */10 * 0", ["01-01", "01-04", "01-11"]),
        ("k8s", "0 0 */1 * 0", ["01-04", "01-11"]),
        ("k8s", "0 0 ? * 0", ["01-04", "01-11"]),
        ("node", "0 0 */10 * 0", ["01-01", "01-04", "01-11"]),
        ("airflow", "0 0 */10 * 0", ["01-01", "01-04", "01-11"]),
        # A range over the whole field is a restriction all the same.
        ("node", "0 0 1-31 * 0", ["01-01", "01-02", "01-03"]),
    ],
)
def test_both_day_fields_combine_as_the_dialect_says(
    dialect: str, expr: str, expected: list[str]
) -> None:
    assert days(dialect, expr, len(expected)) == expected


@pytest.mark.parametrize(
    ("dialect", "expr", "why"),
    [
        ("quartz", "0 0 0 1 * 2", "neither is"),
        ("quartz", "0 0 0 * * *", "neither is"),
        ("quartz", "0 0 0 ? * ?", "both are"),
        ("aws", "cron(0 0 1 * 2 *)", "neither is"),
    ],
)
def test_exactly_one_day_field_is_a_question_mark(dialect: str, expr: str, why: str) -> None:
    assert why in refusal(dialect, expr)


@pytest.mark.parametrize(
    ("dialect", "expr"),
    [
        ("quartz", "0 0 ? ? * 1"),
        ("spring", "0 ? * * * *"),
        ("spring", "0 0 0 ?,3 * *"),
        ("node", "? * * * *"),
        ("airflow", "0 0 1 ? *"),
        ("vixie", "0 0 ? * *"),
        ("jenkins", "0 0 ? * *"),
    ],
)
def test_a_question_mark_stands_where_the_dialect_allows_it(dialect: str, expr: str) -> None:
    assert "'?'" in refusal(dialect, expr)


@pytest.mark.parametrize(
    ("dialect", "expr", "hours"),
    [
        ("quartz", "0 0 22-2 * * ?", [0, 1, 2, 22, 23]),
        ("quartz", "0 0 22-2/2 * * ?", [0, 2, 22]),
        ("aws", "cron(0 22-1 * * ? *)", [0, 1, 22, 23]),
        ("airflow", "0 22-2 * * *", [0, 1, 2, 22, 23]),
        ("airflow", "0 20/2 * * *", [20, 22]),
        ("spring", "0 0 20/3 * * *", [20, 23]),
        ("node", "0 */24 * * *", [0]),
    ],
)
def test_ranges_and_steps_give_these_hours(dialect: str, expr: str, hours: list[int]) -> None:
    assert [at.hour for at in times(dialect, expr, len(hours))] == hours


@pytest.mark.parametrize("dialect", ["vixie", "jenkins", "k8s", "node", "airflow", "celery"])
def test_a_step_that_is_longer_than_its_field_is_refused(dialect: str) -> None:
    for expr in ("*/61 * * * *", "0-59/1000000000 * * * *", "0 */25 * * *", "0 0 * * */8"):
        assert "longer than the field" in refusal(dialect, expr)


@pytest.mark.parametrize("dialect", ["vixie", "jenkins", "k8s", "node"])
def test_a_reversed_range_is_refused(dialect: str) -> None:
    assert "write 22-23,0-2" in refusal(dialect, "0 22-2 * * *")


@pytest.mark.parametrize(
    ("dialect", "expr", "weekdays"),
    [
        ("quartz", "0 0 0 ? * FRI-TUE", "Fri Sat Sun Mon Tue"),
        ("quartz", "0 0 0 ? * 6-2", "Fri Sat Sun Mon"),
        ("quartz", "0 0 0 ? * 2/2", "Fri Mon Wed"),
        ("airflow", "0 0 * * SAT-SUN", "Sat Sun"),
        ("airflow", "0 0 * * 1/2", "Fri Mon Wed"),
        ("node", "0 0 * * 1/2", "Fri Sun Mon Wed"),
        ("k8s", "0 0 * * 1/2", "Fri Mon Wed"),
        ("vixie", "0 0 * * */2", "Thu Sat Sun Tue"),
        ("spring", "0 0 0 * * */2", "Fri Sun Mon Wed"),
        ("spring", "0 0 0 * * 0/2", "Thu Sat Sun Tue"),
        ("spring", "0 0 0 * * SUN-TUE", "Sun Mon Tue"),
        ("spring", "0 0 0 * * SAT-SUN", "Sat Sun"),
    ],
)
def test_ranges_and_steps_give_these_weekdays(dialect: str, expr: str, weekdays: str) -> None:
    # The week from New Year's Day, a Thursday.
    found = [f"{at:%a}" for at in times(dialect, expr, 7) if at.day <= 7]
    assert " ".join(found) == weekdays


@pytest.mark.parametrize(
    ("dialect", "expr", "expected"),
    [
        ("quartz", "0 0 0 L * ?", ["01-31", "02-28", "03-31"]),
        ("quartz", "0 0 0 L-3 * ?", ["01-28", "02-25", "03-28"]),
        ("quartz", "0 0 0 L-30 * ?", ["01-01", "03-01", "05-01"]),
        ("quartz", "0 0 0 LW * ?", ["01-30", "02-27", "03-31"]),
        ("quartz", "0 0 0 L-2W * ?", ["01-29", "02-26", "03-30"]),
        ("quartz", "0 0 0 1W * ?", ["01-01", "02-02", "03-02"]),
        ("quartz", "0 0 0 15W 8,9,11 ?", ["08-14", "09-15", "11-16"]),
        ("quartz", "0 0 0 31W 1,5,8 ?", ["01-30", "05-29", "08-31"]),
        ("quartz", "0 0 0 30W 2,4,8 ?", ["04-30", "08-31"]),
        ("quartz", "0 0 0 1,LW * ?", ["01-01", "01-30", "02-01"]),
        ("quartz", "0 0 0 ? * L", ["01-03", "01-10"]),
        ("quartz", "0 0 0 ? * 6L", ["01-30", "02-27"]),
        ("quartz", "0 0 0 ? * FRIL", ["01-30", "02-27"]),
        ("quartz", "0 0 0 ? * 6#3", ["01-16", "02-20"]),
        ("quartz", "0 0 0 ? * THU#5", ["01-29", "04-30"]),
        ("aws", "cron(0 0 ? * TUE#3 *)", ["01-20", "02-17"]),
        ("aws", "cron(0 0 LW * ? *)", ["01-30", "02-27"]),
        ("spring", "0 0 0 * * 5L", ["01-30", "02-27"]),
        ("spring", "0 0 0 ? * THU#1,THU#3", ["01-01", "01-15", "02-05"]),
        ("spring", "0 0 0 1W,15,LW * ?", ["01-01", "01-15", "01-30"]),
        ("node", "0 0 * * 7#5", ["03-29", "05-31"]),
        ("node", "0 0 12 L-3 * *", ["01-28", "02-25"]),
        ("node", "0 0 15 * 5#1", ["01-02", "01-15", "02-06"]),
        ("airflow", "0 0 L * *", ["01-31", "02-28"]),
        ("airflow", "0 0 * * L5", ["01-30", "02-27"]),
        ("airflow", "0 0 15W 8 *", ["08-14"]),
        ("airflow", "0 0 13 * 5#2", ["01-09", "01-13", "02-13"]),
    ],
)
def test_days_that_depend_on_the_month(dialect: str, expr: str, expected: list[str]) -> None:
    assert days(dialect, expr, len(expected)) == expected


@pytest.mark.parametrize(
    ("dialect", "expr", "timezone", "start", "expected"),
    [
        ("node", "0 0 15 * 1#1", "UTC", "2026-01-01", ["2026-01-05", "2026-01-15", "2026-02-02"]),
        ("node", "0 0 13 * 5#2", "UTC", "2026-01-01", ["2026-01-09", "2026-01-13", "2026-02-13"]),
        ("node", "0 0 29 2 1#5", "Europe/Berlin", "2026-01-01", ["2028-02-29", "2032-02-29"]),
        ("node", "0 0 * * 5L", "UTC", "2026-01-01", ["2026-01-30", "2026-02-27"]),
        ("node", "0 0 LW * *", "UTC", "2026-01-01", ["2026-01-30", "2026-02-27"]),
        ("node", "0 0 L-3 * *", "UTC", "2026-01-01", ["2026-01-28"]),
        ("node", "0 0 15W * *", "UTC", "2026-08-01", ["2026-08-14", "2026-09-15"]),
        ("node", "0 0 L * *", "UTC", "2026-02-01", ["2026-02-28", "2026-03-31"]),
        ("spring", "0 0 0 29 2 MON", "Europe/Berlin", "2026-01-01", ["2044-02-29"]),
        ("quartz", "0 0 12 * * ? 2027", "UTC", "2026-01-01", ["2027-01-01", "2027-01-02"]),
        ("quartz", "0 0 0 29W 2 ?", "UTC", "2026-01-01", ["2028-02-29", "2032-02-27"]),
    ],
)
def test_cases_that_other_libraries_get_wrong(
    dialect: str, expr: str, timezone: str, start: str, expected: list[str]
) -> None:
    zone = ZoneInfo(timezone)
    after = int(datetime.fromisoformat(start).replace(tzinfo=zone).timestamp()) * 1000 - 1
    found = Plan.of(Cron(expr, timezone, dialect)).upcoming(after, after, len(expected))
    assert [f"{datetime.fromtimestamp(at / 1000, zone):%Y-%m-%d}" for at in found] == expected


@pytest.mark.parametrize(
    ("dialect", "expr", "parts"),
    [
        ("quartz", "0 0 0 32W * ?", ["day of month", "'32W'", "character 7 ", "1-31"]),
        ("quartz", "0 0 0 L-31 * ?", ["'L-31'", "L-1 to L-30"]),
        ("quartz", "0 0 0 ? * 2#1,6", ["day of week", "'2#1'", "list"]),
        ("quartz", "0 0 0 ? * 8#1", ["'8#1'", "1-7"]),
        ("quartz", "0 0 0 ? * 2#0", ["'2#0'", "1 to 5"]),
        ("quartz", "0 0 0 5L * ?", ["day of month", "'5L'"]),
        ("quartz", "0 0 0 ? * 2W", ["day of week", "'2W'"]),
        ("quartz", "0 0 0 1 1 ? 2030-2020", ["year", "reversed"]),
        ("quartz", "0 0 0 1 1 ? 2200", ["year", "1970-2199"]),
        ("quartz", "0 0 0/24 * * ?", ["hour", "'0/24'", "longest is 23"]),
        ("quartz", "0 0 0 ? * MON-SUN/8", ["day of week", "longest is 7"]),
        ("quartz", "0 0 * * *", ["missing", "six or seven", "found 5"]),
        ("aws", "0 10 * * ? *", ["character 1 ", "cron(", "rate("]),
        ("aws", "cron(0 10 * * ?)", ["year: missing", "found 5"]),
        ("aws", "rate(1 minutes)", ["'rate(1 minute)'"]),
        ("aws", "rate(40000 days)", ["longest interval"]),
        ("aws", "at(2027-02-29T00:00:00)", ["no time of the calendar"]),
        ("spring", "0 0 0 L-3W * *", ["'L-3W'", "LW or L-3"]),
        ("spring", "0 0 0 * * L", ["day of week", "'L'", "before L"]),
        ("spring", "0 0 * * *", ["missing", "six fields", "found 5"]),
        ("k8s", "TZ=Europe/Berln 0 0 * * *", ["timezone", "character 4", "Europe/Berlin"]),
        ("k8s", "TZ= 0 0 * * *", ["timezone"]),
        ("k8s", "0 0 L * *", ["day of month", "'L'"]),
        ("k8s", "@every 500ms", ["shortest interval"]),
        ("k8s", "@every 1h30", ["Go duration"]),
        ("k8s", "@every", ["''", "character 7", "Go duration"]),
        ("k8s", "@every 1h 30m", ["'1h 30m'", "Go duration"]),
        ("node", "0 1-3,2 * * *", ["hour", "'2'", "character 7 ", "repeats"]),
        ("node", "0 0 * * 5#1,5#2", ["'5#1'", "list"]),
        ("airflow", "0 0 * * 5L", ["'L5'"]),
        ("airflow", "0 0 LW * *", ["'LW'", "last day only"]),
        ("airflow", "0 0 1 1 * 0", ["field too many"]),
        ("airflow", "@once", ["no clock time"]),
        ("airflow", "timedelta(days=1.5)", ["timedelta", "whole numbers"]),
        ("airflow", "timedelta(days=1, days=2)", ["each once"]),
        ("airflow", "timedelta(seconds=0)", ["shortest interval"]),
    ],
)
def test_a_refusal_names_the_field_the_text_the_place_and_what_is_right(
    dialect: str, expr: str, parts: list[str]
) -> None:
    message = refusal(dialect, expr)
    assert [part for part in parts if part not in message] == []


def test_a_year_limits_the_times() -> None:
    found = times("quartz", "0 0 12 1 1 ? 2027,2030-2040/5", 9)
    assert [at.year for at in found] == [2027, 2030, 2035, 2040]
    with pytest.raises(NeverFires):
        parse_schedule("0 0 12 1 1 ? 2025", now=NOW, dialect="quartz")
    # A step that opens with a slash opens with a star.
    assert [at.second for at in times("quartz", "/20 0 0 * * ?", 3)] == [0, 20, 40]


@pytest.mark.parametrize(
    ("dialect", "expr", "interval_s"),
    [
        ("aws", "rate(1 minute)", 60),
        ("aws", "rate(36 hours)", 36 * 3600),
        ("aws", " rate(2 days) ", 2 * 86_400),
        ("k8s", "@every 1h30m", 5400),
        ("k8s", "@every 1.5h", 5400),
        ("k8s", "@every 1m0.9s", 60),
        ("k8s", "@every 1500ms", 1),
        ("k8s", "TZ=Asia/Tokyo @every 60s", 60),
        ("airflow", "timedelta(days=1)", 86_400),
        ("airflow", "datetime.timedelta(hours=1, minutes=30,)", 5400),
    ],
)
def test_an_interval_may_be_written_in_a_dialect(dialect: str, expr: str, interval_s: int) -> None:
    assert parse_schedule(expr, now=NOW, dialect=dialect) == Every(interval_s * 1000)


@pytest.mark.parametrize(
    ("expr", "timezone", "utc"),
    [
        ("at(2026-06-01T09:00:05)", "UTC", "2026-06-01T09:00:05"),
        ("at(2026-06-01T09:00:00)", "Europe/Berlin", "2026-06-01T07:00:00"),
        ("at(2026-03-29T02:30:00)", "Europe/Berlin", "2026-03-29T01:00:00"),
        ("at(2026-10-25T02:30:00)", "Europe/Berlin", "2026-10-25T00:30:00"),
    ],
)
def test_an_aws_one_off_is_a_local_time(expr: str, timezone: str, utc: str) -> None:
    at = int(datetime.fromisoformat(utc).replace(tzinfo=UTC).timestamp()) * 1000
    assert parse_schedule(expr, timezone, now=NOW) == Once(at)


@pytest.mark.parametrize("prefix", ["TZ", "CRON_TZ"])
def test_a_zone_in_the_text_overrules_that_of_the_request(prefix: str) -> None:
    schedule = parse_schedule(f"{prefix}=Asia/Tokyo  0 6 * *  ?", "Europe/Berlin", now=NOW)
    assert schedule == Cron("0 6 * * ?", "Asia/Tokyo", "k8s")


def test_positions_are_counted_from_the_start_of_what_was_sent() -> None:
    assert "'61' at character 15 " in refusal("k8s", "TZ=Asia/Tokyo 61 * * * *")
    assert "'71' at character 7 " in refusal("aws", " cron(71 8 1 * ? *)")
    assert "'99' at character 22 " in refusal("jenkins", "TZ=Europe/Berlin\n0 1,99 * * *")


@pytest.mark.parametrize(
    ("dialect", "name", "expr"),
    [
        ("airflow", "@quarterly", "0 0 1 */3 *"),
        ("node", "@secondly", "* * * * * *"),
        ("node", "@Weekends", "0 0 * * 0,6"),
        ("spring", "@Hourly", "0 0 * * * *"),
        ("k8s", "@midnight", "0 0 * * *"),
    ],
)
def test_a_macro_means_its_fields(dialect: str, name: str, expr: str) -> None:
    assert times(dialect, name, 20) == times(dialect, expr, 20)


def test_a_dialect_that_does_not_exist_is_refused() -> None:
    for expr in (None, "0 0 * * *"):
        with pytest.raises(BadInput, match="vixie, k8s, robfig") as caught:
            parse_schedule(expr, now=NOW, dialect="cron")
        assert caught.value.field == "dialect"


def nearest_working_day(year: int, month: int, day: int) -> int:
    length = calendar.monthrange(year, month)[1]
    working = [n for n in range(1, length + 1) if calendar.weekday(year, month, n) < 5]
    # Of a Friday and a Monday at the same distance there is none: Saturday has its Friday.
    return min(working, key=lambda n: abs(n - day))


def test_days_of_ten_years_are_those_of_the_calendar() -> None:
    for year in range(2026, 2036):
        for month in range(1, 13):
            start, length = date(year, month, 1), calendar.monthrange(year, month)[1]
            friday = [n for n in range(1, length + 1) if date(year, month, n).weekday() == 4]
            expected = {
                f"0 0 0 L {month} ?": length,
                f"0 0 0 L-7 {month} ?": length - 7,
                f"0 0 0 LW {month} ?": nearest_working_day(year, month, length),
                f"0 0 0 L-4W {month} ?": nearest_working_day(year, month, length - 4),
                f"0 0 0 1W {month} ?": nearest_working_day(year, month, 1),
                f"0 0 0 {length}W {month} ?": nearest_working_day(year, month, length),
                f"0 0 0 11W {month} ?": nearest_working_day(year, month, 11),
                f"0 0 0 ? {month} 6L": friday[-1],
                f"0 0 0 ? {month} 6#4": friday[3],
            }
            for expr, day in expected.items():
                assert times("quartz", expr, 1, start)[0].date() == date(year, month, day), expr


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    # croniter takes `5-5`, and a reversed range that leaves nothing out, for `*`.
    span = st.tuples(number, number).filter(
        lambda ends: (ends[0] - ends[1]) % (high - low + 1) not in (0, 1)
    )
    return st.one_of(
        st.just("*"),
        number.map(str),
        span.map(lambda ends: f"{ends[0]}-{ends[1]}"),
        st.integers(2, min(9, high + 1)).map("*/{}".format),
        st.lists(number, min_size=2, max_size=3).map(lambda values: ",".join(map(str, values))),
    )


@settings(max_examples=200, deadline=None)
@given(
    fields=st.tuples(field(0, 59), field(0, 23), field(1, 28), st.just("*"), field(0, 6)),
    minutes=st.integers(0, 1440 * 365),
)
def test_airflow_reads_five_fields_as_croniter_does(fields: tuple[str, ...], minutes: int) -> None:
    expr = " ".join(fields)
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    after = int(start.timestamp()) * 1000
    expected = croniter(expr, start)
    found = Plan.of(Cron(expr, "UTC", "airflow")).upcoming(after, after, 5)
    assert found == [int(expected.get_next(float)) * 1000 for _ in found]
