"""Writes `pools/README.md` from the schemas: `python -m pools.readme`."""

from __future__ import annotations

from pathlib import Path

from pools.schema import COMMONPOOL_EXTRA, TABLES, Column, Reason

PATH = Path(__file__).with_name("README.md")

HEAD = """# What passes between the stages

Made from `pools/schema.py` and `pools/readme.py` by `make docs`; a test holds that it is up to date.

| artefact | form |
|---|---|
| candidates | a folder of parquet, `_manifest.json`, and `_sources.jsonl`: a line for each file that was read, with status (read, damaged, failed), problems (with byte offsets) and counts |
| a pool | a folder with `metadata/` and, as they come, `annotations/` and `shards/`; or a bare folder of parquet files. The stem of a file is its path below that folder |
| shards | img2dataset's layout: `<shard>.tar` (`<key>.jpg .txt .json`; the json holds `uid`), `<shard>.parquet` (a status for every row of the input), `<shard>_stats.json`. A shard without a success has no tar |
| annotations | `annotations/<name>/<stem>.parquet` (+ `.npz`), same stems and rows as `metadata/`, `uid` repeated as a check, the header `winnow` with all that the values depend on: for instance `clip_<name>_similarity_score`, null where there is none, its cause in `<name>_reason`; arrays `<name>_img`, `<name>_txt` (float16). Of a merged pool `annotations/source/` says where a row is from, and its weight |
| uid list | `.npy` of dtype `u8,u8` (high and low half), sorted; a uid wanted k times stands k times. The sidecar `<list>.npy.json` says kind (keep, remove), count, recipe; without one it is a list to keep. A raw memory map of the same records is read too, and text, csv, tsv and parquet with a column of uids |
| selection | `uids.npy`, `verdicts/`, `recipe.yaml` (every default written out), `fitted.json` (what was learnt from the pool), `mix.json` (of a recipe with a mix: rows and entries of each group), `captions/` (of one that replaces captions), `_manifest.json` |
| training shards | shards whose keys are `<uid>-<k>` for the k-th time a uid is wanted; `sample_ids.npy` (what was written, sorted), `missing.npy`, `no_boxes.npy` (left out: nobody looked for faces), `meta.json` (counts), `_problems.jsonl` (samples that could not be used, and why), `_manifest.json`; beside the folder `.winnow-index/` |
| training run | `config.yaml`, `model_config.json` (open_clip's form), `metrics.jsonl`, `tensorboard/`, `checkpoints/{step_N,latest}.pt`, `bad_batch.json` (uids of a batch whose loss was no number), `eval_results.jsonl`, `_manifest.json` |
| evaluation set | `EVALS/wds_<key, / as ->_test/test/<n>.tar`, `test/nshards.txt`, `dataset_type.txt`; `classnames.txt`, `zeroshot_classification_templates.txt` and `<key>.cls`, or `<key>.txt` (retrieval), and `<key>.npy` (fields of the tasks that are judged by group); or the published parquet (retrieval, WinoGAViL) |
| scores | `eval_results.jsonl`, a line a task: `{"key", "dataset", "metrics": {…, "main_metric"}}` |

Each job writes every file under a temporary name and renames it, marks each unit (shard, file) as done in `.winnow/done/`, and writes
`_manifest.json` last. *Done* means: the manifest is there and stage, stage version, options and input digests are the same. An input's digest is its
relative path, size and time of change (or etag). In = kept + dropped + failed, always; a job that cannot say so fails.
"""


def render() -> str:
    """The whole page as markdown."""
    parts = [HEAD]
    for table in TABLES:
        parts.append(f"## {table.title}\n\n{table.place}: {table.row}.\n\n{_rows(table.columns)}")
    parts.append(f"## What CommonPool's metadata has besides\n\n{_rows(COMMONPOOL_EXTRA)}")
    parts.append(
        "## Reasons\n\nThe closed list behind `reason` in a shard's status: " + ", ".join(f"`{r}`" for r in Reason) + ".\n"
    )
    return "\n".join(parts)


def _rows(columns: tuple[Column, ...]) -> str:
    lines = ["| column | type | meaning |", "|---|---|---|"]
    lines += [f"| `{c.name}` | {c.type} | {c.comment} |" for c in columns]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
