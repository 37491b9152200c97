"""Runs a model folder written by `sab` with the reference, and compares the outputs with Attentive's.

    python check_model.py FOLDER EXAMPLE.safetensors

FOLDER holds `model.safetensors` and `config.json`. The example has `tokens` [batch, time] (int64 or int32) or `dense`
[batch, time, input] (float32), depending on the model, and `outputs` [batch, time, output] (float32): the output of
every step from a fresh state. The reference runs in float64. The program prints one line of JSON to standard output. If
a file is invalid or the outputs differ, it prints a message to standard error and exits with status 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from sab_reference import CELLS, SCORERS, SPARSIFIERS, Options, Weights, output_layer, sab_lstm, weight_shapes

TOLERANCE = 1e-4
FORMAT = 1
GATES = "i, f, g, o"  # of an LSTM
GATES_OF = {"lstm": GATES, "gru": "r, z, n"}
# The names of `Weights` and of the output layer in a model folder. The cell's prefix is `lstm.` for either cell.
FOLDER_NAMES = {name: ("lstm." if name in ("weight_ih", "weight_hh", "bias") else "attention.") + name
                for name in Weights._fields}
OUTPUT_NAMES = ("output.v1", "output.v2", "output.bias")


class Wrong(Exception):
    """An error in a file, to be reported to the user."""


class Model(NamedTuple):
    weights: Weights
    output: tuple[Tensor, Tensor, Tensor]  # V1, V2 and b of R8
    options: Options
    tokens: bool  # or dense inputs

    def to(self, dtype: torch.dtype) -> Model:
        weights = Weights(**{name: tensor.to(dtype) for name, tensor in self.weights.present().items()})
        return self._replace(weights=weights, output=tuple(tensor.to(dtype) for tensor in self.output))


class Example(NamedTuple):
    inputs: Tensor  # [batch, time] int64 or [batch, time, input] float32
    outputs: Tensor  # [batch, time, output] float32


def is_count(value: object, least: int) -> bool:
    return type(value) is int and value >= least  # True and False are ints, but not counts


def sizes(config: dict) -> tuple[bool, int, int]:
    """Whether the inputs are tokens, the input's size and the output's."""
    match config.get("input"):
        case {"tokens": inputs, **others} if is_count(inputs, 1) and not others:
            tokens = True
        case {"dense": inputs, **others} if is_count(inputs, 1) and not others:
            tokens = False
        case other:
            raise Wrong(f'`input` is {json.dumps(other)}, not {{"tokens": n}} or {{"dense": n}}')
    match config.get("output"):
        case {"classes": outputs, **others} if is_count(outputs, 1) and not others:
            return tokens, inputs, outputs
        case "value":
            return tokens, inputs, 1
        case other:
            raise Wrong(f'`output` is {json.dumps(other)}, not {{"classes": n}} or "value"')


def options_of(settings: dict) -> Options:
    """The options of the reference. Options that only affect gradients are checked too.

    A missing part means the default. `novelty` has no default if the store uses it.
    """

    def read(key: str, least: int | None = None, words: tuple = (), absent=None):
        value = settings.get(key, absent)
        if least is not None and is_count(value, least):
            return value
        if any(type(value) is type(word) and value == word for word in words):  # 1 is not True
            return value
        allowed = [f"a number from {least}"] * (least is not None) + [json.dumps(word) for word in words]
        raise Wrong(f"`model.{key}` is {json.dumps(value)}, not {' or '.join(allowed)}")

    def read_novelty() -> float | None:
        value = settings.get("novelty")
        if type(value) in (int, float) and 0 <= value < float("inf"):
            return float(value)
        if value is None and settings.get("store", "every") != "novelty":
            return None
        raise Wrong(f"`model.novelty` is {json.dumps(value)}, not a number from 0")

    k_trunc, phase = read("k_trunc", 1, ("none",)), read("trunc_phase", 0, ("random",))
    capacity = read("capacity", 1, ("none", None))
    return Options(
        k_top=read("k_top", 0, ("all",)),
        k_att=read("k_att", 1),
        k_trunc=None if k_trunc == "none" else k_trunc,
        trunc_phase=0 if phase == "random" else phase,  # it only affects gradients
        score_gradient=read("score_gradient", words=("weights", "full")),
        mental_updates=read("mental_updates", words=(True, False)),
        hops=read("hops", words=("all", "one")),
        cell=read("cell", words=tuple(CELLS), absent="lstm"),
        scorer=read("scorer", words=tuple(SCORERS), absent="additive"),
        sparsifier=read("sparsifier", words=tuple(SPARSIFIERS), absent="prominence"),
        store=read("store", words=("every", "novelty"), absent="every"),
        novelty=read_novelty(),
        capacity=None if capacity == "none" else capacity,
        evict=read("evict", words=("oldest", "least-attended"), absent="oldest"),
    )


def check_tensors(tensors: dict[str, Tensor], shapes: dict[str, tuple], dtypes: dict[str, tuple]):
    """Checks names, shapes and types against `shapes`; None allows any size but 0."""
    if missing := [name for name in shapes if name not in tensors]:
        raise Wrong(f"there is no `{missing[0]}`; there are {', '.join(sorted(tensors)) or 'no tensors'}")
    if unknown := sorted(tensors.keys() - shapes.keys()):
        raise Wrong(f"`{unknown[0]}` is not known; wanted are {', '.join(shapes)}")
    for name, shape in shapes.items():
        tensor, found = tensors[name], tuple(tensors[name].shape)
        fits = len(found) == len(shape) and all(size == (wanted or size) for size, wanted in zip(found, shape))
        if not fits or 0 in found:
            wanted = ", ".join("any" if size is None else str(size) for size in shape)
            raise Wrong(f"`{name}` has shape {list(found)}, not [{wanted}]")
        if tensor.dtype not in dtypes[name]:
            wanted = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes[name])
            raise Wrong(f"`{name}` is {str(tensor.dtype).removeprefix('torch.')}, not {wanted}")
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise Wrong(f"`{name}` holds a NaN or an infinity")


def build_model(config: object, tensors: dict[str, Tensor]) -> Model:
    """The model described by the contents of a model folder, in float64."""
    if not isinstance(config, dict) or not isinstance(config.get("model"), dict):
        raise Wrong("config.json does not describe a model")
    settings = config["model"]
    if settings.get("kind") != "sab":
        raise Wrong(f'the model is of kind {json.dumps(settings.get("kind"))}; the reference knows only "sab"')
    gates = GATES_OF.get(str(settings.get("cell")), GATES)
    if config.get("format") != FORMAT or config.get("gates") != gates:
        raise Wrong(f"config.json has format {json.dumps(config.get('format'))} and gates "
                    f"{json.dumps(config.get('gates'))}, not {FORMAT} and {json.dumps(gates)}")
    hidden = settings.get("hidden")
    if not is_count(hidden, 1):
        raise Wrong(f"`model.hidden` is {json.dumps(hidden)}, not a number from 1")
    tokens, inputs, outputs = sizes(config)
    options = options_of(settings)
    weights = weight_shapes(options.cell, options.scorer, inputs, hidden)
    shapes = {FOLDER_NAMES[name]: shape for name, shape in weights.items()}
    shapes |= dict(zip(OUTPUT_NAMES, [(outputs, hidden), (outputs, hidden), (outputs,)]))
    check_tensors(tensors, shapes, dict.fromkeys(shapes, (torch.float32,)))
    return Model(Weights(**{name: tensors[FOLDER_NAMES[name]].double() for name in weights}),
                 tuple(tensors[name].double() for name in OUTPUT_NAMES), options, tokens)


def read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError, KeyError) as why:  # a KeyError is a dtype that PyTorch does not have
        raise Wrong(f"cannot read {path}: {why}") from why


def load_model(folder: Path) -> Model:
    """A model folder, in float64."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as why:
        raise Wrong(f"cannot read {folder / 'config.json'}: {why}") from why
    tensors = read_tensors(folder / "model.safetensors")
    try:
        return build_model(config, tensors)
    except Wrong as why:
        raise Wrong(f"{folder}: {why}") from why


