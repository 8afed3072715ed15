"""Reads crontab files: what a line says, or why it cannot be taken.

Pure: text in, entries and refusals out. Every line that is not blank, a comment or a variable ends
up in exactly one of the two, so an import can show that it lost nothing. The grammar is cronie's
(`load_entry`, `load_env`, `do_command`); whether a schedule is right is asked of engine.plan.

    0 5 * * 1-5        /usr/bin/backup        a user's crontab
    0 5 * * 1-5  root  /usr/bin/backup        /etc/crontab and /etc/cron.d: who runs it, then what

Kinder than cronie in four places: `NAME=` sets an empty value, a last line needs no newline, lines
may end in CR LF, and a refused line leaves the others standing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from engine.errors import BadExpression, BadInput
from engine.plan import parse_schedule

CRONTAB_DIALECT = "vixie"


@dataclass(frozen=True, slots=True)
class CrontabEntry:
    """One line that can become a job."""

    line: int
    """Counted from 1."""
    schedule_expr: str
    """The five fields with one space between them, or a macro such as `@daily`."""
    timezone: str
    """The CRON_TZ in force, or the reader's own zone."""
    command: str
    """For the shell, with `\\%` already turned into `%`."""
    stdin: str | None
    """What followed the first bare `%`, as lines; None if there was none."""
    user: str | None
    """The user column of a system crontab."""
    environment: dict[str, str]
    """The variables set above this line, CRON_TZ among them."""
    raw: str
    note: str | None = None
    """What was understood and set aside."""


@dataclass(frozen=True, slots=True)
class CrontabRefusal:
    """One line that is not taken, and why, in words for the person who wrote it."""

    line: int
    raw: str
    reason: str


@dataclass(frozen=True, slots=True)
class Crontab:
    entries: tuple[CrontabEntry, ...]
    refusals: tuple[CrontabRefusal, ...]
    system: bool
    """Whether it was read with a user column."""


def read_crontab(
    text: str, *, system: bool | None = None, timezone: str = "UTC", now: int
) -> Crontab:
    """Return every job line of a crontab as an entry or as a refusal; raises nothing.

    `system` says whether lines have a user column; None recognises it (see `_is_system`).
    `timezone` holds until a CRON_TZ line. `now` is the instant after which a line must fire once.
    """
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    reader = _Reader(_is_system(lines) if system is None else system, timezone, now)
    for number, raw in enumerate(lines, start=1):
        reader.read(number, raw)
    return Crontab(tuple(reader.entries), tuple(reader.refusals), reader.system)


def job_id_for(entry: CrontabEntry, filename: str) -> str:
    """Return a readable id that is the same whenever the same line of this file is read.

    `crontab-root-echo-1a2b3c`: file, user, program, and a hash of what the job does and when.
    Moving the line keeps the id; changing it gives another one. Arguments and variables stay out of
    it: ids are shown and logged, and those can be secrets.
    """
    what = [entry.schedule_expr, entry.timezone, entry.user, entry.command, entry.stdin]
    digest = hashlib.sha256(json.dumps(what).encode()).hexdigest()[:6]
    program = next((word for word in entry.command.split() if "=" not in word), "")
    slugs = [
        _slug(PurePosixPath(filename).name, 30) or "crontab",
        _slug(entry.user or "", 30),
        _slug(program.rpartition("/")[2], 40),
        digest,
    ]
    return "-".join(slug for slug in slugs if slug)


def job_ids(entries: Iterable[CrontabEntry], filename: str) -> list[str]:
    """Return one id for each entry, in order; a repeated line gets `-2`, `-3`, ….

    The ids of a file stay the same as long as its repeated lines keep their order.
    """
    seen: Counter[str] = Counter()
    ids = []
    for entry in entries:
        job_id = job_id_for(entry, filename)
        seen[job_id] += 1
        ids.append(job_id if seen[job_id] == 1 else f"{job_id}-{seen[job_id]}")
    return ids


