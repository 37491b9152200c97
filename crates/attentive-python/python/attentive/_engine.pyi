"""Types of the native module. Arrays are contiguous; nothing is copied unless stated."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float32]
_Ints = NDArray[np.int64]
_Segments = tuple[Sequence[int], _Ints, _Ints, _Floats, _Ints | None, _Floats | None, _Floats]

class Model:
    """The parts and options of a layer, checked."""

    def __new__(
        cls,
        input: int,
        hidden: int,
        *,
        cell: str,
        scorer: str,
        sparsifier: str,
        store: str,
        novelty: float,
        capacity: int | None,
        evict: str,
        k_top: int | str,
        k_att: int,
        k_trunc: int | str | None,
        trunc_phase: int | str,
        mental_updates: bool,
        score_gradient: str,
        hops: str,
        credit_across_calls: bool,
    ) -> Model: ...
    def parameters(self) -> list[tuple[str, list[int], str, str, float | None]]:
        """Name, shape, owner ("cell" or "scorer"), gain, and the constant it starts from, if it is not drawn."""
    def draw_phase(self, seed: int, batch: int) -> int: ...
    @property
    def carries(self) -> bool: ...
    @property
    def gates(self) -> str: ...
    @property
    def keeping_block(self) -> int: ...

class Weights:
    """Parameters packed for tokens or for dense inputs. With `keep`, they serve many calls without gradient."""

    def __new__(cls, model: Model, parameters: Sequence[_Floats], dense: bool, threads: int, keep: bool) -> Weights: ...
    def made_from(self, parameters: Sequence[_Floats]) -> bool: ...

class State:
    """Hidden state, cell state and memories of every row of a batch."""

    @staticmethod
    def fresh(model: Model, batch: int) -> State: ...
    @staticmethod
    def of_data(
        model: Model,
        hidden: _Floats,
        cell: _Floats | None,
        memory: _Floats,
        steps: Sequence[int],
        slot_steps: Sequence[Sequence[int]],
        received: Sequence[Sequence[float]],
        segments: _Segments | None,
    ) -> State: ...
    @staticmethod
    def of_rows(states: Sequence[State], picks: Sequence[tuple[int, int]]) -> State: ...
    def data(self) -> tuple[_Floats, _Floats | None, _Floats, list[int], list[list[int]], list[list[float]]]: ...
    def segments(self) -> _Segments | None: ...
    def without_segments(self) -> State: ...
    def hidden(self) -> _Floats: ...
    @property
    def batch(self) -> int: ...
    @property
    def steps(self) -> list[int]: ...
    @property
    def slots(self) -> list[int]: ...
    @property
    def settled(self) -> bool: ...
    def settle(self, hidden: _Floats) -> None: ...
    def reset(self, rows: Sequence[int]) -> None: ...
    def copy(self) -> State: ...

class Tape:
    """The record of one call."""

    @property
    def number(self) -> int: ...
    def handle(self) -> _Ints: ...
    def backward(
        self,
        *,
        hidden: _Floats,
        dense: _Floats | None,
        d_hidden: _Floats | None,
        d_summary: _Floats | None,
        readouts: Sequence[tuple[_Floats, bool, _Floats, _Floats]],
        input_gradient: bool,
        threads: int,
    ) -> tuple[list[_Floats], _Floats | None, tuple[int, float, float] | None]: ...

def forward(
    model: Model,
    weights: Weights,
    input: NDArray[Any],
    state: State | None,
    *,
    phase: int,
    tracked: bool,
    threads: int,
    reminders: int | None,
) -> tuple[_Floats, _Floats, State, Tape | None, tuple[_Ints, _Floats] | None]: ...
def readout(
    hidden: _Floats, summary: _Floats | None, v1: _Floats, v2: _Floats, bias: _Floats, threads: int
) -> _Floats: ...
def readout_backward(
    hidden: _Floats,
    summary: _Floats | None,
    v1: _Floats,
    v2: _Floats,
    d_y: _Floats,
    wanted: tuple[bool, bool],
    threads: int,
) -> tuple[_Floats | None, _Floats | None, _Floats, _Floats, _Floats]: ...
def names(option: str) -> list[str]: ...
def keep_freed_memory() -> bool: ...
def _panic() -> None: ...
def _before_fork() -> None: ...
def _after_fork() -> None: ...
