"""The rows of the result files: the resources of the kernels, and the estimates."""
import collections

import estimate
import faults
import loops
import machine
import tools

ESTIMATED = ("A100", "H100", "H200")
ARCHITECTURES = ("sm_80", "sm_90")


def by_kind(path):
    """The instructions on a path by kind, and for memory by width: {"FFMA": 48, "LDG 16": 4}. Without those that do not run."""
    return dict(sorted(collections.Counter(
        f"{each.instruction.kind} {each.instruction.bytes}" if each.instruction.bytes else each.instruction.kind
        for each in path if each.acts).items()))


def main_path(kernel):
    """The path around the innermost loop with the most bytes of global memory, then the fewest accesses, then the most
    instructions; the path through the whole kernel if it has no loop."""
    if not kernel.loops:
        return loops.straight_path(kernel.blocks, True)
    return max(kernel.loops, key=lambda loop: (loop.bytes_of(*estimate.GLOBAL), -estimate.accesses(loop.path),
                                               len(loop.path))).path


def widest(path, kind):
    """The bytes of the widest access of a kind on a path; 0 if there is none."""
    return max((each.instruction.bytes for each in path if each.instruction.kind == kind and each.acts), default=0)


def loop_bytes(row):
    """The bytes of global memory that a lane moves in the main loop of a row of kernel_rows()."""
    kinds = (key.split()[1:] + [count] for key, count in row.items() if key.startswith("loop "))
    return sum(int(kind[1]) * kind[2] for kind in kinds if len(kind) == 3 and kind[0] in estimate.GLOBAL)


def kernel_rows(kernels):
    """A row for each kernel: its resources and its main loop."""
    rows = []
    for kernel in sorted(kernels, key=lambda kernel: (kernel.name, kernel.architecture)):
        path = main_path(kernel)
        row = {"name": kernel.name, "size": kernel.architecture, "file": kernel.file, "registers": kernel.registers,
               "stack": kernel.stack, "spills": faults.spills(kernel), "shared": kernel.shared,
               "instructions": len(kernel.code), "split_stores": faults.split_vectors(kernel),
               "widest_load": widest(path, "LDG"), "widest_store": widest(path, "STG"), "loop": len(path)}
        rows.append(row | {f"loop {kind}": count for kind, count in by_kind(path).items()})
    return rows


def estimate_rows(kernels, work):
    """An estimate for each launch on each GPU that can hold it. `kernels` is by (name, architecture), `work` from
    launches.read()."""
    rows = []
    for name, size, launches in work:
        for number, launch in enumerate(launches, 1):
            for gpu in map(machine.GPUS.get, ESTIMATED):
                kernel = kernels.get((launch.kernel, gpu.architecture.name))
                if kernel is None:
                    raise tools.SassError(f"{name}: launches '{launch.kernel}', which the build lacks for "
                                          f"{gpu.architecture.name}")
                found = estimate.estimate(gpu, kernel, launch)
                if found:
                    rows.append(estimate_row(name, f"{size} | {gpu.name} | {number} {launch.kernel}", kernel, launch, found))
    return rows


def estimate_row(name, size, kernel, launch, found):
    useful = (launch.read + launch.written) * launch.elements
    terms = {f"{term} seconds": round_to(value) for term, value in found.terms.items()
             if value > 0.02 * found.seconds or term == "bytes" and value > 0}
    row = {"name": name, "size": size, "limit": found.limit, "seconds": round_to(found.seconds), **terms,
           "registers": kernel.registers, "shared": kernel.shared + launch.shared_bytes, "threads": launch.threads,
           "blocks": launch.blocks, "resident_blocks": found.occupancy.blocks, "resident_warps": found.occupancy.warps,
           "occupancy_limit": found.occupancy.limit, "instructions_of_element": round_to(found.instructions),
           "bytes_in_flight": round(found.bytes_in_flight)}
    if useful > 0:
        row |= {"bytes": round(useful), "bytes_of_element": round_to(launch.read + launch.written)}
    return row


def rates():
    """The limits of each GPU in the estimates."""
    return {gpu.name: {"copy_bytes_per_second": gpu.copy_rate,
                       "f32_flops_per_second": round_to(2 * gpu.architecture.fp32 * gpu.multiprocessors * gpu.clock)}
            for gpu in map(machine.GPUS.get, ESTIMATED)}


def round_to(value, digits=5):
    return float(f"{value:.{digits}g}")
