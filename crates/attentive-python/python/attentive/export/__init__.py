"""`export_onnx`: a model as an ONNX file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..folder import Folder, read_folder

if TYPE_CHECKING:
    from ..nn import SabLSTM, SabModel


def export_onnx(
    model: str | os.PathLike[str] | SabModel | SabLSTM,
    path: str | os.PathLike[str],
    *,
    step: bool = False,
    inputs: Literal["tokens", "dense"] | None = None,
) -> None:
    """Writes a model as an ONNX file of opset 18, with any batch size and any number of steps.

    Args:
        model: a model folder, a `SabModel`, or a `SabLSTM`.
        path: the file to write.
        step: whether to write one step of a stream instead of a whole sequence.
        inputs: whether inputs are tokens or dense; not needed for a folder.

    The file has the input `x`: tokens `[batch, time]` in int64, or dense inputs `[batch, time, input]`; a step has no
    time. Its outputs are `y` `[batch, time, output]` (not for a `SabLSTM`), `hidden` and `summary`
    `[batch, time, hidden]`, and the state after the last step, `next_...`.

    A file of a step also has the inputs `state_...`: for the next step, feed what `next_...` returned. At the start,
    all of them are zeros with one slot: `state_h` and `state_c` `[batch, hidden]`, `state_memory` and `state_keys`
    `[batch, 1, hidden]`, `state_gone` and `state_received` `[batch, 1]`, `state_last` `[batch, hidden]`, and
    `state_steps` `[]` in int64. Which of them exist depends on the model. All rows of a batch are of the same age.

    Needs the package `onnx`.
    """
    try:
        from .files import model_file
    except ModuleNotFoundError as why:
        raise ImportError("`attentive.export_onnx` needs the package `onnx`: pip install onnx") from why
    path = Path(path)
    path.write_bytes(model_file(described(model, inputs), step))


def described(model: Any, inputs: str | None) -> Folder:
    """The model as a folder holds it; without output tensors for a layer alone."""
    if isinstance(model, str | os.PathLike):
        return read_folder(model)
    lstm, readout, read = getattr(model, "lstm", model), getattr(model, "readout", None), getattr(model, "folder", None)
    if not hasattr(lstm, "options"):
        raise TypeError(f"a {type(model).__name__} cannot be exported: pass a model folder, a SabModel or a SabLSTM")
    if inputs not in ("tokens", "dense") and read is None:
        raise ValueError('pass `inputs="tokens"` or `inputs="dense"`: the layer takes both, a file one')
    tensors = {name: value.detach().numpy().astype(np.float32) for name, value in lstm.named_parameters()}
    size = None
    if readout is not None:
        size = readout.output_size
        tensors |= {f"output.{name}": value.detach().numpy() for name, value in readout.named_parameters()}
    return Folder(lstm.options, bool(read and read.tokens) if inputs is None else inputs == "tokens", size, tensors)
