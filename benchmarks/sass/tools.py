"""Finds and runs NVIDIA's disassembler: cuobjdump, and nvdisasm, which it calls."""
import os
import pathlib
import re
import shutil
import subprocess
import sysconfig

PACKAGES = {"cuobjdump": "nvidia-cuda-cuobjdump==13.5.37", "nvdisasm": "nvidia-cuda-nvdisasm==13.5.37"}


class SassError(Exception):
    """An error with a message of one line for the user."""


def folders():
    """The folders of the programs: PATH, the toolkit, and the PyPI packages of this Python."""
    site = pathlib.Path(sysconfig.get_paths()["purelib"])
    return os.environ.get("PATH", "").split(os.pathsep) + ["/usr/local/cuda/bin"] + [
        str(folder) for folder in sorted(site.glob("nvidia/cu*/bin"))]


def environment():
    """The environment in which cuobjdump finds nvdisasm. Throws SassError if one of them is missing."""
    path = os.pathsep.join(folders())
    missing = [name for name in PACKAGES if shutil.which(name, path=path) is None]
    if missing:
        raise SassError(f"{' and '.join(missing)} not found: expected them on PATH, in /usr/local/cuda/bin or from PyPI: "
                        f"pip install {' '.join(PACKAGES[name] for name in missing)}")
    return {**os.environ, "PATH": path}


def run(program, arguments):
    """The output of cuobjdump or nvdisasm."""
    environ = environment()
    done = subprocess.run([shutil.which(program, path=environ["PATH"]), *map(str, arguments)], env=environ, check=False,
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise SassError(f"{program} {arguments[-1]}: {reason_of(done)}")
    return done.stdout


def reason_of(done):
    """The last line that a failed program printed."""
    return ((done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"])[-1]


def write_text(path, text):
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SassError(f"{path} cannot be written: {error.strerror}") from error


def demangle(names):
    """The demangled C++ names, by c++filt of binutils."""
    if not names:
        return []
    if shutil.which("c++filt") is None:
        raise SassError("c++filt not found: expected it on PATH (apt-get install binutils)")
    done = subprocess.run(["c++filt"], input="\n".join(names), check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def nvcc_version(build):
    """The version of nvcc for which the build folder is configured, such as "13.0"; "" without nvcc."""
    for path in sorted(pathlib.Path(build).glob("CMakeFiles/*/CMakeCUDACompiler.cmake")):
        found = re.search(r'CMAKE_CUDA_COMPILER_VERSION "(\d+\.\d+)', path.read_text())
        if found:
            return found[1]
    return ""
