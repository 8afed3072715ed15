"""`--deployment`: with it a command that reads or writes jobs does so with a whole deployment."""

from __future__ import annotations

from typing import Any

import click

FLAG = "--deployment"


def with_deployment(whole: click.Command) -> type[click.Command]:
    """Return a class of commands that are `whole`, with its options, when `--deployment` is given;
    its help is then shown by `--deployment --help`."""

    class WithDeployment(click.Command):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            about = f"A whole deployment, with options of its own: see {FLAG} --help."
            option = click.Option([FLAG], is_flag=True, expose_value=False, help=about)
            self.params.append(option)

        def make_context(
            self,
            info_name: str | None,
            args: list[str],
            parent: click.Context | None = None,
            **extra: Any,
        ) -> click.Context:
            asked = args[: args.index("--")] if "--" in args else args
            if FLAG not in asked:
                return super().make_context(info_name, args, parent, **extra)
            rest = [*args]
            rest.remove(FLAG)
            return whole.make_context(f"{info_name} {FLAG}", rest, parent, **extra)

    return WithDeployment
