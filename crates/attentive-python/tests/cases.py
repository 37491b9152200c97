"""The goldens of the oracle: cases with inputs, weights, outputs and gradients."""

import functools
import json
from pathlib import Path

from attentive.safetensors import read_tensors

REPOSITORY = Path(__file__).resolve().parents[3]
GOLDENS = REPOSITORY / "oracle" / "goldens"
OPTIONS = (
    "k_top",
    "k_att",
    "k_trunc",
    "trunc_phase",
    "mental_updates",
    "score_gradient",
    "hops",
    "cell",
    "scorer",
    "sparsifier",
    "store",
    "novelty",
    "capacity",
    "evict",
)


@functools.cache
def _file():
    return read_tensors(GOLDENS / "sab_lstm.safetensors")


def names():
    return sorted(name for name in _file()[1] if name.startswith("case_"))


def case(name):
    """The description of a case, the options of its layer, and its tensors without the case's name."""
    tensors, metadata = _file()
    about = json.loads(metadata[name])
    options = {key: about[key] for key in OPTIONS if about.get(key) is not None or key in ("k_trunc", "capacity")}
    mine = {key.removeprefix(f"{name}/"): value for key, value in tensors.items() if key.startswith(f"{name}/")}
    return about, options, mine
