"""Writes `filters/README.md` from the registry: `python -m filters.readme`."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

from filters.captions import Captions
from filters.combine import COMBINATORS
from filters.mixture import MIXES
from filters.registry import FILTERS, option_names

PATH = Path(__file__).with_name("README.md")

HEAD = """# Filters

Made from the filters themselves by `make docs`; a test holds that it is up to date.

A recipe is a list of filters under `keep`; a row must pass all of them, in this order, so cheap ones go first. A row that cannot be judged (a null or
NaN where the filter looks) is dropped and counted as unscored. `min_…` and `max_…` are inclusive, `above` and `below` exclusive. A fraction says of what:
`of: pool` counts all rows of the pool, unscored ones too; `of: input` the rows that reach the stage.

```yaml
name: mine
keep:
  - image_size: {min_side: 200, max_aspect: 3.0}
  - any:
      - language: {is: [en, de]}
      - clip_score: {model: l14, min: 0.3}
mix:
  - languages: {share: 0.01, of: [bn, hi, sw]}
```

A mix, if there is one, weighs the rows that are kept: the uid list then names some of them several times and leaves others out. The verdicts say what `keep` did.
"""

CAPTIONS = """## Captions

After `keep` a recipe may say where the shards' captions come from: `captions: {from: NAME}`. The selection then has `captions/<stem>.parquet` (uid, caption)
for the kept rows that get another caption; `winnow reshard` writes it, and leaves the pool's as `original_caption` in the json.

"""

ABOUT_MIXES = """## Mixes

Of the n rows of a group that has T entries of the list, each gets ⌊T / n⌋, and the T mod n rows with the smallest hashes of uid and `seed` one more.
"""


def render() -> str:
    """The whole page as markdown."""
    parts = [HEAD]
    parts += [f"## {name}\n\n{_described(cls)}" for name, cls in FILTERS.all().items()]
    lines = [f"- `{name}`: {inspect.getdoc(cls)}" for name, cls in COMBINATORS.items()]
    parts.append(
        "## Combinators\n\nThey nest, in three-valued logic: `any` of null and true is true, `not` null is null.\n\n"
        + "\n".join(lines)
        + "\n"
    )
    parts.append(ABOUT_MIXES)
    parts += [f"### {name}\n\n{_described(cls)}" for name, cls in MIXES.all().items()]
    parts.append(CAPTIONS + _described(Captions))
    return "\n".join(parts)


def _described(cls: type[Any]) -> str:
    options = []
    for option, field in option_names(cls).items():
        required = field.default is dataclasses.MISSING
        options.append(f"`{option}`" + (" (required)" if required else "" if field.default is None else f" = {field.default}"))
    return f"{inspect.getdoc(cls)}\n\nOptions: {', '.join(options)}.\n"


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
