"""Times one step of a stream, one row and 128 units, in Attentive and in eager PyTorch, and prints a table.

    python stream_step.py RUN                      # 64, 1000, 10000 and 100000 memories
    python stream_step.py RUN --memories 64 1000

RUN is a run directory of the copy task. Attentive's side is the example `stream_step`. PyTorch's side is the same model
without gradient, with the keys of all memories kept beside them in tensors that have room for more: the cell, one query,
the scores of all memories, the 6 best, the summary, and the key of the new memory. Rounds of the two programs alternate,
each reports the best of its medians, and both use one thread.
"""

import argparse
import json
import os
import statistics
import subprocess
import time
from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).resolve().parent
HIDDEN, INPUTS, K_TOP = 128, 10, 5
STEPS, ROUNDS = 100, 11


class Stream:
    """Algorithm 1 step by step, with a memory that has room for `room` states."""

    def __init__(self, memories: int, room: int):
        torch.manual_seed(0)
        self.cell = nn.LSTMCell(INPUTS, HIDDEN)
        self.w1, self.w2, self.w3 = (nn.Linear(HIDDEN, size, bias=False) for size in (HIDDEN, HIDDEN, 1))
        self.memories = torch.rand(room, HIDDEN) - 0.5
        self.keys = self.w1(self.memories)
        self.held = memories
        self.h = self.c = torch.zeros(1, HIDDEN)

    def step(self, x: torch.Tensor):
        h_hat, self.c = self.cell(x, (self.h, self.c))
        scores = self.w3(torch.tanh(self.keys[: self.held] + self.w2(h_hat))).squeeze(1)
        best, places = torch.topk(scores, K_TOP + 1)
        weights = torch.relu(best - best[-1])
        summary = (weights / weights.sum().clamp_min(1e-30)) @ self.memories[places]
        self.h = h_hat + summary
        self.memories[self.held] = self.h[0]
        self.keys[self.held] = self.w1(self.h)[0]
        self.held += 1


@torch.no_grad()
def eager(memories: int) -> float:
    """The median of some rounds, in microseconds per step."""
    x = torch.zeros(1, INPUTS)
    x[0, 0] = 1
    rounds = []
    for _ in range(ROUNDS):
        stream = Stream(memories, memories + STEPS + 1)
        stream.step(x)
        start = time.perf_counter()
        for _ in range(STEPS):
            stream.step(x)
        rounds.append((time.perf_counter() - start) / STEPS * 1e6)
    return statistics.median(rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--memories", type=int, nargs="+", default=[64, 1000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the measurements to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    build = ["cargo", "build", "--release", "--quiet", "--workspace", "--example", "stream_step"]
    subprocess.run(build, check=True, cwd=HERE.parent)
    target = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target"))
    ours = [str(target / "release" / "examples" / "stream_step"), arguments.run, *map(str, arguments.memories)]
    attentive = dict.fromkeys(arguments.memories, float("inf"))
    torch_step = dict(attentive)
    for _ in range(arguments.rounds):
        for line in subprocess.run(ours, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines():
            result = json.loads(line)
            attentive[result["memories"]] = min(attentive[result["memories"]], result["microseconds"])
        for memories in arguments.memories:
            torch_step[memories] = min(torch_step[memories], eager(memories))
    print("| memories | attentive, us | PyTorch eager, us | ratio |\n|---|---|---|---|")
    for memories in arguments.memories:
        ratio = torch_step[memories] / attentive[memories]
        print(f"| {memories} | {attentive[memories]:.1f} | {torch_step[memories]:.0f} | {ratio:.0f} |")
    if arguments.json:
        measured = [{"memories": m, "attentive_us": attentive[m], "pytorch_us": torch_step[m]} for m in arguments.memories]
        document = {"threads": 1, "torch": torch.__version__, "rounds": arguments.rounds, "measurements": measured}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
