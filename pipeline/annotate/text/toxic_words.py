"""toxic-comment-classifier: a BiLSTM over words, with the six labels of Jigsaw's first challenge."""

from __future__ import annotations

import collections
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pools.errors import InputError

if TYPE_CHECKING:
    import torch

LABELS = ("toxic", "severe_toxic", "obscene", "threat", "insult", "identity_attack")
WINDOW = 100  # words that the network sees at once
_CHUNK = 256  # windows at once
# What a pickled tokenizer may name; the first is given a class of ours.
_TOKENIZER = ("keras.src.legacy.preprocessing.text", "Tokenizer")
_PLAIN = {("collections", "OrderedDict"): collections.OrderedDict, ("collections", "defaultdict"): collections.defaultdict,
          ("builtins", "int"): int}  # fmt: skip


@dataclass
class _State:
    """The attributes of a pickled tokenizer."""


class _Restricted(pickle.Unpickler):
    """Makes dictionaries, numbers and one object of attributes; what else a file names, and could have run, is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == _TOKENIZER:
            return _State
        if (module, name) in _PLAIN:
            return _PLAIN[module, name]
        raise pickle.UnpicklingError(f"it names {module}.{name}")


@dataclass(frozen=True)
class Vocabulary:
    """Words by number, and how a text is cut into them."""

    numbers: dict[str, int]
    separators: dict[int, str]
    lower: bool

    @classmethod
    def read(cls, f: IO[bytes]) -> Vocabulary:
        """Keras's tokenizer, as it is pickled. Raises UnpicklingError for anything that such a file does not hold."""
        state = vars(_Restricted(f).load())
        limit = state["num_words"]
        numbers = {word: i for word, i in state["word_index"].items() if i < limit}
        return cls(numbers, str.maketrans(dict.fromkeys(state["filters"], state["split"])), state["lower"])

    def words(self, text: str) -> list[int]:
        """The numbers of the words that are known, in order."""
        text = (text.lower() if self.lower else text).translate(self.separators)
        return [self.numbers[w] for w in text.split(" ") if w in self.numbers]


class ToxicWords:
    """The classifier, from its two files."""

    def __init__(self, folder: str, device: str) -> None:
        try:
            with Path(folder, "tokenizer.pickle").open("rb") as f:
                self._vocabulary = Vocabulary.read(f)
            self._network = _Network(_arrays(str(Path(folder, "model.weights.h5"))), device)
        except (OSError, KeyError, AttributeError, TypeError, EOFError, pickle.UnpicklingError) as e:
            raise InputError(f"unreadable: {e}", where=folder, expected="the files of toxic-comment-classifier") from e

    def tokens(self, text: str) -> list[int]:
        """The words of a text that the model knows."""
        return self._vocabulary.words(text)

    def scores(self, texts: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """(n, 6): of a text of more than 100 known words, the highest of each hundred, the last hundred whole."""
        windows = [(i, words[max(0, end - WINDOW) : end]) for i, words in enumerate(texts) for end in _ends(len(words))]
        found = np.zeros((len(texts), len(LABELS)), np.float32)
        for start in range(0, len(windows), _CHUNK):
            some = windows[start : start + _CHUNK]
            padded = np.zeros((len(some), WINDOW), np.int64)
            for row, (_, words) in zip(padded, some, strict=True):
                row[WINDOW - len(words) :] = words  # before the words, not behind them
            np.maximum.at(found, [i for i, _ in some], self._network.scores(padded))
        return found


def _ends(words: int) -> range:
    return range(words, 0, -WINDOW)


def _arrays(path: str) -> dict[str, NDArray[np.float32]]:
    """The arrays of the layers by their place in the file."""
    import h5py

    found: dict[str, NDArray[np.float32]] = {}
    with h5py.File(path) as file:
        file["layers"].visititems(lambda name, item: found.update({name: item[()]}) if hasattr(item, "dtype") else None)
    return found


class _Network:
    """Embedding of 50, an LSTM of 50 each way, the maximum over words, 50 with ReLU, six logistic outputs."""

    def __init__(self, arrays: dict[str, NDArray[np.float32]], device: str) -> None:
        import torch

        self._device = device
        self._embedding = torch.tensor(arrays["embedding/vars/0"], device=device)
        self._lstm = torch.nn.LSTM(50, 50, batch_first=True, bidirectional=True).to(device).eval()
        state: dict[str, torch.Tensor] = {}
        # Keras and PyTorch have the gates in one order (input, forget, cell, output); PyTorch has a second bias.
        for way, ending in (("forward", ""), ("backward", "_reverse")):
            kernel, recurrent, bias = (arrays[f"bidirectional/{way}_layer/cell/vars/{i}"] for i in range(3))
            state[f"weight_ih_l0{ending}"] = torch.tensor(kernel.T)
            state[f"weight_hh_l0{ending}"] = torch.tensor(recurrent.T)
            state[f"bias_ih_l0{ending}"] = torch.tensor(bias)
            state[f"bias_hh_l0{ending}"] = torch.zeros(len(bias))
        self._lstm.load_state_dict(state)
        self._dense = [
            (torch.tensor(arrays[f"{name}/vars/0"].T, device=device), torch.tensor(arrays[f"{name}/vars/1"], device=device))
            for name in ("dense", "dense_1")
        ]

    def scores(self, words: NDArray[np.int64]) -> NDArray[np.float32]:
        """(n, 100) → (n, 6)."""
        import torch
        import torch.nn.functional as f

        with torch.inference_mode():
            x = self._lstm(self._embedding[torch.from_numpy(words).to(self._device)])[0].amax(1)
            x = f.linear(f.relu(f.linear(x, *self._dense[0])), *self._dense[1])
            answers: NDArray[np.float32] = torch.sigmoid(x).cpu().numpy()
        return answers
