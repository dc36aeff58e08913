"""A kernel's source lines with the code that nvcc made of each, and with what `lens` counts for it.

The kernel's file is compiled again with the build's command and -lineinfo, which adds line numbers and must not change the
code: the instructions are compared with the build's. """
import collections
import dataclasses
import json
import pathlib
import re
import shlex
import subprocess
import tempfile

import disassemble
import instructions
import rows
import tools

SECTION = re.compile(r"^\.text\.(\S+):")
LOCATION = re.compile(r'^\s*//## File "([^"]*)", line (\d+)( inlined at )?')
COLUMN_TITLES = re.compile(r"// \|([ A-Z|]*GPR[ A-Z|]*)$")
COUNTED = re.compile(r"^  (\S+):(\d+) +(read|write|atomic) +(\d+) +([\d.]+) +(\d+) +([\d.]+) +([\d.]+) +(\d+)$")


@dataclasses.dataclass
class Line:
    """The code of one source line."""
    code: list  # of Instruction, of the whole kernel
    main: list  # of Executed, on the path around the main loop, or through a kernel without loops
    live: dict  # the number of live registers at each instruction of `code`, by address


def place_of(chain):
    """The place to which an instruction is attributed. `chain` has the places through which it was inlined, innermost first:
    the innermost place in a .cu file is taken, as in the analysis (docs/analysis.md)."""
    return next((place for place in chain if place[0].endswith(".cu")), chain[0])


def places_in_text(text):
    """{function: {address: (file, line)}} from the output of `nvdisasm -gi`."""
    found, chain, is_whole, current = {}, [], True, {}
    for line in text.splitlines():
        section = SECTION.match(line)
        if section:
            current, chain, is_whole = found.setdefault(section[1], {}), [], True
        location = LOCATION.match(line)
        if location:
            chain = ([] if is_whole else chain) + [(location[1], int(location[2]))]
            is_whole = location[3] is None  # the line without "inlined at" ends an instruction's chain
        instruction = instructions.parse_line(line)
        if instruction and chain:
            current[instruction.address] = place_of(chain)
    return found


def live_in_text(text):
    """{function: {address: live registers}} from the output of `nvdisasm -lrm count`."""
    found, current, column = {}, {}, 0
    for line in text.splitlines():
        section = SECTION.match(line)
        if section:
            current = found.setdefault(section[1], {})
        titles = COLUMN_TITLES.search(line.rstrip())
        if titles:
            column = [title.strip() for title in titles[1].split("|")].index("GPR")
        instruction = instructions.parse_line(line)
        if instruction:
            count = line.rsplit("// |", 1)[1].split("|")[column].strip()
            current[instruction.address] = int(count or 0)
    return found


def lines_of(kernel, places, live):
    """{(file, line): Line} of a kernel. `places` and `live` are those of its function in places_in_text() and
    live_in_text()."""
    found = collections.defaultdict(lambda: Line([], [], {}))
    for instruction in kernel.code:
        if instruction.address in places:
            line = found[places[instruction.address]]
            line.code.append(instruction)
            line.live[instruction.address] = live[instruction.address]
    for each in rows.main_path(kernel):
        if each.instruction.address in places:
            found[places[each.instruction.address]].main.append(each)
    return dict(found)


def compile_with_lines(build, path, architecture, cubin):
    """Compiles the source of the build's object file `path` to the file `cubin`, for one architecture, with line numbers."""
    try:
        commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise tools.SassError(f"{build}/compile_commands.json cannot be read: {error}") from error
    name = str(path.relative_to(build))
    found = [(shlex.split(each["command"]), each["directory"]) for each in commands]
    words, folder = next(((words, folder) for words, folder in found if name in words), (None, None))
    if words is None:
        raise tools.SassError(f"{build}/compile_commands.json: no command makes {name}")
    words = [word for word in words if not word.startswith("--generate-code") and word != "-c"]
    words[words.index(name)] = str(cubin)
    done = subprocess.run([*words, f"-arch={architecture}", "-cubin", "-lineinfo"], cwd=folder, check=False, text=True,
                          capture_output=True)
    if done.returncode != 0:
        raise tools.SassError(f"{words[0]} {words[-1]}: {tools.reason_of(done)}")


