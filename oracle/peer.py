"""The PyTorch peer in benchmarks: one full training step of the same model, eager, float32, on the CPU.

    python peer.py --case copy100 --threads 2 --repeats 10

A step consists of forward, cross-entropy, backward, clipping of the global norm and Adam. The program prints one line of
JSON per case. The model is SAB with `score_gradient = weights`, all hops, mental updates and phase 0, in three styles:

- `modules` is built from torch.nn: an `LSTMCell`, `Linear` layers and a list of memories, with W1 m computed once per
  memory.
- `plain` is eager autograd with the cell written out. The input projection is hoisted out of the loop, and memories and
  keys are two growing tensors.
- `tuned` uses everything found to make PyTorch faster, including custom autograd functions. Most of the gain comes from
  `peer_memory.py`.

`test_peer.py` compares all three with the reference.
"""

import argparse
import ctypes
import json
import statistics
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from peer_memory import ChosenMemories, EveryMemory, PlainMemory, shares_of

LEARNING_RATE = 1e-3
LARGEST_NORM = 1.0


@dataclass(frozen=True)
class Case:
    inputs: int  # symbols if tokens, else channels
    classes: int
    steps: int
    batch: int = 64
    hidden: int = 128
    tokens: bool = True
    loss_on_last_step: bool = False
    sab: tuple[int, int, int] | None = None  # k_trunc, k_top, k_att; None is nn.LSTM


CASES = {
    "copy100": Case(inputs=10, classes=9, steps=120, sab=(5, 5, 2)),
    "copy300": Case(inputs=10, classes=9, steps=320, sab=(5, 5, 2)),
    "lstm100": Case(inputs=10, classes=9, steps=120),
    "last784": Case(inputs=1, classes=10, steps=784, tokens=False, loss_on_last_step=True, sab=(50, 10, 50)),
    "chars": Case(inputs=50, classes=50, steps=100, batch=32, hidden=1000, sab=(20, 10, 20)),
}


