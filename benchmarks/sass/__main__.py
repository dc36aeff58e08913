"""Reads the machine code that nvcc made of the kernels, and estimates their times on a GPU, without a GPU: docs/sass.md.

    python3 benchmarks/sass show NAME       the kernels whose names contain NAME: loops, and estimates on one GPU
    python3 benchmarks/sass lines KERNEL    one kernel's source lines with the SASS of each: docs/reading-sass.md
    python3 benchmarks/sass graph FILE      the estimated times of the launches in a file of --save-graph
    python3 benchmarks/sass table           writes benchmarks/results/sass/{launches,kernels,estimates}.json
    python3 benchmarks/sass check           compares a build with the committed tables and tests/sass/expected.json
    python3 benchmarks/sass published DIR   writes published.json: the model against published measurements of other kernels

Needs a build with RINGTAPE_CUDA=ON (--build), and NVIDIA's disassembler:
    pip install nvidia-cuda-cuobjdump==13.5.37 nvidia-cuda-nvdisasm==13.5.37
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import check
import disassemble
import graph
import launches
import machine
import published
import report
import results
import rows
import source_lines
import tools


SHOWN = 40  # problems at most


def kernels_of(build, architectures):
    return {(kernel.name, architecture): kernel for architecture in architectures
            for kernel in disassemble.kernels_of_build(build, architecture).values()}


def write_launches(build, path):
    program = build / "bin" / "launches"
    if not program.exists():
        raise tools.SassError(f"{program} does not exist: cmake --build {build} --target launches")
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([program, "--json", path], check=True)


def table(options):
    write_launches(options.build, results.FOLDER / "launches.json")
    nvcc = tools.nvcc_version(options.build)
    kernels = kernels_of(options.build, rows.ARCHITECTURES)
    results.write(results.FOLDER / "kernels.json", nvcc, rows.kernel_rows(kernels.values()))
    work = launches.read(results.FOLDER / "launches.json")
    results.write(results.FOLDER / "estimates.json", nvcc, rows.estimate_rows(kernels, work), rows.rates())


def run_check(options):
    expected = check.expected_lists(options.expected)
    committed = launches.read(results.FOLDER / "launches.json")
    with tempfile.TemporaryDirectory() as folder:
        write_launches(options.build, pathlib.Path(folder) / "launches.json")
        problems = check.check_launches(launches.read(pathlib.Path(folder) / "launches.json"), committed)
    kernels = kernels_of(options.build, rows.ARCHITECTURES)
    problems += check.check(kernels, committed, tools.nvcc_version(options.build), expected, results.FOLDER)
    for problem in problems[:SHOWN]:
        print(problem)
    if problems:
        raise tools.SassError(f"{len(problems)} differences from tests/sass/expected.json and benchmarks/results/sass")
    print(f"{len(kernels)} kernels are as expected")


def show(options):
    gpu = machine.GPUS[options.gpu]
    texts = list(report.show(kernels_of(options.build, [gpu.architecture.name]),
                             launches.read(results.FOLDER / "launches.json"), options.name, gpu))
    if not texts:
        raise tools.SassError(f"no kernel's name contains '{options.name}'")
    print("\n".join(texts))


def lines(options):
    architecture = machine.GPUS[options.gpu].architecture.name
    objects = disassemble.objects_of_kernels(options.build, architecture)
    if options.kernel not in objects:
        near = [name for name in sorted(objects) if options.kernel in name]
        raise tools.SassError(f"no kernel is named '{options.kernel}'" + (f": expected one of {'; '.join(near)}" if near else ""))
    path = objects[options.kernel]
    kernel = next(each for each in disassemble.kernels_of(path, architecture) if each.name == options.kernel)
    counted = source_lines.counted_by_lens(options.build, options.lens, kernel.name.split("/")[-1]) if options.lens else {}
    print("\n".join(source_lines.text_of(kernel, source_lines.read_lines(options.build, path, kernel), counted, options.sass)))


def show_graph(options):
    gpu = machine.GPUS[options.gpu]
    nodes = graph.read(options.file)
    objects = disassemble.objects_of_kernels(options.build, gpu.architecture.name)
    needed = {objects[node.kernel] for node in nodes if node.kernel in objects}
    kernels = {kernel.name: kernel for path in sorted(needed) for kernel in disassemble.kernels_of(path, gpu.architecture.name)}
    known = {}
    for _, _, each_launch in launches.read(results.FOLDER / "launches.json"):
        for launch in each_launch:
            known.setdefault(launch.kernel, []).append(launch)
    print("\n".join(graph.text_of(nodes, gpu, kernels, known)))
    if options.dot:
        tools.write_text(options.dot, graph.dot(nodes, gpu, kernels, known))


def compare_published(options):
    found = published.rows(published.read(pathlib.Path(__file__).parent / "published.json"), options.folder)
    results.write(results.FOLDER / "published.json", "13.0", found)
    for row in found:
        print(f"{row['name']:36} {row['size']:34} {row['seconds'] * 1e6:10.1f} us, "
              f"published {row['measured_seconds'] * 1e6:10.1f}: {100 * row['error']:+.0f}%")


def main():
    parser = argparse.ArgumentParser(prog="benchmarks/sass", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    with_build = argparse.ArgumentParser(add_help=False)
    with_build.add_argument("--build", type=pathlib.Path, default=results.ROOT / "build" / "release")
    command = commands.add_parser("show", parents=[with_build], help="kernels, their loops and estimates")
    command.add_argument("name")
    command.add_argument("--gpu", choices=list(machine.GPUS), default="H200")
    command.set_defaults(run=show)
    command = commands.add_parser("lines", parents=[with_build], help="a kernel's source lines with the SASS of each")
    command.add_argument("kernel", help="its name as `show` prints it")
    command.add_argument("--gpu", choices=list(machine.GPUS), default="H200")
    command.add_argument("--lens", metavar="WORDS", help="add what `lens WORDS` counts for the same lines")
    command.add_argument("--sass", action="store_true", help="list the main loop's instructions instead of their kinds")
    command.set_defaults(run=lines)
    command = commands.add_parser("graph", parents=[with_build], help="the estimated times of the launches of an update")
    command.add_argument("file", type=pathlib.Path, help="a file that --save-graph wrote")
    command.add_argument("--gpu", choices=list(machine.GPUS), default="H200")
    command.add_argument("--dot", type=pathlib.Path, metavar="FILE", help="write the graph to this file, for Graphviz: dot -Tsvg FILE")
    command.set_defaults(run=show_graph)
    commands.add_parser("table", parents=[with_build], help="write the result files").set_defaults(run=table)
    command = commands.add_parser("check", parents=[with_build], help="compare a build with the committed tables and lists")
    command.add_argument("--expected", type=pathlib.Path, default=results.ROOT / "tests" / "sass" / "expected.json")
    command.set_defaults(run=run_check)
    command = commands.add_parser("published", help="compare the model with published measurements")
    command.add_argument("folder", type=pathlib.Path)
    command.set_defaults(run=compare_published)
    command = commands.add_parser("packages", help="print the PyPI packages of the disassembler")
    command.set_defaults(run=lambda _: print(*tools.PACKAGES.values()))
    options = parser.parse_args()
    try:
        options.run(options)
    except (tools.SassError, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
