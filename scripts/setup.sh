#!/usr/bin/env bash
# Installs missing packages (Debian, Ubuntu), then configures and builds Ringtape in build/release.
#
#   scripts/setup.sh [TARGET...]     CMake targets to build; without one: all
#
# CUDA kernels are built if there are a GPU and nvcc; with RINGTAPE_CUDA=ON in the environment also without a GPU, with
# RINGTAPE_CUDA=OFF never. Each call decides anew.
# Nothing is downloaded or installed if all packages are there already.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# ---- packages -----------------------------------------------------------------------------------------

# CXX may be several words, such as "ccache g++".
read -ra compiler <<<"${CXX:-g++}"

has_header() { printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | "${compiler[@]}" -E -x c++ - >/dev/null 2>&1; }

missing=()
need_command() { command -v "$1" >/dev/null || missing+=("$2"); }
need_header() { has_header "$1" || missing+=("$2"); }

# Sets the array `missing` to the packages that are not installed. Checking for headers needs a compiler.
find_missing() {
  missing=()
  need_command "${compiler[0]}" g++
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

# The same for optional packages: for speed, for several ranks, for ./learn and for some tests.
find_missing_optional() {
  missing=()
  need_header boost/context/fiber.hpp libboost-context-dev
  has_header oneapi/dnnl/dnnl.hpp || need_header dnnl.hpp libdnnl-dev
  need_command mpicxx libopenmpi-dev
  need_command mpirun openmpi-bin
  need_command python3 python3
  need_command patch patch
}

# ---- installing -------------------------------------------------------------------------------------------

# Sets `as_root` to the command that runs apt-get as root; fails if there is none.
as_root=()
become_root() { # PACKAGES: for the message
  command -v apt-get >/dev/null || return 1
  if [ "$(id -u)" -eq 0 ]; then return 0; fi
  command -v sudo >/dev/null || return 1
  if [ -t 0 ]; then
    say "with sudo, to install $1:"
    as_root=(sudo)
    sudo true
  else
    as_root=(sudo -n) # no terminal for a password
    sudo -n true 2>/dev/null
  fi
}

# Whether packages can be installed. A password is asked for once.
may_install=""
can_install() { # PACKAGES
  if [ -z "$may_install" ]; then
    may_install=no
    if become_root "$1"; then may_install=yes; fi
  fi
  [ $may_install = yes ]
}

apt_updated=no
apt_install() {
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
    apt-get -q -o Acquire::http::Timeout=20 -o Acquire::Retries=1)
  if [ "$apt_updated" = no ]; then
    "${apt[@]}" update >>"$log" 2>&1 || return 1
    apt_updated=yes
  fi
  "${apt[@]}" install -y --no-install-recommends "$@" >>"$log" 2>&1
}

install_needed() {
  find_missing "$@"
  if [ ${#missing[@]} -eq 0 ]; then return; fi
  local names="${missing[*]}"
  can_install "$names" || die "missing packages: $names. Install them (as root: apt-get install $names) and run this again."
  say "installing $names"
  apt_install "${missing[@]}" || die "apt-get could not install $names; its output is in $log. Is the network there?"
  find_missing "$@"
  if [ ${#missing[@]} -gt 0 ]; then die "still missing after their installation: ${missing[*]}"; fi
}

install_optional() {
  find_missing_optional
  local package names="${missing[*]} (optional)"
  for package in "${missing[@]}"; do
    if can_install "$names" && apt_install "$package"; then
      say "installed $package (optional)"
    elif [ "$package" = libdnnl-dev ] && can_install "$names" && apt_install libopenblas-dev; then
      say "installed libopenblas-dev (optional) in place of libdnnl-dev, which is not available"
    elif [ "$package" = python3 ]; then
      say "going on without python3 (optional: ./learn and some tests need it)"
    elif [ "$package" = patch ]; then
      say "going on without patch (optional: a test of lesson 3 needs it)"
    else
      say "going on without $package (optional: without it the CPU is slower, or limited to one process)"
    fi
  done
}

# ---- versions ---------------------------------------------------------------------------------------------

at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

check_versions() {
  local found
  found=$("${compiler[@]}" -dumpversion)
  at_least 12 "$found" ||
    die "${compiler[*]} is version $found: expected 12 or newer. If a newer one is installed: CXX=g++-12 $0"
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

# Runs a command with its output in the log, and shows the end of the output if the command fails.
logged() {
  local what=$1
  shift
  "$@" >>"$log" 2>&1 && return
  tail -n 40 "$log" >&2
  die "$what failed; all of its output is in $log"
}

# Refuses a build folder that belongs to another tree or compiler, which CMake would continue to use.
check_build() {
  local cache=$folder/CMakeCache.txt home found
  if [ ! -f "$cache" ]; then return; fi
  home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:[A-Z]*=//p' "$cache")
  [ "$home" -ef . ] || die "$folder is a build of $home, which this tree was copied or moved from. Remove it (rm -r $folder) and run this again."
  found=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$cache")
  [ -z "${CXX:-}" ] || [ "$found" -ef "$(command -v "${compiler[0]}")" ] ||
    die "$folder is a build by $found, not by CXX=$CXX. Remove it (rm -r $folder) and run this again."
}

# Runs in every call, in a second or two, so that the build notices changed packages, GPUs and environment variables. New
# warnings of a newer compiler must not stop a user's build; CI sets RINGTAPE_WERROR.
configure() {
  local flags=("-DRINGTAPE_WERROR=${RINGTAPE_WERROR:-OFF}" "-DRINGTAPE_CUDA=${RINGTAPE_CUDA:-AUTO}")
  # Without this, CMake does not look for nvcc again.
  if grep -qs '^CMAKE_CUDA_COMPILER:.*NOTFOUND' "$folder"/CMakeCache.txt; then flags+=(-U CMAKE_CUDA_COMPILER); fi
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
if [ -n "${CXX:-}" ]; then command -v "${compiler[0]}" >/dev/null || die "CXX=$CXX: there is no command ${compiler[0]}"; fi
check_build
mkdir -p build
: >"$log"
# The toolkit's own installer does not put nvcc on PATH.
if ! command -v nvcc >/dev/null && [ -x /usr/local/cuda/bin/nvcc ]; then PATH=$PATH:/usr/local/cuda/bin; fi

install_needed "$@"
if [ ! -f "$folder"/CMakeCache.txt ]; then install_optional; fi
check_versions
configure
build "$@"
