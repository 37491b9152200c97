"""One full training step of the Python package `attentive-sab`: what a user of PyTorch writes, timed.

    python python_step.py --case copy100 --threads 2 --repeats 10

A step consists of forward, cross-entropy, backward, clipping of the global norm and Adam, like that of `peer.py`, and of
Attentive's own program `training_step`. `compare.py` runs all three in turn. The package must be installed:

    pip install ../crates/attentive-python
"""

import argparse
import json
import os
import statistics
import time

# PyTorch's threads read this when they are first loaded; docs/python.md says what it does.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import attentive
import torch
import torch.nn.functional as F
from torch import nn

from peer import CASES, LARGEST_NORM, LEARNING_RATE


def model_of(name: str) -> attentive.SabModel:
    """The layer and its output layer."""
    case = CASES[name]
    k_trunc, k_top, k_att = case.sab or (None, 0, 1)
    layer = attentive.SabLSTM(case.inputs, case.hidden, k_top, k_att, k_trunc, trunc_phase=0)
    return attentive.SabModel(layer, attentive.SabReadout(case.hidden, case.classes))


def measure(name: str, warmup: int, repeats: int) -> list[float]:
    """Milliseconds of each step."""
    case = CASES[name]
    torch.manual_seed(1)
    model = model_of(name)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=True)
    shape = (case.batch, case.steps)
    inputs = torch.randint(case.inputs, shape) if case.tokens else torch.randn(*shape, case.inputs)
    targets = torch.randint(case.classes, (case.batch,) if case.loss_on_last_step else shape).flatten()
    milliseconds = []
    for _ in range(warmup + repeats):
        start = time.perf_counter()
        optimizer.zero_grad()
        scores, _ = model(inputs, last=case.loss_on_last_step)
        F.cross_entropy(scores.flatten(0, -2), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), LARGEST_NORM)
        optimizer.step()
        milliseconds.append(round((time.perf_counter() - start) * 1e3, 3))
    return milliseconds[warmup:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=[*CASES, "all"], default="all")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    attentive.keep_freed_memory()
    for name in CASES if arguments.case == "all" else [arguments.case]:
        milliseconds = measure(name, arguments.warmup, arguments.repeats)
        print(json.dumps({
            "case": name, "torch": torch.__version__, "threads": arguments.threads, "milliseconds": milliseconds,
            "best": min(milliseconds), "median": statistics.median(milliseconds),
        }), flush=True)


if __name__ == "__main__":
    main()
