"""The layer for PyTorch."""

from .lstm import Reminders, SabLSTM, SabOutput
from .model import SabModel, torch_model
from .readout import SabReadout
from .state import SabState

__all__ = ["Reminders", "SabLSTM", "SabModel", "SabOutput", "SabReadout", "SabState", "torch_model"]
