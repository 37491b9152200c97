"""Writes goldens/sab_lstm.safetensors: inputs, outputs and gradients of the reference in float64.

    python make_goldens.py            write the file
    python make_goldens.py --check    recompute it and compare it with the committed file

A case is drawn again, with the next attempt's seed, until a float32 run of the same reference agrees with the float64
run twenty times closer than the tolerance for other implementations. If a choice of memories depends on the last bits,
or gradients explode, no two programs agree, and a golden would test nothing.
"""

import argparse
import itertools
import json
import struct
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save

from golden_cases import Case, all_cases
from sab_reference import Options, Output, State, Weights, fresh_state, sab_lstm, weight_shapes

GOLDENS = Path(__file__).parent / "goldens" / "sab_lstm.safetensors"

# The tolerances for another implementation in float32.
OUTPUT_TOLERANCE = 1e-5  # of the largest element of the output, or of 1
GRADIENT_TOLERANCE = 1e-4  # of the largest element of the same gradient, see `gradient_scale`
# How much closer the float32 run of the reference must be.
SAFETY = 20
# No two scores around the threshold are closer than this, and no normaliser sum(w) is smaller.
SCORE_GAP = 1e-3
NORMALISER = 5e-2
# |h - last| / |h| stays this far from the threshold (a share of the threshold if that is above 1).
NOVELTY_GAP = 1e-3
# The received weights of the two least attended memories differ by this, or both are exactly zero.
RECEIVED_GAP = 1e-4
# A vector whose direction matters has at least this length, unless it is zero.
COSINE_LENGTH = 2e-2
LARGEST_GRADIENT = 100.0
# A gradient that is zero in exact arithmetic (k_top = 1: a single weight is always 1) is stored as zero.
ROUND_OFF = 1e-12


def draw(case: Case, number: int, attempt: int) -> dict[str, torch.Tensor]:
    """Inputs, weights, cotangents and carried state, exact in float32 so that both precisions get the same values."""
    random = np.random.default_rng([number, attempt])

    def uniform(*shape, scale):
        return torch.from_numpy(random.uniform(-scale, scale, shape).astype(np.float32)).double()

    def normal(*shape):
        return torch.from_numpy(random.standard_normal(shape, np.float32)).double()

    hidden = case.hidden
    bound = hidden**-0.5
    scales = {"weight_ih": 1.5 * max(bound, case.inputs**-0.5), "weight_hh": bound, "bias": bound, "w1": 3 * bound,
              "w2": 3 * bound, "w3": 3.0, "temperature": 1.0}
    shapes = weight_shapes(case.options.cell, case.options.scorer, case.inputs, hidden)
    tensors = {name: uniform(*shape, scale=scales[name]) for name, shape in shapes.items()}
    if "temperature" in tensors:
        tensors["temperature"] += 3.0
    if case.tokens:
        tensors["tokens"] = torch.from_numpy(random.integers(0, case.inputs, (case.batch, case.time)))
    else:
        tensors["x"] = normal(case.batch, case.time, case.inputs)
    for output in ("hidden", "summary"):
        cotangent = normal(case.batch, case.time, hidden)
        if case.loss_on_last_step:
            cotangent[:, :-1] = 0
        tensors[f"cotangent/{output}"] = cotangent
    if case.carried is not None:
        state = draw_state(case, random, Weights(**{name: tensors[name] for name in shapes}))
        tensors |= {f"state/{name}": value for name, value in state._asdict().items() if value is not None}
    return tensors


def draw_state(case: Case, random: np.random.Generator, weights: Weights) -> State:
    """A carried state (R14): each row has run for its own number of steps."""
    cell, has_c = case.options.cell, case.options.cell == "lstm"
    fresh = fresh_state(case.batch, case.hidden, torch.float64, cell)
    if case.carried == "initial hidden state":  # h(0) is not zero, and the null slot holds it (R2)
        h, c = torch.from_numpy(random.uniform(-0.5, 0.5, (2, case.batch, case.hidden)).astype(np.float32)).double()
        return fresh._replace(h=h, c=c if has_c else None, memory=h[:, None].clone())

    rows = []
    for steps in case.carried:
        x = torch.from_numpy(random.standard_normal((1, steps, case.inputs)))
        one = fresh_state(1, case.hidden, torch.float64, cell)
        rows.append(sab_lstm(x, weights, case.options, one).state if steps else one)

    def joined(name: str) -> torch.Tensor:
        return torch.cat([getattr(row, name) for row in rows])

    def slots_joined(name: str, padding: int = 0) -> torch.Tensor:
        kept = [getattr(row, name)[0, -case.slots_kept :] if case.slots_kept else getattr(row, name)[0] for row in rows]
        return torch.nn.utils.rnn.pad_sequence(kept, batch_first=True, padding_value=padding)

    slot_steps = slots_joined("slot_steps", padding=-1)
    return State(
        h=joined("h").float().double(),
        c=joined("c").float().double() if has_c else None,
        memory=slots_joined("memory").float().double(),
        slots=(slot_steps >= 0).sum(dim=1),
        steps=joined("steps"),
        slot_steps=slot_steps,
        received=slots_joined("received").float().double(),
    )


