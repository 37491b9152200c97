"""Names of parameters elsewhere: in `nn.LSTM` and `nn.GRU`, and in model folders."""

from __future__ import annotations

from typing import Any

import torch

from .._options import Options


def translate(state_dict: dict[str, Any], prefix: str, options: Options) -> None:
    """Gives the entries of a state dict, whose names begin with `prefix`, the layer's own names, in place."""
    if f"{prefix}weight_ih_l0" in state_dict:
        _from_recurrent(state_dict, prefix, options)
    elif f"{prefix}lstm.weight_ih" in state_dict:
        _from_folder(state_dict, prefix, options)


def _from_recurrent(state_dict: dict[str, Any], prefix: str, options: Options) -> None:
    """PyTorch has two biases. Their sum is the layer's, except for the candidate of a GRU, which keeps both sides."""
    for name in ("weight_ih", "weight_hh"):
        state_dict[prefix + name] = state_dict.pop(f"{prefix}{name}_l0")
    input_side = state_dict.pop(f"{prefix}bias_ih_l0", None)
    hidden_side = state_dict.pop(f"{prefix}bias_hh_l0", None)
    if input_side is None or hidden_side is None:
        state_dict[f"{prefix}bias"] = torch.zeros(4 * options.hidden_size)
    elif options.cell == "gru":
        gates = 2 * options.hidden_size
        sums = input_side[:gates] + hidden_side[:gates]
        state_dict[f"{prefix}bias"] = torch.cat([sums, input_side[gates:], hidden_side[gates:]])
    else:
        state_dict[f"{prefix}bias"] = input_side + hidden_side


def _from_folder(state_dict: dict[str, Any], prefix: str, options: Options) -> None:
    for declared in options.parameters:
        if prefix + declared.name_in_folder in state_dict:
            state_dict[prefix + declared.name] = state_dict.pop(prefix + declared.name_in_folder)
    # The output layer is not part of this one.
    for name in ("output.v1", "output.v2", "output.bias"):
        state_dict.pop(prefix + name, None)
