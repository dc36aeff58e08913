"""Compares the model with published measurements of other projects' kernels: docs/sass.md tells how their code is made."""
import json

import disassemble
import estimate
import machine
import tools
from rows import round_to


def read(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise tools.SassError(f"{path} cannot be read: {error}") from error


def find(kernels, words):
    """The kernel with the shortest name that contains all of `words`."""
    found = [kernel for kernel in kernels if all(word in kernel.name for word in words)]
    if not found:
        raise tools.SassError(f"no kernel's name contains {' and '.join(words)}")
    return min(found, key=lambda kernel: len(kernel.name))


def launch_of(part, gpu, kernel):
    names = ("elements", "read", "written", "requested", "moved", "scattered", "products")
    fields = {name: part[name] for name in names if name in part}
    fields.setdefault("moved", part.get("read", 0) + part.get("written", 0))
    shared = part.get("shared_bytes", 0)
    if "blocks_of_multiprocessor" in part:  # the program limits the number by its use of shared memory
        of_block = gpu.architecture.shared // part["blocks_of_multiprocessor"]
        shared = of_block // machine.SHARED_AT_ONCE * machine.SHARED_AT_ONCE - machine.SHARED_OF_SYSTEM - kernel.shared
    return estimate.Launch(" ".join(part["kernel"]), tuple(part["grid"]), tuple(part["block"]), shared, **fields)


def rows(published, folder):
    """A row for each published measurement, with the estimate and its error."""
    loaded, result = {}, []
    for row in published["rows"]:
        gpu = machine.GPUS[row["gpu"]]
        seconds = 0
        for part in row["parts"]:
            code = part["code"]
            if code not in loaded:
                path = folder / f"{code}.cubin"
                if not path.exists():
                    raise tools.SassError(f"{path} does not exist: docs/sass.md says how it is made")
                loaded[code] = disassemble.kernels_of(path, gpu.architecture.name)
            kernel = find(loaded[code], part["kernel"])
            found = estimate.estimate(gpu, kernel, launch_of(part, gpu, kernel))
            seconds += found.seconds * part.get("times", 1)
        result.append({"name": row["name"], "size": f"{row['size']} | {row['gpu']}", "source": row["source"],
                       "limit": found.limit, "seconds": round_to(seconds), "measured_seconds": row["measured_seconds"],
                       "error": round_to(seconds / row["measured_seconds"] - 1, 3)})
    return result
