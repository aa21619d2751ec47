"""CLIP scores against a plain open_clip loop: `python -m tests.benchmarks.annotate --pictures FOLDER`.

Both read the same shards, end to end, with random weights: the plain loop opens pictures with Pillow, takes open_clip's own
transform and encodes padded texts, in fp32; ours is the job behind `winnow annotate --with clip`. Loading the model is not
counted. Rounds alternate, the least time of each counts, and the features must be the same within bounds.

Where there is a GPU, the plain forward of batches that lie there already is measured too: the encoder is the bottleneck if
ours, from shards, is not far below it.
"""

from __future__ import annotations

import argparse
import io
import json
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image

from pipeline.annotate.clip.clip import make_clip
from pipeline.annotate.job import Settings, annotate
from pipeline.annotate.unit import CPU_BATCH, GPU_BATCH
from pipeline.engine import Options
from pools import shards
from pools.schema import score_column

CAPTIONS = (
    "a dog runs over a meadow",
    "Two plates of food on a wooden table, with a glass of water beside them",
    "red car",
    "",
)
BOUND = 5e-3  # of a score; scores lie in -1..1


def pictures(folder: str | None, count: int) -> Iterator[bytes]:
    """JPEGs of a folder over and over, or made-up ones of 640 × 480."""
    paths = sorted(p for p in Path(folder).rglob("*") if p.suffix.lower() in (".jpg", ".jpeg")) if folder else []
    bodies = [p.read_bytes() for p in paths] or [_made_up(i) for i in range(16)]
    for i in range(count):
        yield bodies[i % len(bodies)]


def _made_up(number: int) -> bytes:
    rng = np.random.default_rng(number)
    coarse = Image.fromarray(rng.integers(0, 256, (48, 64, 3), np.uint8))
    out = io.BytesIO()
    coarse.resize((640, 480), Image.Resampling.BICUBIC).save(out, "JPEG", quality=90)
    return out.getvalue()


def build_pool(folder: Path, bodies: list[bytes], a_shard: int) -> None:
    """A pool whose captions have the lengths of alt texts: a few words, now and then a sentence."""
    (folder / "metadata").mkdir(parents=True)
    for first in range(0, len(bodies), a_shard):
        few = bodies[first : first + a_shard]
        rows = [(f"{first + i:032x}", f"{CAPTIONS[(first + i) % 4]} {first + i}", body) for i, body in enumerate(few)]
        stem = f"{first // a_shard:08d}"
        pq.write_table(
            pa.table({"uid": [r[0] for r in rows], "text": [r[1] for r in rows]}), folder / f"metadata/{stem}.parquet"
        )
        with shards.write(str(folder / f"shards/{stem}.tar")) as tar:
            for uid, text, body in rows:
                tar.add(uid, {"jpg": body, "txt": text.encode(), "json": json.dumps({"uid": uid}).encode()})


def plain(pool: Path, model: Any, transform: Any, tokenize: Any, device: str) -> tuple[float, dict[str, float]]:
    """Seconds, and the score of each uid, by the loop that anybody writes first."""
    start = time.perf_counter()
    scores: dict[str, float] = {}
    for tar in sorted((pool / "shards").glob("*.tar")):
        waiting: list[tuple[str, Any, str]] = []
        sample: dict[str, bytes] = {}
        with tarfile.open(tar) as members:
            for member in members:
                key, _, extension = member.name.partition(".")
                file = members.extractfile(member)
                assert file is not None
                sample[extension] = file.read()
                if extension == "json":  # the last of a sample
                    pixels = transform(Image.open(io.BytesIO(sample["jpg"])))
                    waiting.append((key, pixels, sample["txt"].decode()))
                    sample = {}
                if len(waiting) == CPU_BATCH:
                    scores |= _encode(waiting, model, tokenize, device)
                    waiting = []
        scores |= _encode(waiting, model, tokenize, device) if waiting else {}
    return time.perf_counter() - start, scores


def _encode(batch: list[tuple[str, Any, str]], model: Any, tokenize: Any, device: str) -> dict[str, float]:
    with torch.inference_mode():
        images = model.encode_image(torch.stack([pixels for _, pixels, _ in batch]).to(device), normalize=True)
        texts = model.encode_text(tokenize([text for _, _, text in batch]).to(device), normalize=True)
        return dict(zip([uid for uid, _, _ in batch], (images * texts).sum(-1).cpu().tolist(), strict=True))


