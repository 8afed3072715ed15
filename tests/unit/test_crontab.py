"""The crontab reader: cronie's grammar, one rule a test, and the sample file as a whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.crontab import (
    Crontab,
    CrontabEntry,
    CrontabRefusal,
    job_id_for,
    job_ids,
    read_crontab,
)

NOW = 1_767_225_600_000  # 2026-01-01T00:00:00Z
SAMPLE = (Path(__file__).parent / "data" / "crontab.sample").read_text()
JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


def read(*lines: str, system: bool | None = False, timezone: str = "UTC") -> Crontab:
    return read_crontab("\n".join(lines) + "\n", system=system, timezone=timezone, now=NOW)


def entry(*lines: str, system: bool = False) -> CrontabEntry:
    """The only entry of a crontab in which nothing is refused."""
    crontab = read(*lines, system=system)
    assert crontab.refusals == ()
    (only,) = crontab.entries
    return only


def refusal(*lines: str, system: bool = False) -> CrontabRefusal:
    """The only refusal of a crontab in which nothing is taken."""
    crontab = read(*lines, system=system)
    assert crontab.entries == ()
    (only,) = crontab.refusals
    return only


# Lines


def test_a_user_line_is_five_fields_and_a_command() -> None:
    assert entry("*/5 0-6 * * MON-fri  /usr/bin/backup --all") == CrontabEntry(
        line=1,
        schedule_expr="*/5 0-6 * * MON-fri",
        timezone="UTC",
        command="/usr/bin/backup --all",
        stdin=None,
        user=None,
        environment={},
        raw="*/5 0-6 * * MON-fri  /usr/bin/backup --all",
    )


def test_a_system_line_names_its_user_before_the_command() -> None:
    taken = entry("0\t5 * * *\twww-data\t/usr/bin/backup  --all", system=True)
    assert (taken.user, taken.command) == ("www-data", "/usr/bin/backup  --all")
    assert taken.schedule_expr == "0 5 * * *"


def test_lines_are_counted_from_one_over_comments_and_blank_lines() -> None:
    crontab = read("# head", "", "  \t", " # indented", "* * * * * a", "61 * * * * b")
    assert [taken.line for taken in crontab.entries] == [5]
    assert [refused.line for refused in crontab.refusals] == [6]


def test_a_hash_later_in_a_line_is_part_of_the_command() -> None:
    assert entry("* * * * * echo 1 # one").command == "echo 1 # one"


def test_a_line_may_be_indented() -> None:
    assert entry(" \t0 5 * * * a").schedule_expr == "0 5 * * *"


def test_the_last_line_needs_no_newline_and_lines_may_end_in_cr_lf() -> None:
    crontab = read_crontab("* * * * * a\r\nA=b\r\n* * * * * c", system=False, now=NOW)
    assert [taken.command for taken in crontab.entries] == ["a", "c"]
    assert crontab.entries[1].environment == {"A": "b"}


@pytest.mark.parametrize(
    "macro", ["@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"]
)
def test_a_macro_stands_for_the_five_fields(macro: str) -> None:
    taken = entry(f"{macro} root /bin/true", system=True)
    assert (taken.schedule_expr, taken.user, taken.command) == (macro, "root", "/bin/true")


def test_a_leading_dash_is_set_aside_with_a_note() -> None:
    taken = entry("-*/5 * * * * a")
    assert (taken.schedule_expr, taken.command) == ("*/5 * * * *", "a")
    assert taken.note is not None
    assert "log" in taken.note
    assert entry("*/5 * * * * a").note is None


def test_a_command_may_start_with_a_digit() -> None:
    assert entry("0 5 * * * 7z a all.7z").command == "7z a all.7z"


# Variables


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b", "b"),
        ("  A = b  ", "b"),
        ("A=", ""),
        ('A=""', ""),
        ("A=one two", "one two"),
        ("A=' kept '", " kept "),
        ('"A" = "it\'s"', "it's"),
        ("'A'=b", "b"),
        ("A=b=c", "b=c"),
        ("A=b # c", "b # c"),
        ('A=b "c"', 'b "c"'),
        (r"A=\$HOME%", r"\$HOME%"),
    ],
)
def test_a_variable_is_read_as_cronie_reads_it(line: str, value: str) -> None:
    assert entry(line, "* * * * * a").environment == {"A": value}


def test_an_entry_has_the_variables_set_above_it() -> None:
    crontab = read("A=1", "* * * * * a", "A=2", "B=3", "* * * * * b")
    assert [taken.environment for taken in crontab.entries] == [{"A": "1"}, {"A": "2", "B": "3"}]


@pytest.mark.parametrize("value", ['"b', "'b\"", '"b" c', ' "b', ' "b" c'])
def test_a_variable_with_a_wrong_quote_is_refused(value: str) -> None:
    assert refusal(f"A={value}").reason == "the quotes around the value of A do not match"


def test_an_equals_sign_in_a_command_makes_no_variable() -> None:
    assert entry("@daily A=b run").command == "A=b run"


def test_cron_tz_holds_from_its_line_to_the_next() -> None:
    crontab = read(
        "0 5 * * * a",
        'CRON_TZ = "America/New_York"',
        "0 5 * * * b",
        "CRON_TZ=",
        "0 5 * * * c",
        timezone="Asia/Tokyo",
    )
    zones = [taken.timezone for taken in crontab.entries]
    assert zones == ["Asia/Tokyo", "America/New_York", "UTC"]


def test_tz_is_an_ordinary_variable() -> None:
    taken = entry("TZ=America/New_York", "0 5 * * * a")
    assert (taken.timezone, taken.environment) == ("UTC", {"TZ": "America/New_York"})


@pytest.mark.parametrize("zone", ["Mars/Olympus", '"America/New_York'])
def test_lines_below_a_zone_that_does_not_exist_are_refused(zone: str) -> None:
    refused = refusal(f"CRON_TZ={zone}", "0 5 * * * a")
    assert refused.line == 2
    assert "unknown timezone" in refused.reason


# Command and standard input


@pytest.mark.parametrize(
    ("text", "command", "stdin"),
    [
        ("cat", "cat", None),
        ("cat%one%two", "cat", "one\ntwo\n"),
        ("cat%one%", "cat", "one\n"),
        ("cat%", "cat", ""),
        ("cat%%", "cat", "\n"),
        (r"date +\%F", "date +%F", None),
        (r"cat%50\% off", "cat", "50% off\n"),
        (r"printf 'a\n\\b'", r"printf 'a\n\\b'", None),
        (r"echo \\%in", r"echo \\", "in\n"),
        (r"echo \\\%in", r"echo \\%in", None),
        (r"cat%a\b\\%", "cat", "a\\b\\%\n"),
        ("echo \\", "echo \\", None),
    ],
)
def test_a_bare_percent_ends_the_command_and_starts_its_input(
    text: str, command: str, stdin: str | None
) -> None:
    taken = entry(f"* * * * * {text}")
    assert (taken.command, taken.stdin) == (command, stdin)


# Refusals


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("@once a", "'@once' has no clock time"),
        ("@every 5m a", "'@every' is not cron"),
        ("@fortnightly a", "'@fortnightly' at character 1 is no macro"),
        ("@daily", "no command after the schedule"),
        ("0 5 * * *", "no command after the schedule"),
        ("0 5 * * * %in", "no command after the schedule"),
        ("0 5 * *", "missing; cron needs five fields"),
        ("make coffee", "missing; cron needs five fields"),
        ("0 5 * * /bin/true", "four time fields, not five: '/bin/true'"),
        ("0 5 * * sund /bin/true", "four time fields, not five: 'sund'"),
        ("61 5 * * sun a", "minute: '61' at character 1"),
        ("  61 5 * * sun a", "minute: '61' at character 3"),
        ("-61 5 * * sun a", "minute: '61' at character 2"),
        ("0 5 * * 8 a", "day of week: '8'"),
        ("- 5 * * * a", "minute: '-'"),
        ("0 0 5 * * * a", "a sixth time field, '*'"),
        ("0 0 5 * * 1-5 a", "a sixth time field, '1-5'"),
        ("0 0 5 * * ? a", "a sixth time field, '?'"),
        ("0 0 31 2 * a", "no time in the next 100 years"),
        ("every 1h30m", "cron needs five fields"),
        ("make coffee for the team now", "minute: 'make'"),
        ("0 5 31 2 root a", "day of week: 'root'"),
        ("\x0b", "not plain ASCII"),
    ],
)
def test_a_wrong_line_is_refused_with_its_reason(line: str, reason: str) -> None:
    refused = refusal(line)
    assert reason in refused.reason
    assert refused.raw == line


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("0 3 * * 0 /usr/bin/echo missing user", "'/usr/bin/echo' is not a user name"),
        ("0 3 * * 0 /usr/bin/echo", "'/usr/bin/echo' is not a user name"),
        ("0 3 * * 0 root", "no command after the user 'root'"),
        ("0 3 * * 0 root %in", "no command after the user 'root'"),
        ("0 3 * * 0", "no command after the schedule"),
        ("@daily root", "no command after the user 'root'"),
        ("* * * * root a", "four time fields, not five: 'root'"),
        ("0 0 3 * * 0 root a", "a sixth time field, '0'"),
    ],
)
def test_a_wrong_line_of_a_system_crontab_is_refused(line: str, reason: str) -> None:
    assert reason in refusal(line, system=True).reason


FRAGMENTS = [
    *("* * * * *", "@daily", "0 5 * *", "61", "-", "*", "root", "/bin/a", "%", "\\", "#", "\x0b"),
    *("A=", "CRON_TZ=", "Asia/Tokyo", '"', "'", " ", " ", " ", "\t", "\n", "\n", "\r\n", "é"),
]


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join), st.booleans())
def test_no_line_is_lost_or_told_twice_and_no_text_raises(text: str, system: bool) -> None:
    crontab = read_crontab(text, system=system, now=NOW)
    entries = [taken.line for taken in crontab.entries]
    refusals = [refused.line for refused in crontab.refusals]
    told = sorted(entries + refusals)
    lines = dict(enumerate(text.replace("\r\n", "\n").split("\n"), start=1))
    speaking = [
        n for n, line in lines.items() if line.strip(" \t") and line.lstrip(" \t")[0] != "#"
    ]
    assert len(set(told)) == len(told)
    assert set(told) <= set(speaking)
    assert all("=" in lines[number] for number in set(speaking) - set(told))


# The form


@pytest.mark.parametrize(
    ("lines", "system"),
    [
        (["# m h dom mon dow user  command", "* * * * * app run"], True),
        (["# *  *  *  *  * user-name  command to be executed", "* * * * * app run"], True),
        (["#minute hour mday month wday who command", "* * * * * app run"], True),
        (["# m h  dom mon dow   command", "* * * * * root run"], False),
        (["# /etc/cron.d/sysstat: collect", "* * * * * app run"], True),
        (["# /etc/crontab has the rest", "# m h dom mon dow command", "* * * * * app run"], False),
        (["SHELL=/bin/bash", "01 * * * * root run-parts /etc/cron.hourly"], True),
        (["@daily nobody run", "@daily backup run"], True),
        (["@daily /usr/bin/a", "@daily root run", "@daily nobody run"], True),
        (["* * * * * /usr/bin/a", "* * * * * ./b"], False),
        (["* * * * * backup now", "* * * * * python run.py"], False),
        (["* * * * * root run", "* * * * * /usr/bin/a"], False),
        (["OPTIONS = a b c root e", "* * * * * app run"], False),
        (["#* * * * * root run", "* * * * * app run"], False),
        (["* * * * * command -v run", "* * * * * root run"], True),
        ([], False),
    ],
)
def test_the_form_is_recognised(lines: list[str], system: bool) -> None:
    assert read(*lines, system=None).system is system


def test_the_form_can_be_said() -> None:
    assert read(SAMPLE, system=False).entries[0].command == "root\t/usr/bin/echo hourly jobs"


# The sample


def test_every_line_of_the_sample_is_taken_or_refused() -> None:
    crontab = read_crontab(SAMPLE, now=NOW)
    assert crontab.system
    assert [taken.line for taken in crontab.entries] == [
        *range(7, 19), *range(20, 25), 26, 30, 31, 33,
    ]  # fmt: skip
    assert {taken.user for taken in crontab.entries} == {
        "root", "backup", "www-data", "nobody", "app",
    }  # fmt: skip
    reasons = {
        37: "minute: '61' at character 1 is not in 0-59",
        39: "minute: '*/0' at character 1 has a step of 0",
        41: "four time fields, not five: 'root' stands where the weekday should",
        43: "day of month: '5-1' at character 5 is a reversed range",
        45: "day of month: '?' at character 7 is not cron: '?' is Quartz",
        47: "'0 0 31 2 *' has no time in the next 100 years",
        49: "'/usr/bin/echo' is not a user name",
    }
    assert [refused.line for refused in crontab.refusals] == list(reasons)
    assert all(reasons[refused.line] in refused.reason for refused in crontab.refusals)


def test_the_sample_is_recognised_without_its_comments() -> None:
    bare = "\n".join(line for line in SAMPLE.split("\n") if not line.startswith("#"))
    assert read_crontab(bare, now=NOW).system


def test_zone_input_and_variables_of_the_sample() -> None:
    taken = {entry.line: entry for entry in read_crontab(SAMPLE, now=NOW).entries}
    assert taken[12].command == "/usr/bin/echo backup >> /tmp/backup-$(date +%F).log"
    assert (taken[26].command, taken[26].stdin) == ("/usr/bin/cat", "first line\nsecond line\n")
    assert [taken[line].timezone for line in (26, 30, 31, 33)] == [
        "UTC", "America/New_York", "America/New_York", "Asia/Hong_Kong",
    ]  # fmt: skip
    assert (taken[26].environment["MAILTO"], taken[30].environment["MAILTO"]) == ("root", "")


# Job ids


def test_a_job_id_can_be_read_and_is_stable() -> None:
    taken = entry("01 * * * * root /usr/bin/echo hourly jobs", system=True)
    assert job_id_for(taken, "/etc/crontab") == "crontab-root-echo-782bdd"


def test_an_id_holds_no_argument_and_no_variable() -> None:
    taken = entry("@daily TOKEN=hunter2 /usr/bin/mysql -phunter3")
    assert re.fullmatch(r"crontab-mysql-[0-9a-f]{6}", job_id_for(taken, "crontab"))


@pytest.mark.parametrize(
    "other",
    [
        ["02 * * * * root a"],
        ["CRON_TZ=Asia/Tokyo", "01 * * * * root a"],
        ["01 * * * * app a"],
        ["01 * * * * root /bin/a"],
        ["01 * * * * root a%in"],
    ],
)
def test_what_the_job_does_and_when_decides_its_id(other: list[str]) -> None:
    one, two = entry("01 * * * * root a", system=True), entry(*other, system=True)
    assert job_id_for(one, "crontab") != job_id_for(two, "crontab")


def test_moving_a_line_keeps_its_id() -> None:
    one, two = entry("@daily a"), entry("# moved", "A=b", "@daily  a")
    assert job_id_for(one, "crontab") == job_id_for(two, "crontab")


def test_a_repeated_line_gets_an_id_of_its_own() -> None:
    crontab = read("@daily a", "@daily b", "@daily a", "@daily a")
    first, other, second, third = job_ids(crontab.entries, "crontab")
    assert [second, third] == [f"{first}-2", f"{first}-3"]
    assert not other.startswith(first)


@pytest.mark.parametrize("filename", ["", "/", "/etc/crontab", ".hidden", "~né @{x}", "f" * 300])
@pytest.mark.parametrize("command", ["x" * 300, "{/é @}", "%" * 3 + "a", "--", "a/b/c " * 80])
def test_every_id_keeps_to_the_grammar(filename: str, command: str) -> None:
    user = "u" * 80
    crontab = read(*[f"@daily {user} a{command}"] * 3, system=True)
    assert len(crontab.entries) == 3
    assert all(JOB_ID.fullmatch(job_id) for job_id in job_ids(crontab.entries, filename))
