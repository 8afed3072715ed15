"""iCalendar: the days that events touch, and refusals that name the line."""

from __future__ import annotations

from datetime import date

import pytest

from engine.errors import BadInput
from engine.plan.calendar import MOST_DATES
from engine.plan.ical import MAX_BYTES, MOST_RULES, read_ical

NOW = 1_796_000_000_000
"""2026-11-30."""


def file_of(*events: str) -> str:
    """Return a file of events, each a text of properties; the first event begins on line 3."""
    inside = "".join(f"BEGIN:VEVENT\r\n{event}\r\nEND:VEVENT\r\n" for event in events)
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{inside}END:VCALENDAR\r\n"


def days(*events: str, timezone: str = "UTC") -> list[str]:
    found = read_ical(file_of(*events), now=NOW, timezone=timezone)
    return sorted(day.isoformat() for day in found)


def refusal(text: str) -> str:
    with pytest.raises(BadInput) as refused:
        read_ical(text, now=NOW)
    return refused.value.message


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ("DTSTART;VALUE=DATE:20261225", ["2026-12-25"]),
        ("DTSTART:20261225\r\nDTEND:20261227", ["2026-12-25", "2026-12-26"]),
        ("DTSTART:20261225\r\nDURATION:P2D", ["2026-12-25", "2026-12-26"]),
        ("DTSTART:20261225\r\nDURATION:P1W", [f"2026-12-{day}" for day in range(25, 32)]),
        ("DTSTART:20261225T220000\r\nDURATION:PT3H", ["2026-12-25", "2026-12-26"]),
        ("DTSTART:20261225T220000\r\nDTEND:20261226T000000", ["2026-12-25"]),
        ("DTSTART:20261225T220000", ["2026-12-25"]),
        ("DTSTART:20261225\r\nDTEND:20261225", ["2026-12-25"]),
        ("DTSTART:20261231T235960Z", ["2026-12-31"]),
    ],
)
def test_an_event_counts_for_every_day_that_it_touches(event: str, expected: list[str]) -> None:
    assert days(event) == expected


def test_times_in_utc_are_seen_from_the_zone_that_is_asked_for() -> None:
    assert days("DTSTART:20261225T233000Z") == ["2026-12-25"]
    assert days("DTSTART:20261225T233000Z", timezone="Europe/Berlin") == ["2026-12-26"]


def test_times_of_a_zone_keep_their_wall_clock() -> None:
    event = 'DTSTART;TZID="W. Europe Standard Time":20261225T233000'
    assert days(event, timezone="Asia/Tokyo") == ["2026-12-25"]


def test_a_rule_repeats_from_a_year_ago_to_ten_years_ahead() -> None:
    found = days("DTSTART:20101225\r\nRRULE:FREQ=YEARLY")
    assert found[0] == "2010-12-25"
    assert found[1:] == [f"{year}-12-25" for year in range(2025, 2036)]


def test_exceptions_are_left_out_and_extra_dates_added() -> None:
    event = (
        "DTSTART:20261201\r\nRRULE:FREQ=WEEKLY;COUNT=4\r\n"
        "EXDATE:20261208,20261215\r\nRDATE:20261217"
    )
    assert days(event) == ["2026-12-01", "2026-12-17", "2026-12-22"]


def test_a_rule_repeats_events_of_several_days() -> None:
    event = "DTSTART:20261201\r\nDTEND:20261203\r\nRRULE:FREQ=MONTHLY;UNTIL=20270102"
    assert days(event) == ["2026-12-01", "2026-12-02", "2027-01-01", "2027-01-02"]


def test_an_instance_that_was_moved_counts_where_it_went() -> None:
    series = "UID:a\r\nDTSTART:20261201\r\nRRULE:FREQ=DAILY;COUNT=3"
    moved = "UID:a\r\nRECURRENCE-ID:20261202\r\nDTSTART:20261210"
    assert days(series, moved) == ["2026-12-01", "2026-12-03", "2026-12-10"]
    later = "UID:a\r\nRECURRENCE-ID:20261202\r\nDTSTART:20261202T230000"
    assert days(series, later) == ["2026-12-01", "2026-12-02", "2026-12-03"]


