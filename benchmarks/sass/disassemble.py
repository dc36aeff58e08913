"""Reads the kernels of object files: their SASS, and the resources of a multiprocessor that they use."""
import concurrent.futures
import dataclasses
import functools
import os
import pathlib
import re

import instructions
import loops
import machine
import tools

FUNCTION = re.compile(r"^\s*Function : (\S+)")
USAGE = re.compile(r"^ Function (\S+):\n\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)", re.MULTILINE)


@dataclasses.dataclass(frozen=True, eq=False)
class Kernel:
    name: str  # without namespaces and parameters; in a ladder with its folder: "gemm/naive"
    architecture: str  # "sm_90"
    file: str  # the object file's name without ".o": "adam.cu"
    registers: int  # of a thread
    stack: int  # bytes of a thread
    local: int  # bytes of a thread, without the stack
    shared: int  # static, bytes of a block
    code: tuple  # of Instruction
    bound: int = 0  # threads of a block by __launch_bounds__; 0: the kernel has none

    @functools.cached_property
    def blocks(self):
        return loops.blocks_of(self.code)

    @functools.cached_property
    def all_loops(self):
        return loops.find_loops(self.blocks)

    @property
    def loops(self):
        """The innermost loops."""
        return self.all_loops[0]


def short_name(demangled):
    """"void ringtape::on_cuda::(anonymous namespace)::relu<float>(float*)" as "relu<float>", as the analysis writes it."""
    for space in ("ringtape::on_cuda::", "(anonymous namespace)::", "ringtape::"):
        demangled = demangled.replace(space, "")
    demangled = demangled.removeprefix("void ")
    depth = 0
    for i, letter in enumerate(demangled):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "(" and depth == 0:
            return demangled[:i]
    return demangled


def listings(text):
    """The instructions of each function in the output of `cuobjdump -sass`."""
    found = {}
    for line in text.splitlines():
        function = FUNCTION.match(line)
        if function:
            current = found.setdefault(function[1], [])
            continue
        instruction = instructions.parse_line(line)
        if instruction:
            current.append(instruction)
    return found


def launch_bounds(text):
    """The threads of a block by __launch_bounds__ of each function that has it, in the output of `cuobjdump -elf`."""
    bounds, function, is_bound = {}, None, False
    for line in text.splitlines():
        if line.startswith(".nv.info."):
            function = line.removeprefix(".nv.info.")
        elif "Attribute:" in line:
            is_bound = line.endswith("EIATTR_MAX_THREADS")
        elif is_bound and "Value:" in line:
            bounds[function] = int(line.split()[1], 16)
    return bounds


def prefix_of(path):
    """The folder of a ladder and "/", as kernels of different ladders share names; "" for other files."""
    parts = pathlib.Path(path).parts
    return parts[-2] + "/" if "ringtape_ladders_kernels_cuda.dir" in parts else ""


def kernels_in_text(path, architecture, sass, usage, elf=""):
    """The kernels of the object file `path`, from the output of `cuobjdump -sass`, `-res-usage` and `-elf`."""
    bounds = launch_bounds(elf)
    resources = {name: tuple(map(int, rest)) for name, *rest in USAGE.findall(usage)}
    found = listings(sass)
    names = tools.demangle(list(found))
    result = []
    for mangled, demangled in zip(found, names):
        registers, stack, shared, local = resources[mangled]
        if shared and int(architecture.removeprefix("sm_")) >= 90:
            shared -= machine.SHARED_OF_SYSTEM  # cuobjdump includes it from sm_90 on
        code = found[mangled]
        while code and code[-1].name in ("NOP", "BRA") and (code[-1].name == "NOP" or code[-1].target == code[-1].address):
            code.pop()  # padding
        name, file = prefix_of(path) + short_name(demangled), pathlib.Path(path).name.removesuffix(".o")
        result.append(Kernel(name, architecture, file, registers, stack, local, shared, tuple(code),
                             bounds.get(mangled, 0)))
    return result


def kernels_of(path, architecture):
    """The kernels in an object file, a cubin or a library."""
    choice = ["-arch", architecture] if str(path).endswith((".o", ".a", ".so")) else []
    return kernels_in_text(path, architecture, tools.run("cuobjdump", ["-sass", *choice, path]),
                           tools.run("cuobjdump", ["-res-usage", *choice, path]),
                           tools.run("cuobjdump", ["-elf", *choice, path]))


def object_files(build):
    """The object files of the library's kernels and of the ladders in a build folder."""
    found = sorted(
        pathlib.Path(build).glob("kernels/CMakeFiles/ringtape*_kernels_cuda.dir/*.cu.o"), key=lambda path: path.name) + sorted(
        pathlib.Path(build).glob("kernels/ladders/CMakeFiles/ringtape_ladders_kernels_cuda.dir/*/*.cu.o"))
    if not found:
        raise tools.SassError(f"{build}: no CUDA kernels, expected a build with RINGTAPE_CUDA=ON")
    return found


def of_each_object(build, read):
    """The results of read(path) for each object file of a build folder."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(read, object_files(build)))


def kernels_of_build(build, architecture):
    """All kernels of a build folder, by name."""
    parts = of_each_object(build, lambda path: kernels_of(path, architecture))
    return {kernel.name: kernel for part in parts for kernel in part}


def objects_of_kernels(build, architecture):
    """The object file of each kernel of a build folder, by the kernel's name; faster than kernels_of_build()."""
    usages = of_each_object(build, lambda path: (path, tools.run("cuobjdump", ["-res-usage", "-arch", architecture, path])))
    found = [(prefix_of(path), path, function[0]) for path, usage in usages for function in USAGE.findall(usage)]
    names = tools.demangle([mangled for _, _, mangled in found])
    return {prefix + short_name(name): path for (prefix, path, _), name in zip(found, names)}
