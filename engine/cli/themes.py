"""The command line as a whole: its commands by theme, and one line for what could not be done."""

from __future__ import annotations

from typing import Any

import click

from engine.errors import WaterclockError

THEMES = {
    "Processes": ("up", "scheduler", "worker", "api"),
    "Jobs": ("jobs", "groups", "calendars", "secrets", "graph"),
    "Schedules": ("next", "lint", "preview", "explain"),
    "Executions": ("executions", "dead", "backfill", "events"),
    "Files": ("import", "export", "plan", "apply", "schema"),
    "Limits": ("queues", "hosts"),
    "Operations": (
        "top",
        "doctor",
        "shards",
        "schedulers",
        "workers",
        "server",
        "keys",
        "deployment",
    ),
    "This program": ("completion", "scripts", "openapi", "version"),
}
"""Theme → its commands, in the order in which `--help` and README show them."""


class Program(click.Group):
    """A group whose help goes by THEMES. Its commands may raise any WaterclockError: it is shown as
    one line, and the exit code is 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except WaterclockError as error:
            raise click.ClickException(error.message) from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of their themes."""
        return [name for names in THEMES.values() for name in names if name in self.commands]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands that there are, a section for each theme."""
        room = formatter.width - 6 - max(map(len, self.commands), default=0)
        for theme, names in THEMES.items():
            rows = [
                (name, self.commands[name].get_short_help_str(room))
                for name in names
                if name in self.commands
            ]
            if rows:
                with formatter.section(theme):
                    formatter.write_dl(rows)
