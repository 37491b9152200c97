"""The examples in documents and docstrings run."""

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cases

PACKAGE = Path(__file__).parents[1]
PAGE = cases.REPOSITORY / "docs" / "python.md"
SCRIPT = PACKAGE / "examples" / "copy_task.py"


def blocks(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


def test_every_block_of_the_page_runs(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "RUN").symlink_to(cases.GOLDENS / "model")
    (tmp_path / "metrics").mkdir()
    line = '{"kind": "train", "update": 1, "loss": 1.0}\n{"kind": "validation", "update": 1, "ce": 1.0}\n'
    (tmp_path / "metrics" / "metrics.jsonl").write_text(line)
    namespace = {}
    for number, block in enumerate(block for block in blocks(PAGE) if "CosineAnnealingLR" not in block):
        exec(compile(block, f"{PAGE.name}, block {number}", "exec"), namespace)


def test_the_page_and_the_readme_show_the_script():
    script = SCRIPT.read_text()
    assert script in "".join(blocks(PAGE))
    assert script.split('"""\n', 1)[1].strip() in (cases.REPOSITORY / "README.md").read_text()


def test_the_script_learns():
    """From nothing to 99 %."""
    pytest.importorskip("torch")
    out = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=True).stdout
    right = float(re.search(r"([0-9.]+) % of the digits are right", out)[1])
    assert right >= 99, out


@pytest.mark.parametrize("name", ["lstm", "readout", "model"])
def test_docstrings(name):
    torch = pytest.importorskip("torch")
    import attentive

    module = importlib.import_module(f"attentive.nn.{name}")
    names = {word: getattr(attentive, word) for word in ("SabLSTM", "SabModel", "SabReadout")}
    results = doctest.testmod(module, extraglobs={"torch": torch, **names})
    assert results.attempted > 0 and results.failed == 0