def test_what_is_cancelled_counts_for_nothing() -> None:
    assert days("DTSTART:20261201\r\nSTATUS:CANCELLED") == []
    series = "UID:a\r\nDTSTART:20261201\r\nRRULE:FREQ=DAILY;COUNT=2"
    gone = "UID:a\r\nRECURRENCE-ID:20261202\r\nDTSTART:20261202\r\nSTATUS:CANCELLED"
    assert days(series, gone) == ["2026-12-01"]


def test_folded_lines_are_joined_and_other_parts_passed_over() -> None:
    text = (
        "\ufeffBEGIN:VCALENDAR\nBEGIN:VTIMEZONE\nBEGIN:STANDARD\nDTSTART:19701025T030000\n"
        "END:STANDARD\nEND:VTIMEZONE\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:2026\n 1225\n"
        "SUMMARY;LANGUAGE=de:Weih\n\tnachten: mit Doppelpunkt\nBEGIN:VALARM\nDURATION:PT15M\n"
        "END:VALARM\nEND:VEVENT\nEND:VCALENDAR\n"
    )
    assert read_ical(text, now=NOW) == {date(2026, 12, 25)}


def test_a_file_without_events_has_no_days() -> None:
    assert days() == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1: the file ends before END:VCALENDAR"),
        ("<html>", "line 1: '<html>' is no line of iCalendar"),
        ("BEGIN:VEVENT\nEND:VEVENT", "line 1: an iCalendar file begins with BEGIN:VCALENDAR"),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\n", "line 3: the file ends before END:VEVENT"),
        ("BEGIN:VCALENDAR\nEND:VEVENT", "line 2: END:VEVENT closes what is not open"),
        (file_of("SUMMARY:x"), "line 3: this event has no DTSTART"),
        (file_of("DTSTART:20260230"), "line 4: DTSTART: '20260230' is no date"),
        (file_of("DTSTART:tomorrow"), "line 4: DTSTART: 'tomorrow' is no date"),
        (file_of("DTSTART:18000101"), "not in the years 1970 to 2199"),
        (file_of("DTSTART:20260101,20260102"), "line 4: DTSTART has 1 value(s) at the most"),
        (file_of("DTSTART:20260102\r\nDTEND:20260101"), "line 5: an event lasts 0 to 366 days"),
        (file_of("DTSTART:20260102\r\nDTEND:20290101"), "line 5: an event lasts 0 to 366 days"),
        (file_of("DTSTART:20260102\r\nDURATION:-P1D"), "line 5: '-P1D' is no duration"),
        (file_of("DTSTART:20260102\r\nRRULE:FREQ=SECONDLY"), "line 5: RRULE repeats DAILY"),
        (file_of("DTSTART:20260102\r\nRRULE:FREQ=DAILY;BYDAY=XX"), "line 5: RRULE: BYDAY"),
        (file_of("DTSTART:20260102\r\nEXDATE:2026"), "line 5: EXDATE: '2026' is no date"),
    ],
)
def test_what_is_no_icalendar_is_refused_with_its_line(text: str, told: str) -> None:
    assert told in refusal(text)


def test_a_file_is_bounded_in_bytes_rules_and_days() -> None:
    assert "bytes" in refusal("x" * (MAX_BYTES + 1))
    daily = "DTSTART:20260101\r\nRRULE:FREQ=DAILY"
    assert f"more than {MOST_DATES} days" in refusal(file_of(*[daily] * 4))
    once = "DTSTART:20260101\r\nRRULE:FREQ=YEARLY;COUNT=1"
    assert f"{MOST_RULES} RRULEs" in refusal(file_of(*[once] * (MOST_RULES + 1)))
    long = [f"DTSTART:{year}0101\r\nDURATION:P365D" for year in range(1970, 2000)]
    assert f"more than {MOST_DATES} days" in refusal(file_of(*long))
