#!/usr/bin/env python3
"""Checks that a trace of --timeline has a GPU's activities: check_gpu_trace.py TRACE. Prints one line."""
import json
import sys


def union(intervals):
    """The total time that the intervals cover."""
    covered, end = 0.0, float("-inf")
    for begin, stop in sorted(intervals):
        covered += max(0.0, stop - max(begin, end))
        end = max(end, stop)
    return covered


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    complete = [event for event in events if event["ph"] == "X"]
    steps = [event for event in complete if event["name"].startswith("step ")]
    kernels = [event for event in complete if event["cat"] == "kernel"]
    ends_of_arrows = {(event["pid"], event["tid"], event["ts"]) for event in events if event["ph"] == "f"}
    in_span = sum((event["pid"], event["tid"], event["ts"]) in ends_of_arrows for event in kernels)
    if not steps or not kernels:
        sys.exit(f"{len(steps)} steps and {len(kernels)} kernels")
    begin = min(event["ts"] for event in steps)
    end = max(event["ts"] + event["dur"] for event in complete)
    busy = union([(event["ts"], event["ts"] + event["dur"]) for event in kernels])
    share = busy / (end - begin)
    names = {event["name"].split("<")[0] for event in kernels}
    print(f"{len(steps)} steps, {len(kernels) / len(steps):.1f} kernels a step, "
          f"{in_span / len(kernels):.0%} with a span, busy {share:.1%}")
    if not 0.01 < share <= 1.03:
        sys.exit("the share of the time with a kernel at work is not plausible")
    if not any("adam" in name for name in names):
        sys.exit(f"no kernel of Adam among {', '.join(sorted(names))}")
    if min(event["ts"] for event in kernels) < begin - 1000:
        sys.exit("kernels begin before the first step")
    # Nearly all work of a step is queued in a span.
    if in_span < 0.9 * len(kernels):
        sys.exit("kernels without a span")


main()