def load_example(path: Path, model: Model) -> Example:
    """An example file that fits the model."""
    tensors = read_tensors(path)
    inputs, outputs = model.weights.weight_ih.shape[1], len(model.output[0])
    name, shape, dtypes = (("tokens", (None, None), (torch.int64, torch.int32)) if model.tokens else
                           ("dense", (None, None, inputs), (torch.float32,)))
    try:
        steps = tuple(tensors[name].shape[:2]) if name in tensors else (None, None)
        check_tensors(tensors, {name: shape, "outputs": (*steps, outputs)}, {name: dtypes, "outputs": (torch.float32,)})
        if model.tokens and not (0 <= tensors[name].min() and tensors[name].max() < inputs):
            raise Wrong(f"`tokens` are not all from 0 to {inputs - 1}")
    except Wrong as why:
        raise Wrong(f"{path}: {why}") from why
    return Example(tensors[name].long() if model.tokens else tensors[name], tensors["outputs"])


@torch.no_grad()
def run(model: Model, inputs: Tensor) -> tuple[Tensor, list[list[Tensor]]]:
    """The output of every step in the model's dtype, [batch, time, output], and the scores (see `Output`)."""
    inputs = inputs if model.tokens else inputs.to(model.weights.bias.dtype)
    result = sab_lstm(inputs, model.weights, model.options)
    return output_layer(result.hidden, result.summary, *model.output), result.scores


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder with model.safetensors and config.json")
    parser.add_argument("example", type=Path, help="a file with tokens or dense, and outputs")
    parsed = parser.parse_args(arguments)
    torch.set_num_threads(1)
    try:
        model = load_model(parsed.folder)
        example = load_example(parsed.example, model)
    except Wrong as why:
        sys.exit(str(why))
    expected, _ = run(model, example.inputs)
    difference = (example.outputs.double() - expected).abs()
    largest = difference.max().item()
    print(json.dumps({"largest_difference": largest, "tolerance": TOLERANCE, "outputs": list(expected.shape)}))
    if not largest <= TOLERANCE:
        place = row, step, output = tuple(int(i) for i in torch.unravel_index(difference.argmax(), difference.shape))
        sys.exit(f"the outputs differ by {largest:.1e}, more than {TOLERANCE:g}: output {output} of row {row}, step "
                 f"{step}, all from 0, is {example.outputs[place]:.7g}, the reference has {expected[place]:.7g}")


if __name__ == "__main__":
    main()
