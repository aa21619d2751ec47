"""Names within the folders that stages hand on: a selection and a training run."""

from __future__ import annotations

from dataclasses import dataclass

from pools import store


@dataclass(frozen=True)
class Selection:
    """What a filter run leaves."""

    root: str

    @property
    def uids(self) -> str:
        return store.join(self.root, "uids.npy")

    @property
    def recipe(self) -> str:
        """The recipe with every default written out."""
        return store.join(self.root, "recipe.yaml")

    @property
    def fitted(self) -> str:
        """What the rules learnt from the pool."""
        return store.join(self.root, "fitted.json")

    @property
    def mix(self) -> str:
        """Rows and entries of each group, if the recipe has a mix."""
        return store.join(self.root, "mix.json")

    def verdicts(self, stem: str) -> str:
        return store.join(self.root, "verdicts", stem + ".parquet")

    def captions(self, stem: str) -> str:
        """Captions for kept rows that shall have others than the pool's, if the recipe gives them any."""
        return store.join(self.root, "captions", stem + ".parquet")


@dataclass(frozen=True)
class TrainingRun:
    """What a training leaves; open_clip reads it as it is, see `model_config`."""

    root: str

    @property
    def config(self) -> str:
        """Every number of the run, settled."""
        return store.join(self.root, "config.yaml")

    @property
    def model_config(self) -> str:
        """The model in open_clip's form.

        `open_clip.add_model_config(path)`, then `create_model("model_config", pretrained=run.checkpoint)`.
        """
        return store.join(self.root, "model_config.json")

    @property
    def metrics(self) -> str:
        """A line a step."""
        return store.join(self.root, "metrics.jsonl")

    @property
    def tensorboard(self) -> str:
        """The same figures as TensorBoard's events."""
        return store.join(self.root, "tensorboard")

    @property
    def bad_batch(self) -> str:
        """Figures and uids of the batch whose loss was no number, if one was."""
        return store.join(self.root, "bad_batch.json")

    @property
    def checkpoint(self) -> str:
        """The last weights, with all that the training needs to go on."""
        return self.checkpoint_at("latest")

    def checkpoint_at(self, step: int | str) -> str:
        name = step if isinstance(step, str) else f"step_{step}"
        return store.join(self.root, "checkpoints", f"{name}.pt")

    @property
    def results(self) -> str:
        """The scores, in DataComp's form."""
        return store.join(self.root, "eval_results.jsonl")
