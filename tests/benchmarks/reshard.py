"""Resharding against DataComp's own resharder: `python -m tests.benchmarks.reshard --peer PYTHON --resharder resharder.py`.

The peer is the python of an environment of its own (`pip install numpy==1.26.4 pyarrow==19.0.1 webdataset==0.2.31 cloudpathlib
pysimdjson==7.0.2 opencv-python-headless==4.11.0.86 albumentations==1.4.24 img2dataset==1.47.0 tqdm`), the resharder the file of
that name in mlfoundations/datacomp. Shards are made first: JPEGs of 60 to 80 KB, json and captions as img2dataset writes them.
Whole processes, rounds alternate; what is compared is the least of each, CPU seconds (of the process and its workers) and wall.
The samples must be the same, and the bytes of those that nobody blurs. `cp` of a file with the kept bytes is the floor.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from pools import shards, uids
from tests.benchmarks.filters import Cost, measure

SEED = 0
WITH_FACES = 5  # one sample in so many has a face


def uid(n: int) -> str:
    return hashlib.md5(str(n).encode(), usedforsecurity=False).hexdigest()


def pictures(number: int) -> list[bytes]:
    """JPEGs of 60 to 80 KB, 512 x 384."""
    rng = np.random.default_rng(SEED)
    found: list[bytes] = []
    while len(found) < number:
        coarse = Image.fromarray(rng.integers(0, 256, (48, 64, 3)).astype(np.uint8)).resize(
            (512, 384), Image.Resampling.BICUBIC
        )
        levels = np.asarray(coarse) + rng.normal(0, rng.uniform(2, 8), (384, 512, 3))
        out = io.BytesIO()
        Image.fromarray(levels.clip(0, 255).astype(np.uint8)).save(out, "JPEG", quality=88)
        if 60_000 <= len(out.getvalue()) <= 80_000:
            found.append(out.getvalue())
    return found


def make(folder: Path, number: int, rows: int, share: float) -> None:
    """`shards/`, the boxes of faces in `metadata/` with the map that the peer asks for, and a list of `share` of the uids."""
    images = pictures(100)
    for name in ("shards", "metadata"):
        (folder / name).mkdir(parents=True)
    said = {}
    for s in range(number):
        members = range(s * rows, (s + 1) * rows)
        boxes = [[[0.3, 0.3, 0.45, 0.55]] if n % WITH_FACES == 0 else [] for n in members]
        with tarfile.open(folder / "shards" / f"{s:08d}.tar", "w") as tar:
            for n, faces in zip(members, boxes, strict=True):
                caption = f"a picture of something, number {n}"
                fields: dict[str, Any] = {
                    "uid": uid(n),
                    "face_bboxes": faces,
                    "caption": caption,
                    "url": f"http://x.example/{n}.jpg",
                }
                fields |= {"key": f"{n:09d}", "status": "success", "error_message": None, "width": 512, "height": 384}
                fields |= {"original_width": 512, "original_height": 384, "exif": "{}", "sha256": uid(n) * 2}
                parts = {"jpg": images[n % len(images)], "json": json.dumps(fields, indent=4).encode(), "txt": caption.encode()}
                for extension, data in parts.items():
                    info = tarfile.TarInfo(f"{n:09d}.{extension}")
                    info.size, info.mtime, info.mode = len(data), 1664030331.25 + n, 0o444
                    tar.addfile(info, io.BytesIO(data))
        (folder / "shards" / f"{s:08d}_stats.json").write_text(json.dumps({"successes": rows}))
        table = pa.table({"uid": [uid(n) for n in members], "face_bboxes": pa.array(boxes, pa.list_(pa.list_(pa.float64())))})
        pq.write_table(table, folder / "metadata" / f"{s:08d}.parquet")
        tar_path, parquet = (
            str(folder / kind / f"{s:08d}.{end}") for kind, end in (("shards", "tar"), ("metadata", "parquet"))
        )
        said[str(s)] = {"shards": [tar_path], "parquet": parquet}
    (folder / "map.json").write_text(json.dumps(said))
    chosen = np.random.default_rng(SEED).permutation(number * rows)[: int(number * rows * share)]
    uids.write_list(str(folder / "list.npy"), uids.pack([uid(int(n)) for n in chosen]))


def kept(folder: Path) -> dict[str, dict[str, str]]:
    """Of each sample the digests of its members, pictures under one name whatever their format."""
    found = {}
    for path in shards.list_shards(str(folder)):
        for key, members in shards.read_all(path):
            found[key] = {
                "image" if e in shards.IMAGE_EXTENSIONS else e: hashlib.sha256(d).hexdigest() for e, d in members.items()
            }
    return found


def check(ours: Path, theirs: Path, blurred: bool) -> None:
    a, b = kept(ours), kept(theirs)
    assert a.keys() == b.keys(), "the samples differ"
    faces = {uid(n) for n in range(0, 10 * len(a) + 100_000, WITH_FACES)} if blurred else set()
    same = [key for key in a if key.partition("-")[0] not in faces]
    assert all(a[key] == b[key] for key in same), "bytes differ"
    assert not blurred or len(same) < len(a)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peer", required=True, help="python with what the resharder asks for")
    parser.add_argument("--resharder", required=True, type=Path)
    parser.add_argument("--shards", type=int, default=20)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-blur", action="store_true", help="leave out the comparisons with blur, which take minutes")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, args.shards, args.rows, args.share)
        size = sum(p.stat().st_size for p in (folder / "shards").glob("*.tar"))
        print(f"{args.shards} shards of {args.rows} samples, {size / 1e6:.0f} MB; {args.share:.0%} wanted", flush=True)
        compare(folder, args)


def compare(folder: Path, args: argparse.Namespace) -> None:
    blur = ["--blur-faces", str(folder / "metadata")]
    their_blur = ["--blur-metadata-map", str(folder / "map.json"), "--apply-blur"]
    ways: list[tuple[str, list[str], list[str]]] = [("copy", [], [])]
    if not args.no_blur:
        ways += [("blur, jpg", blur, their_blur), ("blur, webp", [*blur, "--format", "webp"], their_blur)]
    for title, our_options, their_options in ways:
        for workers in (1, 2):
            costs: dict[str, Cost] = {}
            for _ in range(args.rounds):
                for who, cost in one_round(folder, args, workers, our_options, their_options).items():
                    costs[who] = costs[who].least(cost) if who in costs else cost
            entries = len(uids.read_list(str(folder / "list.npy")))
            print(f"{title}, {workers} worker(s)")
            for who, cost in costs.items():
                told = f"{cost.cpu:7.2f} CPU s {cost.wall:7.2f} s {cost.memory:6.0f} MB {entries / cost.cpu:8.0f} samples/CPU s"
                print(f"  {who:24} {told}  {costs['peer'].cpu / cost.cpu:5.1f} x", flush=True)


def one_round(
    folder: Path, args: argparse.Namespace, workers: int, our_options: list[str], their_options: list[str]
) -> dict[str, Cost]:
    ours, theirs = folder / "run" / "ours", folder / "theirs"
    shutil.rmtree(folder / "run", ignore_errors=True)
    shutil.rmtree(theirs, ignore_errors=True)
    theirs.mkdir()
    source, listed, log = str(folder / "shards"), str(folder / "list.npy"), folder / "log"
    peer = [args.peer, str(args.resharder), "-i", source, "-o", str(theirs), "-s", listed, "-j", str(workers), *their_options]
    found = {"peer": measure(peer, log)}
    # One worker is this process, as it is the peer's one that works.
    number = str(0 if workers == 1 else workers)
    command = [sys.executable, "-m", "pipeline.cli", "reshard", source, listed, "-o", str(ours), "--workers", number, "-q"]
    found["winnow, first list"] = measure([*command, *our_options], log)
    check(ours, theirs, bool(our_options))
    shutil.rmtree(ours)
    found["winnow, with an index"] = measure([*command, *our_options], log)
    bare = folder / "kept.bin"
    with bare.open("wb") as out:
        for path in sorted(ours.glob("*.tar")):
            shutil.copyfileobj(path.open("rb"), out)
    (folder / "copy.bin").unlink(missing_ok=True)
    found["cp of the kept bytes"] = measure(["cp", str(bare), str(folder / "copy.bin")], log)
    (folder / "copy.bin").unlink(missing_ok=True)
    found["cp, then sync"] = measure(["sh", "-c", f"cp {bare} {folder}/copy.bin && sync {folder}/copy.bin"], log)
    return found


if __name__ == "__main__":
    main()
