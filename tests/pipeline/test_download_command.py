"""`winnow download` as it is typed: its help, its options, a dry run, and what comes of each kind of source."""

from __future__ import annotations

import dataclasses
import io
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("img2dataset")

from PIL import Image

from pipeline import cli
from pipeline.download import job
from pipeline.download.fetching.fetch import Policy
from pipeline.download.images.prepare import ImageRules
from pipeline.download.job import DownloadSettings
from pipeline.download.sources.columns import Columns
from pools import uids
from pools.manifest import Outcome
from tests.pipeline.server import Answer, Server


def winnow(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit status, standard output, standard error."""
    monkeypatch.setattr(sys, "argv", ["winnow", *arguments])
    with pytest.raises(SystemExit) as e:
        cli.main()
    said = capsys.readouterr()
    return int(e.value.code or 0), said.out, said.err


def chosen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> DownloadSettings:
    """What the command asks the job to do."""
    asked: list[DownloadSettings] = []

    def job_(source: str, output: str, *, settings: DownloadSettings, options: Any) -> Outcome:
        asked.append(settings)
        return Outcome({"in": 0, "kept": 0})

    monkeypatch.setattr(job, "download", job_)
    status, _, err = winnow(monkeypatch, capsys, "download", "c", "-o", "p/shards", *arguments)
    assert status == 0, err
    return asked[0]


def picture(number: int = 0) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (32, 24), (number, 90, 90)).save(out, "JPEG")
    return out.getvalue()


def statuses(pool: Path) -> list[dict[str, Any]]:
    return [row for path in sorted((pool / "shards").glob("0*.parquet")) for row in pq.read_table(path).to_pylist()]


def test_the_help_has_headings_an_example_and_a_word_on_every_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    status, said, _ = winnow(monkeypatch, capsys, "download", "--help")
    assert status == 0
    headings = [line for line in said.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == [
        *("Arguments:", "Options:", "What to download:", "Images:", "What is refused:", "How urls are asked:", "The run:")
    ]
    assert "Example: winnow download candidates --output pool/shards" in said
    assert said.index("What to download:") < said.index("--uids LIST") < said.index("Images:") < said.index("--resize-mode")
    for param in cli_command("download").params:
        assert getattr(param, "help", None), f"{param.name} is not explained"


def cli_command(name: str) -> Any:
    import typer.main

    return typer.main.get_command(cli.app).commands[name]  # type: ignore[attr-defined]


def test_without_options_the_defaults_are_the_modules_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert chosen(monkeypatch, capsys) == DownloadSettings()


OPTIONS: dict[str, tuple[type, str, Any]] = {
    "--shard-size 7": (DownloadSettings, "shard_size", 7),
    "--threads 3": (DownloadSettings, "threads", 3),
    "--uids l.npy": (DownloadSettings, "uids", "l.npy"),
    "--verify drop": (DownloadSettings, "verify", "drop"),
    "--no-blur": (DownloadSettings, "blur", False),
    "--placeholder-urls 9": (DownloadSettings, "placeholder_urls", 9),
    "--drop-placeholders": (DownloadSettings, "drop_placeholders", True),
    "--retry-failed": (DownloadSettings, "retry_failed", True),
    "--extend": (DownloadSettings, "extend", True),
    "--max-failed 1": (DownloadSettings, "max_failed", None),
    "--archives a.warc --archives b.warc": (DownloadSettings, "archives", ("a.warc", "b.warc")),
    "--url-col URL": (Columns, "url", "URL"),
    "--text-col TEXT": (Columns, "text", "TEXT"),
    "--no-text": (Columns, "text", None),
    "--uid-col key": (Columns, "uid", "key"),
    "--sha256-col hash": (Columns, "sha256", "hash"),
    "--boxes-col faces": (Columns, "boxes", "faces"),
    "--image-size 256": (ImageRules, "image_size", 256),
    "--resize-mode center_crop": (ImageRules, "resize_mode", "center_crop"),
    "--upscale": (ImageRules, "only_if_bigger", False),
    "--encode-format webp": (ImageRules, "encode_format", "webp"),
    "--quality 80": (ImageRules, "quality", 80),
    "--no-reencode": (ImageRules, "reencode", False),
    "--exif ignore": (ImageRules, "exif", "ignore"),
    "--min-bytes 5": (ImageRules, "min_bytes", 5),
    "--min-side 5": (ImageRules, "min_side", 5),
    "--max-ratio 3": (ImageRules, "max_ratio", 3.0),
    "--max-pixels 5": (ImageRules, "max_pixels", 5),
    "--timeout 5": (Policy, "deadline", 5.0),
    "--connect-timeout 1": (Policy, "connect_timeout", 1.0),
    "--max-bytes 5": (Policy, "max_bytes", 5),
    "--max-redirects 1": (Policy, "max_redirects", 1),
    "--retries 0": (Policy, "retries", 0),
    "--per-host 1": (Policy, "per_host", 1),
    "--host-wait 2": (Policy, "host_wait", 2.0),
    "--agent bot": (Policy, "agent", "bot"),
    "--user-agent bot/1": (Policy, "user_agent", "bot/1"),
    "--ignore-opt-out": (Policy, "opt_out", ()),
    "--robots": (Policy, "robots", True),
    "--proxy http://p:1": (Policy, "proxy", "http://p:1"),
    "--allow-private": (Policy, "allow_private", True),
}
# Those that nobody has asked to turn.
FIXED = {"retry_wait", "max_failed_rows", "policy", "images", "columns"}


@pytest.mark.parametrize("typed", OPTIONS)
def test_each_option_sets_what_it_says_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str
) -> None:
    part, field, value = OPTIONS[typed]
    found, default = chosen(monkeypatch, capsys, *typed.split()), DownloadSettings()
    where = {DownloadSettings: None, Columns: "columns", ImageRules: "images", Policy: "policy"}[part]
    if where is None:
        expected = dataclasses.replace(default, **{field: value})
    else:
        expected = dataclasses.replace(default, **{where: dataclasses.replace(getattr(default, where), **{field: value})})
    assert found == expected != default


def test_no_setting_is_out_of_reach() -> None:
    reached = {(part, field) for part, field, _ in OPTIONS.values()}
    for part in (DownloadSettings, Columns, ImageRules, Policy):
        for field in dataclasses.fields(part):
            assert (part, field.name) in reached or field.name in FIXED, f"{part.__name__}.{field.name} has no option"


def test_png_has_a_quality_of_its_own(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert chosen(monkeypatch, capsys, "--encode-format", "png").images == ImageRules(encode_format="png", quality=9)


# T21
def test_a_list_of_urls_is_asked_for_as_it_stands(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = server.on("http://h.invalid/w_303,h_170,q_90.jpg", Answer(picture()))
    (tmp_path / "urls.txt").write_text(f"{url}\n\n")
    pool = tmp_path / "pool"
    arguments = ("download", str(tmp_path / "urls.txt"), "-o", str(pool / "shards"), "--proxy", server.root, "--workers", "0")
    status, said, _ = winnow(monkeypatch, capsys, *arguments, "--json")
    assert status == 0
    assert json.loads(said)["counts"]["kept"] == 1
    assert server.requests == [url]
    assert statuses(pool)[0]["uid"] == uids.new(url, "")


# T22, T23
@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl"])
def test_every_line_of_a_table_has_one_status(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    urls = [server.on(f"http://h.invalid/{i}.jpg", Answer(picture(i))) for i in range(2)]
    first = {"csv": 'a "red"\nchair', "tsv": '5" pipe', "jsonl": 'a "red"\nchair'}[form]
    texts = {
        "csv": f'caption,link\n"a ""red""\nchair",{urls[0]}\nsecond,{urls[1]}\n"open,{urls[0]}\nfour,\n',
        "tsv": f'caption\tlink\n5" pipe\t{urls[0]}\nsecond\t{urls[1]}\nopen\t{urls[0]}\ttoo\tmany\nfour\t\n',
        "jsonl": "".join(json.dumps({"caption": c, "link": u}) + "\n" for c, u in zip((first, "second"), urls, strict=True))
        + '{"caption": "open\n{"caption": "four"}\n',
    }
    (tmp_path / f"t.{form}").write_text(texts[form])
    pool = tmp_path / "pool"
    arguments = ("download", str(tmp_path / f"t.{form}"), "-o", str(pool / "shards"), "--proxy", server.root, "--workers", "0")
    more = ("--url-col", "link", "--text-col", "caption", "--shard-size", "3")
    status, said, err = winnow(monkeypatch, capsys, *arguments, *more, "--json")
    assert status == 0, err
    counts = json.loads(said)["counts"]
    assert (counts["in"], counts["kept"], counts["failed:bad_url"], counts["unreadable_rows"]) == (4, 2, 2, 1)
    found = statuses(pool)
    assert [(r["status"], r["reason"]) for r in found] == [("success", None)] * 2 + [("failed_to_download", "bad_url")] * 2
    assert found[0]["caption"] == first
    assert found[2]["source_error"].startswith("line ")
    assert found[3]["source_error"] is None
    assert sorted(server.requests) == urls


def test_only_the_uids_of_a_list_are_asked_for(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    urls = [server.on(f"http://h.invalid/{i}.jpg", Answer(picture(i))) for i in range(6)]
    (tmp_path / "t.csv").write_text("URL,TEXT\n" + "".join(f"{u},t\n" for u in urls))
    uids.write_list(str(tmp_path / "l.npy"), uids.pack([uids.new(urls[4], "t"), uids.new(urls[1], "t"), "0" * 32]))
    pool = tmp_path / "pool"
    arguments = ("download", str(tmp_path / "t.csv"), "-o", str(pool / "shards"), "--proxy", server.root, "--workers", "0")
    more = ("--url-col", "URL", "--text-col", "TEXT", "--uids", str(tmp_path / "l.npy"))
    status, said, err = winnow(monkeypatch, capsys, *arguments, *more, "--json")
    assert status == 0, err
    counts = json.loads(said)["counts"]
    assert {n: counts[n] for n in ("in", "kept", "asked", "found", "missing")} == {
        "in": 2, "kept": 2, "asked": 3, "found": 2, "missing": 1
    }  # fmt: skip
    assert sorted(server.requests) == [urls[1], urls[4]]
    assert [r["url"] for r in statuses(pool)] == [urls[1], urls[4]]
    server.requests.clear()
    assert winnow(monkeypatch, capsys, *arguments, *more)[0] == 0
    assert server.requests == []
    uids.write_list(str(tmp_path / "l.npy"), uids.pack(["0" * 32]))
    status, _, err = winnow(monkeypatch, capsys, *arguments, *more)
    assert status == 2
    assert "another run" in err


def test_a_dry_run_requests_nothing(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text("url,text\n" + "".join(f"http://h.invalid/{i}.jpg,t\n" for i in range(5)) + '"broken\n')
    arguments = ("download", str(tmp_path / "t.csv"), "-o", str(tmp_path / "pool/shards"), "--proxy", server.root, "--dry-run")
    more = ("--shard-size", "4", "--workers", "0", "--image-size", "256")
    status, said, _ = winnow(monkeypatch, capsys, *arguments, *more)
    assert status == 0
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in said.splitlines()}
    assert lines["rows"] == "6, unreadable rows 1"
    assert lines["shards"] == "2 of 4 rows"
    assert lines["size"] == "about 52 kB if every image is there"  # 6 · 35,000 / 4
    assert "image_size 256" in lines["settings"]
    assert server.requests == []
    assert not (tmp_path / "pool/shards").exists()
    found = json.loads(winnow(monkeypatch, capsys, *arguments, *more, "--json")[1])
    assert (found["dry_run"], found["rows"], found["shards"], found["bytes"]) == (True, 6, 2, 52_500)
    assert json.loads(winnow(monkeypatch, capsys, *arguments, *more, "--no-reencode", "--json")[1])["bytes"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--archives", "a.warc", "--proxy", "http://p:1"), "--archives"),
        (("--url-col", "a", "--text-col", "a"), "two meanings"),
        (("--url-col", "URL"), "no column 'URL'"),
        (("--uids", "none.npy"), "no such"),
        (("--resize-mode", "stretch"), "stretch"),
        (("--dry-run", "--uids", "none.xlsx"), "unknown kind"),
    ],
)
def test_mistakes_are_one_message(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    (tmp_path / "t.csv").write_text("url,text\nhttp_,t\n")
    source = str(tmp_path / "t.csv")
    status, _, err = winnow(monkeypatch, capsys, "download", source, "-o", str(tmp_path / "pool/shards"), *arguments)
    assert status == 2
    assert message in err
    assert "Traceback" not in err


def test_pool_import_is_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_text("URL,TEXT,similarity\nhttp://h/a.jpg,t,0.5\n")
    arguments = ("pool", "import", str(tmp_path / "t.csv"), "-o", str(tmp_path / "pool"), "--workers", "0", "--json")
    status, said, _ = winnow(monkeypatch, capsys, *arguments, "--rename", "similarity=clip_b32_similarity_score")
    assert status == 0
    assert json.loads(said)["counts"] == {"in": 1, "kept": 1}
    table = pq.read_table(next((tmp_path / "pool/metadata").glob("*.parquet")))
    assert table.schema.names == ["uid", "url", "text", "clip_b32_similarity_score"]
    status, _, err = winnow(monkeypatch, capsys, *arguments, "--rename", "similarity")
    assert status == 2
    assert "expected A=B" in err
