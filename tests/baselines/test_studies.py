"""Studies over many runs: published runs and tables, exact laws, and tests by hand."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from baselines.score.aggregate import ResultsFile
from baselines.studies import power_law, rows, scaling
from baselines.studies.command import app as studies
from baselines.studies.plot import Axis, Series, chart
from baselines.studies.ranks import by_scale, correlate
from baselines.studies.significance import pairs, wilcoxon
from pipeline.cli import app
from pools.errors import InputError


def study(*arguments: str | Path) -> Any:
    """What `winnow study ARGUMENTS --json` says."""
    done = CliRunner().invoke(studies, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


# Scaling laws -------------------------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_the_published_scaling_law(shared_data: Path, tmp_path: Path) -> None:
    """Predictions and their mean error as published beside the runs of Cherti et al. 2023."""
    runs = shared_data / "ground-truth" / "LAION-AI+scaling-laws-openclip" / "zeroshot_results.csv"
    seen = 407_332_084 * 84
    asked = {"B/32": f"7.4*{10**9}", "L/14": f"87.73*{seen}", "H/14": f"190.97*{2 * seen}", "G/14": f"532.92*{2 * seen}"}
    predict = [text for name, product in asked.items() for text in ("--extrapolate", f"{name}={product}")]
    best_of = ["--best-of", "arch", "--best-of", "samples_seen_pretty"]
    chosen = ["--where", "downstream_dataset=imagenet1k", "--where", "upstream_dataset!=CLIP-WIT"]
    picture = tmp_path / "law.svg"
    found = study("scaling", runs, *chosen, *best_of, *predict, "--plot", picture)
    accuracies = {name: 100 * (1 - p["error"]) for name, p in found["predictions"].items()}
    published = {"B/32": 53.394741, "L/14": 76.126414, "H/14": 79.734494, "G/14": 81.923599}
    assert accuracies == pytest.approx(published, abs=1e-4)
    assert 100 * found["mean_error"] == pytest.approx(0.874371, abs=1e-5)
    assert (found["runs"], len(found["points"])) == (29, 5)
    circles = ET.parse(picture).getroot().findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 29 + 5 + 4
    # OpenAI's runs, without bins.
    plain = study(
        "scaling", runs, "--where", "downstream_dataset=imagenet1k", "--where", "upstream_dataset=CLIP-WIT", "--bins", "0"
    )
    assert (plain["runs"], len(plain["points"])) == (3, 3) and plain["slope"] < 0


def test_the_envelope_takes_the_best_run_of_a_bin_at_its_centre() -> None:
    # log10 of compute 0, .9, 1, 4.9: five bins of .9999…+ from 0 to 5, of which those at 2 and 3 are empty.
    compute, error = 10.0 ** np.array([0, 0.9, 1.0, 4.9]), 10.0 ** np.array([-0.1, -0.2, -0.15, -0.5])
    x, y = scaling.envelope(compute, error, 5)
    assert x == pytest.approx([0.5, 1.5, 4.5]) and y == pytest.approx([-0.2, -0.15, -0.5])
    exact = scaling.Runs(compute, 10 ** (0.3 - 0.1 * np.log10(compute)), (("a",),) * 4)
    line = scaling.study(exact, bins=None).line
    assert [line.slope, line.intercept, line.error(1e8)] == pytest.approx([-0.1, 0.3, 10**-0.5])


def test_a_fit_is_judged_by_the_best_run_of_a_sort() -> None:
    compute = np.array([1.0, 10.0, 10.0])
    runs = scaling.Runs(compute, np.array([0.5, 0.25, 0.9]), (("a",), ("b",), ("b",)))
    study = scaling.study(runs, bins=5)  # through (.11, .5) and (.99, .25) in log10 of compute
    line = [0.5 * 2 ** (-(x - 0.11) / 0.88) for x in (0, 1)]
    assert study.mean_error == pytest.approx((abs(line[0] - 0.5) + abs(line[1] - 0.25)) / 2)
    moved = scaling.study(runs, bins=5, nominal=np.array([1.0, 1.0, 1.0]))
    assert moved.mean_error == pytest.approx((abs(line[0] - 0.5) + abs(line[0] - 0.25)) / 2)


def test_runs_that_give_no_line_are_named(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", "gmacs_total,acc1,arch\n1e9,0.5,a\n1e9,1.0,b\nx,0.5,c\n")
    for conditions, message in {
        ("arch=a",): "1 runs at one compute",
        ("arch=b",): "no logarithm of gmacs_total or of 1 − acc1",
        ("arch=c",): "'x' in column 'gmacs_total'; expected a number",
        ("arch=d",): "no row has arch=d",
        ("other=1",): "no column 'other'; expected one of gmacs_total, acc1, arch",
        ("arch",): "--where: 'arch'",
        ("acc1<half",): "--where: 'half'; expected a number after <",
    }.items():
        with pytest.raises(InputError, match=message):
            scaling.study(scaling.read(str(table), conditions))
    with pytest.raises(InputError, match="no rows"):
        rows.read(str(write(tmp_path / "empty.csv", "gmacs_total,acc1\n")))
    with pytest.raises(InputError, match="no such file"):
        rows.read(str(tmp_path / "none.csv"))
    for text in ("G/14=", "=-1", "2*x"):
        with pytest.raises(InputError, match="--extrapolate"):
            scaling.product(text)
    assert scaling.product("a=b=2*3e2") == ("a=b", 600.0) and scaling.product("5*2") == ("5*2", 10.0)


def test_conditions(tmp_path: Path) -> None:
    table = str(write(tmp_path / "t.csv", "n,name\n1,a\n2,b\n3,b\n,b\n"))
    chosen = {c: [row["n"] for row in rows.read(table, [c])] for c in ("n<=2", "n>2", "n!=1", "name=b", "n>=2", "n < 2")}
    assert chosen == {
        "n<=2": ["1", "2"], "n>2": ["3"], "n!=1": ["2", "3", ""], "name=b": ["2", "3", ""], "n>=2": ["2", "3"], "n < 2": ["1"]
    }  # fmt: skip


# Power laws ---------------------------------------------------------------------------------------------------------------

SEEN = [3e9, 7e9, 10e9, 17e9, 26e9, 33e9, 49e9, 66e9, 100e9]  # the checkpoints of Wang et al. 2025


@pytest.mark.parametrize(("alpha", "c", "epsilon"), [(40.0, 0.35, 0.22), (1.5, 0.05, 0.0), (3e6, 0.9, 0.6)])
def test_an_exact_law_is_found(alpha: float, c: float, epsilon: float) -> None:
    found = power_law.fit(np.array(SEEN), alpha * np.array(SEEN) ** -c + epsilon)
    assert found.c == pytest.approx(c, rel=1e-4) and found.epsilon == pytest.approx(epsilon, abs=1e-5)
    assert found.error(2e11) == pytest.approx(alpha * 2e11**-c + epsilon, abs=1e-6)


def test_noise_makes_intervals_that_hold_the_truth(tmp_path: Path) -> None:
    noise = np.random.default_rng(3).normal(0, 5e-4, len(SEEN))
    errors = 40 * np.array(SEEN) ** -0.35 + 0.22 + noise
    table = write(tmp_path / "t.csv", "n,e\n" + "".join(f"{n},{e}\n" for n, e in zip(SEEN, errors, strict=True)))
    ask = ("power-law", table, "--x", "n", "--error", "e", "--samples", "60")
    found, again, wide = study(*ask), study(*ask), study(*ask, "--level", "0.5", "--extrapolate", "1e12")
    assert found == again and not found["undetermined"]
    for name, truth in {"alpha": 40, "c": 0.35, "epsilon": 0.22}.items():
        low, high = found[name]["interval"]
        assert low < truth < high and low < found[name]["value"] < high
        inner = wide[name]["interval"]
        assert low < inner[0] < inner[1] < high
    assert wide["predictions"]["1e+12"] == pytest.approx(0.2225, abs=0.003)
    other = study(*ask, "--seed", "1")
    assert other["c"]["value"] == found["c"]["value"] and other["c"]["interval"] != found["c"]["interval"]


def test_points_that_follow_no_such_law() -> None:
    with pytest.raises(InputError, match="3 different N; expected four or more"):
        power_law.fit_with_intervals([1, 2, 3, 3], [0.4, 0.3, 0.2, 0.2])
    straight = power_law.fit_with_intervals([1, 2, 3, 4], [0.4, 0.1, 0.1, 0.1], samples=2)
    assert straight.undetermined and "the points do not bend" in "\n".join(straight.lines([]))
    below = power_law.fit(np.array(SEEN), 2 * np.array(SEEN) ** -0.1 - 0.1)  # which falls below 0 in the end
    assert below.epsilon == 0.0 and below.error(3e9) == pytest.approx(2 * 3e9**-0.1 - 0.1, rel=0.02)
    rising = power_law.fit(np.array(SEEN), np.linspace(0.2, 0.3, 9))
    assert rising.alpha == 0.0 and rising.epsilon == pytest.approx(0.25)


# Significance -------------------------------------------------------------------------------------------------------------


def test_wilcoxon_by_hand() -> None:
    # Gains 1, 2, 3, 4 and -5: ranks 1 to 5, the negative ones sum to 5. Of the 32 signs, those with a sum of at most 5 are
    # {} 1 2 3 4 5 12 13 14 23: ten, so p = 2 · 10 / 32.
    found = wilcoxon([0.0] * 6, [0.01, 0.02, 0.03, 0.04, -0.05, 0.0])
    assert (found.better, found.worse, found.equal, found.pairs) == (4, 1, 1, 6)
    assert [found.statistic, found.p] == pytest.approx([5.0, 20 / 32])
    assert found.median_gain == pytest.approx(0.015)
    assert wilcoxon([0.5, 0.5], [0.5, 0.5]).p == 1.0
    assert wilcoxon([0.1] * 10, [0.2 + i / 100 for i in range(10)]).p == pytest.approx(2 / 2**10)


def results(version: int | None = None, **scores: float | None) -> ResultsFile:
    return ResultsFile(f"v{version}", {key.replace("__", "/"): {"main_metric": s} for key, s in scores.items()}, version)


def test_pairs_are_tasks_of_both_runs() -> None:
    first = [results(cifar10=0.1, mnist=0.2, fairness__geode=0.3), results(cifar10=0.4, own=0.5)]
    second = [results(mnist=0.6, cifar10=0.7, fairness__geode=0.8), results(cifar10=0.9, own=None)]
    assert pairs(first, second) == ([0.1, 0.3, 0.2, 0.4], [0.7, 0.8, 0.6, 0.9])
    assert pairs(first, second, ["fairness", "mnist"]) == ([0.3, 0.2], [0.8, 0.6])
    with pytest.raises(InputError, match=r"no result of 'western'; expected a task's key, or a tag: fairness, imagenet_shift"):
        pairs(first, second, ["western"])
    with pytest.raises(InputError, match="2 and 1 runs"):
        pairs(first, second[:1])
    with pytest.raises(InputError, match=r"version 1 \(v1\) and version 2 \(v2\)"):  # T120
        pairs([results(1, mnist=0.1)], [results(2, mnist=0.2)])
    with pytest.raises(InputError, match="no task has a score in both"):
        pairs([results(mnist=0.1)], [results(cifar10=0.2)])


@pytest.mark.shared
def test_published_families(shared_data: Path) -> None:
    from scipy.stats import wilcoxon as reference

    folder = shared_data / "ground-truth" / "apple+ml-mobileclip" / "results"
    sizes = ("s0", "s2", "b")
    options = [text for s in sizes for text in ("--first", folder / f"mobileclip_{s}.jsonl")]
    options += [text for s in sizes for text in ("--second", folder / f"mobileclip2_{s}.jsonl")]
    found = study("significance", *options)
    gains = []
    for s in sizes:
        old, new = ({r["key"]: r["metrics"]["main_metric"] for r in map(json.loads, (folder / f"{n}_{s}.jsonl").open())}
                    for n in ("mobileclip", "mobileclip2"))  # fmt: skip
        gains += [new[key] - score for key, score in old.items() if score is not None]
    assert (found["pairs"], found["better"]) == (len(gains), sum(g > 0 for g in gains)) == (3 * 38, found["better"])
    assert found["p"] == pytest.approx(reference(gains).pvalue) and found["p"] < 0.01


# Ranks --------------------------------------------------------------------------------------------------------------------


def test_ranks_with_ties_by_hand() -> None:
    first, second = {"a": 4.0, "b": 3.0, "c": 3.0, "d": 1.0, "only": 9.0}, {"a": 0.9, "b": 0.8, "c": 0.5, "d": 0.6}
    found = correlate(first, second)
    # Ranks 1, 2.5, 2.5, 4 and 1, 2, 4, 3; squares of the first around 2.5 sum to 4.5, of the second to 5, products to 3.
    assert found.spearman == pytest.approx(3 / math.sqrt(4.5 * 5))
    # Of six pairs one is tied in the first, four agree (ab, ac, ad, bd), one does not (cd).
    assert found.kendall == pytest.approx((4 - 1) / math.sqrt(5 * 6))
    assert (found.recipes, found.ties) == (("a", "b", "c", "d"), (1, 0))
    with pytest.raises(InputError, match="2 recipes with scores at both scales"):
        correlate({"a": 1, "b": 2}, second)
    with pytest.raises(InputError, match="not all equal"):
        correlate(first, dict.fromkeys("abcd", 0.5))


@pytest.mark.shared
def test_baselines_keep_their_order_between_scales(shared_data: Path) -> None:
    table = shared_data / "ground-truth" / "mlfoundations+open_clip" / "docs" / "openclip_results.csv"
    pattern = r"(commonpool|datacomp)_(?P<scale>s|m|l)(?:_(clip|laion|image|text|basic))?_s\d+[mb]_b\d+k"
    average = "Average perf. on 38 datasets"
    scores = by_scale(str(table), [], recipe="pretrained", scale="", score=average, pattern=pattern)
    assert [len(scores[s]) for s in "sml"] == [7, 7, 7]
    assert scores["s"]["datacomp"] == scores["s"]["commonpool_image"] == 0.1449  # a tie
    for one, other in combinations("sml", 2):
        found = study(
            "ranks", table, "--recipe", "pretrained", "--pattern", pattern, "--score", average, "--between", one, other
        )
        x, y = np.array([(scores[one][r], scores[other][r]) for r in found["recipes"]]).T
        signs = [np.sign(x[i] - x[j]) * np.sign(y[i] - y[j]) for i, j in combinations(range(7), 2)]
        assert found["kendall"] == pytest.approx(sum(signs) / math.sqrt((21 - found["ties"][0]) * (21 - found["ties"][1])))
        ranks = [[(v > w).sum() + ((v == w).sum() - 1) / 2 for v in s for w in [s]] for s in (x, y)]
        assert found["spearman"] == pytest.approx(np.corrcoef(ranks)[0, 1])
    assert found["spearman"] == pytest.approx(0.893, abs=5e-4)  # medium and large, within the 0.71 to 0.90 of the paper


def test_ranks_of_tables(tmp_path: Path) -> None:
    lines = ["method,scale,Average", "a,small,0.1", "a,small,0.3", "b,small,0.1", "c,small,0.4"]
    lines += ["a,medium,0.5", "b,medium,0.4", "c,medium,0.6"]
    table = write(tmp_path / "board.csv", "\n".join(lines) + "\n")
    found = study("ranks", table, "--between", "small", "medium")
    assert found["recipes"] == ["c", "a", "b"] and found["spearman"] == found["kendall"] == 1.0
    said = CliRunner().invoke(studies, ["ranks", str(table), "--between", "small", "medium"]).stdout
    assert said.startswith("3 recipes at small and medium, ties 0 and 0\nSpearman 1.000") and "0.2000  0.5000" in said
    for pattern, message in {
        "(": "regular expression",
        "(?P<scale>x)": "and others for the recipe",
        "(x)(?P<scale>y)": "matches",
    }.items():
        with pytest.raises(InputError, match=message):
            by_scale(str(table), [], recipe="method", scale="scale", score="Average", pattern=pattern)
    done = CliRunner().invoke(studies, ["ranks", str(table), "--between", "small", "large"])
    assert isinstance(done.exception, InputError) and "no row of scale 'large'; expected one of medium, small" in str(
        done.exception
    )


# The command line, comparing, drawing ----------------------------------------------------------------------------------------


def test_results_side_by_side(tmp_path: Path) -> None:  # T120
    for name, score, version in (("a", 0.25, 1), ("b", 0.5, 1), ("c", 0.5, 2)):
        (tmp_path / name).mkdir()
        line = {"key": "cifar10", "dataset": "CIFAR-10", "metrics": {"acc1": score, "main_metric": score}}
        write(tmp_path / name / "eval_results.jsonl", json.dumps(line))
        write(tmp_path / name / "eval_manifest.json", json.dumps({"suite_version": version}))
    paths = [str(tmp_path / name) for name in "abc"]
    found = study("compare", *paths[:2], "--allow-missing")
    assert found["suite_version"] == 1
    assert [r["scores"] for r in found["results"]] == [{"cifar10": 0.25}, {"cifar10": 0.5}]
    assert (found["results"][1]["average"], found["results"][1]["partial_mean"]) == (None, 0.5)
    shown = CliRunner().invoke(studies, ["compare", *paths[:2], "--allow-missing"]).stdout.splitlines()
    assert shown[1].split() == ["cifar10", "0.2500", "0.5000"] and shown[-3].split() == ["Average", "–", "–"]
    for arguments, message in (
        (paths[:2], "37 of the 38 tasks"),
        ([*paths, "--allow-missing"], r"version 1 \(.*and version 2 \("),
    ):
        done = CliRunner().invoke(studies, ["compare", *arguments])
        with pytest.raises(InputError, match=message):
            raise done.exception or AssertionError(done.output)


def test_commands_of_the_baselines_are_handed_over(tmp_path: Path) -> None:
    """Arguments, help and exit status come through the command line that has them."""
    table = write(tmp_path / "t.csv", "method,scale,Average\na,s,1\nb,s,2\nc,s,3\n")
    for verb, words in {"study": "power-law", "submit": "--selection", "leaderboard": "--csv"}.items():
        said = CliRunner().invoke(app, [verb, "--help"], prog_name="winnow")
        assert (said.exit_code, said.stdout.split("[")[0]) == (0, f"Usage: winnow {verb} ") and words in said.stdout
    for command in studies.registered_commands:
        name = command.name or str(command.callback.__name__)  # type: ignore[union-attr]
        assert (
            f"Example: winnow {'' if name == 'ranks' else 'study ' + name}" in CliRunner().invoke(studies, [name, "-h"]).stdout
        )
    done = CliRunner().invoke(app, ["study", "ranks", str(table), "--between", "s", "s", "--json"])
    assert json.loads(done.stdout)["recipes"] == ["c", "b", "a"]
    assert CliRunner().invoke(app, ["study", "ranks", "--nothing"]).exit_code == 2
    assert CliRunner().invoke(app, ["study"]).exit_code == 2
    wrong = CliRunner().invoke(app, ["submit", str(tmp_path), "--check"])
    assert wrong.exit_code == 2 and wrong.stdout.startswith("NOT  training")
    with pytest.raises(InputError, match="no submission here"):
        raise CliRunner().invoke(app, ["leaderboard", str(tmp_path)]).exception or AssertionError


def test_a_chart() -> None:
    axis = Axis.over([1.0, 100.0], 0.0, 216.0)  # with 4 % of two decades on either side
    assert [axis.place(v) for v in (1.0, 10.0, 100.0)] == pytest.approx([8.0, 108.0, 208.0])
    assert list(axis.ticks()) == [1.0, 10.0, 100.0]
    assert list(Axis.over([0.2, 0.8], 0, 1).ticks()) == pytest.approx([0.2, 0.25, 0.3, 0.4, 0.5, 0.7])
    picture = chart("a <b> & c", "x", "y", [Series("dots", [(1, 1), (10, 0.1)]), Series("law", [(1, 1), (10, 0.1)], line=True)])
    root = ET.fromstring(picture)
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "a <b> & c" and {"dots", "law", "x", "y"} <= set(texts)
    places = [(float(c.get("cx", "")), float(c.get("cy", ""))) for c in root.findall("{http://www.w3.org/2000/svg}circle")]
    assert places[0][0] < places[1][0] and places[0][1] < places[1][1]  # to the right is more, down is less
