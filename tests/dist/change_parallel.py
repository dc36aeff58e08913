#!/usr/bin/env python3
"""Changes tensor and sequence parallelism in one place at a time, and runs their tests: each change must fail one of them.

    tests/dist/change_parallel.py [--only TEXT]   tries the changes whose description contains TEXT (all: half an hour)
    tests/dist/change_parallel.py --fits          only checks that each change still finds its place in the sources

A change removes a collective, a scale factor, an index of a part or a sum, or replaces it by the likely mistake. One that no
test notices is listed, and the exit status is 1. The work is done on a copy of the source tree, on 2 and then on 4 ranks.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from removal import ROOT, copy_tree, first_failure  # noqa: E402

OPS, SEQUENCE, LAYERS = "dist/tensor_parallel_ops.cpp", "dist/sequence_parallel_ops.cpp", "dist/tensor_parallel.cpp"
LOSS, EMBEDDING = "kernels/cross_entropy_shard.cu", "kernels/embedding.cu"
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]

# What is changed, the file, the text (its first occurrence), and what takes its place.
CHANGES = [
    ("copy_to_region: no sum of the gradients", OPS, "comm->all_reduce(dy, ReduceOp::sum).wait();", ""),
    ("copy_to_region: a mean", OPS, "comm->all_reduce(dy, ReduceOp::sum).wait();",
     "comm->all_reduce(dy, ReduceOp::mean).wait();"),
    ("reduce_from_region: no sum", OPS, "comm->all_reduce(x, ReduceOp::sum).wait();", ""),
    ("reduce_from_region: a mean", OPS, "comm->all_reduce(x, ReduceOp::sum).wait();",
     "comm->all_reduce(x, ReduceOp::mean).wait();"),
    ("reduce_from_region: every rank adds the bias before the sum", OPS,
     "comm->all_reduce(x, ReduceOp::sum).wait();\n"
     "  if (added.defined()) bias_add(stream_of(x), x.dtype(), added.raw(), x.raw(), rows, columns, columns);\n",
     "if (added.defined()) bias_add(stream_of(x), x.dtype(), added.raw(), x.raw(), rows, columns, columns);\n"
     "  comm->all_reduce(x, ReduceOp::sum).wait();\n"),
    ("reduce_from_region: no gradient of the bias", OPS,
     "sum_dim(stream_of(dy), dy.dtype(), dy.raw(), std::int64_t{1}, rows, columns, 1.0, to.dtype(), to.raw(),\n          true);",
     ""),
    ("reduce_from_region: gradients of unused positions are stale", OPS, "if (!dadded.accumulate) fill(", "if (false) fill("),
    ("cross-entropy: no gather of the statistics", OPS, "comm->all_gather(own, all).wait();", ""),
    ("cross-entropy: maxima of the ranks not compared", LOSS, "of_rank[1] * softmax_exp(of_rank[0] - max)", "of_rank[1]"),
    ("cross-entropy: the last rank's target logit", LOSS, "logit += of_rank[2];", "logit = of_rank[2];"),
    ("cross-entropy: no divisor of the loss", LOSS, "total / p.divisor", "total"),
    ("cross-entropy: no divisor of the gradient", LOSS, "*grad_loss / static_cast<A>(p.divisor)", "*grad_loss"),
    ("cross-entropy: no upstream gradient", LOSS, "*grad_loss / static_cast<A>(p.divisor)", "A{1} / static_cast<A>(p.divisor)"),
    ("cross-entropy: ignored targets have a gradient", LOSS, "const A scale = counts(p, target) ?", "const A scale = true ?"),
    ("cross-entropy: target logit of class 0's rank", LOSS, "own = target - p.first_class;\n    const bool",
     "own = target;\n    const bool"),
    ("cross-entropy: gradient of class 0's rank", LOSS, "own = target - p.first_class;\n    const A", "own = target;\n    const A"),
    ("embedding: rows from token 0", EMBEDDING, "own = token - p.first_token;", "own = token;"),
    ("embedding: gradient of rows from token 0", EMBEDDING, "in_table = token - p.first_token", "in_table = token"),
    ("column layer: its input does not enter", LAYERS, "linear(border_.enter(x), *weight_", "linear(x, *weight_"),
    ("row layer: its output does not leave", LAYERS,
     "border_.leave(linear(x, *weight_), bias_ == nullptr ? Tensor() : *bias_)",
     "linear(x, *weight_, bias_ == nullptr ? Tensor() : *bias_)"),
    ("logits: their input does not enter", LAYERS, "linear(Border{comm_, sequence_}.enter(x), weight)", "linear(x, weight)"),
    ("queries, keys and values as one block", "nn/transformer.cpp", "return {options.width, keys, keys};",
     "return {options.width + 2 * keys};"),
    ("masks: heads count from 0 on every rank", "nn/transformer.cpp", "first_head_(layers.rank() * options_.heads)",
     "first_head_(0)"),
    ("masks: heads of a rank only", "nn/transformer.cpp", ".all_heads = all_heads_,", ""),
    ("parts: those of rank 0 everywhere", "nn/parameter_shard.cpp", "size * rank / ranks;", "size * 0 / ranks;"),
    ("norm: what all ranks have counts on each", "nn/arena.cpp", "return !division_ ||", "return true || !division_ ||"),
    ("norm: no sum over the ranks", "optim/clip.cpp", "if (arena.division()) (is_max", "if (false) (is_max"),
    ("norm: largest elements are added up", "optim/clip.cpp", "(is_max ? arena.division()->max : arena.division()->sum)",
     "arena.division()->sum"),
    ("LAMB and LARS: no sum over the ranks", "optim/optimizer.cpp", "arena_.division()->sum(x);", ""),
    ("LAMB and LARS: what all ranks have counts on each", "optim/optimizer.cpp", "if (arena_.counts(static_cast<std::size_t>(i))) continue;",
     "continue;"),
    ("gather_tokens: parts in the order of ranks, not of sequences", SEQUENCE, "copy_parts(all, by_rank, false);",
     "copy_rows(stream_of(all), all.dtype(), by_rank.raw(), 1, all.raw(), 1, all.elements(), 1, false);"),
    ("scatter_tokens: a mean", SEQUENCE, "comm.reduce_scatter(by_rank, own, ReduceOp::sum)",
     "comm.reduce_scatter(by_rank, own, ReduceOp::mean)"),
    ("scatter_tokens: positions of rank 0", SEQUENCE, "is_bias ? 0 : comm->rank() * columns", "0"),
    ("scatter_tokens: gradients of other positions are stale", SEQUENCE, "if (!target.accumulate) fill(", "if (false) fill("),
    ("dropout of tokens: rank 0's mask", SEQUENCE, "(b * ranks + rank) * part", "(b * ranks) * part"),
    ("dropout of tokens: the first sequence's mask", SEQUENCE, "(b * ranks + rank) * part", "rank * part"),
    ("dropout of tokens: takes a rank's counters only", SEQUENCE, "take((whole + 3) / 4)",
     "take((whole / static_cast<std::uint64_t>(ranks) + 3) / 4)"),
    ("sequence parallelism: parts of gradients not added up", "nn/arena.cpp", "division_->sum(gradients_.alias(",
     "static_cast<void>(gradients_.alias("),
    ("sequence parallelism: gradients of divided parameters added up too", "nn/arena.cpp",
     "entries_[i].tensor->autograd->shard != nullptr || !has_grad(i)", "!has_grad(i)"),
]


def places_missing(folder):
    return [f"{what}: {file} has no '{text}'" for what, file, text, _ in CHANGES if text not in (folder / file).read_text()]


def build_tests(build):
    done = subprocess.run(["ninja", "-C", build, "dist_tests"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the build failed:\n{done.stdout[-4000:]}")


def failure(build):
    program = next(Path(build).rglob("dist_tests"))
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMPI_MCA_btl_vader_single_copy_mechanism="none")
    for ranks in ["2", "4"]:
        name = first_failure([*MPIRUN, "-n", ranks, program, "[tensor]"], environment, timeout=300)
        if name:
            return f"{name} ({ranks} ranks)"
    return None


def try_changes(scratch, only):
    """Prints a line for each change, and returns how many no test has noticed."""
    copy, build = scratch / "source", scratch / "build"
    copy_tree(copy)
    options = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DRINGTAPE_CUDA=OFF", "-DRINGTAPE_WERROR=OFF", "-DRINGTAPE_APPS=OFF",
               "-DRINGTAPE_BENCHMARKS=OFF"]
    if shutil.which("ccache"):
        options.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    subprocess.run(["cmake", "-S", copy, "-B", build, *options], check=True, stdout=subprocess.DEVNULL)
    build_tests(build)
    name = failure(build)
    if name:
        sys.exit(f"before any change this test fails: {name}")
    unnoticed = 0
    for what, file, text, replacement in CHANGES:
        if only not in what:
            continue
        original = (copy / file).read_text()
        (copy / file).write_text(original.replace(text, replacement, 1))
        build_tests(build)
        name = failure(build)
        (copy / file).write_text(original)
        unnoticed += name is None
        print(f"{what}: {name or 'NO TEST FAILS'}", flush=True)
    return unnoticed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--fits", action="store_true")
    options = parser.parse_args()
    missing = places_missing(ROOT)
    if missing:
        sys.exit("\n".join(missing))
    if options.fits:
        return
    with tempfile.TemporaryDirectory() as scratch:
        unnoticed = try_changes(Path(scratch), options.only)
    if unnoticed:
        sys.exit(f"{unnoticed} changes that no test notices")


if __name__ == "__main__":
    main()