# cron splits at these two only: other white space is part of a word.
_BLANKS = re.compile(r"[ \t]+")
_SILENT = re.compile(r"[ \t]*(?:#|$)")

_SCHEDULE = re.compile(
    r"([ \t]*(?:@[^ \t]*|(?:[^ \t]+[ \t]+){4}[^ \t]+))"  # as written, so that positions hold
    r"(?:[ \t]+(.*))?"
)
_SIXTH_FIELD = re.compile(r"[\d*?][\d*?,/-]*(?=[ \t]|$)", re.ASCII)
_QUIET = re.compile(r"^([ \t]*)-(?=[^ \t])")
_USER = re.compile(r"[A-Za-z_][\w.@-]*\$?", re.ASCII)

# `load_env`: either side may be quoted, nothing is escaped, a `#` is part of the value.
_VARIABLE = re.compile(
    r"""(?:"([^"=]+)"|'([^'=]+)'|([^\s"'=][^\s=]*))"""
    r"""[ \t]*=[ \t]*+"""  # a blank given back would be an unquoted value
    r"""(?:"([^"]*)"|'([^']*)'|([^"'].*)?)"""
)
_LIKE_A_VARIABLE = re.compile(r"([A-Za-z_]\w*)[ \t]*=(.*)")

# `do_command`: in the command a backslash guards any character, in the input only a `%`.
_COMMAND_AND_INPUT = re.compile(r"((?:[^\\%]|\\.?)*)(?:%(.*))?")
_GUARDED = re.compile(r"\\(.)")
_PERCENT = re.compile(r"\\?%")


class _Reader:
    """Goes down a crontab with the variables set so far."""

    def __init__(self, system: bool, timezone: str, now: int) -> None:
        self.system = system
        self.entries: list[CrontabEntry] = []
        self.refusals: list[CrontabRefusal] = []
        self._timezone = timezone
        self._now = now
        self._environment: dict[str, str] = {}

    def read(self, number: int, raw: str) -> None:
        """Take one line: a variable, an entry, a refusal, or nothing."""
        if _SILENT.match(raw):
            return
        try:
            if variable := _variable(raw):
                self._set(*variable)
            else:
                self.entries.append(self._entry(number, raw))
        except BadInput as wrong:
            self.refusals.append(CrontabRefusal(number, raw, wrong.message))

    def _set(self, name: str, value: str) -> None:
        self._environment[name] = value
        if name == "CRON_TZ":
            # The C library reads an empty zone as UTC.
            self._timezone = value or "UTC"

    def _entry(self, number: int, raw: str) -> CrontabEntry:
        line = _QUIET.sub(r"\1 ", raw)
        schedule, rest = _split_schedule(line)
        self._check_schedule(schedule)
        if _SIXTH_FIELD.match(rest):
            raise BadInput(f"a sixth time field, {_first_word(rest)!r}; a crontab line has five")
        user, command = _split_user(rest) if self.system else (None, rest)
        command, stdin = _split_input(command)
        if not command:
            raise BadInput(f"no command after the {f'user {user!r}' if user else 'schedule'}")
        return CrontabEntry(
            line=number,
            schedule_expr=" ".join(schedule.split()),
            timezone=self._timezone,
            command=command,
            stdin=stdin,
            user=user,
            environment=dict(self._environment),
            raw=raw,
            note=None if line == raw else "the leading '-' (do not log the run) is ignored",
        )

    def _check_schedule(self, schedule: str) -> None:
        try:
            self._parse(schedule)
        except BadExpression:
            # The commonest slip is a missing field; what it does to the weekday is no help.
            *four, last = schedule.split() or [""]
            missing = self._reads(*four, "*") and not self._reads("*", "*", "*", "*", last)
            if missing and last[0] not in "0123456789*?":
                raise BadExpression(
                    f"four time fields, not five: {last!r} stands where the weekday should"
                ) from None
            raise

    def _reads(self, *fields: str) -> bool:
        try:
            self._parse(" ".join(fields))
        except BadInput:
            return False
        return True

    def _parse(self, schedule: str) -> None:
        # Random ranges (`~`) are spread by the job's id, which is not known yet: any will do.
        parse_schedule(
            schedule, self._timezone, now=self._now, dialect=CRONTAB_DIALECT, job_id="crontab"
        )