class SabLstm(nn.Module):
    """Algorithm 1; its weights as `sab_reference.Weights`, but weight_ih as a table to look tokens up in."""

    def __init__(self, inputs: int, hidden: int, k_trunc: int, k_top: int, k_att: int, style: str = "tuned"):
        super().__init__()
        self.style = style
        self.k_trunc, self.k_top, self.k_att = k_trunc, k_top, k_att
        self.input_table = nn.Parameter(torch.empty(inputs, 4 * hidden))
        self.weight_hh = nn.Parameter(torch.empty(4 * hidden, hidden))
        self.bias = nn.Parameter(torch.empty(4 * hidden))
        self.w1 = nn.Parameter(torch.empty(hidden, hidden))
        self.w2 = nn.Parameter(torch.empty(hidden, hidden))
        self.w3 = nn.Parameter(torch.empty(hidden))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(hidden**-0.5), hidden**-0.5)

    def project(self, inputs: Tensor) -> Tensor:
        """W_ih x + b for the whole sequence. [time, batch] or [time, batch, input] -> [time, batch, 4 * hidden]"""
        if inputs.is_floating_point():
            return F.linear(inputs, self.input_table.t(), self.bias)
        return F.embedding(inputs, self.input_table + self.bias)

    def forward(self, inputs: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """h and s of every step, each [batch, hidden], from inputs [time, batch] or [time, batch, input]."""
        steps, batch = inputs.shape[:2]
        slots = steps // self.k_att + 1
        # Reading all of a few memories costs less than choosing among them.
        tuned = ChosenMemories if slots > 4 * self.k_top else EveryMemory
        memory_kind = PlainMemory if self.style == "plain" else tuned
        memory = memory_kind(self.w1, self.w2, self.w3, self.k_top, slots, batch)
        weight_hh = self.weight_hh.t()
        h = c = self.w3.new_zeros(batch, len(self.w3))
        hidden, summaries = [], []
        for step, projected in enumerate(self.project(inputs).unbind(0), start=1):
            i, f, g, o = torch.addmm(projected, h, weight_hh).chunk(4, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h_hat = torch.sigmoid(o) * torch.tanh(c)
            summary = memory.remind(h_hat)
            h = h_hat + summary
            hidden.append(h)
            summaries.append(summary)
            if step % self.k_att == 0:
                memory.store(h)
            if step % self.k_trunc == 0:
                h, c = h.detach(), c.detach()
        return hidden, summaries


class ModulesSabLstm(nn.Module):
    """The same, built from torch.nn. The cell needs dense inputs, and one-hot is the cheapest."""

    def __init__(self, inputs: int, hidden: int, k_trunc: int, k_top: int, k_att: int):
        super().__init__()
        self.k_trunc, self.k_top, self.k_att = k_trunc, k_top, k_att
        self.cell = nn.LSTMCell(inputs, hidden)
        self.w1 = nn.Linear(hidden, hidden, bias=False)
        self.w2 = nn.Linear(hidden, hidden, bias=False)
        self.w3 = nn.Linear(hidden, 1, bias=False)

    def forward(self, inputs: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """As `SabLstm.forward`."""
        like = self.w3.weight
        x = inputs if inputs.is_floating_point() else F.one_hot(inputs, self.cell.input_size).to(like.dtype)
        h = c = like.new_zeros(x.shape[1], self.cell.hidden_size)
        memories, keys = [h], [h]
        hidden, summaries = [], []
        for step in range(1, len(x) + 1):
            h_hat, c = self.cell(x[step - 1], (h, c))
            query = self.w2(h_hat.detach())
            scores = self.w3(torch.tanh(torch.stack(keys, dim=1) + query.unsqueeze(1))).squeeze(2)
            shares = shares_of(scores, self.k_top)
            summary = torch.bmm(shares.unsqueeze(1), torch.stack(memories, dim=1)).squeeze(1)
            h = h_hat + summary
            hidden.append(h)
            summaries.append(summary)
            if step % self.k_att == 0:
                memories.append(h)
                keys.append(self.w1(h.detach()))
            if step % self.k_trunc == 0:
                h, c = h.detach(), c.detach()
        return hidden, summaries


class SabModel(nn.Module):
    """SAB-LSTM and output layer, y = V1 h + V2 s + b, on all steps or on the last."""

    def __init__(self, case: Case, style: str):
        super().__init__()
        if style == "modules":
            self.lstm = ModulesSabLstm(case.inputs, case.hidden, *case.sab)
        else:
            self.lstm = SabLstm(case.inputs, case.hidden, *case.sab, style)
        self.v1 = nn.Linear(case.hidden, case.classes)
        self.v2 = nn.Linear(case.hidden, case.classes, bias=False)
        self.loss_on_last_step = case.loss_on_last_step

    def forward(self, inputs: Tensor) -> Tensor:
        """[time * batch, classes], or [batch, classes] for the last step alone."""
        hidden, summaries = self.lstm(inputs)
        if self.loss_on_last_step:
            return self.v1(hidden[-1]) + self.v2(summaries[-1])
        return (self.v1(torch.stack(hidden)) + self.v2(torch.stack(summaries))).flatten(0, 1)


class LstmModel(nn.Module):
    """nn.LSTM with full backpropagation through time. It needs dense inputs, and one-hot is the cheapest."""

    def __init__(self, case: Case):
        super().__init__()
        self.inputs = case.inputs
        self.lstm = nn.LSTM(case.inputs, case.hidden)
        self.output = nn.Linear(case.hidden, case.classes)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.output(self.lstm(F.one_hot(inputs, self.inputs).float())[0]).flatten(0, 1)


def copy_batch(case: Case) -> tuple[Tensor, Tensor]:
    """10 digits, blanks, the end marker, 10 blanks. The targets are the digits, in the last 10 steps."""
    inputs = torch.zeros(case.steps, case.batch, dtype=torch.int64)
    targets = torch.zeros_like(inputs)
    inputs[:10] = targets[-10:] = torch.randint(1, 9, (10, case.batch))
    inputs[-11] = 9
    return inputs, targets


def batch_for(name: str, case: Case) -> tuple[Tensor, Tensor]:
    """Time first, so that a step is one contiguous piece."""
    if name == "chars":
        text = torch.randint(0, case.inputs, (case.steps + 1, case.batch))
        return text[:-1].contiguous(), text[1:].contiguous()
    if case.loss_on_last_step:
        return torch.rand(case.steps, case.batch, case.inputs), torch.randint(0, case.classes, (case.batch,))
    return copy_batch(case)


def measure(name: str, style: str, warmup: int, repeats: int) -> list[float]:
    """Milliseconds of each training step."""
    case = CASES[name]
    torch.manual_seed(0)
    model = LstmModel(case) if case.sab is None else SabModel(case, style)
    # The fused kernel is faster than PyTorch's default on the CPU.
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=style == "tuned" or None)
    inputs, targets = batch_for(name, case)
    milliseconds = []
    for _ in range(warmup + repeats):
        start = time.perf_counter()
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), targets.flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), LARGEST_NORM)
        optimizer.step()
        milliseconds.append(round((time.perf_counter() - start) * 1e3, 3))
    return milliseconds[warmup:]


def keep_freed_memory():
    """Lets glibc reuse large blocks. Otherwise each step maps and clears fresh pages, which takes up to a fifth of its time."""
    trim_threshold, mmap_threshold = -1, -3
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc
        return
    mallopt(mmap_threshold, 2**30)
    mallopt(trim_threshold, 2**31 - 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=[*CASES, "all"], default="all")
    parser.add_argument("--style", choices=["modules", "plain", "tuned"], default="plain")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.style == "tuned":
        keep_freed_memory()
    for name in CASES if arguments.case == "all" else [arguments.case]:
        milliseconds = measure(name, arguments.style, arguments.warmup, arguments.repeats)
        print(json.dumps({
            "case": name, "style": arguments.style, "torch": torch.__version__, "threads": arguments.threads, "milliseconds": milliseconds,
            "best": min(milliseconds), "median": statistics.median(milliseconds),
        }), flush=True)


if __name__ == "__main__":
    main()
