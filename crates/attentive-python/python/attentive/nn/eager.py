"""Calls that `torch.compile` leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import torch

F = TypeVar("F", bound=Callable[..., object])


def eager(function: F) -> F:
    """The function, run as it is within a compiled model: the engine is no graph of PyTorch's."""
    return cast(F, torch.compiler.disable(function))
