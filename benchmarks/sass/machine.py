"""The limits and rates of GPUs: docs/sass.md gives the source of each figure."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Architecture:
    """Limits and rates of a multiprocessor, by compute capability."""
    name: str
    threads: int  # at most on a multiprocessor
    blocks: int
    registers: int
    shared: int  # bytes of shared memory of a multiprocessor; a block takes 1 KiB more than it requests
    fp32: int  # lanes a clock
    fp64: int
    half2: int
    alu: int  # integer additions, logic, comparisons
    load_store: int
    tensor: int  # multiply-adds a clock of bf16 and f16 by mma.sync
    tensor_peak: int  # the same by the fastest instruction
    # Cycles until a result can be used.
    latency: dict = dataclasses.field(hash=False, default_factory=dict)


WARP = 32
SCHEDULERS = 4  # of a multiprocessor; each issues one instruction a clock
REGISTERS_AT_ONCE = 256  # registers are allocated to a warp in units of this size
SHARED_AT_ONCE = 128  # bytes: the unit of allocation of shared memory
SHARED_OF_SYSTEM = 1024  # bytes that the system takes in every block
SPECIAL = 16  # lanes a clock of the special function units, which also convert
SHUFFLES = 32  # lanes a clock
SHARED_BYTES = 128  # bytes a clock: a 4-byte word of each of the 32 banks

# Latencies of results: 4 cycles for most arithmetic, by the compiler's own stall counts. Shared memory, special functions, f64:
# Abdelkhalik and others 2022 (arXiv:2208.11174), Luo and others 2024 (arXiv:2402.13499).
ARITHMETIC = {"FFMA": 4, "FADD": 4, "FMUL": 4, "integer": 5, "move": 5, "compare": 5, "HFMA2": 5, "pack": 5, "F64": 8,
              "MUFU": 18, "convert": 18, "HMMA": 33, "HGMMA": 128, "shuffle": 23, "LDS": 29, "LDSM": 33, "constant": 8,
              "barrier": 12, "ATOM": 250, "LDL": 38, "branch": 4}

SM_80 = Architecture("sm_80", 2048, 32, 65536, 164 << 10, 64, 32, 128, 64, 32, 1024, 1024,
                     {**ARITHMETIC, "LDG": 461})
SM_86 = Architecture("sm_86", 1536, 16, 65536, 100 << 10, 128, 2, 64, 64, 16, 512, 512,
                     {**ARITHMETIC, "LDG": 461})
SM_90 = Architecture("sm_90", 2048, 32, 65536, 228 << 10, 128, 64, 128, 64, 32, 1288, 2048,
                     {**ARITHMETIC, "LDG": 625})


@dataclasses.dataclass(frozen=True)
class Gpu:
    name: str
    architecture: Architecture
    multiprocessors: int
    clock: float  # Hz, under load
    copy_rate: float  # bytes read and written a second, of a large copy
    cache_rate: float  # bytes a second from the L2 cache


A100 = Gpu("A100", SM_80, 108, 1.41e9, 1.80e12, 5.4e12)
A6000 = Gpu("A6000", SM_86, 84, 1.41e9, 0.67e12, 2.6e12)
H100_PCIE = Gpu("H100 PCIe", SM_90, 114, 1.755e9, 1.86e12, 6.9e12)
H100 = Gpu("H100", SM_90, 132, 1.755e9, 3.0e12, 8.0e12)
H200 = Gpu("H200", SM_90, 132, 1.98e9, 4.256e12, 9.7e12)
GPUS = {gpu.name: gpu for gpu in (A100, A6000, H100_PCIE, H100, H200)}

# The launch of a block: cycles from the end of the previous block on the same multiprocessor to the first instruction, and the
# cycles that each of its warps adds. Fitted: docs/sass.md.
BLOCK_CYCLES = 450
WARP_CYCLES = 4
# Work of several kinds overlaps in part: t = (a^p + b^p + ...)^(1/p). The exponents are fitted as well.
MEMORY_OVERLAP = 1.75  # p of the bytes of memory with everything else
UNITS_OVERLAP = 3  # p of a multiprocessor's units and the latency of results
