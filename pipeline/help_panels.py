"""Help in plain text with options under headings."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class Panels(TyperCommand):
    """A command whose options stand below the headings that they name by `rich_help_panel`, all others below Options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if (record := param.get_help_record(ctx)) is not None:
                other = "Arguments" if param.param_type_name == "argument" else "Options"
                sections.setdefault(getattr(param, "rich_help_panel", None) or other, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)
