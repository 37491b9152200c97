"""Writes goldens/model and goldens/model_dense: model folders as the command `sab` writes them, each with an example.

    python make_model_golden.py            write the files
    python make_model_golden.py --check    recompute them and compare them with the committed files

A model is drawn again, with the next attempt's seed, until all of these hold: no two scores that decide the choice are
close, a float32 run of the reference agrees fifty times closer than `check_model.py` requires, many memories are
chosen, and every part of the model matters.
"""

import argparse
import itertools
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load
from torch import Tensor

from check_model import (FOLDER_NAMES, FORMAT, GATES, OUTPUT_NAMES, TOLERANCE, Model, Wrong, build_model, load_example,
                         load_model, read_tensors, run, sizes)
from make_goldens import NORMALISER, SCORE_GAP, serialise
from sab_reference import weight_shapes

GOLDENS = Path(__file__).parent / "goldens"
MODEL, CONFIG, EXAMPLE = "model.safetensors", "config.json", "example.safetensors"
COMMAND = "python make_model_golden.py"
BATCH, TIME, HIDDEN = 3, 25, 12
# How much closer the float32 run of the reference must be.
SAFETY = 50
# If a part of the model is left out, some output changes by at least this.
NOTABLE = 1000 * TOLERANCE
# At least this many different slots have the highest score at some step.
BEST_SLOTS = 6
# Two float64 runs of the reference, rounded to float32, are this close.
ROUND_OFF = TOLERANCE / 100


@dataclass(frozen=True)
class Golden:
    """A model folder: the entries of config.json that differ between folders."""

    folder: str
    task: str
    input: dict
    output: dict | str
    k_top: int | str
    k_att: int
    k_trunc: int | str
    trunc_phase: int | str

    def config(self) -> dict:
        start = {"bound": "auto", "attention_gain": 1.0, "score_gain": 1.0, "forget_bias": 0.0}
        model = {"kind": "sab", "hidden": HIDDEN, "k_top": self.k_top, "k_att": self.k_att, "k_trunc": self.k_trunc,
                 "trunc_phase": self.trunc_phase, "mental_updates": True, "score_gradient": "weights", "hops": "all",
                 "start": start}
        return {"format": FORMAT, "task": self.task, "input": self.input, "output": self.output, "gates": GATES,
                "model": model, "facts": {}}


FOLDERS = [
    Golden("model", "copy", {"tokens": 7}, {"classes": 5}, k_top=3, k_att=2, k_trunc=4, trunc_phase="random"),
    Golden("model_dense", "csv", {"dense": 3}, "value", k_top="all", k_att=1, k_trunc="none", trunc_phase=0),
]


def draw(config: dict, number: int, attempt: int) -> tuple[dict[str, Tensor], str, Tensor]:
    """The tensors of the model, the name of the inputs and the inputs."""
    random = np.random.default_rng([number, attempt])

    def uniform(*shape, scale):
        return torch.from_numpy(random.uniform(-scale, scale, shape).astype(np.float32))

    tokens, inputs, outputs = sizes(config)
    bound = HIDDEN**-0.5
    scales = {"weight_ih": 1.5 * inputs**-0.5, "weight_hh": bound, "bias": bound, "w1": 3 * bound, "w2": 3 * bound,
              "w3": 3.0}
    shapes = weight_shapes("lstm", "additive", inputs, HIDDEN)
    weights = {FOLDER_NAMES[name]: uniform(*shape, scale=scales[name]) for name, shape in shapes.items()}
    output = [uniform(outputs, HIDDEN, scale=1.0), uniform(outputs, HIDDEN, scale=1.0), uniform(outputs, scale=1.0)]
    tensors = weights | dict(zip(OUTPUT_NAMES, output, strict=True))
    if tokens:
        return tensors, "tokens", torch.from_numpy(random.integers(0, inputs, (BATCH, TIME)))
    return tensors, "dense", torch.from_numpy(random.standard_normal((BATCH, TIME, inputs), np.float32))


