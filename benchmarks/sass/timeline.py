"""The times at which one warp alone issues the instructions of a path: in order, each when its operands are available."""
import machine


def issue_cycles(instruction, architecture):
    """The cycles for which a warp's instruction occupies its unit, of which each of the four schedulers has one."""
    lanes = {"FFMA": architecture.fp32, "FADD": architecture.fp32, "FMUL": architecture.fp32, "HFMA2": architecture.half2,
             "F64": architecture.fp64, "integer": architecture.alu, "compare": architecture.alu, "pack": architecture.alu,
             "MUFU": machine.SPECIAL, "convert": machine.SPECIAL, "shuffle": machine.SHUFFLES}.get(instruction.kind)
    return 1 if lanes is None else max(1, machine.WARP * machine.SCHEDULERS // lanes)


def cycles(path, architecture, times=1):
    """The cycles from the first instruction until all results of the last of `times` passes are available, and the cycles of a
    pass in the steady state, which is the mean of the passes after the first."""
    ready, busy, now = {}, {}, 0
    marks = []
    for _ in range(max(times, 1)):
        for each in path:
            instruction = each.instruction
            if each.acts:
                now = max([now] + [ready.get(name, 0) for name in instruction.read])
                unit = instruction.kind
                now = max(now, busy.get(unit, 0))
                busy[unit] = now + issue_cycles(instruction, architecture)
                latency = architecture.latency.get(instruction.kind, 4)
                if instruction.kind == "LDGSTS":
                    ready["copies"] = now + architecture.latency["LDG"]
                if instruction.name == "DEPBAR":
                    now = max(now, end_of_copies(instruction, ready))
                for name in instruction.written:
                    ready[name] = now + latency
            now += 1
        marks.append(now)
    end = max([now] + [time for name, time in ready.items() if name != "copies"])
    steady = (marks[-1] - marks[0]) / (len(marks) - 1) if len(marks) > 1 else now
    return end, steady


def end_of_copies(instruction, ready):
    """The cycle at which a DEPBAR lets the warp continue. A DEPBAR that leaves groups of copies in flight does not wait
    here."""
    left = instruction.operands[-1] if instruction.operands else "0x0"
    return ready.get("copies", 0) if left in ("0x0", "0") else 0
