"""From a task's folder to its data, by the kind of task."""

from __future__ import annotations

from collections.abc import Callable

from baselines.score.bias import AssociationBias, RepresentationBias
from baselines.score.composed import Composed
from baselines.score.disparity import Disparity
from baselines.score.evaldata import Folder, TaskData
from baselines.score.faces import Faces
from baselines.score.kshot import KShot
from baselines.score.languages import Languages
from baselines.score.probe import LinearProbe
from baselines.score.retrieval import Retrieval
from baselines.score.tasks import Task
from baselines.score.winogavil import Associations
from baselines.score.within import ImageToImage, TextToText
from baselines.score.zeroshot import Classification

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
