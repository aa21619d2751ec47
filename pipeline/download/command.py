"""`winnow download`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from pipeline.cli_options import Engine, Json, Overwrite, Part, Quiet, Workers, conclude, make_options
from pools.errors import InputError

SOURCE, IMAGES, ASKING, REFUSED, RUN = "What to download", "Images", "How urls are asked", "What is refused", "The run"


def _in(panel: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, **more)


def download(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Candidates or published metadata (parquet), or .txt (a url a line), .csv, .tsv, .json, .jsonl, also with "
            ".gz: a file, a folder, a pool, or a pattern in quotes.",
        ),
    ],
    output: Annotated[str, typer.Option("--output", "-o", metavar="POOL/shards", help="Metadata goes to POOL/metadata.")],
    url_col: Annotated[str, _in(SOURCE, metavar="NAME", help="Column with the addresses.")] = "url",
    text_col: Annotated[str, _in(SOURCE, metavar="NAME", help="Column with the captions.")] = "text",
    no_text: Annotated[bool, _in(SOURCE, "--no-text", help="The source has no captions.")] = False,
    uid_col: Annotated[
        str | None,
        _in(SOURCE, metavar="NAME", help="Column with uids; default: uid, else the MD5 of caption + url."),
    ] = None,
    sha256_col: Annotated[
        str | None, _in(SOURCE, metavar="NAME", help="Column with the SHA-256 to expect; default: sha256, if there is one.")
    ] = None,
    boxes_col: Annotated[
        str | None,
        _in(SOURCE, metavar="NAME", help="Column with faces to blur, [x0, y0, x1, y1] in 0..1; default: face_bboxes."),
    ] = None,
    uids: Annotated[
        str | None, _in(SOURCE, metavar="LIST", help="Only the rows in this uid list (.npy, .txt, .csv, .parquet).")
    ] = None,
    archives: Annotated[
        list[str] | None,
        _in(SOURCE, metavar="WARC", help="Take the bytes from these web archives, not from the network; may be repeated."),
    ] = None,
    image_size: Annotated[int, _in(IMAGES, min=1, help="Pixels of the side that --resize-mode names.")] = 512,
    resize_mode: Annotated[
        Literal["keep_ratio_largest", "keep_ratio", "center_crop", "border", "no"],
        _in(IMAGES, help="keep_ratio_largest: longest side; keep_ratio: shortest; as img2dataset has them."),
    ] = "keep_ratio_largest",
    upscale: Annotated[bool, _in(IMAGES, "--upscale", help="Make smaller images larger, too.")] = False,
    encode_format: Annotated[Literal["jpg", "png", "webp"], _in(IMAGES, help="Form of stored images.")] = "jpg",
    quality: Annotated[
        int | None, _in(IMAGES, min=0, max=100, help="Of jpg and webp 1 to 100 [default: 95]; of png 0 to 9 [default: 9].")
    ] = None,
    reencode: Annotated[
        bool, _in(IMAGES, "--reencode/--no-reencode", help="Or store the bytes as served, whatever their form and size.")
    ] = True,
    exif: Annotated[
        Literal["apply", "ignore"], _in(IMAGES, help="apply: store pictures upright; ignore: as img2dataset leaves them.")
    ] = "apply",
    blur: Annotated[bool, _in(IMAGES, "--blur/--no-blur", help="Blur the faces that the source has boxes of.")] = True,
    min_bytes: Annotated[int, _in(REFUSED, min=0, help="Fewer bytes as served are too_few_bytes.")] = 0,
    max_bytes: Annotated[int, _in(REFUSED, min=1, help="More bytes are too_large; no more are read.")] = 1 << 24,
    min_side: Annotated[int, _in(REFUSED, min=0, help="A shorter side, in pixels, is too_small.")] = 0,
    max_ratio: Annotated[
        float | None, _in(REFUSED, min=1, help="A longer picture, long / short side, is aspect_ratio.")
    ] = None,
    max_pixels: Annotated[int, _in(REFUSED, min=1, help="More is too_many_pixels, and not decoded.")] = 1 << 26,
    verify: Annotated[
        Literal["off", "warn", "drop"],
        _in(REFUSED, help="Bytes with another SHA-256 than expected: kept and flagged, or dropped."),
    ] = "warn",
    placeholder_urls: Annotated[
        int, _in(REFUSED, min=2, metavar="N", help="The same bytes under N urls are reported as a placeholder.")
    ] = 4,
    drop_placeholders: Annotated[bool, _in(REFUSED, "--drop-placeholders", help="And taken out of the shards.")] = False,
    opt_out: Annotated[
        bool,
        _in(REFUSED, "--opt-out/--ignore-opt-out", help="Obey X-Robots-Tag: noai, noimageai, noindex, noimageindex, noml."),
    ] = True,
    robots: Annotated[bool, _in(REFUSED, "--robots", help="Obey robots.txt as well (one more request a host).")] = False,
    allow_private: Annotated[bool, _in(REFUSED, "--allow-private", help="Ask private and loopback addresses, too.")] = False,
    timeout: Annotated[float, _in(ASKING, min=0.1, help="Seconds for one url, with all tries.")] = 30.0,
    connect_timeout: Annotated[float, _in(ASKING, min=0.1, help="Seconds for one connection.")] = 5.0,
    retries: Annotated[int, _in(ASKING, min=0, help="Further tries where a failure can heal; never after 4xx but 429.")] = 2,
    max_redirects: Annotated[int, _in(ASKING, min=0, help="Redirects of one url that are followed.")] = 5,
    threads: Annotated[int, _in(ASKING, min=1, help="Requests under way at once, in each process.")] = 32,
    per_host: Annotated[int, _in(ASKING, min=1, help="Requests to one host at once, from each process.")] = 8,
    host_wait: Annotated[float, _in(ASKING, min=0, help="Seconds between two requests to a host, from each process.")] = 0.0,
    agent: Annotated[str, _in(ASKING, help="The name by which servers may address rules to this crawl.")] = "winnow",
    user_agent: Annotated[
        str | None, _in(ASKING, metavar="TEXT", help="The header User-Agent; say there how you can be reached.")
    ] = None,
    proxy: Annotated[str | None, _in(ASKING, metavar="URL", help="Send every request to this HTTP proxy.")] = None,
    shard_size: Annotated[int, _in(RUN, min=1, help="Rows of the source a shard.")] = 10_000,
    retry_failed: Annotated[
        bool, _in(RUN, "--retry-failed", help="In a run that is done, ask again for what failed and may heal.")
    ] = False,
    extend: Annotated[
        bool, _in(RUN, "--extend", help="To a run that is done, add the rows of SOURCE whose uids it has not.")
    ] = False,
    max_failed: Annotated[
        float, _in(RUN, min=0.01, max=1, help="Stop if this share of the last 1,000 urls failed; 1: never.")
    ] = 0.95,
    dry_run: Annotated[
        bool, _in(RUN, "--dry-run", help="Say what would be done, without a request; the source is prepared.")
    ] = False,
    engine: Engine = "local",
    workers: Workers = None,
    part: Part = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fetch images into webdataset shards; every row of the source gets a status and one of a closed list of reasons.

    Example: winnow download candidates --output pool/shards

    Only what a filter on published metadata kept: winnow download commonpool --uids selection/uids.npy -o pool/shards

    A foreign table: winnow download laion.parquet --url-col URL --text-col TEXT -o pool/shards

    Out of web archives, without the network: winnow download candidates --archives 'warc/*.gz' -o pool/shards

    Later, what failed: winnow download candidates -o pool/shards --retry-failed
    """
    from pipeline.download import advice, plan
    from pipeline.download.fetching.fetch import Policy
    from pipeline.download.images.prepare import ImageRules
    from pipeline.download.job import DownloadSettings
    from pipeline.download.job import download as job
    from pipeline.download.sources.columns import Columns

    _check(archives, proxy, robots)
    columns = Columns(url=url_col, text=None if no_text else text_col, uid=uid_col, sha256=sha256_col, boxes=boxes_col)
    images = ImageRules(
        image_size=image_size,
        resize_mode=resize_mode,
        only_if_bigger=not upscale,
        encode_format=encode_format,
        quality=quality if quality is not None else 9 if encode_format == "png" else 95,
        reencode=reencode,
        exif=exif,
        min_bytes=min_bytes,
        min_side=min_side,
        max_ratio=max_ratio,
        max_pixels=max_pixels,
    )
    policy = Policy(
        deadline=timeout,
        connect_timeout=connect_timeout,
        max_bytes=max_bytes,
        max_redirects=max_redirects,
        retries=retries,
        per_host=per_host,
        host_wait=host_wait,
        robots=robots,
        agent=agent,
        proxy=proxy,
        allow_private=allow_private,
        opt_out=Policy.opt_out if opt_out else (),
        user_agent=user_agent or Policy.user_agent,
    )
    settings = DownloadSettings(
        shard_size=shard_size,
        threads=threads,
        policy=policy,
        images=images,
        columns=columns,
        uids=uids,
        archives=tuple(archives or ()),
        verify=verify,
        blur=blur,
        placeholder_urls=placeholder_urls,
        drop_placeholders=drop_placeholders,
        retry_failed=retry_failed,
        extend=extend,
        max_failed=max_failed if max_failed < 1 else None,
    )
    options = make_options(overwrite, quiet, engine, workers, part)
    if dry_run:
        plan.show(plan.make(source, output, settings, options), as_json=json)
    else:
        outcome = job(source, output, settings=settings, options=options)
        conclude("download", outcome, output, json, quiet, more=advice.summary(outcome.counts))


def _check(archives: list[str] | None, proxy: str | None, robots: bool) -> None:
    if archives and (proxy is not None or robots):
        raise InputError(
            "archives are read without the network",
            where="--archives",
            expected="neither --proxy nor --robots beside it",
        )
