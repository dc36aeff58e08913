"""Tests of benchmarks/sass on small excerpts of SASS, which nvcc 13.0 made of kernels/relu.cu (and, for the scalar store, of
a copy whose store_vec is a loop over the lanes). They need neither nvcc nor the disassembler."""
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "sass"))
import aligned  # noqa: E402
import check  # noqa: E402
import disassemble  # noqa: E402
import estimate  # noqa: E402
import faults  # noqa: E402
import graph  # noqa: E402
import instructions  # noqa: E402
import launches  # noqa: E402
import loops  # noqa: E402
import machine  # noqa: E402
import nearest  # noqa: E402
import occupancy  # noqa: E402
import rows  # noqa: E402
import source_lines  # noqa: E402
import timeline  # noqa: E402
import tools  # noqa: E402

EXCERPTS = pathlib.Path(__file__).parent / "excerpts"


def kernel_of(excerpt):
    text = (EXCERPTS / f"{excerpt}.txt").read_text()
    return disassemble.kernels_in_text("kernels/relu.cu.o", excerpt.split(".")[-1], text, text)[0]


def code(*lines):
    """Instructions 16 bytes apart, from 0."""
    return [instructions.parse_line(f"/*{16 * i:04x}*/ {line} ;") for i, line in enumerate(lines)]


def path(*lines):
    return [loops.Executed(instruction, True) for instruction in code(*lines)]


class Instructions(unittest.TestCase):
    def test_parts_of_a_line(self):
        found = instructions.parse_line("        /*01c0*/              @!P0 LDG.E.128 R4, desc[UR4][R18.64+0x8] ;")
        self.assertEqual((found.address, found.predicate, found.negated, found.opcode), (0x1c0, "P0", True, "LDG.E.128"))
        self.assertEqual((found.kind, found.bytes), ("LDG", 16))
        self.assertEqual(found.written, ("R4", "R5", "R6", "R7"))
        self.assertEqual(set(found.read), {"P0", "UR4", "R18", "R19"})

    def test_widths(self):
        for text, kind, size in (("LDG.E R0, [R2.64]", "LDG", 4), ("LDG.E.U8 R4, [R4.64]", "LDG", 1),
                                 ("STG.E.64 [R2.64], R6", "STG", 8), ("STG.E.U16 [R2.64], R6", "STG", 2),
                                 ("LDS.128 R4, [R8+0x10]", "LDS", 16), ("STS.U16 [R8], R1", "STS", 2),
                                 ("LDGSTS.E.BYPASS.128 [R5], [R2.64]", "LDGSTS", 16), ("LDSM.16.M88.4 R4, [R9]", "LDSM", 16)):
            found = code(text)[0]
            self.assertEqual((found.kind, found.bytes), (kind, size), text)

    def test_kinds(self):
        kinds = [each.kind for each in code(
            "FFMA R0, R1, R2, R3", "MUFU.EX2 R0, R1", "F2F.F64.F32 R2, R1", "IMAD.MOV.U32 R1, RZ, RZ, R2",
            "IMAD R1, R2, R3, R4", "HMMA.16816.F32.BF16 R0, R4, R8, R0", "BAR.SYNC.DEFER_BLOCKING 0x0",
            "F2FP.BF16.F32.PACK_AB R1, R2, R3", "LOP3.LUT R1, R2, 0xf, RZ, 0xc0, !PT")]
        self.assertEqual(kinds, ["FFMA", "MUFU", "convert", "move", "integer", "HMMA", "barrier", "pack", "integer"])

    def test_registers_of_wide_results(self):
        self.assertEqual(code("DFMA R4, R6, R8, R10")[0].written, ("R4", "R5"))
        self.assertEqual(code("IADD3 R4, P1, R2, R3, RZ")[0].written, ("R4", "P1"))
        self.assertEqual(code("STG.E.128 [R2.64], R4")[0].written, ())
        self.assertEqual(set(code("STG.E.128 [R2.64], R4")[0].read), {"R2", "R3", "R4", "R5", "R6", "R7"})


class Alignment(unittest.TestCase):
    def known_after(self, *lines):
        known = {}
        for instruction in code(*lines):
            aligned.step(instruction, known)
        return known

    def test_low_bits_of_an_address_are_zero(self):
        self.assertEqual(self.known_after("LOP3.LUT P0, RZ, R18, 0xf, RZ, 0xc0, !PT"), {"P0": False})
        self.assertEqual(self.known_after("LOP3.LUT R3, R18, 0xf, RZ, 0xc0, !PT",
                                          "ISETP.NE.U32.AND P1, PT, R3, RZ, PT")["P1"], False)

    def test_other_tests_are_unknown(self):
        self.assertEqual(self.known_after("LOP3.LUT P0, RZ, R18, 0x10, RZ, 0xc0, !PT"), {})
        self.assertEqual(self.known_after("ISETP.NE.U32.AND P1, PT, R3, RZ, PT"), {})

    def test_a_write_ends_what_is_known(self):
        self.assertEqual(self.known_after("LOP3.LUT P0, RZ, R18, 0xf, RZ, 0xc0, !PT", "ISETP.GT.AND P0, PT, R1, R2, PT"), {})


