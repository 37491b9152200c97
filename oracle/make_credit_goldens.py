"""Writes goldens/credit.safetensors: several calls whose weights differ, and the gradient of the last (R21).

    python make_credit_goldens.py            write the file
    python make_credit_goldens.py --check    recompute it and compare it with the committed file

A case is drawn again until float32 can reproduce it, as in make_goldens.py, and until every option shows in it.
"""

import json
from dataclasses import asdict, replace

import numpy as np
import torch

from golden_cases import Case, credit_cases
from make_goldens import GOLDENS, GoldenFile, close_choice, complaint, draw, evaluate, same_gradients
from sab_reference import Options, Output, Weights, sab_lstm

# These cases' seeds are not those of the other file.
FIRST_SEED = 1000
# The weights of earlier calls differ from those of the last by up to this share of their largest element.
CHANGE = 0.1
# A replay that misses the stored state by less would not show that it is made with the present weights.
LEAST_DRIFT = 1e-2


def of_call(tensors: dict[str, torch.Tensor], number: int) -> dict[str, torch.Tensor]:
    """The inputs and weights of an earlier call."""
    folder = f"call_{number}/"
    return {name.removeprefix(folder): value for name, value in tensors.items() if name.startswith(folder)}


def draw_calls(case: Case, number: int, attempt: int) -> dict[str, torch.Tensor]:
    """The tensors of the last call, and in a folder for each earlier call its weights and inputs."""
    tensors = draw(case, FIRST_SEED + number, attempt)
    weights = {name: tensors[name] for name in Weights._fields if name in tensors}
    random = np.random.default_rng([FIRST_SEED + number, attempt, 1])
    for call, (time, _) in enumerate(case.earlier):
        for name, value in weights.items():
            change = CHANGE * value.abs().max() * torch.from_numpy(random.uniform(-1, 1, value.shape))
            tensors[f"call_{call}/{name}"] = (value + change).float().double()
        if case.tokens:
            tensors[f"call_{call}/tokens"] = torch.from_numpy(random.integers(0, case.inputs, (case.batch, time)))
        else:
            x = random.standard_normal((case.batch, time, case.inputs), np.float32)
            tensors[f"call_{call}/x"] = torch.from_numpy(x).double()
    return tensors


def evaluate_calls(tensors, case: Case, options: Options, dtype: torch.dtype, shift: int = 0,
                   other_segments: bool = False) -> tuple[dict, list[tuple]]:
    """What is stored of the last call, and for each call the tensors, options and result on which choices depend.

    `shift` moves the truncation points of all calls. With `other_segments`, segments end between calls where they
    should go on, and the reverse.
    """
    state, calls = None, []
    phases = [*(phase + shift for _, phase in case.earlier), options.trunc_phase + shift]
    for number, phase in enumerate(phases):
        last = number == len(case.earlier)
        of_this = tensors if last else of_call(tensors, number)
        own = {name: of_this[name] for name in (*Weights._fields, "x", "tokens") if name in of_this}
        own = {name: value.to(dtype) if value.is_floating_point() else value for name, value in own.items()}
        now = replace(options, trunc_phase=phase)
        carried = {} if state is None else {"state/memory": state.memory.double()}
        if other_segments and state is not None and state.segments is not None:
            grid = now.grid() if state.segments.grid != now.grid() else None
            state = state._replace(segments=state.segments._replace(grid=grid))
        if last:
            results, output = evaluate({name: value for name, value in tensors.items() if "call_" not in name}, now,
                                       dtype, state)
            results |= drift_of(output)
        else:
            weights = Weights(**{name: value for name, value in own.items() if name in Weights._fields})
            output = sab_lstm(own["x"] if "x" in own else own["tokens"], weights, now, state)
        calls.append(({"w1": own["w1"].double()} | carried, now, output))
        state = output.state
    return results, calls


def drift_of(output: Output) -> dict[str, torch.Tensor]:
    """Mean and largest drift, of the memories that gradient entered and of all that have segments; and their number."""
    entered = [memory for memory in output.replayed if memory.memory.grad is not None and memory.memory.grad.any()]
    both = [torch.tensor([memory.drift for memory in memories], dtype=torch.float64)
            for memories in (entered, output.replayed)]
    if not len(both[0]):
        return {}
    return {"out/drift": torch.stack([torch.stack([drift.mean(), drift.max()]) for drift in both]),
            "out/drift_memories": torch.tensor([len(drift) for drift in both])}


def indifferent_to(tensors, results, case: Case) -> str | None:
    """What could be ignored or misread without changing the gradient: then the case would not test it."""
    options = case.options
    others = {
        "credit_across_calls": (replace(options, credit_across_calls=False), {}),
        "trunc_phase": (options, dict(shift=1)),
        "k_trunc": (replace(options, k_trunc=options.k_trunc + 1), {}),
        "hops": (replace(options, hops={"all": "one", "one": "all"}[options.hops]), {}),
    }
    if options.k_top != 1:  # a single weight is always 1, and the scores have no gradient
        score_gradient = {"weights": "full", "full": "weights"}[options.score_gradient]
        others["score_gradient"] = (replace(options, score_gradient=score_gradient), {})
    if len(case.earlier) > 1:
        others["where segments begin"] = (options, dict(other_segments=True))
    for name, (changed, variation) in others.items():
        if same_gradients(evaluate_calls(tensors, case, changed, torch.float64, **variation)[0], results):
            return f"{name} makes no difference"
    return None


def make_case(case: Case, number: int, attempt: int):
    """The tensors to store, or the reason to reject this attempt."""
    tensors = draw_calls(case, number, attempt)
    results, calls = evaluate_calls(tensors, case, case.options, torch.float64)
    reason = next(filter(None, (close_choice(values, output, options) for values, options, output in calls)), None)
    if reason is None and ("out/drift" not in results or results["out/drift"].min() < LEAST_DRIFT):
        reason = "little drift"
    if reason is None:
        reason = complaint(results, evaluate_calls(tensors, case, case.options, torch.float32)[0])
    if reason is None:
        reason = indifferent_to(tensors, results, case)
    return tensors | results, reason


def metadata_of(case: Case, attempt: int) -> str:
    shape = {name: getattr(case, name) for name in ("batch", "time", "inputs", "hidden", "tokens")}
    earlier = [{"time": time, "trunc_phase": phase} for time, phase in case.earlier]
    return json.dumps({"description": case.description, **shape, **asdict(case.options), "earlier": earlier,
                       "attempt": attempt})


if __name__ == "__main__":
    path = GOLDENS.with_name("credit.safetensors")
    GoldenFile(path, "make_credit_goldens.py", credit_cases(), make_case, metadata_of).main(__doc__)