def ours(
    pool: Path, options: dict[str, str], device: str, batch: int | None, workers: int
) -> tuple[float, dict[str, float], str]:
    """Seconds, scores and where the time went, by the job."""
    clip = make_clip({**options, "name": "bench"})
    run = Options(quiet=True, workers=workers, overwrite=True)
    speed = annotate(str(pool), [("clip", clip)], settings=Settings(device, batch), options=run)["bench"].speed
    assert speed is not None
    scores: dict[str, float] = {}
    for path in sorted((pool / "annotations/bench").glob("*.parquet")):
        table = pq.read_table(path)
        scores |= dict(zip(table["uid"].to_pylist(), table[score_column("bench")].to_pylist(), strict=True))
    where = f"decode {speed.decode:.1f} s, prepare {speed.prepare:.1f} s, model {speed.annotate:.1f} s"
    return speed.elapsed, scores, where


def resident(model: Any, size: int, context: int, kind: torch.dtype, device: str) -> float:
    """Pairs a second of the plain forward on data that lies on the device."""
    pixels = torch.randn(GPU_BATCH, 3, size, size, device=device, dtype=kind)
    tokens = torch.randint(1, 40_000, (GPU_BATCH, context), device=device)
    with torch.inference_mode():
        for measured in (False, True):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(20):
                model.encode_image(pixels, normalize=True)
                model.encode_text(tokens, normalize=True)
            torch.cuda.synchronize()
            if measured:
                return 20 * GPU_BATCH / (time.perf_counter() - start)
    raise AssertionError("measured above")


def compare(name: str, pool: Path, folder: Path, args: argparse.Namespace) -> None:
    """Prints a line for each way with one model."""
    torch.manual_seed(0)
    model, _, transform = open_clip.create_model_and_transforms(name)
    model.eval()
    weights = folder / f"{name}.pt"
    torch.save(model.state_dict(), weights)
    options, model = {"model": name, "pretrained": str(weights)}, model.to(args.device)
    tokenize = open_clip.get_tokenizer(name)
    ways = ["plain fp32", *(f"ours {p}" for p in args.precision)]
    least: dict[str, float] = {}
    scores: dict[str, dict[str, float]] = {}
    told: dict[str, str] = {}
    for _ in range(args.rounds):
        for way in ways:
            kind, precision = way.split()
            if kind == "plain":
                seconds, scores[way] = plain(pool, model, transform, tokenize, args.device)
            else:
                given = {**options, "precision": precision}
                seconds, scores[way], told[way] = ours(pool, given, args.device, args.batch_size, args.workers)
            least[way] = min(seconds, least.get(way, seconds))
    first = scores[ways[0]]
    for way in ways:
        rate, worst = len(first) / least[way], max(abs(scores[way][uid] - first[uid]) for uid in first)
        ratio = least[ways[0]] / least[way]
        print(f"{name:10} {way:11} {rate:8.1f} images/s {ratio:5.2f}x  score ±{worst:.1e}  {told.get(way, '')}", flush=True)
        if way.endswith("fp32") and worst > BOUND:
            raise SystemExit(f"{way}: scores differ from the plain loop's by up to {worst}")
    if args.device.startswith("cuda"):
        for precision in args.precision:
            number = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
            forward = open_clip.create_model(name, pretrained=str(weights), precision=precision, device=args.device).eval()
            rate = resident(forward, model.visual.image_size[0], model.context_length, number, args.device)
            share = 100 * len(first) / least[f"ours {precision}"] / rate
            print(f"{name:10} resident {precision} {rate:8.1f} pairs/s: ours from shards is {share:.0f} % of it", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", help="folder of JPEGs, coco-mini say; default: made-up ones")
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--a-shard", type=int, default=10_000, help="images a shard")
    parser.add_argument("--model", action="append", help="of open_clip; default: ViT-B-32, and on a GPU ViT-L-14")
    parser.add_argument("--precision", action="append", choices=["fp32", "bf16", "fp16"], help="default: fp32 and bf16")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--workers", type=int, default=0, help="processes; on a GPU several feed it better")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    args.precision = args.precision or ["fp32", "bf16"]
    with tempfile.TemporaryDirectory() as folder:
        pool = Path(folder) / "pool"
        build_pool(pool, list(pictures(args.pictures, args.images)), args.a_shard)
        for name in args.model or (["ViT-B-32", "ViT-L-14"] if args.device != "cpu" else ["ViT-B-32"]):
            compare(name, pool, Path(folder), args)


if __name__ == "__main__":
    main()
