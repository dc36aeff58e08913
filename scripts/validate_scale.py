#!/usr/bin/env python3
"""Compares the predictions of `plan scale` with measured steps of data-parallel training, on 1 and 2 ranks on this
machine's CPU with one thread each, over links that are slowed down (--slow-link).

  scripts/validate_scale.py --bin build/release/bin

The model is 784-1024-...-1024-10 with 8 hidden layers on MNIST, 1,024 samples in a rank's micro-batch, SGD, f32. The times of
forward, backward and the rest of an update are measured first, in one process for each rank that trains alone: the processes
share the machine's memory as the ranks do. The time of an all-reduce of a bucket without the slow link is measured too: ranks
on CPUs copy and add the data on the cores that compute, so this time is added to backward. The prediction uses only these
times, the bytes of the gradients and the link. The exit status is 1 if a prediction is more than 15% off. Needs Open MPI. """
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HIDDEN = [1024] * 8
SIZES = [784, *HIDDEN, 10]
PARAMETERS = sum(a * b + b for a, b in zip(SIZES, SIZES[1:]))
SAMPLES = 1024  # in a micro-batch
UPDATES = 8  # timed updates
LARGEST_ERROR = 0.15  # of a prediction
# All-reduces of a few bytes that DataParallel adds to the buckets, which take only the link's latency.
SMALL_SUMS = 4

# name, link in us and MB/s, MiB in a bucket, micro-batches, flags of mnist and of plan
CASES = [
    ("link of 800 MB/s", (100, 800), 4, 1, []),
    ("link of 400 MB/s", (100, 400), 4, 1, []),
    ("link of 200 MB/s", (100, 200), 4, 1, []),
    ("link of 100 MB/s", (100, 100), 4, 1, []),
    ("5 ms and 400 MB/s", (5000, 400), 4, 1, []),
    ("400 MB/s, without overlap", (100, 400), 4, 1, ["--no-overlap"]),
    ("400 MB/s, larger buckets", (100, 400), 8, 1, []),
    ("200 MB/s, 2 micro-batches", (100, 200), 4, 2, []),
    ("200 MB/s, both reduced", (100, 200), 4, 2, ["--sync-each-micro-batch"]),
]


def run_together(commands):
    """The outputs of the commands, which run at the same time. Ends the script if one fails."""
    started = [subprocess.Popen(command, env=dict(os.environ, OMP_NUM_THREADS="1"), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True) for command in commands]
    outputs = [process.communicate() for process in started]
    for command, process, (_, errors) in zip(commands, started, outputs):
        if process.returncode != 0:
            sys.exit(f"error: {' '.join(map(str, command))} ended with {process.returncode}: {errors.strip()}")
    return [output for output, _ in outputs]


def run(command):
    return run_together([command])[0]


def mnist(args, trace, ranks, micro_batches, bucket_mib, flags=()):
    """The command that trains, and writes a timeline of its updates to the file `trace`."""
    return [args.bin / "mnist", "--device", "cpu", "--hidden", ",".join(map(str, HIDDEN)), "--optimizer", "sgd",
            # A bucket ends with the parameter that fills it, so a little less than a layer holds one layer.
            "--bucket-mib", str(bucket_mib - 0.5), "--batch-size", str(ranks * micro_batches * SAMPLES),
            "--micro-batch", str(SAMPLES), "--max-steps", str(UPDATES + 1), "--timeline", trace,
            "--profile-steps", f"2:{UPDATES + 1}", *flags]


def update_ms(output):
    """The ms of an update on the slowest rank, from the table that --timeline prints."""
    rows = output[output.index("ms of an update:"):].splitlines()[2:]
    return max(float(row.split()[1]) for row in rows)


