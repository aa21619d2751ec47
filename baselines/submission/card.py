"""What people read of a submission: a model card (README.md) and a datasheet of its selection (DATASHEET.md)."""

from __future__ import annotations

from typing import Any

import yaml

from baselines.score.aggregate import COLUMNS, Aggregate, ResultsFile
from baselines.score.tasks import load_tasks


def model_card(info: dict[str, Any], results: ResultsFile, aggregate: Aggregate) -> str:
    """Markdown with a YAML head, as hubs of models have it."""
    head = {
        "library_name": "open_clip",
        "pipeline_tag": "zero-shot-image-classification",
        "tags": ["clip", "winnow", f"scale-{info['scale']}", f"track-{info['track']}"],
    }
    means = [(name, aggregate.column(name)) for name in COLUMNS]
    lines = [
        "---",
        yaml.safe_dump(head, sort_keys=False, allow_unicode=True).rstrip(),
        "---",
        f"# {info['method_name']}",
        "",
        f"{info['model']} trained on {_size(info)} at scale `{info['scale']}`, track {info['track']}"
        + (f", by {info['author']}." if info["author"] else "."),
        *(["", f"More: {info['writeup']}"] if info["writeup"] else []),
        "",
        "## Scores",
        "",
        f"Suite version {info['suite_version']}; {aggregate.lines()[0]}.",
        "",
        *_table(["over", "score"], [[name, _score(value)] for name, value in means]),
        "",
        *_table(["task", "metric", "score"], _rows(results)),
        "",
        "## Training",
        "",
        *_table(["", ""], [[name, str(info[name])] for name in _TRAINING]),
        "",
        *([f"Not comparable with other runs of the scale: {'; '.join(info['departures'])}.", ""] if info["departures"] else []),
        "## Use",
        "",
        "```python",
        "import open_clip",
        "",
        f'open_clip.add_model_config("{info["model_config"]}")',
        f'model = open_clip.create_model("model_config", pretrained="{info["checkpoint"]}")',
        "```",
        "",
        "Made to compare choices of training data, not to be deployed: nothing has been done about the biases of web data.",
        "",
    ]
    return "\n".join(lines)


_TRAINING = ("model", "samples_seen", "batch_size", "learning_rate", "seed", "precision", "weights_sha256")


def datasheet(info: dict[str, Any], filtering: dict[str, Any] | None, recipe: str | None) -> str:
    """Markdown: what was chosen, from what, by which rules, and what each rule dropped."""
    lines = [f"# Datasheet of the selection: {info['method_name']}", ""]
    if info["list"]:
        listed = info["list"]
        lines += [
            f"- Samples: {listed['count']:,} entries, {listed['distinct']:,} different ones, in `{listed['path']}`; "
            "an entry is a uid, and one that stands k times is used k times.",
            f"- SHA-256 of the entries: `{listed['sha256']}`",
        ]
    else:
        lines.append("- Samples: whole shards, of which no list was kept.")
    lines.append(f"- Digest of the shards' names, sizes and times: `{info['training_data']}`")
    if filtering is None:
        lines += ["- Sources: any (track BYOD); see what the author says of them.", ""]
        return "\n".join(lines)
    counts = filtering["counts"]
    rows = f", {info['pool_rows']:,} rows" if info["pool_rows"] is not None else ""
    lines += [
        f"- Pool: digest `{filtering['inputs'][0]}`{rows}",
        f"- Recipe: `{info['recipe']}`, digest `{info['recipe_digest']}`",
        "",
        "## What each rule dropped",
        "",
        *_table(["stage", "rows", "share of the pool"], _funnel(counts)),
        "",
        "## Recipe",
        "",
        "```yaml",
        (recipe or "").rstrip(),
        "```",
        "",
    ]
    return "\n".join(lines)


def _funnel(counts: dict[str, int]) -> list[list[str]]:
    total = counts["in"]
    stages = {"in": total, **{n: c for n, c in counts.items() if n.startswith(("dropped:", "failed:"))}, "kept": counts["kept"]}
    return [[name.replace(":", " "), f"{n:,}", f"{100 * n / total:.1f} %" if total else ""] for name, n in stages.items()]


def _rows(results: ResultsFile) -> list[list[str]]:
    """Every task with a main metric: those of the suite in its order, then others."""
    order = {key: i for i, key in enumerate(load_tasks())}
    rows = []
    for key, score in sorted(results.scores.items(), key=lambda kv: order.get(kv[0], len(order))):
        task = load_tasks().get(key)
        if score is not None:
            rows.append([task.name if task else key, (task.main_metric if task else None) or "", _score(score)])
    return rows


def _size(info: dict[str, Any]) -> str:
    return f"{info['dataset_size']:,} samples" if info["dataset_size"] is not None else "shards"


def _score(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *cells)]
