"""Tables of docs/figures.md: what was measured on a GPU, beside the estimates of benchmarks/sass for it (sass_figures.py) and
beside PyTorch."""
import statistics

import sass_figures

FOLDER, GPU = "gpu-nvidia-h100", "H100"
LARGE = 100e6  # bytes that do not fit in this GPU's caches of 50 MB
LADDERS_OF_THE_SAME_SIZE = ["transpose", "reduce", "norm", "softmax", "layer_norm"]


def estimated_seconds(rows):
    """The estimate for this GPU of each (work, size)."""
    return {work: sass_figures.seconds_of(of_gpu[GPU]) for work, of_gpu in sass_figures.works(rows).items() if GPU in of_gpu}


def error_of(row, estimates):
    """The estimate's error relative to the measured time; None without an estimate."""
    estimate = estimates.get((row["name"], row["size"]))
    return None if estimate is None else estimate / row["seconds"] - 1


def kernels(results, estimates, torch_ratio, time_text, percent):
    beside = {(row["name"], row["size"]): row for row in results.rows("torch_kernels")}
    lines = []
    for row in results.rows("bench_kernels"):
        error, other = error_of(row, estimates), beside.get((row["name"], row["size"]))
        lines.append([f"`{row['name']}`" if " " not in row["name"] else row["name"], row["size"], time_text(row["seconds"]),
                      percent(row["limit_seconds"] / row["seconds"]), "" if error is None else f"{100 * error:+.0f}%",
                      f"{torch_ratio(other):.2f}" if other else ""])
    return ["kernel", "size", "time", "of the copy", "error of the estimate", "PyTorch / Ringtape"], lines


def errors(results, estimates):
    """The errors of the estimates of all large works, by name and size."""
    found = {(row["name"], row["size"]): error_of(row, estimates) for row in results.rows("bench_kernels")
             if row["bytes"] >= LARGE and error_of(row, estimates) is not None}
    for ladder in LADDERS_OF_THE_SAME_SIZE:
        for row in (row for row in results.rows(f"ladder_{ladder}") if row["bytes"] >= LARGE):
            named = {**row, "name": f"{ladder} {row['name']}"}
            found[named["name"], row["size"]] = error_of(named, estimates)
    return found


def errors_in_words(results, estimates, percent):
    found = errors(results, estimates)
    sizes = [abs(error) for error in found.values()]
    near = sum(size <= 0.15 for size in sizes)
    (least, _), (most, _) = (pick(found, key=found.get) for pick in (min, max))
    return [f"The estimates of {len(found)} kernels and rungs that move 100 MB or more are wrong by {percent(statistics.mean(sizes))} "
            f"on average (median {percent(statistics.median(sizes))}),", f"{near} of them by 15% or less: from "
            f"{100 * min(found.values()):+.0f}% ({least}) to {100 * max(found.values()):+.0f}% ({most})."]


def steps(results, time_text):
    return (["model, batch", "Ringtape", "least to most", "PyTorch, eager", "compiled", "best of PyTorch / Ringtape"],
            [[f"{row['model']}, {row['batch']}", time_text(row["seconds"]),
              f"{time_text(row['least_seconds'])} to {time_text(row['most_seconds'])}",
              *(time_text(row["torch_modes"][mode]) for mode in ("eager", "compiled")),
              f"{row['torch_seconds'] / row['seconds']:.1f}"] for row in results.rows("torch_steps")])


def products(results, percent):
    lines = []
    for dtype, name in (("f32", "bench_gemm"), ("bf16", "bench_gemm_bf16")):
        rows = {(row["name"], row["size"]): row for row in results.rows(name)}
        for (way, size), row in rows.items():
            if not way.startswith("own: ") or row["flops"] < 1e10:
                continue
            vendor = rows["vendor" + way.removeprefix("own"), size]
            lines.append([way.removeprefix("own: "), size.rsplit(" ", 1)[0], dtype, f"{row['gflop_per_s'] * 1e-3:.1f}",
                          f"{vendor['gflop_per_s'] * 1e-3:.1f}", percent(vendor["seconds"] / row["seconds"])])
    vendor = results.file("bench_gemm")["settings"]["vendor"]
    return ["product", "m x n x k", "inputs", "own, TFLOP/s", f"{vendor}, TFLOP/s", "own of it"], lines


def attention(results, time_text):
    torch = {(row["name"], row["size"]): row for row in results.rows("torch_attention")}
    halves = {(row["name"], row["size"]): row for row in results.rows("bench_attention_bf16")}
    lines = []
    for (name, size), row in torch.items():
        half = halves[name, size.replace("f32", "bf16")]
        lines.append([name, size.removesuffix(" f32"), time_text(row["seconds"]), f"{row['gflop_per_s'] * 1e-3:.1f}",
                      f"{row['torch_seconds'] / row['seconds']:.2f}", time_text(half["seconds"])])
    return ["", "sequences x tokens x heads x width", "f32", "TFLOP/s", "PyTorch / Ringtape, f32", "bf16"], lines


def gpt(results, time_text):
    lines = []
    for name in ("bench_gpt_f32", "bench_gpt_bf16"):
        row = results.rows(name)[0]
        sequences, _, tokens, dtype = row["size"].split()
        lines.append([f"{sequences} x {tokens}", dtype, time_text(row["seconds"]),
                      f"{int(sequences) * int(tokens) / row['seconds']:,.0f}", f"{row['seconds'] / row['limit_seconds']:.1f}"])
    return ["sequences x tokens", "dtype", "time of a step", "tokens/s", "step / its products at the highest rate"], lines
