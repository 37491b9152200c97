"""Recurrent networks with Sparse Attentive Backtracking, for PyTorch and NumPy.

- `SabLSTM`, `SabReadout` and `SabModel` are modules for PyTorch, and `torch_model` reads one from a model folder.
- `load` gives a trained model on NumPy arrays, without PyTorch.
- `save_folder` writes a model of PyTorch for the command `sab`, and `export_onnx` writes it for ONNX.
- `read_run` reads the metrics of a run of `sab train`.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

from . import _engine
from ._engine import State, keep_freed_memory
from .export import export_onnx
from .folder import save_folder
from .numpy_model import NumpyModel, NumpyReminders, load
from .runs import Run, read_run

if TYPE_CHECKING:
    from .nn import Reminders, SabLSTM, SabModel, SabOutput, SabReadout, SabState, torch_model

__version__ = _version("attentive-sab")

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_engine._before_fork, after_in_parent=_engine._after_fork, after_in_child=_engine._after_fork
    )
__all__ = [
    "NumpyModel",
    "NumpyReminders",
    "Reminders",
    "Run",
    "SabLSTM",
    "SabModel",
    "SabOutput",
    "SabReadout",
    "SabState",
    "State",
    "export_onnx",
    "keep_freed_memory",
    "load",
    "read_run",
    "save_folder",
    "torch_model",
]

_OF_TORCH = {"Reminders", "SabLSTM", "SabModel", "SabOutput", "SabReadout", "SabState", "torch_model"}


def __getattr__(name: str) -> Any:
    """PyTorch is imported when something of it is first used, so that the rest works without it."""
    if name not in _OF_TORCH:
        raise AttributeError(f"module `attentive` has no attribute `{name}`")
    try:
        found = getattr(import_module(".nn", __name__), name)
    except ModuleNotFoundError as why:
        if why.name != "torch":
            raise
        hint = "pip install torch, or `attentive.load` for a trained model without it"
        raise ImportError(f"`attentive.{name}` needs PyTorch: {hint}") from why
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
