"""Zones as segments of constant offset: they must say what zoneinfo says, at every instant."""

from __future__ import annotations

from datetime import datetime
from importlib.resources import files
from random import Random
from zoneinfo import ZoneInfo

import pytest

from engine.errors import BadInput
from engine.plan.zones import DATABASE, load_zone

ZONES = [
    "UTC",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Pacific/Apia",
    "America/Sao_Paulo",
    "Africa/Monrovia",
]


def offset(timezone: str, at: int) -> int:
    delta = datetime.fromtimestamp(at, ZoneInfo(timezone)).utcoffset()
    assert delta is not None
    return int(delta.total_seconds())


@pytest.mark.parametrize("timezone", ZONES)
def test_segments_hold_their_instants_and_give_zoneinfos_offsets(timezone: str) -> None:
    zone, rng = load_zone(timezone), Random(timezone)
    for _ in range(300):
        at = rng.randrange(-86_400 * 365 * 20, 86_400 * 365 * 90)
        segment = zone.segment(at)
        assert segment.start <= at < segment.end
        assert segment.offset == offset(timezone, at)
        assert segment.offset == offset(timezone, segment.start)
        assert segment.offset == offset(timezone, segment.end - 1)
        assert segment.before == offset(timezone, segment.start - 1)
        assert segment.after == offset(timezone, segment.end)


@pytest.mark.parametrize("timezone", ZONES)
def test_segments_follow_each_other_without_a_hole(timezone: str) -> None:
    zone = load_zone(timezone)
    segment = zone.segment(0)
    while segment.end < 86_400 * 365 * 80:
        following = zone.segment(segment.end)
        assert following.start == segment.end
        assert (following.before, following.offset) == (segment.offset, segment.after)
        segment = following


def test_berlin_changes_at_one_in_the_morning_utc() -> None:
    zone = load_zone("Europe/Berlin")
    spring = int(datetime.fromisoformat("2026-03-29T01:00+00:00").timestamp())
    assert zone.segment(spring - 1).end == spring
    assert zone.segment(spring).start == spring
    assert (zone.segment(spring).before, zone.segment(spring).offset) == (3600, 7200)


def test_a_zone_is_loaded_once() -> None:
    assert load_zone("Europe/Paris") is load_zone("Europe/Paris")


def test_zones_come_from_the_package_whatever_the_machine_has() -> None:
    assert files("tzdata").joinpath("zoneinfo", "tzdata.zi").read_text()[10:15] == DATABASE
    # In some editions of the machine's own database it is an hour more, all winter.
    assert load_zone("Europe/Dublin").local(0).strftime("%H:%M %z %Z") == "01:00 +0100 IST"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("new york", "America/New_York"),
        ("utc", "UTC"),
        ("Mars/Olympus_Mons", "IANA"),
        ("", "IANA"),
        ("localtime", "IANA"),
        ("right/UTC", ""),
        ("posix/Europe/Berlin", ""),
        ("../../etc/passwd", "IANA"),
        ("/etc/localtime", "IANA"),
        ("Europe", ""),
        ("tzdata.zi", ""),
        ("UTC\x00", ""),
        ("Ｕ" * 9, "IANA"),
        ("A" * 5000, "IANA"),
    ],
)
def test_an_unknown_zone_is_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(BadInput, match="unknown timezone") as caught:
        load_zone(name)
    assert caught.value.field == "timezone"
    assert hint in caught.value.message
    assert len(caught.value.message) < 250
