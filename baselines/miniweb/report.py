"""What the demo says at its end: its funnel, and what its recipes chose compared with the truth about its web.

`lines(folder, outcomes, recipes)` gives all of it. Sections by themselves: `funnel.funnel_lines`; from
`judged.read_judged(truth, {recipe: selection})` then `quality.quality_lines`, `flaw_lines`, `group_lines` and
`detectors.detector_lines`. The scores of the models are in `leaderboard`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from baselines.miniweb.detectors import detector_lines
from baselines.miniweb.funnel import STAGES, funnel_lines
from baselines.miniweb.judged import read_judged
from baselines.miniweb.quality import flaw_lines, group_lines, quality_lines
from baselines.miniweb.web import MiniWeb
from pools import store
from pools.manifest import Outcome


def lines(folder: str, outcomes: Mapping[str, Outcome], recipes: Sequence[str]) -> list[str]:
    """From a demo's folder and what its stages said (`extract`, `download`, `annotate`, `filter <recipe>`).

    The same files give the same lines. Raises WorkFailed if rows were lost, InputError for verdicts of another web or pool.
    """
    funnel = funnel_lines(
        {stage: outcomes[stage].counts for stage in STAGES if stage in outcomes},
        {name: outcomes[f"filter {name}"].counts for name in recipes},
    )
    judged = read_judged(
        MiniWeb(store.join(folder, "web")).truth, {name: store.join(folder, "selections", name) for name in recipes}
    )
    sections = [funnel, *(section(judged) for section in (quality_lines, flaw_lines, group_lines, detector_lines))]
    return [line for section in sections for line in ("", *section)][1:]
