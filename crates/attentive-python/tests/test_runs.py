"""Metrics of runs."""

import json

import numpy as np
import pytest

import attentive

LINES = [
    {"kind": "train", "update": 50, "loss": 2.5, "learning_rate": 0.005, "seconds": 1.5, "time": 1e9},
    {"kind": "validation", "update": 50, "ce": 2.25, "accuracy": 0.5, "seconds": 2.0, "time": 1e9},
    {"kind": "train", "update": 100, "loss": 1.5, "seconds": 3.5, "time": 1e9},
]


def written(folder, text=""):
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES) + text)
    return attentive.read_run(folder)


def test_metrics_are_arrays_by_kind(tmp_path):
    run = written(tmp_path)
    assert run.train["update"].tolist() == [50, 100] and run.train["loss"].tolist() == [2.5, 1.5]
    np.testing.assert_array_equal(run.train["learning_rate"], [0.005, np.nan])
    assert run.validation["accuracy"].tolist() == [0.5]
    assert run.rows()[1] == (50, {"validation/ce": 2.25, "validation/accuracy": 0.5})


def test_metrics_are_a_frame_where_pandas_is(tmp_path):
    pytest.importorskip("pandas")
    frame = written(tmp_path).frame()
    assert frame[frame.kind == "train"].loss.tolist() == [2.5, 1.5]


def test_a_run_that_is_going_on_or_damaged(tmp_path):
    assert len(written(tmp_path, '{"kind": "train", "upd').rows()) == 3
    with pytest.raises(ValueError, match="damaged in line 4"):
        written(tmp_path, '{"kind": "tr\n{"kind": "train", "update": 3}\n')
    with pytest.raises(FileNotFoundError, match="is not a run directory"):
        attentive.read_run(tmp_path / "nowhere")
