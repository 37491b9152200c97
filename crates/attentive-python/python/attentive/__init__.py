"""Recurrent networks with Sparse Attentive Backtracking, for PyTorch and NumPy."""
from .nn import *