def evaluate(tensors: dict[str, torch.Tensor], options: Options, dtype: torch.dtype,
             state: State | None = None) -> tuple[dict, Output]:
    """Outputs and gradients in the form that is stored, and the result of the reference.

    The call starts from `state`, or from the state in `tensors`, or from fresh rows.
    """
    cast = {n: t.to(dtype) if t.is_floating_point() else t for n, t in tensors.items()}
    leaves = {n: cast[n].clone().requires_grad_() for n in (*Weights._fields, "x") if n in cast}
    weights = Weights(**{name: leaf for name, leaf in leaves.items() if name != "x"})
    if "state/h" in cast:
        state = State(**{name: cast.get(f"state/{name}") for name in State._fields})
    output = sab_lstm(leaves["x"] if "x" in leaves else cast["tokens"], weights, options, state)
    loss = (output.hidden * cast["cotangent/hidden"]).sum() + (output.summary * cast["cotangent/summary"]).sum()
    loss.backward()

    results = {"out/hidden": output.hidden.detach(), "out/summary": output.summary.detach()}
    for name, value in output.state._asdict().items():
        if isinstance(value, torch.Tensor):
            results[f"out/final_{name}" if name in ("h", "c") else f"out/{name}"] = value
    for name, leaf in leaves.items():
        grad = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        results[f"grad/{name}"] = torch.zeros_like(grad) if grad.abs().max() < ROUND_OFF else grad
    return results, output


def gradient_scale(results: dict[str, torch.Tensor], name: str) -> float:
    """The largest element of a gradient, or 1 % of the case's largest, so that a tiny gradient has a fair tolerance."""
    largest = max(value.abs().max().item() for key, value in results.items() if key.startswith("grad/"))
    return max(results[name].abs().max().item(), 0.01 * largest)


def close_choice(tensors: dict[str, torch.Tensor], output: Output, options: Options) -> str | None:
    """A choice that might come out differently in float32."""
    if options.k_top not in (0, "all"):
        for scores in itertools.chain.from_iterable(output.scores):
            if len(scores) > options.k_top:
                top = scores.sort(descending=True).values[: options.k_top + 2]
                gaps = top[:-1] - top[1:]  # the last two: on either side of the threshold
                if (gaps[-2:] if options.sparsifier == "prominence" else gaps[options.k_top - 1]).min() < SCORE_GAP:
                    return "scores nearly tie"
                normaliser = (top[: options.k_top] - top[options.k_top]).sum()
                if options.sparsifier == "prominence" and normaliser < NORMALISER:
                    return "small normaliser"
    for novelty in itertools.chain.from_iterable(output.novelties):
        if not abs(novelty - options.novelty) >= NOVELTY_GAP * max(1.0, options.novelty):
            return "barely new"
    for received in itertools.chain.from_iterable(output.contenders):
        least = received.sort().values[:2]
        if len(least) == 2 and least[1] - least[0] < RECEIVED_GAP and least.any():
            return "received nearly the same"
    if options.scorer == "cosine":
        vectors = [output.hidden - output.summary, output.hidden, tensors.get("state/memory", output.hidden)]
        for vector in vectors:  # every h_hat, every h that may be stored, and the memories stored before
            lengths = (vector.detach() @ tensors["w1"].T).norm(dim=-1)
            if ((0 < lengths) & (lengths < COSINE_LENGTH)).any():
                return "a short vector"
    return None


def complaint(results, narrow_results) -> str | None:
    """The reason why float32 cannot reproduce a case, if there is one."""
    for name, value in results.items():
        if narrow_results[name].shape != value.shape:
            return f"float32 disagrees on {name}"
        error = (narrow_results[name].double() - value.double()).abs().max().item()
        if name.startswith("out/"):
            allowed = OUTPUT_TOLERANCE * max(1.0, value.abs().max().item())
        else:
            allowed = GRADIENT_TOLERANCE * gradient_scale(results, name)
            if value.abs().max() > LARGEST_GRADIENT:
                return "large gradient"
        if not error <= allowed / SAFETY:
            return f"float32 disagrees on {name}"
    return None


def same_gradients(changed, results) -> bool:
    """Whether a test could hardly tell one result from the other."""
    difference = max((changed[key] - results[key]).abs().max().item() / gradient_scale(results, key)
                     for key in results if key.startswith("grad/"))
    return difference < 30 * GRADIENT_TOLERANCE


