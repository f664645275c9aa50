"""Groups whose commands' files are imported when they are called, so that `--help` and a typing error stay quick (the
pattern of click's documentation, "Lazily Loading Subcommands")."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """Commands by name, each `command` in a module of its name in `package`, with its line in `--help`."""

    def __init__(self, *args: Any, package: str, summaries: Mapping[str, str], **extra: Any) -> None:
        super().__init__(*args, **extra)
        self._package, self.summaries = package, summaries

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.summaries:
            return None
        found: click.Command = importlib.import_module(f"{self._package}.{cmd_name}").command
        if not any(parameter.name == "debug" for parameter in found.params):
            meaning = "Show a traceback where the grader itself goes wrong."
            found.params.append(click.Option(["--debug"], is_flag=True, expose_value=False, help=meaning))
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the summaries alone: no command's file is imported for a page that lists them."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self.summaries.items()))
