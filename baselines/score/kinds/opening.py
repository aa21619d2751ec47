"""From a task's folder to its data, by the kind of task."""

from __future__ import annotations

from collections.abc import Callable

from baselines.score.evals.data import Folder, TaskData
from baselines.score.kinds.bias import AssociationBias, RepresentationBias
from baselines.score.kinds.composed import Composed
from baselines.score.kinds.disparity import Disparity
from baselines.score.kinds.faces import Faces
from baselines.score.kinds.kshot import KShot
from baselines.score.kinds.languages import Languages
from baselines.score.kinds.probe import LinearProbe
from baselines.score.kinds.retrieval import Retrieval
from baselines.score.kinds.winogavil import Associations
from baselines.score.kinds.within import ImageToImage, TextToText
from baselines.score.kinds.zeroshot import Classification
from baselines.score.tasks import Task

OPENERS: dict[str, Callable[[Task, str], TaskData]] = {
    "classification": Classification.open,
    "retrieval": Retrieval.open,
    "associations": Associations.open,
    "faces": Faces.open,
    "kshot": KShot.open,
    "linear_probe": LinearProbe.open,
    "languages": Languages.open,
    "image_to_image": ImageToImage.open,
    "text_to_text": TextToText.open,
    "composed": Composed.open,
    "representation_bias": RepresentationBias.open,
    "association_bias": AssociationBias.open,
    "disparity": Disparity.open,
}


def open_task(folder: Folder) -> TaskData:
    """Reads what the images are judged by. Raises InputError for data that are incomplete or contradict themselves."""
    assert folder.task.kind is not None  # such folders have an obstacle
    return OPENERS[folder.task.kind](folder.task, folder.path)
