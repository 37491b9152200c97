"""`SabLSTM`: the layer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from .._engine import Weights
from .._options import Options
from . import checks, packed
from .autograd import array
from .caller import Caller
from .eager import eager
from .names import translate
from .output import Reminders, SabOutput, time_first
from .state import SabState, state_of


class SabLSTM(nn.Module):
    """A recurrent layer that is reminded of its own past states, and whose gradient follows these reminders.

    Args:
        input_size: the size of a dense input, or the number of different tokens.
        hidden_size: the number of hidden units.
        k_top: how many memories a step may be reminded of: a number (0 is a plain LSTM) or `"all"`.
        k_att: every `k_att`-th hidden state can be stored.
        k_trunc: how many steps the sequential gradient runs; `None` is full backpropagation through time.
        trunc_phase: where the truncation points lie: a number, or `"random"` for each call.
        mental_updates: whether gradient enters a memory and the steps before it.
        score_gradient: `"weights"`, or `"full"` for the exact derivative.
        hops: how often gradient may skip: `"all"` or `"one"`.
        cell: `"lstm"` or `"gru"`.
        scorer: `"additive"`, `"dot"` or `"cosine"`.
        sparsifier: `"prominence"` or `"softmax"`.
        store: `"every"` state, or by `"novelty"`.
        novelty: how much a state must differ from the last stored one, as a fraction of its own norm.
        capacity: the most memories besides the null slot; `None` keeps all.
        evict: which memory makes room: `"oldest"` or `"least-attended"`.
        credit_across_calls: whether gradient reaches memories of earlier calls (R21). A state then keeps the steps
            that led to each memory; `state.detach()` lets go of them.
        batch_first: whether inputs are `[batch, time, ...]` (the default) or `[time, batch, ...]`.

    Parameters have PyTorch's layout, `[d_output, d_input]`:

    - `weight_ih` `[4 * hidden, input]`, `weight_hh` `[4 * hidden, hidden]`, `bias` `[4 * hidden]`, with the gates
      i, f, g, o; for a GRU `[3 * hidden, ...]` with r, z, n, and `bias` r, z, n, and the hidden side of n.
    - `w1`, `w2` `[hidden, hidden]` and `w3` `[hidden]` of the additive scorer; `w1` and `w2` of `dot`; `w1` and
      `temperature` `[1]` of `cosine`.

    `load_state_dict` also takes the names of an `nn.LSTM` or `nn.GRU` with one layer, and those of a model folder. The
    layer computes in float32 on the CPU, with as many threads as `torch.get_num_threads()`. The results are the same
    bits for any number of threads, and step by step as over a whole sequence.

    >>> layer = SabLSTM(10, 32)
    >>> output, state = layer(torch.randint(10, (4, 20)))
    >>> output.hidden.shape
    torch.Size([4, 20, 32])
    >>> output, state = layer.step(torch.tensor([1, 2, 3, 4]), state)
    >>> state.steps
    tensor([21, 21, 21, 21])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        k_top: int | str = 5,
        k_att: int = 1,
        k_trunc: int | str | None = 5,
        *,
        trunc_phase: int | str = "random",
        mental_updates: bool = True,
        score_gradient: str = "weights",
        hops: str = "all",
        cell: str = "lstm",
        scorer: str = "additive",
        sparsifier: str = "prominence",
        store: str = "every",
        novelty: float = 0.1,
        capacity: int | None = None,
        evict: str = "oldest",
        credit_across_calls: bool = False,
        batch_first: bool = True,
    ) -> None:
        super().__init__()
        self.options = Options(
            input_size=input_size,
            hidden_size=hidden_size,
            k_top=k_top,
            k_att=k_att,
            k_trunc=k_trunc,
            trunc_phase=trunc_phase,
            mental_updates=mental_updates,
            score_gradient=score_gradient,
            hops=hops,
            cell=cell,
            scorer=scorer,
            sparsifier=sparsifier,
            store=store,
            novelty=novelty,
            capacity=capacity,
            evict=evict,
            credit_across_calls=credit_across_calls,
        )
        self.batch_first = batch_first
        for declared in self.options.parameters:
            self.register_parameter(declared.name, nn.Parameter(torch.empty(declared.shape)))
        self._names = [declared.name for declared in self.options.parameters]
        self._calls = itertools.count()
        self._packed: dict[bool, Weights] = {}
        self.reset_parameters()

    @classmethod
    def of_options(cls, options: Options, batch_first: bool = True) -> SabLSTM:
        """A layer with these options."""
        fields = {name: getattr(options, name) for name in Options.__dataclass_fields__}
        return cls(**fields, batch_first=batch_first)

    @classmethod
    def from_lstm(cls, layer: nn.LSTM | nn.GRU, **options: Any) -> SabLSTM:
        """A layer with the weights of an `nn.LSTM` or `nn.GRU` of one layer and one direction.

        With `k_top=0` it computes the same. Otherwise the scorer's parameters are fresh.
        """
        gru = isinstance(layer, nn.GRU)
        if layer.num_layers != 1 or layer.bidirectional or layer.proj_size != 0:
            raise ValueError("only a layer with `num_layers=1`, one direction and no projection can be taken over")
        given = {"cell": "gru" if gru else "lstm", "batch_first": layer.batch_first, **options}
        made = cls(layer.input_size, layer.hidden_size, **given)
        made.load_state_dict(layer.state_dict(), strict=False)
        return made

    @torch.no_grad()
    def reset_parameters(
        self,
        *,
        bound: float | None = None,
        input_gain: float = 1.0,
        attention_gain: float = 1.0,
        score_gain: float = 1.0,
        forget_bias: float = 0.0,
    ) -> None:
        """Draws all parameters uniformly from `±bound`, by default `1 / sqrt(hidden)`, as `nn.LSTM` does.

        Gains scale the bound of the input weights, of `w1` and `w2`, and of `w3` or the temperature. `forget_bias` is
        added to the bias of the gate that keeps the state. An `input_gain` of `sqrt(hidden)` makes one token as strong
        as all hidden units together.
        """
        if bound is None:
            bound = 1 / math.sqrt(self.options.hidden_size)
        gains = {"one": 1.0, "input": input_gain, "attention": attention_gain, "score": score_gain}
        if not all(math.isfinite(number) for number in (bound, *gains.values(), forget_bias)) or bound < 0:
            raise ValueError(
                "the bound, the gains and the forget bias must be finite numbers, and the bound at least 0"
            )
        for declared in self.options.parameters:
            parameter, gain = self.get_parameter(declared.name), gains[declared.gain]
            if declared.constant is None:
                parameter.uniform_(-bound * abs(gain), bound * abs(gain))
            else:
                parameter.fill_(declared.constant * gain)
        hidden, block = self.options.hidden_size, self.options.model.keeping_block
        self.get_parameter("bias")[block * hidden : (block + 1) * hidden] += forget_bias

    @eager
    def forward(
        self,
        x: Tensor | PackedSequence,
        state: SabState | None = None,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        reset: Tensor | None = None,
        reminders: int | None = None,
        batch: tuple[int, int] | None = None,
    ) -> tuple[SabOutput, SabState]:
        """Runs sequences, from a state or a fresh one.

        Args:
            x: dense inputs `[batch, time, input]` in float32, tokens `[batch, time]` in an integer type, or a
                `PackedSequence` of either; then `hidden` and `summary` of the output are `PackedSequence`s too.
            state: the state to begin with; by default all rows are fresh. It stays as it is.
            lengths: the number of steps of each row, `[batch]`, from 1 to time. Outputs after the end of a row are
                zero, and the state holds each row as it was at its own end. What stands after it is ignored.
            reset: a mask `[batch, time]` of `torch.bool`: steps at which a row begins anew, without memories. No
                gradient crosses such a step.
            reminders: how many reminders to report per step.
            batch: a seed and a number from which a random truncation phase is drawn, so that a training can be repeated
                and resumed. By default it is 0 and the number of the layer's calls so far.

        Returns:
            The output of every step, and the state for the next call.
        """
        if isinstance(x, PackedSequence):
            if lengths is not None or reset is not None:
                raise TypeError("a PackedSequence has its own lengths: pass neither `lengths` nor `reset` beside it")
            padded, own_lengths = pad_packed_sequence(x, batch_first=True)
            output, state = self._run(padded, state, own_lengths, None, reminders, batch)
            return packed.like(x, output), state
        if not self.batch_first and isinstance(x, Tensor) and x.dim() >= 2:
            reset = reset.transpose(0, 1) if isinstance(reset, Tensor) and reset.dim() == 2 else reset
            output, state = self._run(x.transpose(0, 1), state, lengths, reset, reminders, batch)
            return time_first(output), state
        return self._run(x, state, lengths, reset, reminders, batch)

    if TYPE_CHECKING:
        __call__ = forward

    @eager
    def step(
        self,
        x: Tensor,
        state: SabState | None = None,
        *,
        reset: Tensor | None = None,
        reminders: int | None = None,
        batch: tuple[int, int] | None = None,
    ) -> tuple[SabOutput, SabState]:
        """Runs one step of a stream; the same bits as `forward` over the whole sequence.

        Args:
            x: a dense input `[batch, input]`, or tokens `[batch]`.
            state: as in `forward`.
            reset: a mask `[batch]` of `torch.bool`: rows that begin anew with this step.
            reminders: as in `forward`.
            batch: as in `forward`.

        Returns:
            The output of the step, with `hidden` and `summary` `[batch, hidden]`, and the state for the next one.
        """
        if not isinstance(x, Tensor):
            raise TypeError(f"the input is a {type(x).__name__}, but a tensor is needed")
        dense = x.dtype not in checks.INTEGERS
        if x.dim() != (2 if dense else 1):
            kind, right = ("a dense input", f"[batch, {self.options.input_size}]") if dense else ("tokens", "[batch]")
            raise ValueError(f"the input has shape {list(x.shape)}, but {kind} of one step must have {right}")
        if reset is not None:
            reset = checks.mask("reset", reset, (len(x),))
            if state is not None and reset.any():
                state = state.clone()
                state.reset(reset)
        output, state = self._run(x.unsqueeze(1), state, None, None, reminders, batch)
        reminded = output.reminders
        if reminded is not None:
            reminded = Reminders(reminded.steps.squeeze(1), reminded.weights.squeeze(1))
        return SabOutput(output.hidden.squeeze(1), output.summary.squeeze(1), reminded, output.drift), state

    def initial_state(self, hidden: Tensor, cell: Tensor | None = None) -> SabState:
        """Fresh rows that start from given states, `[batch, hidden]`, instead of zeros.

        `hidden` is also the null slot of the memory (R2). The tensors are taken as data, without their gradient.
        Without `cell`, an LSTM's c is zero.
        """
        checks.floats("`hidden`", hidden)
        if hidden.dim() != 2 or hidden.shape[1] != self.options.hidden_size or len(hidden) == 0:
            right = f"[batch, {self.options.hidden_size}]"
            raise ValueError(f"`hidden` has shape {list(hidden.shape)}, but {right} is needed")
        if cell is not None and not self.options.model.carries:
            raise ValueError(f"the cell `{self.options.cell}` has no cell state: pass `hidden` alone")
        rows = len(hidden)
        tensors = {
            "hidden": hidden,
            "memory": hidden.unsqueeze(1),
            "steps": torch.zeros(rows, dtype=torch.int64),
            "slot_steps": torch.zeros(rows, 1, dtype=torch.int64),
            "received": torch.zeros(rows, 1),
            "k_att": torch.tensor(self.options.k_att),
        }
        if self.options.model.carries:
            tensors["cell"] = torch.zeros_like(hidden) if cell is None else cell
        return state_of(self.options, tensors)

    def load_state(self, tensors: Mapping[str, Tensor]) -> SabState:
        """The state that `SabState.state_dict` has saved. A state of another kind of layer is a `ValueError`."""
        return state_of(self.options, tensors)

    def extra_repr(self) -> str:
        """The sizes, and what differs from the defaults."""
        defaults = Options(self.options.input_size, self.options.hidden_size)
        words = [f"{self.options.input_size}, {self.options.hidden_size}"]
        for name in list(Options.__dataclass_fields__)[2:]:
            value = getattr(self.options, name)
            if name in ("k_top", "k_att", "k_trunc") or value != getattr(defaults, name):
                words.append(f"{name}={value!r}")
        if not self.batch_first:
            words.append("batch_first=False")
        return ", ".join(words)

    def _run(
        self, x: Tensor, state: SabState | None, lengths: Any, reset: Any, reminders: Any, batch: Any
    ) -> tuple[SabOutput, SabState]:
        x, lengths, caller = self.caller(x, state, lengths, reset, reminders, batch)
        if lengths is None:
            return caller.run(x, state)
        return caller.run_pieces(x, state, lengths, reset)

    def caller(
        self, x: Tensor, state: Any, lengths: Any, reset: Any, reminders: Any, batch: Any
    ) -> tuple[Tensor, list[int] | None, Caller]:
        """Checks a call, whose input is `[batch, time, ...]`, and prepares it; lengths only if rows are not whole."""
        if isinstance(x, Tensor) and x.is_floating_point() and torch.is_autocast_enabled("cpu"):
            x = x.float()
        dense = checks.sequence(x, self.options.input_size)
        rows, time = x.shape[:2]
        if state is not None:
            self._check_state(state, rows)
        if reminders is not None and (not isinstance(reminders, int) or reminders < 1):
            raise ValueError(
                f"`reminders` is {reminders!r}, but a number from 1 is needed: how many to report per step"
            )
        lengths = [time] * rows if lengths is None else checks.lengths_of(lengths, rows, time)
        if reset is not None:
            reset = checks.mask("reset", reset, (rows, time))
        seed, number = (0, next(self._calls)) if batch is None else checks.seed_and_number(batch)
        caller = Caller(self, dense, self.options.model.draw_phase(seed, number), reminders)
        whole = min(lengths) == time and (reset is None or not bool(reset.any()))
        return x, None if whole else lengths, caller

    def _check_state(self, state: Any, rows: int) -> None:
        if not isinstance(state, SabState):
            raise TypeError(
                f"the state is a {type(state).__name__}, but a SabState is needed: one that a call returned, or "
                "`layer.initial_state(hidden, cell)`"
            )
        ours, theirs = self.options, state._options
        for name in ("hidden_size", "cell", "k_att"):
            if getattr(ours, name) != getattr(theirs, name):
                got, right = getattr(theirs, name), getattr(ours, name)
                raise ValueError(f"the state is of another layer: its `{name}` is {got!r}, but {right!r} is needed")
        if state.batch != rows:
            raise ValueError(f"the state has {state.batch} rows, but the input has {rows}")

    def parameters_in_order(self) -> list[Tensor]:
        """The parameters as the engine orders them, checked."""
        found: list[Tensor] = [self.get_parameter(name) for name in self._names]
        for name, parameter in zip(self._names, found, strict=True):
            checks.floats(f"the parameter `{name}`", parameter)
        return found

    def packed_weights(self, parameters: list[Tensor], dense: bool, tracked: bool, threads: int) -> Weights:
        """The parameters packed for the engine. Calls without gradient share them as long as no bit changes."""
        arrays = [array(parameter) for parameter in parameters]
        if tracked:
            return Weights(self.options.model, arrays, dense, threads, False)
        kept = self._packed.get(dense)
        if kept is None or not kept.made_from(arrays):
            kept = Weights(self.options.model, arrays, dense, threads, True)
            self._packed[dense] = kept
        return kept

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        translate(state_dict, prefix, self.options)
        super()._load_from_state_dict(state_dict, prefix, *others)

    def __getstate__(self) -> dict[str, Any]:
        # Packed weights are made again; the count of calls begins anew.
        kept: dict[str, Any] = super().__getstate__()  # type: ignore[no-untyped-call]
        return {name: value for name, value in kept.items() if name not in ("_packed", "_calls")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._packed, self._calls = {}, itertools.count()