def _variable(line: str) -> tuple[str, str] | None:
    """Return name and value of a variable line, or None; a value that cannot be read is refused."""
    line = line.strip(" \t")
    if found := _VARIABLE.fullmatch(line):
        return found[1] or found[2] or found[3], found[4] or found[5] or found[6] or ""
    if broken := _LIKE_A_VARIABLE.fullmatch(line):
        if broken[1] == "CRON_TZ":
            # Kept as it stands: there is no such zone, so the lines below are refused and none
            # runs at the hours of the zone before.
            return broken[1], broken[2]
        raise BadInput(f"the quotes around the value of {broken[1]} do not match")
    return None


def _split_schedule(line: str) -> tuple[str, str]:
    """Return the schedule and what follows it; all of a line too short to have both."""
    found = _SCHEDULE.fullmatch(line)
    return (found[1], found[2] or "") if found else (line, "")


def _split_user(rest: str) -> tuple[str | None, str]:
    if not rest:
        return None, ""
    user = _first_word(rest)
    if not _USER.fullmatch(user):
        raise BadInput(
            f"{user!r} is not a user name: in a system crontab the user stands before the command"
        )
    return user, rest[len(user) :].lstrip(" \t")


def _split_input(text: str) -> tuple[str, str | None]:
    """Return the command and its standard input.

    The first bare `%` ends the command; later ones are newlines, and cron adds the last one.
    """
    split = _COMMAND_AND_INPUT.fullmatch(text)
    assert split, "the pattern takes every line"
    command = _GUARDED.sub(lambda found: "%" if found[1] == "%" else found[0], split[1])
    if split[2] is None:
        return command, None
    stdin = _PERCENT.sub(lambda found: "\n" if found[0] == "%" else "%", split[2])
    return command, stdin if stdin.endswith("\n") or not stdin else stdin + "\n"


def _first_word(text: str) -> str:
    return _BLANKS.split(text, maxsplit=1)[0]


def _slug(text: str, longest: int) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", text)[:longest].strip("-._")


_COLUMNS = re.compile(
    r"\s*#.*(?:\bdow|\bwday|\bweekday|\*)\s+((?:user(?:-?name)?|who)\s+)?(?:cmd|command)\b", re.I
)
_SYSTEM_FILE = re.compile(r"\s*#\s*/etc/cron(?:tab\b|\.d/)")
_ACCOUNTS = frozenset({"root", "nobody", "daemon", "www-data", "apache", "postgres"})


def _is_system(lines: list[str]) -> bool:
    """Return whether these lines have a user column, by the first of these that says anything:

    1. the comment that heads the columns, as in `# m h dom mon dow user command`;
    2. a comment that starts with `/etc/crontab` or `/etc/cron.d/`;
    3. the words where a user would stand: an account that is never a command (`root`, `nobody`, …)
       speaks for a user column, a word that cannot be a user (`/usr/bin/x`) against; a tie is a
       user's crontab. `backup` or `python` could be either, and says nothing.
    """
    headings = [found for line in lines if (found := _COLUMNS.match(line))]
    if headings:
        return bool(headings[0][1])
    if any(_SYSTEM_FILE.match(line) for line in lines):
        return True
    votes = 0
    for line in lines:
        word = _first_word(_split_schedule(line)[1])
        if word and not _SILENT.match(line) and not _VARIABLE.fullmatch(line.strip(" \t")):
            votes += (word in _ACCOUNTS) - (_USER.fullmatch(word) is None)
    return votes > 0
