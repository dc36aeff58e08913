#!/usr/bin/env bash
# Installs missing packages (Debian, Ubuntu), then configures and builds Ringtape in build/release.
#
#   scripts/setup.sh [TARGET...]     CMake targets to build; without one: everything
#
# CUDA kernels are built where there are a GPU and nvcc; with RINGTAPE_CUDA=ON in the environment without a GPU too, with
# RINGTAPE_CUDA=OFF never.
# Nothing is installed, and nothing is downloaded, where everything is there already.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# ---- packages -----------------------------------------------------------------------------------------

has_header() { printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | "${CXX:-g++}" -E -x c++ - >/dev/null 2>&1; }

missing=()
need_command() { command -v "$1" >/dev/null || missing+=("$2"); }
need_header() { has_header "$1" || missing+=("$2"); }

# Puts the packages that are not installed in the array `missing`. Checking for headers needs a compiler.
find_missing() {
  missing=()
  need_command "${CXX:-g++}" g++
  need_command cmake cmake
  need_command ninja ninja-build
  need_header fmt/format.h libfmt-dev
  need_header nlohmann/json.hpp nlohmann-json3-dev
  need_header zlib.h zlib1g-dev
  need_header CLI/CLI.hpp libcli11-dev
  if [ "${1:-all}" = all ]; then
    has_header catch2/catch_all.hpp || need_header catch2/catch.hpp catch2
  fi
}

# The same for optional packages, which make Ringtape faster.
find_missing_optional() {
  missing=()
  need_header boost/context/fiber.hpp libboost-context-dev
  has_header oneapi/dnnl/dnnl.hpp || need_header dnnl.hpp libdnnl-dev
  need_command mpicxx libopenmpi-dev
  need_command mpirun openmpi-bin
}

# ---- installing -------------------------------------------------------------------------------------------

# The command that runs apt-get as root; fails where there is none.
as_root=()
can_install() {
  command -v apt-get >/dev/null || return 1
  if [ "$(id -u)" -eq 0 ]; then return 0; fi
  command -v sudo >/dev/null || return 1
  as_root=(sudo)
  if [ ! -t 0 ]; then as_root+=(-n); fi # no terminal for a password
  "${as_root[@]}" true 2>/dev/null
}

apt_updated=no
newly_installed=no
apt_install() {
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
    apt-get -q -o Acquire::http::Timeout=20 -o Acquire::Retries=1)
  if [ "$apt_updated" = no ]; then
    "${apt[@]}" update >>"$log" 2>&1 || return 1
    apt_updated=yes
  fi
  "${apt[@]}" install -y --no-install-recommends "$@" >>"$log" 2>&1 && newly_installed=yes
}

install_needed() {
  find_missing "$@"
  if [ ${#missing[@]} -eq 0 ]; then return; fi
  local names="${missing[*]}"
  can_install || die "missing packages: $names. Install them (as root: apt-get install $names) and run this again."
  say "installing $names"
  apt_install "${missing[@]}" || die "apt-get could not install $names; its output is in $log. Is the network there?"
  find_missing "$@"
  if [ ${#missing[@]} -gt 0 ]; then die "still missing after their installation: ${missing[*]}"; fi
}

install_optional() {
  find_missing_optional
  local package
  for package in "${missing[@]}"; do
    if can_install && apt_install "$package"; then
      say "installed $package (optional)"
    elif [ "$package" = libdnnl-dev ] && can_install && apt_install libopenblas-dev; then
      say "installed libopenblas-dev (optional) in place of libdnnl-dev, which is not to be had"
    else
      say "going on without $package (optional: the CPU is slower, or a single process, without it)"
    fi
  done
}

# ---- versions ---------------------------------------------------------------------------------------------

at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

check_versions() {
  local compiler="${CXX:-g++}" found
  found=$("$compiler" -dumpversion)
  at_least 12 "$found" ||
    die "$compiler is version $found: expected 12 or newer. With a newer one beside it: CXX=g++-12 $0"
  found=$(cmake --version | head -n 1 | grep -oE '[0-9.]+' | head -n 1)
  at_least 3.22 "$found" || die "cmake is version $found: expected 3.22 or newer (pip install cmake has one)."
}

# ---- building ---------------------------------------------------------------------------------------------

# The number of compilers: one for each core, but at most one for each 1.5 GiB of free memory.
jobs() {
  local cores free
  cores=$(nproc)
  free=$(awk '/^MemAvailable:/ {print int($2 / 1572864)}' /proc/meminfo)
  if [ "$free" -lt 1 ]; then free=1; fi
  echo $((cores < free ? cores : free))
}

# Runs a command with its output in the log, and shows the end of it when the command fails.
logged() {
  local what=$1
  shift
  "$@" >>"$log" 2>&1 && return
  tail -n 40 "$log" >&2
  die "$what failed; all of its output is in $log"
}

# Whether nvcc or a GPU has been added since the build was configured.
has_new_cuda() {
  command -v nvcc >/dev/null || return 1
  if grep -qs 'CMAKE_CUDA_COMPILER.*NOTFOUND' "$folder"/CMakeCache.txt; then return; fi
  [ -e /dev/nvidia0 ] && ! grep -qs '^CMAKE_CUDA_COMPILER:' "$folder"/CMakeCache.txt
}

# Configures a new build, or one from before a package, the CUDA Toolkit or the GPU was added. A warning that a newer
# compiler invents must not stop a newcomer; CI sets RINGTAPE_WERROR.
configure() {
  local flags=("-DRINGTAPE_WERROR=${RINGTAPE_WERROR:-OFF}")
  if [ -n "${RINGTAPE_CUDA:-}" ]; then
    flags+=("-DRINGTAPE_CUDA=$RINGTAPE_CUDA")
  elif has_new_cuda; then
    flags+=(-U CMAKE_CUDA_COMPILER)
  elif [ -f "$folder"/build.ninja ] && [ $newly_installed = no ]; then
    return
  fi
  logged "cmake" cmake --preset release "${flags[@]}"
  sed -n 's/^-- Ringtape: //p' "$log"
}

build() {
  local command=(cmake --build "$folder" --parallel "$(jobs)")
  if [ $# -gt 0 ]; then command+=(--target "$@"); fi
  say "building with $(jobs) jobs"
  if [ -t 1 ]; then
    "${command[@]}" || die "the build failed"
  else
    logged "the build" "${command[@]}"
  fi
}

# ---- main --------------------------------------------------------------------------------------------

folder=build/release
log=build/setup.log
mkdir -p build
: >"$log"
# The toolkit's own installer does not put nvcc on PATH.
if ! command -v nvcc >/dev/null && [ -x /usr/local/cuda/bin/nvcc ]; then PATH=$PATH:/usr/local/cuda/bin; fi

install_needed "$@"
if [ ! -f "$folder"/CMakeCache.txt ]; then install_optional; fi
check_versions
configure
build "$@"
