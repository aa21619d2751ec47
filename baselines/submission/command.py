"""`winnow submit` and `winnow leaderboard`."""

from __future__ import annotations

import json as json_
from typing import Annotated, Literal

import typer

from pipeline.cli_options import Json, Quiet

_STYLE = {"help_option_names": ["-h", "--help"], "max_content_width": 120}
submitting = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, context_settings=_STYLE)
ranking = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, context_settings=_STYLE)


@submitting.command()
def submit(
    run: Annotated[str, typer.Argument(help="A training run that has been scored; with --check also a submission.")],
    method: Annotated[str | None, typer.Option(metavar="NAME", help="What the leaderboard shall call it.")] = None,
    track: Annotated[
        Literal["filtering", "byod"], typer.Option(help="A choice from a pool, or data of your own.")
    ] = "filtering",
    selection: Annotated[str | None, typer.Option(metavar="DIR", help="Default: the folder of the list trained on.")] = None,
    pool: Annotated[str | None, typer.Option(metavar="DIR", help="Default: the pool whose shards were trained on.")] = None,
    plugin: Annotated[str | None, typer.Option(metavar="FILE.py", help="That of the selection, if it had one.")] = None,
    author: Annotated[str | None, typer.Option(metavar="NAME", help="Shown to all.")] = None,
    writeup: Annotated[str | None, typer.Option(metavar="URL", help="A paper or page on the method, shown to all.")] = None,
    output: Annotated[str, typer.Option("--output", "-o", metavar="DIR", help="The submission.")] = "submission",
    check: Annotated[bool, typer.Option("--check", help="Only look, and say all that is missing or wrong.")] = False,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Tasks may lack: there is no average, no rank.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check by hashes that a run's list, pool, recipe, weights and results belong together; write a submission of them.

    It holds results.jsonl, samples/uids.npy and checkpoint.pt as DataComp has them, a model card, a datasheet of the
    selection, and a receipt over all. Nothing is sent anywhere.

    Example: winnow submit run --method "CLIP score, 30 %" --track filtering --output submission

    Example: winnow submit submission --check
    """
    from baselines.submission import receipt
    from baselines.submission.check import Request, examine
    from baselines.submission.submit import submit as job
    from pools import store
    from pools.errors import InputError

    if check and store.exists(store.join(run, receipt.INFO)):
        _check_submission(run, json, quiet)
        return
    if method is None and not check:
        raise InputError(
            "no name", where="--method", expected="what the leaderboard shall call it", fix="or only look: --check"
        )
    evidence = examine(Request(run, track, selection, pool, plugin, allow_missing))
    if check:
        if json:
            told = [{"what": f.what, "ok": f.ok, "said": f.said, "fix": f.fix} for f in evidence.findings]
            typer.echo(json_.dumps({"stage": "submit", "ok": not evidence.problems, "findings": told}, ensure_ascii=False))
        elif not quiet:
            typer.echo("\n".join(map(str, evidence.findings)))
        if evidence.problems:
            raise typer.Exit(2)
        return
    digest = job(evidence, output, method=method or "", author=author, writeup=writeup, overwrite=overwrite, quiet=quiet)
    if json:
        typer.echo(json_.dumps({"stage": "submit", "output": output, "receipt": digest}))
    elif not quiet:
        typer.echo("\n".join([*map(str, evidence.findings), f"→ {output}, receipt {digest}"]))


def _check_submission(folder: str, json: bool, quiet: bool) -> None:
    """Exit 0 with the receipt and its hashes, or 2 with all that is missing or wrong."""
    from baselines.submission import receipt
    from pools import store

    problems = receipt.problems(folder)
    held = {} if problems else store.read_json(store.join(folder, receipt.RECEIPT))
    if json:
        told = {"stage": "submit", "ok": not problems, "problems": problems, **held}
        typer.echo(json_.dumps(told, ensure_ascii=False))
    elif problems:
        typer.echo("\n".join(f"NOT  {p}" for p in problems))
    elif not quiet:
        typer.echo("\n".join([f"{f['sha256']}  {name}" for name, f in held["files"].items()] + [f"receipt {held['receipt']}"]))
    if problems:
        raise typer.Exit(2)


@ranking.command()
def leaderboard(
    folders: Annotated[list[str], typer.Argument(metavar="DIR…", help="Submissions, or folders of submissions.")],
    by: Annotated[str, typer.Option(metavar="COLUMN", help="Ranks them: Average, ImageNet, VTAB, Retrieval, …")] = "Average",
    csv: Annotated[bool, typer.Option("--csv", help="Print one table for programs.")] = False,
    json: Json = False,
) -> None:
    """Rank submissions, each scale and track by itself, and say what is noise; runs that are not comparable get no rank.

    Example: winnow leaderboard submissions
    """
    from baselines.submission.leaderboard import as_csv, boards, find

    found = boards(find(folders), by)
    if json:
        typer.echo(json_.dumps({"boards": [board.content() for board in found]}, ensure_ascii=False))
    elif csv:
        typer.echo(as_csv(found), nl=False)
    else:
        typer.echo("\n\n".join("\n".join(board.lines()) for board in found))
