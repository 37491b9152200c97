"""Print what TensorBoard itself reads from an event directory, as JSON: tag -> count, last step, last value."""

import json
import math
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: check_tensorboard.py DIRECTORY")
    # 0 keeps every point instead of a sample.
    accumulator = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    seen = {}
    for tag in accumulator.Tags()["scalars"]:
        points = accumulator.Scalars(tag)
        if points:
            last = points[-1]
            # JSON has no word for NaN and infinities.
            value = last.value if math.isfinite(last.value) else None
            seen[tag] = {"count": len(points), "last_step": last.step, "last_value": value}
    json.dump(seen, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
