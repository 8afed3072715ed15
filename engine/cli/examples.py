"""Examples that `--help` of a command ends with. A test reads each one as the command would."""

from __future__ import annotations

import click

EXAMPLES: dict[str, tuple[str, ...]] = {
    "up": ("waterclock up --demo", "waterclock up --data-dir /var/lib/waterclock --port 8080"),
    "worker": ("waterclock worker --queue http --queue mail=3 --concurrency 50",),
    "jobs add": (
        "waterclock jobs add --schedule '*/5 * * * *' --url https://example.com/hook",
        "waterclock jobs add --id report --schedule '0 9 * * 1-5' --timezone Europe/Zurich"
        " --url https://example.com/report --max-attempts 5",
        'waterclock jobs add --worker --queue mail --payload \'{"to": "you"}\'',
        "waterclock jobs add --id load --depends-on extract --url https://example.com/load",
    ),
    "jobs edit": (
        "waterclock jobs edit report --schedule '0 8 * * 1-5' --if-version 3",
        "waterclock jobs edit report --reset calendars --max-attempts 2",
    ),
    "jobs replace": (
        "waterclock jobs replace report --schedule @daily --url https://example.com/report",
        "waterclock jobs replace report --file report.json",
    ),
    "jobs list": (
        "waterclock jobs list --group acme --tag nightly --state paused",
        "waterclock jobs list --all --json",
    ),
    "jobs resume": ("waterclock jobs resume report --misfire fire_all --dry-run",),
    "jobs delete": ("waterclock jobs delete extract --cascade --yes",),
    "jobs bulk": ("waterclock jobs bulk - --replace",),
    "groups delete": ("waterclock groups delete acme --detach --yes",),
    "executions list": (
        "waterclock executions list report --status dead --limit 10",
        "waterclock executions list --queue mail --all --json",
    ),
    "executions claim": ("waterclock executions claim --queue mail --wait-ms 30000 --json",),
    "executions complete": (
        "waterclock executions complete 'mail@1796000000000' --lease LEASE --result '[1, 2]'",
    ),
    "dead list": ("waterclock dead list --queue mail --error 'HTTP 503' --all",),
    "dead redrive": (
        "waterclock dead redrive 'report@1796000000000'",
        "waterclock dead redrive --reason final --job report --yes",
    ),
    "backfill": (
        "waterclock backfill report --from 2026-11-01T00:00:00Z --to 2026-11-30T00:00:00Z --wait",
    ),
    "events": (
        "waterclock events --kind dead --kind failed --group acme",
        "waterclock events --since 0 --json",
    ),
    "next": ("waterclock next '30 2 * * *' --timezone Europe/Zurich -n 5",),
    "preview": ("waterclock preview '0 9 * * *' --calendar office --job report",),
    "graph": ("waterclock graph extract --run 2026-11-30T02:00:00Z",),
    "queues set": ("waterclock queues set mail --concurrency 20 --rate 5 --burst 10",),
    "import": ("waterclock import --from kubernetes cronjobs.yaml --dry-run",),
    "export": ("waterclock export jobs.yaml --group acme",),
    "plan": ("waterclock plan jobs.yaml",),
    "apply": ("waterclock apply jobs.yaml --yes",),
    "keys create": (
        "waterclock keys create --scope admin",
        "waterclock keys create --scope write --group billing --expires-in 90d --rate 100",
    ),
    "deployment move": (
        "waterclock deployment move --from .waterclock --to redis://redis.internal:6379/0",
    ),
    "secrets create": ("waterclock secrets create --job report --overlap-ms 86400000",),
    "completion": ("source <(waterclock completion bash)",),
}
"""Command → lines that can be typed as they are."""


def give_examples(main: click.Group) -> None:
    """Let the help of each command that has examples end with them."""
    for path, lines in EXAMPLES.items():
        command: click.Command = main
        for name in path.split():
            assert isinstance(command, click.Group)
            command = command.commands[name]
        # The mark keeps lines as they are.
        command.epilog = "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])
