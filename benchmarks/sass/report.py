"""A kernel and its estimates as text."""
import estimate
import rows


def kernel_text(kernel):
    lines = [f"{kernel.name}, {kernel.architecture}: {kernel.registers} registers, {kernel.stack} bytes of stack, "
             f"{kernel.shared} of static shared memory, {len(kernel.code)} instructions"]
    for loop in kernel.loops:
        kinds = ", ".join(f"{count} {kind}" for kind, count in rows.by_kind(loop.path).items())
        lines.append(f"  loop at {kernel.blocks[loop.header].code[0].address:#06x}: {len(loop.path)} instructions: {kinds}")
    return "\n".join(lines)


def estimate_text(name, size, gpu, launch, found):
    if found is None:
        return f"  {name}, {size}: {gpu.name} cannot hold a block"
    terms = ", ".join(f"{term} {value * 1e6:.1f}" for term, value in sorted(found.terms.items(), key=lambda each: -each[1])
                      if value > 0.01 * found.seconds)
    return (f"  {name}, {size}, on {gpu.name}: about {found.seconds * 1e6:.1f} us (estimated, not measured); {found.limit} "
            f"takes most\n    us of: {terms}\n    {launch.blocks} blocks of {launch.threads} threads, "
            f"{found.occupancy.blocks} on a multiprocessor ({found.occupancy.warps} warps, {found.occupancy.limit}), "
            f"{found.instructions:.1f} instructions for each element, {found.bytes_in_flight / 1024:.1f} KiB in flight on a "
            f"multiprocessor, " + (", ".join("the whole kernel" if each.loop is None else
                                             f"{each.elements:.3g} elements an iteration" for each in found.passes)))


def show(kernels, work, words, gpu):
    """The texts of the kernels whose names contain `words`, each followed by the estimates of its launches."""
    for (name, architecture), kernel in sorted(kernels.items()):
        if words not in name or architecture != gpu.architecture.name:
            continue
        yield kernel_text(kernel)
        for of, size, launches in work:
            for launch in launches:
                if launch.kernel == name:
                    yield estimate_text(of, size, gpu, launch, estimate.estimate(gpu, kernel, launch))
