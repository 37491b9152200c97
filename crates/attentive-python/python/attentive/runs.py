"""`read_run`: the metrics of a run of `sab train`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

METRICS = "metrics.jsonl"


class Run:
    """The metrics of a run, by kind: `run.train` and `run.validation`.

    Each is a dictionary of NumPy arrays by name, such as `update`, `loss` and `seconds`, with one number for each line
    of the run's `metrics.jsonl`; NaN where a line does not have a name. `run.frame()` is the same as a pandas frame.
    """

    def __init__(self, path: Path, lines: list[dict[str, Any]]) -> None:
        self.path = path
        self.train = _columns([line for line in lines if line.get("kind") == "train"])
        self.validation = _columns([line for line in lines if line.get("kind") == "validation"])
        self._lines = lines

    def frame(self) -> pd.DataFrame:
        """All lines as a pandas frame: one row for each, with `kind` and `update`. Needs pandas."""
        import pandas as pd

        return pd.DataFrame(self._lines)

    def rows(self) -> list[tuple[int, dict[str, float]]]:
        """For a logger: the update of each line, and its metrics as `kind/name`."""
        no_metrics = ("kind", "update", "seconds", "time")
        found = []
        for line in self._lines:
            named = ((name, value) for name, value in line.items() if name not in no_metrics)
            numbers = {
                f"{line['kind']}/{name}": float(value) for name, value in named if isinstance(value, int | float)
            }
            found.append((int(line["update"]), numbers))
        return found

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {len(self._lines)} lines)"


def read_run(run: str | os.PathLike[str]) -> Run:
    """Reads the metrics of a run directory, of a run that is going on too: half a last line is left out."""
    path = Path(run)
    file = path / METRICS
    if not file.is_file():
        raise FileNotFoundError(
            f"{path} is not a run directory: it has no {METRICS}; `sab train` creates run directories"
        )
    lines, text = [], file.read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            found = json.loads(line)
            if not (isinstance(found, dict) and isinstance(found.get("update"), int) and "kind" in found):
                raise ValueError("it has no `kind` and `update`")
        except ValueError as why:
            if number == text.count("\n") + 1:
                break
            raise ValueError(f"{file} is damaged in line {number} ({why})") from None
        lines.append(found)
    return Run(path, lines)


def _columns(lines: list[dict[str, Any]]) -> dict[str, NDArray[Any]]:
    names = dict.fromkeys(name for line in lines for name in line if name != "kind")
    columns = {name: np.array([line.get(name, np.nan) for line in lines], dtype=float) for name in names}
    if "update" in columns:
        columns["update"] = columns["update"].astype(int)
    return columns
