"""Measures full training steps of Attentive and PyTorch in turn on this machine, and prints a table of ratios.

    python compare.py                     # all cases
    python compare.py --case copy100 --rounds 5

A step consists of forward, cross-entropy, backward, clipping of the global norm and Adam, on the same shapes. Rounds of
the two programs alternate. Each program reports the best of all its steps, and both use the same number of threads.
PyTorch comes in three styles: `modules` built from torch.nn, `plain` with the cell written out, and `tuned`, the fastest
version found (see `peer.py`). A plain LSTM is `nn.LSTM` in all of them. If the package `attentive-sab` is installed, its
step (`python_step.py`) runs in the same rounds. The last column compares the operations of
Attentive's matrix products per second with the best that the machine's arithmetic units reached in the same rounds.
"""

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import torch

from peer import CASES

HERE = Path(__file__).resolve().parent
WANTED = {"copy100": 10.0, "copy300": 17.0, "lstm100": 2.2, "last784": 6.0, "chars": 2.0}
STYLES = ["modules", "plain", "tuned"]
STEPS = {"copy100": (40, 8), "copy300": (20, 4), "lstm100": (40, 20), "last784": (10, 4), "chars": (5, 4)}


def run(command: list[str]) -> dict:
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def row(measured: dict) -> str:
    """A line of the table."""
    best, gflop, limit = measured["milliseconds"], measured["gflop"], measured["limit_gflops"]
    peers = [f"{best[style]:.0f} | {best[style] / best['attentive']:.2f}" if style in best else "- | -" for style in STYLES]
    share = 100 * gflop / best["attentive"] * 1e3 / limit
    package = f"{best['package']:.1f} | {best['package'] / best['attentive']:.2f}" if "package" in best else "- | -"
    return (f"| {measured['case']} | {best['attentive']:.1f} | {package} | {' | '.join(peers)} | {measured['wanted']:g} | {gflop:.1f} | "
            f"{limit:.0f} | {share:.0f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=[*CASES, "all"], default="all")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--styles", nargs="*", choices=STYLES, default=STYLES, help="the styles of PyTorch to measure")
    parser.add_argument("--json", type=Path, help="also write the measurements to this file")
    arguments = parser.parse_args()
    build = ["cargo", "build", "--release", "--quiet", "-p", "attentive-sab", "--example", "training_step"]
    subprocess.run(build, check=True, cwd=HERE.parent)
    target = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target"))
    ours = str(target / "release" / "examples" / "training_step")

    package = importlib.util.find_spec("attentive") is not None
    torch_version = torch.__version__
    measurements = []
    for case in CASES if arguments.case == "all" else [arguments.case]:
        our_steps, peer_steps = STEPS[case]
        styles = [style for style in arguments.styles if style == "modules" or CASES[case].sab is not None]
        best = {name: float("inf") for name in ["attentive", *(["package"] if package else []), *styles]}
        limit = 0.0
        for _ in range(arguments.rounds):
            limit = max(limit, run([ours, "limit", "--threads", str(arguments.threads), "--repeats", "50"])["best"])
            result = run([ours, case, "--threads", str(arguments.threads), "--repeats", str(our_steps)])
            best["attentive"] = min(best["attentive"], result["best"])
            gflop = result["gflop"]
            if package:
                result = run([sys.executable, str(HERE / "python_step.py"), "--case", case,
                              "--threads", str(arguments.threads), "--repeats", str(our_steps)])
                best["package"] = min(best["package"], result["best"])
            for style in styles:
                result = run([sys.executable, str(HERE / "peer.py"), "--case", case, "--style", style,
                              "--threads", str(arguments.threads), "--repeats", str(peer_steps)])
                best[style] = min(best[style], result["best"])
        measurements.append({"case": case, "milliseconds": best, "wanted": WANTED[case], "gflop": gflop, "limit_gflops": limit})
        # Print each result at once, in case the run is stopped early.
        print(row(measurements[-1]), file=sys.stderr)

    print(f"{cpu_name()}, {arguments.threads} threads, PyTorch {torch_version}, best of {arguments.rounds} rounds\n")
    columns = [f"PyTorch {style}, ms | ratio" for style in STYLES]
    print(f"| case | attentive, ms | attentive from Python, ms | ratio | {' | '.join(columns)} | wanted | products, GFLOP | limit, GFLOP/s | share |")
    print("|---" * 13 + "|")
    for measured in measurements:
        print(row(measured))
    if arguments.json:
        arguments.json.write_text(json.dumps({"cpu": cpu_name(), "threads": arguments.threads, "torch": torch_version,
                                              "rounds": arguments.rounds, "measurements": measurements}, indent=1) + "\n")


if __name__ == "__main__":
    main()