def calibrate(args, folder, processes):
    """The ms of forward, backward and the rest of an update, with `processes` independent single-rank processes."""
    traces = [folder / f"{i}.json" for i in range(processes)]
    outputs = run_together([mnist(args, trace, 1, 1, 4) for trace in traces])
    totals = {"forward": 0.0, "backward": 0.0}
    for trace in traces:
        for event in json.loads(trace.read_text())["traceEvents"]:
            if event.get("name") in totals:
                totals[event["name"]] += event["dur"] / 1000 / UPDATES / processes
    update = sum(update_ms(output) for output in outputs) / processes
    return totals["forward"], totals["backward"], update - totals["forward"] - totals["backward"]


def copying_ms(args, launcher, ranks):
    """The ms of the all-reduces of all gradients, one after another, without a slow link."""
    output = run([*launcher, "-n", str(ranks), args.bin / "collectives", "--operations", "all_reduce", "--min-bytes",
                  str(4 << 20), "--max-bytes", str(4 << 20), "--iterations", "50"])
    microseconds = float(output.splitlines()[-1].split()[3])
    return microseconds / 1000 * 4 * PARAMETERS / (4 << 20)


def predict(args, ranks, times, link, bucket_mib, micro_batches, flags):
    forward, backward, rest = times
    latency, bandwidth = link
    command = [args.bin / "plan", "scale", "--parameters", str(PARAMETERS), "--gradient-bytes", "4", "--micro-batch",
               str(SAMPLES), "--accumulation", str(micro_batches), "--forward-ms", str(forward), "--backward-ms",
               str(backward), "--optimizer-ms", str(rest + SMALL_SUMS * latency / 1000 * (ranks > 1)),
               "--first-bucket-mib", "4", "--bucket-mib", str(bucket_mib), "--ranks-per-node", "1", "--inter-node-latency", "0", "--inter-node-bandwidth",
               str(bandwidth / 1000), "--call-latency", str(latency), "--ranks", str(ranks), "--json", "-", *flags]
    return 1000 * json.loads(run(command))["asked"]["points"][0]["step_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=lambda name: pathlib.Path(name).resolve(), required=True)
    args = parser.parse_args()
    launcher = ["mpirun", "--oversubscribe", "--bind-to", "none"] + ["--allow-run-as-root"] * (os.geteuid() == 0)

    print(f"{'':<32} {'measured':>10} {'predicted':>10} {'error':>7}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def compare(what, ranks, times, link, bucket_mib, micro_batches, flags):
            slow_link = ["--slow-link", "{},{}".format(*link)] if ranks > 1 else []
            command = mnist(args, folder / "trace.json", ranks, micro_batches, bucket_mib, [*slow_link, *flags])
            measured = update_ms(run([*launcher, "-n", str(ranks), *command]))
            reductions = micro_batches if "--sync-each-micro-batch" in flags else 1
            forward, backward, rest = times
            busy = backward + (copying * reductions / micro_batches if ranks > 1 else 0)
            predicted = predict(args, ranks, (forward, busy, rest), link, bucket_mib, micro_batches, flags)
            error = predicted / measured - 1
            print(f"{what:<32} {measured:>7.1f} ms {predicted:>7.1f} ms {100 * error:>+6.1f}%", flush=True)
            if abs(error) > LARGEST_ERROR:
                missed.append(what)

        missed = []
        copying = copying_ms(args, launcher, 2)
        alone = calibrate(args, folder, 1)
        compare("1 rank", 1, alone, (0, 1000), 4, 1, [])
        compare("1 rank, 3 micro-batches", 1, alone, (0, 1000), 4, 3, [])
        together = calibrate(args, folder, 2)
        for what, *case in CASES:
            compare(f"2 ranks, {what}", 2, together, *case)
        print("alone: forward {:.1f} ms, backward {:.1f} ms, rest {:.1f} ms".format(*alone))
        print("two at a time: forward {:.1f} ms, backward {:.1f} ms, rest {:.1f} ms".format(*together))
        print(f"all-reduces without the link: {copying:.1f} ms")
    if missed:
        sys.exit(f"error: predicted by more than {100 * LARGEST_ERROR:.0f}% wrong: {', '.join(missed)}")


if __name__ == "__main__":
    main()