def read_lines(build, path, kernel):
    """lines_of() for a kernel of the build's object file `path`."""
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder).resolve() / "kernel.cubin"
        compile_with_lines(build, path, kernel.architecture, cubin)
        prefix = disassemble.prefix_of(path)
        with_lines = {prefix + each.name: each for each in disassemble.kernels_of(cubin, kernel.architecture)}
        if with_lines[kernel.name].code != kernel.code:
            raise tools.SassError(f"{kernel.name}: compiled with -lineinfo it has other instructions than in {build}: "
                                  "expected a build of the same sources")
        texts = [tools.run("nvdisasm", [*option, cubin]) for option in (["-c", "-gi"], ["-c", "-lrm", "count"])]
    places, live = places_in_text(texts[0]), live_in_text(texts[1])
    function = dict(zip((prefix + disassemble.short_name(name) for name in tools.demangle(list(places))), places))[kernel.name]
    return lines_of(kernel, places[function], live[function])


def counted_by_lens(build, words, name):
    """What `lens WORDS` counts for the kernel `name`, which has no folder: {(file, line): texts}. Of several launches only the
    first counts."""
    program = build / "bin" / "lens"
    if not program.exists():
        raise tools.SassError(f"{program} does not exist: cmake --build {build} --target lens")
    done = subprocess.run([program, *words.split()], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise tools.SassError(f"lens {words}: {tools.reason_of(done)}")
    found, begun, is_shared = {}, False, False
    for line in done.stdout.splitlines():
        if ": " in line and not line.startswith(" "):
            if begun:
                break
            begun = line.startswith(name + ": ")
        is_shared = (is_shared or line.startswith("  shared memory")) and not line.startswith("  global memory")
        counted = COUNTED.match(line)
        if begun and counted:
            found.setdefault((counted[1], int(counted[2])), []).append(lens_text(counted, is_shared))
    if not begun:
        raise tools.SassError(f"lens {words} runs no kernel '{name}'")
    return found


def lens_text(counted, is_shared):
    access, requests, lanes, total, each, ideal = counted.groups()[2:8]
    unit = "bank cycles" if is_shared else "sectors"
    return f"{access} {requests} requests of {float(lanes):g} lanes, {total} {unit}: {float(each):g} each, ideal {float(ideal):g}"


def source_text(file, line):
    try:
        return pathlib.Path(file).read_text(encoding="utf-8").splitlines()[line - 1]
    except (OSError, IndexError):
        return ""


def main_text(path):
    return ", ".join(f"{count} {kind}" for kind, count in rows.by_kind(path).items())


def sass_text(executed, live):
    """An instruction as the disassembler writes it, in brackets if it has no effect because its predicate is false."""
    instruction = executed.instruction
    predicate = f"@{'!' if instruction.negated else ''}{instruction.predicate} " if instruction.predicate else ""
    text = f"{predicate}{instruction.opcode} {', '.join(instruction.operands)}".strip()
    return f"{'':15}{live:4}    {text if executed.acts else f'[{text}]'}"


def text_of(kernel, lines, counted, with_sass):
    """The lines as text, with the counts of counted_by_lens() and, `with_sass`, the instructions of the main loop."""
    where = "the main loop" if kernel.loops else "the way through the kernel"
    yield (f"{kernel.name}, {kernel.architecture}: {kernel.registers} registers, {len(kernel.code)} instructions, "
           f"{len(rows.main_path(kernel))} in {where}")
    for file in sorted({file for file, _ in lines}, key=lambda file: (not file.endswith(".cu"), file)):
        yield f"\n{pathlib.Path(file).name}\n line  all main live"
        for (_, number), line in sorted(each for each in lines.items() if each[0][0] == file):
            yield (f"{number:5} {len(line.code):4} {len(line.main):4} {max(line.live.values()):4}  "
                   + source_text(file, number)).rstrip()
            if with_sass:
                yield from (sass_text(each, line.live[each.instruction.address]) for each in line.main)
            elif line.main:
                yield f"{'':23}{main_text(line.main)}"
            yield from (f"{'':23}lens: {text}" for text in counted.get((pathlib.Path(file).name, number), []))