def indifferent_to(tensors, results, case: Case) -> str | None:
    """An option that could be ignored without changing the gradients: then the case would not test it."""
    options = case.options
    others = {}
    if options.k_trunc not in (None, 1):
        others["trunc_phase"] = options.trunc_phase + 1
    if options.k_top != 0:
        others["mental_updates"] = not options.mental_updates
        if options.mental_updates:
            others["hops"] = {"all": "one", "one": "all"}[options.hops]
        if options.k_top != 1:  # a single weight is always 1, and the scores have no gradient
            others["score_gradient"] = {"weights": "full", "full": "weights"}[options.score_gradient]
        if options.sparsifier != "prominence":
            others["sparsifier"] = "prominence"
        if options.store != "every":
            others["store"] = "every"
        if options.capacity is not None:
            others["capacity"] = options.capacity + 1
            if options.capacity > 1:
                others["evict"] = {"oldest": "least-attended", "least-attended": "oldest"}[options.evict]
    for name, value in others.items():
        if name in case.indifferent:
            continue
        if same_gradients(evaluate(tensors, replace(options, **{name: value}), torch.float64)[0], results):
            return f"{name} makes no difference"
    return None


def told(tensors: dict[str, torch.Tensor], case: Case) -> dict[str, torch.Tensor]:
    """The tensors that the case's part of the file has."""
    untold = () if case.tells_slots else ("slot_steps", "received")
    return {name: tensor for name, tensor in tensors.items() if name.split("/")[-1] not in untold}


def make_case(case: Case, number: int, attempt: int):
    """The tensors to store, or the reason to reject this attempt."""
    tensors = draw(case, number, attempt)
    results, output = evaluate(tensors, case.options, torch.float64)
    results = told(results, case)
    reason = close_choice(tensors, output, case.options)
    if reason is None:
        reason = complaint(results, evaluate(tensors, case.options, torch.float32)[0])
    if reason is None and case.time > 2:
        reason = indifferent_to(tensors, results, case)
    return told(tensors, case) | results, reason


def metadata_of(case: Case, attempt: int) -> str:
    shape = {name: getattr(case, name) for name in ("batch", "time", "inputs", "hidden", "tokens")}
    options = asdict(case.options)
    del options["credit_across_calls"]  # no case of this file has more than one call
    return json.dumps({"description": case.description, **shape, **options, "attempt": attempt})


def serialise(tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> bytes:
    """A safetensors file whose bytes are the same every time. The library's order of metadata varies."""
    content = save(tensors, metadata=metadata)
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    header = {"__metadata__": dict(sorted(header.pop("__metadata__").items())), **header}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data that follows stays aligned
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


@dataclass(frozen=True)
class GoldenFile:
    """A file of goldens: its cases, how one is made, and what the metadata says about it."""

    path: Path
    command: str
    cases: list[Case]
    make: Callable  # of a case, its number and the attempt: the tensors to store, or the reason to reject this attempt
    describe: Callable  # of a case and the attempt: the metadata

    def make_all(self, attempts: list[int] | None):
        """All tensors and metadata. `attempts` are those of an existing file, to avoid a new search."""
        tensors, metadata = {}, {"command": f"python {self.command}", "torch": torch.__version__.split("+")[0]}
        for number, case in enumerate(self.cases):
            candidates = itertools.count() if attempts is None else [attempts[number]]
            for attempt in candidates:
                case_tensors, reason = self.make(case, number, attempt)
                if reason is None:
                    break
                if attempt > 2000 or attempts is not None:
                    sys.exit(f"case {number} ({case}): {reason}")
            name = f"case_{number:03}"
            tensors |= {f"{name}/{key}": value.contiguous() for key, value in case_tensors.items()}
            metadata[name] = self.describe(case, attempt)
        return tensors, metadata

    def check(self):
        with safe_open(self.path, "pt") as file:
            committed_metadata = file.metadata()
            committed = {name: file.get_tensor(name) for name in file.keys()}
        names = sorted(name for name in committed_metadata if name.startswith("case_"))
        if len(names) != len(self.cases):
            sys.exit(f"the file has {len(names)} cases, the list has {len(self.cases)}")
        tensors, metadata = self.make_all([json.loads(committed_metadata[name])["attempt"] for name in names])
        if serialise(tensors, metadata) == self.path.read_bytes():
            print(f"{len(names)} cases, identical to the last bit")
            return
        # Another processor or library version rounds tanh and exp differently in the last place.
        if any(metadata[name] != committed_metadata[name] for name in names) or tensors.keys() != committed.keys():
            sys.exit(f"the configurations differ: run {self.command} again")
        worst = max((value.double() - committed[name].double()).abs().max().item() for name, value in tensors.items())
        if not worst < 1e-9:
            sys.exit(f"the goldens differ by {worst:.1e}")
        print(f"{len(names)} cases, the same within {worst:.1e}")

    def main(self, description: str):
        parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--check", action="store_true", help="compare with the file that is there")
        arguments = parser.parse_args()
        torch.set_num_threads(1)
        if arguments.check:
            self.check()
            return
        content = serialise(*self.make_all(None))
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_bytes(content)
        print(f"{len(self.cases)} cases, {len(content):,} bytes")


if __name__ == "__main__":
    GoldenFile(GOLDENS, "make_goldens.py", all_cases(), make_case, metadata_of).main(__doc__)
