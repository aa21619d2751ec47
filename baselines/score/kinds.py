"""From a task's folder to its data, by the kind of task."""

from __future__ import annotations

from baselines.score.evaldata import Folder, TaskData
from baselines.score.faces import Faces
from baselines.score.retrieval import Retrieval
from baselines.score.winogavil import Associations
from baselines.score.zeroshot import Classification


def open_task(folder: Folder) -> TaskData:
    """Reads what the images are judged by. Raises InputError for data that are incomplete or contradict themselves."""
    match folder.task.kind:
        case "retrieval":
            return Retrieval.open(folder.task, folder.path)
        case "associations":
            return Associations.open(folder.task, folder.path)
        case "faces":
            return Faces.open(folder.task, folder.path)
    return Classification.open(folder.task, folder.path)
