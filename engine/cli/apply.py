"""`waterclock apply`: make all as files declare it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from engine.cli.client import Api
from engine.cli.options import confirm_all, over_api, yes_option
from engine.cli.plan import declared_files, planned, show_plan, step_out
from engine.cli.progress import progress
from engine.cli.show import print_json, print_table
from engine.declared import Plan

if TYPE_CHECKING:
    from engine.cli.applying import Applying


@click.command()
@declared_files
@yes_option
@click.option("--dry-run", is_flag=True, help="Change nothing; show what `plan` shows.")
@over_api
def apply(
    api: Api, as_json: bool, files: tuple[str, ...], yes: bool, dry_run: bool, **options: Any
) -> None:
    """Make all as files declare it.

    Adds, changes and deletes what `plan` shows, and nothing else.

    Jobs that are as declared are not touched. With an `owner` in the files, jobs that an earlier
    apply made for it and that are gone from the files are deleted; nothing else is, without
    --prune. A step that fails stops none of the others; the exit code is then 1. To apply again is
    safe, also after an interruption.
    """
    from engine.cli.applying import Applying

    if not yes and not dry_run and (as_json or "-" in files):
        raise click.UsageError("say --yes, or --dry-run: nobody can be asked here")
    plan = planned(api, files, **options)
    if dry_run or not as_json:
        show_plan(plan, as_json)
    if dry_run or (not plan.steps and not as_json):
        return
    confirm_all("Apply this?", yes)
    with progress() as bar:
        task = bar.add_task("apply", total=len(plan.steps))
        applying = Applying(api, lambda count: bar.advance(task, count))
        try:
            applying.run(plan)
        except click.ClickException as error:
            raise click.ClickException(f"{error.message}\n{_left(applying, plan)}") from None
        except KeyboardInterrupt:
            click.echo(_left(applying, plan), err=True)
            raise
    failed = [
        {**step_out(one.step), "code": one.code, "reason": one.reason} for one in applying.failures
    ]
    if as_json:
        steps = [step_out(step) for step in plan.steps]
        counts = {"done": applying.done, "unchanged": plan.unchanged}
        print_json({**counts, "steps": steps, "failed": failed, "notes": plan.notes})
    else:
        if failed:
            rows = [(one["kind"], one["name"], one["code"], one["reason"]) for one in failed]
            print_table(("KIND", "NAME", "CODE", "REASON"), rows)
        click.echo(f"{applying.done} done, {len(failed)} failed")
    if failed:
        click.get_current_context().exit(1)


def _left(applying: Applying, plan: Plan) -> str:
    return f"{applying.done} of {len(plan.steps)} steps were done; apply again"
