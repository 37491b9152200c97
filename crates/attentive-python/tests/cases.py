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
    "credit_across_calls",
)


@functools.cache
def _file(file):
    return read_tensors(GOLDENS / f"{file}.safetensors")


def names(file="sab_lstm"):
    return sorted(name for name in _file(file)[1] if name.startswith("case_"))


def case(name, file="sab_lstm"):
    """The description of a case, the options of its layer, and its tensors without the case's name."""
    tensors, metadata = _file(file)
    about = json.loads(metadata[name])
    options = {key: about[key] for key in OPTIONS if about.get(key) is not None or key in ("k_trunc", "capacity")}
    mine = {key.removeprefix(f"{name}/"): value for key, value in tensors.items() if key.startswith(f"{name}/")}
    return about, options, mine
