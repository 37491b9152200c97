"""Checks of tensors before they reach the engine. A message says what is wrong and what to do."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def on_cpu(what: str, tensor: Tensor) -> None:
    """Refuses a tensor that is not an ordinary one in the memory of the CPU."""
    if tensor.device.type != "cpu":
        raise RuntimeError(f"{what} is on {tensor.device}, but the engine computes on the CPU: use `.cpu()`")
    if tensor.layout != torch.strided:
        raise TypeError(f"{what} has layout {tensor.layout}, but a dense tensor is needed: use `.to_dense()`")


def floats(what: str, tensor: Tensor) -> None:
    """Refuses a tensor that is not float32 on the CPU."""
    on_cpu(what, tensor)
    if tensor.dtype != torch.float32:
        raise TypeError(f"{what} is {tensor.dtype}, but the engine computes in float32: use `.float()`")


def sequence(x: Any, input_size: int) -> bool:
    """Checks the input of a call, dense `[batch, time, input]` or tokens `[batch, time]`; True if it is dense."""
    if not isinstance(x, Tensor):
        raise TypeError(f"the input is a {type(x).__name__}, but a tensor or a PackedSequence is needed")
    on_cpu("the input", x)
    if x.dtype in INTEGERS:
        dense, right = False, "[batch, time]"
    else:
        floats("the input", x)
        dense, right = True, f"[batch, time, {input_size}]"
    shape = list(x.shape)
    if len(shape) != (3 if dense else 2) or (dense and shape[2] != input_size) or 0 in shape:
        kind = "dense inputs" if dense else "tokens"
        raise ValueError(f"the input has shape {shape}, but {kind} need {right} with at least one row and one step")
    return dense


def lengths_of(lengths: Any, batch: int, time: int) -> list[int]:
    """Checks the lengths of the rows of a batch."""
    if isinstance(lengths, Tensor):
        if lengths.dtype not in INTEGERS or lengths.dim() != 1:
            shape = list(lengths.shape)
            raise TypeError(f"`lengths` is {lengths.dtype} of shape {shape}, but [batch] whole numbers are needed")
        lengths = lengths.tolist()
    try:
        found = [int(length) for length in lengths if int(length) == length]
        count = len(lengths)
    except (TypeError, ValueError):
        raise TypeError("`lengths` must be a tensor or a list of whole numbers, one for each row") from None
    if count != batch or len(found) != count:
        raise ValueError(f"`lengths` has {count} values, but {batch} whole numbers are needed, one for each row")
    for row, length in enumerate(found):
        if not 1 <= length <= time:
            raise ValueError(f"the length of row {row} is {length}, but it must be from 1 to {time}, the input's steps")
    return found


def mask(what: str, given: Any, shape: tuple[int, ...]) -> Tensor:
    """Checks a mask of this shape."""
    if not isinstance(given, Tensor) or given.dtype != torch.bool:
        found = given.dtype if isinstance(given, Tensor) else type(given).__name__
        raise TypeError(f"`{what}` is {found}, but a tensor of torch.bool is needed")
    on_cpu(f"`{what}`", given)
    if tuple(given.shape) != shape:
        raise ValueError(f"`{what}` has shape {list(given.shape)}, but {list(shape)} is needed")
    return given


def seed_and_number(batch: Any) -> tuple[int, int]:
    """Checks the two numbers from which a random phase is drawn."""
    if not isinstance(batch, tuple) or len(batch) != 2 or not all(type(part) is int for part in batch):
        raise TypeError(f"`batch` is {batch!r}, but a seed and a number of the batch are needed, two whole numbers")
    if not all(0 <= part < 2**64 for part in batch):
        raise ValueError(f"`batch` is {batch!r}, but both numbers must be from 0 and below 2**64")
    return batch[0], batch[1]