class Loops(unittest.TestCase):
    def test_the_vector_loop_and_the_remainder(self):
        kernel = kernel_of("relu_forward_f16.sm_90")
        starts = [kernel.blocks[loop.header].code[0].address for loop in kernel.loops]
        self.assertEqual(starts, [0x170, 0x600])  # where the two backward branches of the excerpt go
        self.assertEqual([(loop.bytes_of("LDG"), loop.bytes_of("STG")) for loop in kernel.loops], [(16, 16), (2, 2)])
        # 0x170 to 0x560, without the 9 instructions of the stores that are not aligned, 0x470 to 0x4f0
        self.assertEqual(len(kernel.loops[0].path), (0x560 - 0x170) // 16 + 1 - 9)

    def test_a_call_for_rare_values_is_not_on_the_path(self):
        blocks = loops.blocks_of(code("MUFU.RCP R1, R2", "@P0 BRA 0x40", "CALL.REL.NOINC 0x1000", "NOP", "FADD R1, R1, R3",
                                      "@P1 BRA 0x0", "EXIT"))
        names = [each.instruction.name for each in loops.innermost_loops(blocks)[0].path]
        self.assertEqual(names, ["MUFU", "BRA", "FADD", "BRA"])

    def test_opposite_predicates_count_once(self):
        both = [loops.Executed(instruction, None) for instruction in code(
            "@P0 LDG.E R4, [R2.64]", "@P0 LDG.E R5, [R2.64+0x4]", "@!P0 LDG.E.128 R4, [R2.64]")]
        self.assertEqual(loops.bytes_on(both, ("LDG",)), 16)

    def test_one_side_of_an_unknown_predicate_acts(self):
        def names(*lines):
            path = [loops.Executed(instruction, None if instruction.predicate else True) for instruction in code(*lines)]
            return [instruction.opcode for instruction in loops.acting(path)]
        # The side with more bytes, of equal ones the one with fewer instructions, without bytes the longer one.
        self.assertEqual(names("@P0 LDG.E R4, [R2.64]", "@!P0 LDG.E.128 R4, [R2.64]", "FADD R4, R4, R4"), ["LDG.E.128", "FADD"])
        self.assertEqual(names("@P0 LDG.E.64 R4, [R2.64]", "@!P0 LDG.E R4, [R2.64]", "@!P0 LDG.E R5, [R2.64+0x4]"), ["LDG.E.64"])
        self.assertEqual(names("@P0 FADD R4, R4, R4", "@P0 FMUL R4, R4, R4", "@!P0 MOV R4, R5"), ["FADD", "FMUL"])
        # P0 has another value after it is written.
        self.assertEqual(names("@P0 LDG.E R4, [R2.64]", "ISETP.GE.AND P0, PT, R0, R1, PT", "@!P0 STG.E [R2.64], R4"),
                         ["LDG.E", "ISETP.GE.AND", "STG.E"])

    def test_the_multiply_adds_of_a_tensor_core_are_divided_over_32_lanes(self):
        path = [loops.Executed(instruction, True) for instruction in code("HMMA.16816.F32.BF16 R0, R4, R8, R0",
                                                                          "HMMA.1688.F32 R0, R4, R8, R0", "FFMA R0, R1, R2, R3")]
        self.assertEqual(estimate.multiply_adds(path), 64 + 32 + 1)
        # 2,048 multiply-adds of a warp take 2 of 1,024 a clock.
        self.assertEqual(estimate.unit_cycles(path[:1], machine.SM_80)["tensor"], 2)

    def test_the_way_to_the_end_leaves_remainders_out(self):
        kernel = kernel_of("relu_forward_f16.sm_90")
        last = loops.way_out(kernel.blocks, kernel.loops[0])[-1]
        self.assertEqual(last.instruction.name, "EXIT")


# A row of up to two vectors in registers: each vector is loaded, and used, if the row is that long. The loop is for longer
# rows.
KEPT = ("ISETP.GE.AND P0, PT, R0, R1, PT", "@P0 BRA 0x30", "LDG.E.128 R4, [R2.64]",
        "ISETP.GE.AND P1, PT, R16, R1, PT", "@P1 BRA 0x60", "LDG.E.128 R8, [R2.64+0x1000]",
        "LDG.E.128 R12, [R18.64]", "STG.E.128 [R18.64], R12", "@P2 BRA 0x60",
        "@P0 BRA 0xc0", "FADD R4, R4, R5", "NOP", "ISETP.GE.AND P3, PT, R16, R1, PT", "@P3 BRA 0xf0", "FADD R8, R8, R9",
        "EXIT")


class Nearest(unittest.TestCase):
    def adds(self, wanted):
        blocks = loops.blocks_of(code(*KEPT))
        return [each.instruction.operands[0] for each in nearest.through(blocks, wanted, estimate.accesses)
                if each.instruction.name in ("FADD", "LDG")]

    def test_the_way_has_the_bytes_that_are_wanted(self):
        self.assertEqual(self.adds(32 + 32)[:3], ["R4", "R8", "R12"])

    def test_equal_conditions_go_the_same_way(self):
        """The loop moves 32 bytes in any case. The second comparison of R16 and R1 is in P3 and not P1, but is the same condition."""
        self.assertEqual(self.adds(32), ["R12"])
        self.assertIn(self.adds(32 + 16), (["R4", "R12", "R4"], ["R8", "R12", "R8"]))
        self.assertEqual(self.adds(32 + 32), ["R4", "R8", "R12", "R4", "R8"])


    def test_a_condition_may_be_kept_as_a_bit(self):
        def conditions_with(bit, tested):
            blocks = loops.blocks_of(code(
                "ISETP.GT.AND P6, PT, R0, R1, PT", f"@P6 LOP3.LUT R77, R77, {bit}, RZ, 0xfc, !PT", "@!P6 BRA 0x40", "NOP",
                f"LOP3.LUT P5, RZ, R77, {tested}, RZ, 0xc0, !PT", "@!P5 BRA 0x70", "NOP", "EXIT"))
            return [value for _, value in nearest.conditions(blocks).values()]
        self.assertEqual(conditions_with("0x1000", "0x1000"), [True, True])
        self.assertEqual(conditions_with("0x1000", "0x2000"), [])  # a condition that only one branch tests does not count


class Occupancy(unittest.TestCase):
    """Figures of the CUDA occupancy calculator."""

    def check(self, architecture, threads, registers, shared, blocks, limit):
        found = occupancy.occupancy(architecture, threads, registers, shared)
        self.assertEqual((found.blocks, found.limit), (blocks, limit))

    def test_limits(self):
        self.check(machine.SM_80, 256, 32, 0, 8, "threads")
        self.check(machine.SM_80, 256, 64, 0, 4, "registers")
        self.check(machine.SM_80, 256, 65, 0, 3, "registers")  # 72 are taken
        self.check(machine.SM_80, 128, 32, 48 << 10, 3, "shared memory")  # 164 KiB, 49 for each block
        self.check(machine.SM_90, 128, 32, 100 << 10, 2, "shared memory")
        self.check(machine.SM_90, 32, 16, 0, 32, "blocks")
        self.check(machine.SM_86, 1024, 40, 0, 1, "threads")
        self.check(machine.SM_90, 512, 255, 0, 0, "registers")

    def test_the_systems_shared_memory_counts_once(self):
        """From sm_90 on cuobjdump adds it to the shared memory of a kernel that uses any."""
        def shared(architecture, printed):
            text = (EXCERPTS / f"relu_forward_f16.{architecture}.txt").read_text().replace("SHARED:0", f"SHARED:{printed}")
            return disassemble.kernels_in_text("kernels/relu.cu.o", architecture, text, text)[0].shared
        self.assertEqual([shared("sm_80", 264), shared("sm_90", 264 + 1024), shared("sm_90", 0)], [264, 264, 0])

    def test_share_of_warps(self):
        self.assertEqual(occupancy.occupancy(machine.SM_90, 256, 64, 0).share, 0.5)


class Timeline(unittest.TestCase):
    def test_a_chain_waits_for_each_result(self):
        chain = path(*["FFMA R0, R0, R1, R2"] * 10)
        self.assertEqual(timeline.cycles(chain, machine.SM_90)[0], 10 * machine.ARITHMETIC["FFMA"])

    def test_independent_loads_wait_together(self):
        load = machine.SM_90.latency["LDG"]
        together = path("LDG.E R4, [R2.64]", "LDG.E R5, [R2.64+0x4]", "FADD R6, R4, R5")
        apart = path("LDG.E R4, [R2.64]", "LDG.E R5, [R4.64]", "FADD R6, R4, R5")
        self.assertEqual(timeline.cycles(together, machine.SM_90)[0], 1 + load + machine.ARITHMETIC["FADD"])
        self.assertEqual(timeline.cycles(apart, machine.SM_90)[0], 2 * load + machine.ARITHMETIC["FADD"])


def launch_of_relu(**fields):
    n = 1 << 28
    return estimate.Launch(**{"kernel": "relu_forward<float16>", "grid": (n // 2048, 1, 1), "block": (256, 1, 1),
                              "shared_bytes": 0, "elements": n, "read": 2, "written": 2, "requested": 4, "moved": 4, **fields})


class Estimates(unittest.TestCase):

    def test_a_copy_is_limited_by_its_bytes(self):
        kernel = kernel_of("relu_forward_f16.sm_90")
        found = estimate.estimate(machine.H200, kernel, launch_of_relu())
        self.assertEqual([each.elements for each in found.passes], [8])
        self.assertEqual(found.limit, "bytes")
        self.assertAlmostEqual(found.terms["bytes"], 4 * (1 << 28) / 4.256e12)
        # Every thread goes into the loop, once around it, and out.
        whole = len(loops.way_in(kernel.blocks, kernel.loops[0])) + len(kernel.loops[0].path) + len(
            loops.way_out(kernel.blocks, kernel.loops[0]))
        self.assertAlmostEqual(found.instructions, whole / 8)
        on_busiest = -(-(1 << 17) // 132)  # blocks, of eight warps
        self.assertAlmostEqual(found.terms["issue"], whole * 8 * on_busiest / 4 / 1.98e9, delta=1e-12)

    def test_units_are_those_of_the_busiest_multiprocessor(self):
        """A 133rd block is a second one for a multiprocessor of 132."""
        def issue(blocks):
            launch = launch_of_relu(grid=(blocks, 1, 1), elements=2048 * blocks)
            return estimate.estimate(machine.H200, kernel_of("relu_forward_f16.sm_90"), launch).terms["issue"]
        self.assertAlmostEqual(issue(132), issue(1), delta=1e-15)
        self.assertAlmostEqual(issue(133), 2 * issue(132), delta=1e-15)

    def test_littles_law(self):
        """With one block of one warp on a GPU the time is the latency of its dependency chain."""
        launch = launch_of_relu(grid=(1, 1, 1), block=(32, 1, 1), elements=256)
        found = estimate.estimate(machine.H200, kernel_of("relu_forward_f16.sm_90"), launch)
        self.assertEqual(found.limit, "latency")
        self.assertGreater(found.seconds, (machine.BLOCK_CYCLES + machine.SM_90.latency["LDG"]) / 1.98e9)

    def test_a_block_that_does_not_fit_has_no_estimate(self):
        kernel = kernel_of("relu_forward_f16.sm_90")
        self.assertIsNone(estimate.estimate(machine.H200, kernel, launch_of_relu(shared_bytes=228 << 10)))
        self.assertIsNotNone(estimate.estimate(machine.H200, kernel, launch_of_relu(shared_bytes=227 << 10)))

    def test_stores_in_pieces_touch_more_sectors(self):
        whole = estimate.estimate(machine.H200, kernel_of("relu_forward_f16.sm_90"), launch_of_relu())
        pieces = estimate.estimate(machine.H200, kernel_of("relu_forward_f16_scalar_store.sm_90"), launch_of_relu())
        # Eight stores of 2 bytes, each over the sectors of whole vectors: 14 bytes more for each of 8 elements.
        self.assertAlmostEqual(pieces.terms["cache"] - whole.terms["cache"], 14 * (1 << 28) / machine.H200.cache_rate)

    def test_stores_in_pieces_take_the_banks_of_shared_memory(self):
        """Four stores of 4 bytes, 16 bytes apart from lane to lane, have four cycles each; one of 16 bytes has four."""
        def cycles(*stores):
            kernel = kernel_of("relu_forward_f16.sm_90")
            body = path("LDG.E.128 R4, [R2.64]", *stores)
            launch = launch_of_relu(written=0, requested=2, shared=2, shared_cycles=4 / 32 / 8)
            return estimate.work_of(launch, kernel, [estimate.Pass(None, body, 8)], machine.SM_90).units["shared memory"]
        self.assertEqual(cycles("STS.128 [R9], R4"), 4)
        self.assertEqual(cycles("STS [R9], R4", "STS [R9+0x4], R5", "STS [R9+0x8], R6", "STS [R9+0xc], R7"), 16)

    def test_a_loop_that_a_row_does_not_fill_is_refused(self):
        kernel = kernel_of("relu_forward_f16.sm_90")
        vector_loop = kernel.blocks[kernel.loops[0].header].code[0].address
        def loops_of(launch):
            return [kernel.blocks[each.loop.header].code[0].address for ways in estimate.candidates(launch, kernel) for each in ways]
        self.assertIn(vector_loop, loops_of(launch_of_relu(columns=2048)))
        self.assertNotIn(vector_loop, loops_of(launch_of_relu(columns=1024)))  # 4 of the 8 elements
        # A block that takes several rows at a time, or less than a row.
        self.assertIn(vector_loop, loops_of(launch_of_relu(columns=1024, block=(32, 8, 1))))
        self.assertIn(vector_loop, loops_of(launch_of_relu(columns=10)))

    def test_the_number_of_accesses_tells_vectors_from_elements(self):
        """The vector loop is refused; the remainder's, with one element and two accesses, fits only if two per element were counted."""
        kernel = kernel_of("relu_forward_f16.sm_90")
        for accesses, elements in ((2, [1]), (2 / 8, [])):
            found = estimate.choose_passes(launch_of_relu(columns=1024, accesses=accesses), kernel)
            self.assertEqual([each.elements for each in found if each.loop], elements)

    def test_a_walk_over_little_data_is_a_loop_too(self):
        """One block over a value of 16 bytes for each 8192 elements, such as the tiles of an arena."""
        kernel = kernel_of("relu_forward_f16.sm_90")
        little = {"read": 1 / 512, "written": 0, "requested": 1 / 256, "grid": (1, 1, 1)}
        many, few = launch_of_relu(**little, accesses=1, requests=1 / 32), launch_of_relu(**little, accesses=1, requests=1)
        self.assertEqual([each.elements for each in estimate.choose_passes(many, kernel)], [8192])
        # With one lane of a warp no thread has a second value.
        self.assertEqual([each.loop for each in estimate.choose_passes(few, kernel)], [None])

    def test_what_is_requested_for_each_parameter_of_an_arena_does_not_grow_with_its_elements(self):
        each = {"kernel": "norms", "grid": [1, 1, 1], "block": [256, 1, 1], "shared_bytes": 0, "of_element": {
            "blocks": 1 / 65536, "read": 0.002, "written": 0, "requested": 0.006, "moved": 0, "scattered": 0, "shared": 0,
            "shared_cycles": 0}}
        row = {"name": "lamb_step", "size": "1 x 268435456", "elements": 1 << 28}
        self.assertEqual(launches.launch_of({**row, "columns": 0}, each).requested, 0.002)
        self.assertEqual(launches.launch_of({**row, "columns": 1024}, each).requested, 0.006)

    def test_idle_lanes_make_a_path_the_more_frequent(self):
        """Eight lanes of a block of 64 go through all 16 heads of a row: 96 requests of one warp, 48 of each on average."""
        straight = estimate.Pass(None, path(*["LDG.E.128 R4, [R2.64]"] * 12), 16)
        idle = launch_of_relu(accesses=12 / 16, requests=48 / 16 / 32)
        self.assertEqual(estimate.with_idle_lanes(idle, straight).elements, 4)
        for other in (launch_of_relu(accesses=12 / 16, requests=12 / 16 / 32),  # all lanes
                      launch_of_relu(accesses=1, requests=1, read=0.1, written=0.1)):  # a value for each row
            self.assertIs(estimate.with_idle_lanes(other, straight), straight)

    def test_lanes_that_load_the_same_of_a_table(self):
        """If four lanes load the same 16 bytes, a request counts a fourth of its bytes: the stores give the number of elements."""
        body = path("LDG.E.128 R4, [R2.64]", "LDG.E.128 R8, [R12.64]", "STG.E.128 [R14.64], R4")
        rest = path("LDG.E.128 R4, [R2.64]", "STG.E.128 [R14.64], R4")  # nearer to the bytes that were requested
        found = [types.SimpleNamespace(path=each, lean=each, blocks=frozenset(), bytes_of=lambda *kinds, each=each:
                                       loops.bytes_on(each, kinds)) for each in (rest, body)]
        kernel = types.SimpleNamespace(loops=found, all_loops=(found, []))
        launch = launch_of_relu(accesses=3 / 8, requests=3 / 8 / 32, requested=4.5)
        self.assertEqual([(each.loop, each.elements) for each in estimate.choose_passes(launch, kernel)], [(found[1], 8)])

    def test_products_of_tiles_and_the_copies_between_them(self):
        """A kernel with two products, a remainder of one, a loop that copies a tile and one in shared memory alone."""
        def loop(*lines):
            body = path(*lines)
            return types.SimpleNamespace(path=body, lean=body, bytes_of=lambda *kinds: loops.bytes_on(body, kinds))
        add = "FFMA R4, R5, R6, R4"
        first, second = loop("LDS.128 R8, [R9]", *[add] * 4), loop("LDS.128 R8, [R9]", *[add] * 8)
        remainder, copy = loop(add), loop("LDG.E.128 R4, [R2.64]", "STS.128 [R9], R4")
        alone = loop("LDS R4, [R9]", "STS [R9], R4")
        found = [first, remainder, copy, second, alone]
        kernel = types.SimpleNamespace(loops=found, all_loops=(found, []))
        launch = launch_of_relu(products=2, read=0, written=0, requested=2)
        passes = estimate.choose_passes(launch, kernel)
        self.assertEqual([(each.loop, each.elements) for each in passes], [(second, 8), (first, 4)])
        self.assertEqual(estimate.other_loops(launch, kernel, passes), [(copy, 2 / 16)])

    def test_committed_estimates_of_published_measurements_have_the_stated_errors(self):
        from results import FOLDER, read
        found = read(FOLDER / "published.json")[0]
        published = json.loads((ROOT / "benchmarks" / "sass" / "published.json").read_text())["rows"]
        self.assertEqual({key: row["measured_seconds"] for key, row in found.items()},
                         {(row["name"], f"{row['size']} | {row['gpu']}"): row["measured_seconds"] for row in published})
        errors = [abs(row["seconds"] / row["measured_seconds"] - 1) for row in found.values()]
        self.assertEqual(len(errors), 88)
        self.assertLess(sum(errors) / len(errors), 0.0955)
        self.assertLess(max(errors), 0.58)
        self.assertEqual(sum(error > 0.20 for error in errors), 7)


class Faults(unittest.TestCase):
    def test_the_scalar_store_is_found(self):
        self.assertEqual(faults.split_vectors(kernel_of("relu_forward_f16.sm_90")), 0)
        self.assertEqual(faults.split_vectors(kernel_of("relu_forward_f16.sm_80")), 0)
        self.assertEqual(faults.split_vectors(kernel_of("relu_forward_f16_scalar_store.sm_90")), 1)

    def test_a_vector_in_pieces_is_found_in_shared_memory_too(self):
        four = ["STS [R5+UR4], R8", "STS [R5+UR4+0x4], R9", "STS [R5+UR4+0x8], R10", "STS [R5+UR4+0xc], R11"]
        self.assertEqual(faults.pieces(path(*four), "STS"), [[4, 4, 4, 4]])
        self.assertEqual(faults.split_stores(path(*four)), 1)
        self.assertEqual(faults.bytes_between_pieces(path(*four), "STS"), 48)
        self.assertEqual(faults.split_stores(path("STS.128 [R5+UR4], R8")), 0)
        # Another address, as R5 or UR4 changes on the way.
        for change in ("IADD3 R5, R5, 0x4, RZ", "UIADD3 UR4, UR4, 0x4, URZ"):
            self.assertEqual(faults.split_stores(path(*four[:2], change, *four[2:])), 0, change)

    def test_what_is_not_a_multiple_of_a_vector_is_none(self):
        row_of_ten = [f"STS.64 [R36+{8 * i:#x}], R{16 + 2 * i}" for i in range(5)]
        self.assertEqual(faults.pieces(path(*row_of_ten), "STS"), [])
        self.assertEqual(faults.pieces(path(*row_of_ten[:4]), "STS"), [[8, 8], [8, 8]])

    def test_pieces_for_arrays_that_are_not_aligned_do_not_count(self):
        lines = ("@P3 STS [R5], R8", "@P3 STS [R5+0x4], R9", "@P3 STS [R5+0x8], R10", "@P3 STS [R5+0xc], R11")
        def split(*code_lines):
            return faults.split_stores([loops.Executed(instruction, None) for instruction in code(*code_lines)])
        self.assertEqual(split(*lines), 1)
        self.assertEqual(split("@!P3 STS.128 [R7], R8", *lines), 0)
        self.assertEqual(split("@!P2 STS.128 [R7], R8", *lines), 1)

    def test_local_memory(self):
        kernel = kernel_of("relu_forward_f16.sm_90")
        self.assertFalse(faults.uses_local_memory(kernel))
        for fields in ({"stack": 8}, {"local": 8}, {"code": tuple(code("STL [R1], R4"))}):
            spilled = disassemble.Kernel(**{**vars_of(kernel), **fields})
            self.assertTrue(faults.uses_local_memory(spilled), fields)


def vars_of(kernel):
    names = ("name", "architecture", "file", "registers", "stack", "local", "shared", "code")
    return {name: getattr(kernel, name) for name in names}


# Of relu_forward<float>, as nvdisasm of CUDA 13.5 prints it, with shorter paths: a load, a comparison, a store.
WITH_PLACES = """
.text._Zrelu:
\t//## File "/kernels/relu.cu", line 10
        /*0000*/                   LDC R1, c[0x0][0x28] ;
\t//## File "/kernels/common/vec.h", line 131 inlined at "/kernels/relu.cu", line 12
\t//## File "/kernels/relu.cu", line 12 inlined at "/kernels/common/elements.h", line 96
\t//## File "/kernels/common/elements.h", line 96 inlined at "/kernels/relu.cu", line 11
\t//## File "/kernels/relu.cu", line 11
        /*0010*/               @P1 LDG.E R4, desc[UR8][R10.64] ;
        /*0020*/              @!P1 LDG.E.128 R4, desc[UR8][R10.64] ;
\t//## File "/kernels/common/elements.h", line 121
        /*0030*/                   FMNMX.NAN R4, RZ, R4, !PT ;
\t//## File "/kernels/relu.cu", line 10
        /*0040*/                   EXIT ;
"""
WITH_LIVE = """
                                                        // +-------+--------+--------+
                                                        // | PRED  | GPR    | UGPR   |
.text._Zrelu:                                           // |       |        |        |
        /*0000*/    LDC R1, c[0x0][0x28] ;              // |       |   3    |        |
        /*0010*/ @P1 LDG.E R4, desc[UR8][R10.64] ;      // |   2   |  16    |   12   |
        /*0020*/ @!P1 LDG.E.128 R4, desc[UR8][R10.64] ; // |   2   |  18    |   12   |
        /*0030*/    FMNMX.NAN R4, RZ, R4, !PT ;         // |   1   |  17    |   12   |
        /*0040*/    EXIT ;                              // |       |        |        |
"""
COUNTS = """relu_forward<double>: 64 x 1 x 1 blocks
  relu.cu:12                   read            1   32.0          8     8.00     8.00            0
relu_forward<float>: 64 x 1 x 1 blocks of 256 x 1 x 1 threads; bytes of shared memory: 0 dynamic, 0 static

  global memory                         requests  lanes    sectors     each    ideal bytes unused
  relu.cu:12                   read          512   32.0       8192    16.00    16.00            0

  shared memory                         requests  lanes     cycles     each    ideal    conflicts
  relu.cu:12                   write         512   31.5       1024     2.00     1.00          512

relu_forward: every byte once, no waiting; moves 1.00 times the bytes it needs
"""


class SourceLines(unittest.TestCase):
    def test_an_instruction_counts_for_the_innermost_line_of_a_cu_file(self):
        relu, elements = "/kernels/relu.cu", "/kernels/common/elements.h"
        self.assertEqual(source_lines.places_in_text(WITH_PLACES), {"_Zrelu": {
            0: (relu, 10), 0x10: (relu, 12), 0x20: (relu, 12), 0x30: (elements, 121), 0x40: (relu, 10)}})

    def test_live_registers_are_the_general_ones(self):
        self.assertEqual(source_lines.live_in_text(WITH_LIVE), {"_Zrelu": {0: 3, 0x10: 16, 0x20: 18, 0x30: 17, 0x40: 0}})

    def test_a_line_has_its_instructions_and_the_most_live_registers(self):
        parsed = [instructions.parse_line(line) for line in WITH_PLACES.splitlines()]
        kernel = disassemble.Kernel("relu", "sm_90", "relu.cu", 20, 0, 0, 0, tuple(filter(None, parsed)))
        lines = source_lines.lines_of(kernel, source_lines.places_in_text(WITH_PLACES)["_Zrelu"],
                                      source_lines.live_in_text(WITH_LIVE)["_Zrelu"])
        load = lines["/kernels/relu.cu", 12]
        self.assertEqual(([each.opcode for each in load.code], max(load.live.values())), (["LDG.E", "LDG.E.128"], 18))
        counted = {("relu.cu", 12): ["read 512 requests"]}
        text = list(source_lines.text_of(kernel, lines, counted, False))
        self.assertEqual(text[0], "relu, sm_90: 20 registers, 5 instructions, 5 in the way through the kernel")
        self.assertEqual([line.split() for line in text[text.index(f"{'':23}lens: read 512 requests") - 2:][:2]],
                         [["12", "2", "2", "18"], ["1", "LDG", "16,", "1", "LDG", "4"]])

    def test_counts_of_lens_are_those_of_the_kernel_of_this_name(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "bin", "lens")
            program.parent.mkdir()
            program.write_text(f"#!/bin/sh\ncat <<'END'\n{COUNTS}END\n")
            program.chmod(0o755)
            found = source_lines.counted_by_lens(pathlib.Path(folder), "relu_forward", "relu_forward<float>")
            self.assertEqual(found, {("relu.cu", 12): [
                "read 512 requests of 32 lanes, 8192 sectors: 16 each, ideal 16",
                "write 512 requests of 31.5 lanes, 1024 bank cycles: 2 each, ideal 1"]})
            with self.assertRaisesRegex(source_lines.tools.SassError, "lens adam runs no kernel 'relu'"):
                source_lines.counted_by_lens(pathlib.Path(folder), "adam", "relu")


def node(after=(), grid=(1, 1, 1), kernel="relu"):
    return graph.Node(kernel, grid, (256, 1, 1), 0, after)


class Graph(unittest.TestCase):
    def test_the_longest_chain_has_a_gap_between_two_launches(self):
        nodes = [node(), node((0,)), node((0,)), node((1, 2)), node()]
        seconds, chain = graph.longest_chain(nodes, [1e-6, 5e-6, 2e-6, 1e-6, 6e-6])
        self.assertEqual(chain, [0, 1, 3])
        self.assertAlmostEqual(seconds, 8e-6)  # 1 + 0.5 + 5 + 0.5 + 1

    def test_a_launch_takes_at_least_a_block_for_each_wave(self):
        kernel, gpu = kernel_of("relu_forward_f16.sm_90"), machine.GPUS["H200"]
        held = occupancy.occupancy(gpu.architecture, 256, kernel.registers, 0).blocks * gpu.multiprocessors
        one = graph.least_seconds(gpu, kernel, node())
        self.assertGreater(one, (450 + 4 * 8) / gpu.clock)
        self.assertEqual(graph.least_seconds(gpu, kernel, node(grid=(held, 1, 1))), one)
        self.assertAlmostEqual(graph.least_seconds(gpu, kernel, node(grid=(held + 1, 1, 1))), 2 * one)

    def test_a_launch_is_estimated_for_the_elements_that_its_blocks_take(self):
        kernel, gpu = kernel_of("relu_forward_f16.sm_90"), machine.GPUS["H200"]
        known = launch_of_relu(blocks_of_element=1 / 2048)  # 256 threads with 8 f16 each
        for blocks in (3, 4096, 1 << 17):
            found = graph.known_launch(node(grid=(blocks, 1, 1)), {"relu": [known]})
            self.assertEqual((found.elements, found.blocks), (2048 * blocks, blocks))
            seconds, kind = graph.time_of(gpu, node(grid=(blocks, 1, 1)), {"relu": kernel}, {"relu": [known]})
            self.assertEqual(kind, "estimate")
            self.assertGreaterEqual(seconds, 4 * 2048 * blocks / gpu.copy_rate)  # 2 bytes read and 2 written
            self.assertGreaterEqual(seconds, graph.least_seconds(gpu, kernel, node(grid=(blocks, 1, 1))))
        whole = dataclasses.replace(known, grid=(1 << 17, 1, 1))
        self.assertEqual(seconds, estimate.estimate(gpu, kernel, whole).seconds)
        # For blocks of another size, or a launch that was not counted, there is only a lower bound.
        for other in (dataclasses.replace(known, block=(128, 1, 1)), dataclasses.replace(known, blocks_of_element=0)):
            self.assertEqual(graph.time_of(gpu, node(), {"relu": kernel}, {"relu": [other]}),
                             (graph.least_seconds(gpu, kernel, node()), "at least"))

    def test_a_product_of_a_library_takes_its_bytes_or_its_arithmetic(self):
        gpu = machine.GPUS["H200"]
        product = graph.Node("product", (0, 0, 0), (0, 0, 0), 0, (), "f32", 2e9, 4.256e6)
        seconds, kind = graph.time_of(gpu, product, {}, {})
        self.assertEqual(kind, "limit")
        self.assertAlmostEqual(seconds, 2e9 / (2 * 128 * 132 * 1.98e9))  # 30 us of multiply-adds, 1 us of bytes
        of_bytes = dataclasses.replace(product, flops=1, dtype="bf16")
        self.assertAlmostEqual(graph.time_of(gpu, of_bytes, {}, {})[0], 1e-6)
        self.assertAlmostEqual(graph.time_of(gpu, dataclasses.replace(of_bytes, bytes=4), {}, {})[0], (450 + 4 + 625) / gpu.clock)

    def test_a_launch_of_unknown_code_is_counted_and_named(self):
        gpu = machine.GPUS["H200"]
        text = list(graph.text_of([node(kernel="kernel of a library"), node((0,))], gpu,
                                  {"relu": kernel_of("relu_forward_f16.sm_90")}, {}))
        self.assertEqual(text[1].split(), ["1", "kernel", "of", "a", "library", "?", "unknown", "after", "-"])
        self.assertIn("in a library, of unknown work: 1 launches", text)
        self.assertTrue(text[-1].startswith("the longest chain: 2 launches with 0.5 us between two, "), text[-1])

    def test_graphviz_gets_a_box_for_each_launch_and_an_edge_for_each_dependency(self):
        nodes = [node(), node((0,)), node((0,), kernel='cast<"long", float>'), node((1, 2))]
        text = graph.dot(nodes, machine.GPUS["H200"], {}, {})
        self.assertEqual(re.findall(r"(\d+) -> (\d+);", text), [("1", "2"), ("1", "3"), ("2", "4"), ("3", "4")])
        self.assertEqual(re.findall(r"^  (\d+) \[label=", text, re.MULTILINE), ["1", "2", "3", "4"])
        self.assertIn(r'3 [label="3  cast<\"long\", float>\ncode unknown"];', text)

    def test_a_launch_cannot_wait_for_a_later_one(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "graph.json")
            row = '{"kernel": "relu", "grid": [1, 1, 1], "block": [256, 1, 1], "shared_bytes": 0, "after": [%s]}'
            file.write_text('{"launches": [%s, %s]}' % (row % "", row % "0"))
            self.assertEqual([each.after for each in graph.read(file)], [(), (0,)])
            file.write_text('{"launches": [%s]}' % (row % "1"))
            with self.assertRaisesRegex(graph.tools.SassError, "launch 1 waits for"):
                graph.read(file)


    def test_a_file_that_is_not_what_save_graph_writes(self):
        right = {"kernel": "relu", "grid": [1, 1, 1], "block": [256, 1, 1], "shared_bytes": 0, "after": []}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "graph.json")
            for fields, expected in (({"grid": ["a", 1, 1]}, "relu: grid .*'a'.* expected three whole numbers"),
                                     ({"block": [256, 1]}, "relu: block .256, 1., expected three whole numbers"),
                                     ({"after": ["x"]}, "relu: .* after .'x'.: expected whole numbers"),
                                     ({"kernel": 7}, "the kernel is 7, expected a name"), ({"flops": "1"}, "expected numbers")):
                file.write_text(json.dumps({"launches": [{**right, **fields}]}))
                with self.assertRaisesRegex(tools.SassError, expected):
                    graph.read(file)
            file.write_text(json.dumps({"launches": [right]}))
            self.assertEqual(len(graph.read(file)), 1)

    def test_a_kernel_of_ours_has_threads(self):
        empty = dataclasses.replace(node(), block=(0, 0, 0))
        with self.assertRaisesRegex(tools.SassError, "relu: a launch without threads"):
            graph.least_seconds(machine.GPUS["H200"], kernel_of("relu_forward_f16.sm_90"), empty)

    def test_a_file_that_cannot_be_written(self):
        with self.assertRaisesRegex(tools.SassError, "/nonexistent/x.dot cannot be written: No such file"):
            tools.write_text(pathlib.Path("/nonexistent/x.dot"), "")


class Check(unittest.TestCase):
    def lists(self, *split):
        return {"local_memory": set(), "split_stores": set(split)}

    def test_a_new_fault_and_one_that_is_gone(self):
        scalar, whole = kernel_of("relu_forward_f16_scalar_store.sm_90"), kernel_of("relu_forward_f16.sm_90")
        listed = "relu_forward<float16>, sm_90"
        self.assertEqual(check.check_lists([whole], self.lists()), [])
        self.assertEqual(check.check_lists([scalar], self.lists(listed)), [])
        self.assertIn("is not in the list 'split_stores'", check.check_lists([scalar], self.lists())[0])
        self.assertIn("take it off the list 'split_stores'", check.check_lists([whole], self.lists(listed))[0])

    def test_registers_have_a_bound(self):
        kernel = kernel_of("relu_forward_f16.sm_90")  # 29 registers, of 32 that are taken
        key = kernel.name, kernel.architecture
        self.assertEqual(check.check_registers([kernel], {key: {"registers": 25}}), [])
        self.assertIn("29 registers, expected at most 24", check.check_registers([kernel], {key: {"registers": 24}})[0])
        self.assertIn("is not in kernels.json", check.check_registers([kernel], {})[0])

    def test_a_block_of_512_threads_has_128_registers_for_each_thread(self):
        for registers, bound, problems in ((128, 0, 0), (129, 0, 1), (129, 384, 0)):
            kernel = disassemble.Kernel("relu", "sm_90", "relu.cu", registers, 0, 0, 0, (), bound)
            self.assertEqual(len(check.check_blocks([kernel])), problems, (registers, bound))

    def test_launch_bounds_are_those_of_the_cubin(self):
        text = (".nv.info._Zbounded\n\t<0x22>\n\tAttribute:\tEIATTR_MAX_THREADS\n\tFormat:\tEIFMT_SVAL\n"
                "\tValue:\t0x200 0x1 0x1 \n.nv.info._Zfree\n\tAttribute:\tEIATTR_CRS_STACK_SIZE\n\tValue:\t0x0 \n")
        self.assertEqual(disassemble.launch_bounds(text), {"_Zbounded": 512})

    def test_a_kernel_that_is_gone_is_a_problem(self):
        self.assertEqual(check.check_registers([], {("relu", "sm_90"): {"registers": 25}}),
                         ["relu, sm_90: is in kernels.json, and the build has no such kernel"])

    def test_a_main_loop_may_not_become_narrower(self):
        whole, scalar = (rows.kernel_rows([kernel_of(f"relu_forward_f16{each}.sm_90")])[0] for each in ("", "_scalar_store"))
        key = whole["name"], whole["size"]
        self.assertEqual((whole["widest_load"], whole["widest_store"], scalar["widest_store"]), (16, 16, 2))
        self.assertEqual(check.check_widths({key: whole}, {key: whole}), [])
        self.assertEqual(check.check_widths({key: scalar}, {key: whole}),
                         ["relu_forward<float16>, sm_90: the widest store of the main loop has 2 bytes, expected 16"])
        self.assertEqual(check.check_widths({key: whole}, {key: scalar}), [])

    def test_a_main_loop_may_grow_by_a_twentieth(self):
        key, row = ("relu", "sm_90"), {"loop": 40, "loop LDG 16": 2, "loop STG 16": 2}  # 64 bytes
        self.assertEqual(check.loop_cost(row), 10)
        self.assertEqual(check.loop_cost({"loop": 40, "loop LDG 4": 1}), 40)
        self.assertEqual(check.check_loops({key: {**row, "loop": 42}}, {key: row}), [])
        self.assertIn("10.75 instructions of the main loop", check.check_loops({key: {**row, "loop": 43}}, {key: row})[0])
        # Unrolled twice as far it costs the same.
        self.assertEqual(check.check_loops({key: {"loop": 80, "loop LDG 16": 4, "loop STG 16": 4}}, {key: row}), [])

    def test_instructions_may_grow_by_a_twentieth(self):
        row = {"name": "relu", "size": "8 | H100 | 1 relu", "instructions_of_element": 10.5}
        committed = {("relu", row["size"]): {"instructions_of_element": 10}}
        self.assertEqual(check.check_instructions([row], committed), [])
        self.assertIn("10.6 instructions", check.check_instructions([{**row, "instructions_of_element": 10.6}], committed)[0])
        self.assertIn("is not in estimates.json", check.check_instructions([row], {})[0])
        self.assertIn("no longer holds a block", check.check_instructions([], committed)[0])

    def test_other_launches_are_a_difference(self):
        def work(grid):
            launch = types.SimpleNamespace(kernel="relu", grid=grid, block=(256, 1, 1), shared_bytes=0)
            return [("relu", "8 f32", [launch])]
        self.assertEqual(check.check_launches(work((1, 1, 1)), work((1, 1, 1))), [])
        self.assertEqual(len(check.check_launches(work((2, 1, 1)), work((1, 1, 1)))), 1)

    def test_names_without_an_architecture_are_of_all(self):
        self.assertEqual(check.with_architectures("relu"), [f"relu, {each}" for each in rows.ARCHITECTURES])
        self.assertEqual(check.with_architectures("relu, sm_80"), ["relu, sm_80"])


class Program(unittest.TestCase):
    def refused(self, *arguments, **environment):
        run = subprocess.run([sys.executable, "-B", ROOT / "benchmarks" / "sass", *arguments], capture_output=True, text=True,
                             check=False, env={**os.environ, **environment})
        self.assertEqual((run.returncode, run.stdout, run.stderr.count("\n")), (1, "", 1), run.stderr)
        return run.stderr

    def test_a_build_without_kernels_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn(f"{folder}: no CUDA kernels", self.refused("show", "adam", "--build", folder))

    def test_a_check_reads_its_files_first(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("/nonexistent cannot be read", self.refused("check", "--expected", "/nonexistent", "--build", folder))
            self.assertIn("bin/launches does not exist", self.refused("check", "--build", folder))

    def test_missing_tools_are_named_with_their_packages(self):
        with tempfile.TemporaryDirectory() as folder:
            objects = pathlib.Path(folder) / "kernels" / "CMakeFiles" / "ringtape_kernels_cuda.dir"
            objects.mkdir(parents=True)
            (objects / "relu.cu.o").write_bytes(b"")
            empty = "import tools; tools.folders = lambda: []; import disassemble; disassemble.kernels_of_build(%r, 'sm_90')"
            run = subprocess.run([sys.executable, "-B", "-c", empty % folder], capture_output=True, text=True, check=False,
                                 cwd=ROOT / "benchmarks" / "sass")
            self.assertIn("pip install nvidia-cuda-cuobjdump==", run.stderr.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