def changed(model: Model) -> dict[str, Model]:
    """The model with one of its properties ignored or wrong."""
    weights, options, (v1, v2, bias) = model.weights, model.options, model.output
    i, f, g, o = weights.weight_hh.chunk(4)
    k_tops = [5] if options.k_top == "all" else [options.k_top - 1, options.k_top + 1, "all"]
    others = {f"k_top {k_top}": model._replace(options=replace(options, k_top=k_top)) for k_top in [0, *k_tops]}
    others["k_att"] = model._replace(options=replace(options, k_att=options.k_att + 1))
    others["gates i, f, o, g"] = model._replace(weights=weights._replace(weight_hh=torch.cat([i, f, o, g])))
    for name in ("w1", "w2", "w3"):
        others[f"without {name}"] = model._replace(weights=weights._replace(**{name: 0 * getattr(weights, name)}))
    for name in ("w1", "w2"):
        others[f"{name} turned"] = model._replace(weights=weights._replace(**{name: getattr(weights, name).T}))
    others["V1 and V2 exchanged"] = model._replace(output=(v2, v1, bias))
    return others


def complaint(model: Model, inputs: Tensor, outputs: Tensor, scores: list[list[Tensor]]) -> str | None:
    """The reason why a draw is not a good golden."""
    k_top = model.options.k_top
    for step_scores in itertools.chain.from_iterable(scores if k_top != "all" else []):
        if len(step_scores) > k_top:
            # The chosen ones, the threshold, and the next: closer than this, float32 might order them differently.
            top = step_scores.sort(descending=True).values[: k_top + 2]
            if (top[:-1] - top[1:]).min() < SCORE_GAP:
                return "scores nearly tie"
            if (top[:k_top] - top[k_top]).sum() < NORMALISER:
                return "small normaliser"
    if len({int(step_scores.argmax()) for step_scores in itertools.chain.from_iterable(scores)}) < BEST_SLOTS:
        return "few memories are ever the best"
    narrow, _ = run(model.to(torch.float32), inputs)
    if not (narrow.double() - outputs).abs().max() <= TOLERANCE / SAFETY:
        return "float32 disagrees"
    for name, other in changed(model).items():
        if not (run(other, inputs)[0] - outputs).abs().max() >= NOTABLE:
            return f"{name} makes no difference"
    return None


def make(golden: Golden, number: int, attempt: int) -> tuple[dict[str, bytes], str | None]:
    """The files by name, or the reason to reject this attempt."""
    config = golden.config()
    tensors, name, inputs = draw(config, number, attempt)
    model = build_model(config, tensors)
    outputs, scores = run(model, inputs)
    reason = complaint(model, inputs, outputs, scores)
    facts = {"attempt": str(attempt), "command": COMMAND, "torch": torch.__version__.split("+")[0]}
    return {
        MODEL: serialise(tensors, {"command": COMMAND}),
        CONFIG: (json.dumps(config, indent=2) + "\n").encode(),
        EXAMPLE: serialise({name: inputs, "outputs": outputs.float()}, facts),
    }, reason


def first_good(golden: Golden, number: int) -> dict[str, bytes]:
    for attempt in range(2000):
        files, reason = make(golden, number, attempt)
        if reason is None:
            return files
    sys.exit(f"{golden.folder}: {reason}")


def check(golden: Golden, number: int):
    """Compares with the committed files. Another processor or PyTorch version may round outputs differently."""
    folder = GOLDENS / golden.folder
    try:
        load_example(folder / EXAMPLE, load_model(folder))
    except Wrong as why:
        sys.exit(str(why))
    with safe_open(folder / EXAMPLE, "pt") as file:
        attempt = int((file.metadata() or {}).get("attempt", 0))
    files, reason = make(golden, number, attempt)
    if reason is not None:
        sys.exit(f"{golden.folder}: {reason}")
    if all((folder / name).read_bytes() == content for name, content in files.items()):
        print(f"{golden.folder}: identical to the last bit")
        return
    if (folder / CONFIG).read_bytes() != files[CONFIG]:
        sys.exit(f"{golden.folder}: {CONFIG} differs: run {COMMAND} again")
    made = load(files[MODEL]) | load(files[EXAMPLE])
    committed = read_tensors(folder / MODEL) | read_tensors(folder / EXAMPLE)
    for name, value in made.items():
        there = committed[name]
        allowed = ROUND_OFF if name == "outputs" else 0.0
        if (there.shape, there.dtype) != (value.shape, value.dtype) or not (there - value).abs().max() <= allowed:
            sys.exit(f"{golden.folder}: `{name}` differs: run {COMMAND} again")
    print(f"{golden.folder}: the same within {ROUND_OFF:g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the files that are there")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for number, golden in enumerate(FOLDERS):
        if arguments.check:
            check(golden, number)
            continue
        files = first_good(golden, number)
        (GOLDENS / golden.folder).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (GOLDENS / golden.folder / name).write_bytes(content)
        print(f"{golden.folder}: {sum(map(len, files.values())):,} bytes")


if __name__ == "__main__":
    main()
