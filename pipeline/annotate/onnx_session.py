"""ONNX models on the device that was asked for."""

from __future__ import annotations

from typing import Any

from pools.errors import InputError


def open_session(path: str, device: str, threads: int) -> Any:
    """A session of onnxruntime: on the CPU with so many threads, or on `cuda` or `cuda:N`.

    Raises InputError for a file that is no model, or if onnxruntime cannot use the device.
    """
    import onnxruntime
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph, InvalidProtobuf, NoSuchFile

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    settings.log_severity_level = 3  # errors; a warning is no business of users
    providers: list[Any] = ["CPUExecutionProvider"]
    if device != "cpu":
        if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
            raise InputError(
                "this onnxruntime is built without CUDA",
                where=f"--device {device}",
                expected="one that can use the GPU",
                fix="pip uninstall onnxruntime, pip install onnxruntime-gpu; or annotate with --device cpu",
            )
        # TF32 would show in the third digit of a score.
        cuda = {"device_id": int(device.partition(":")[2] or 0), "use_tf32": 0}
        providers = [("CUDAExecutionProvider", cuda), *providers]
    try:
        session = onnxruntime.InferenceSession(path, settings, providers=providers)
    except (Fail, InvalidArgument, InvalidGraph, InvalidProtobuf, NoSuchFile) as e:
        raise InputError(f"cannot be read: {str(e).splitlines()[0]}", where=path, expected="a model in ONNX") from e
    if device != "cpu" and session.get_providers()[0] != "CUDAExecutionProvider":
        raise InputError("onnxruntime cannot start on the GPU", where=f"--device {device}", fix="annotate with --device cpu")
    return session
