"""The layer for PyTorch."""

from .lstm import SabLSTM
from .model import SabModel, torch_model
from .output import Reminders, SabOutput
from .readout import SabReadout
from .state import SabState

__all__ = ["Reminders", "SabLSTM", "SabModel", "SabOutput", "SabReadout", "SabState", "torch_model"]
