#include "profile/machine.h"

#include <fmt/ranges.h>
#include <omp.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <utility>

#include "core/cuda_check.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/numbers.h"
#include "profile/libraries.h"

namespace ringtape {
namespace {

double gibibytes(std::size_t bytes) {
  return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0);
}

/// The text after the separator in the file's first line that begins with `key`; empty where there is none.
std::string value_in_file(const char* path, const std::string& key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find(separator);
    if (!line.starts_with(key) || at == std::string::npos) continue;
    std::string value = line.substr(at + 1);
    std::erase(value, '"');
    const std::size_t start = value.find_first_not_of(" \t");
    return start == std::string::npos ? "" : value.substr(start);
  }
  return "";
}

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

std::string cpu_model() {
  const std::string name = value_in_file("/proc/cpuinfo", "model name", ':');
  return name.empty() ? "CPU" : name;
}

/// The CPU model with its family and model numbers if known: a name such as "AMD EPYC" stands for several
/// generations.
std::string cpu_fact() {
  const std::string family = value_in_file("/proc/cpuinfo", "cpu family", ':');
  const std::string model = value_in_file("/proc/cpuinfo", "model\t", ':');
  if (family.empty() || model.empty()) return cpu_model();
  return fmt::format("{} (family {}, model {})", cpu_model(), family, model);
}

/// The number of cores online, or of logical processors if the system does not list cores.
std::string cores_fact() {
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  std::set<std::pair<std::string, std::string>> cores;
  std::string package;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("physical id")) package = line;
    if (line.starts_with("core id")) cores.emplace(package, line);
  }
  const auto count = cores.empty() ? static_cast<std::size_t>(processors) : cores.size();
  return fmt::format("{} ({} logical processors)", count, processors);
}

/// The data caches that one core uses, as "L1 48 KiB, L2 1 MiB, L3 32 MiB".
std::string cache_fact() {
  std::vector<std::string> caches;
  for (int index = 0;; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    const std::string level = first_line(folder + "level"), size = first_line(folder + "size");
    if (level.empty() || size.empty()) break;
    if (first_line(folder + "type") == "Instruction") continue;
    const long kib = std::strtol(size.c_str(), nullptr, 10);  // such as 1024K
    caches.push_back(fmt::format("L{} {}", level, bytes_text(1024.0 * static_cast<double>(kib))));
  }
  return fmt::format("{}", fmt::join(caches, ", "));
}

std::string vector_fact() {
#ifdef __x86_64__
  std::string found = "SSE2";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found = "AVX2";
  if (__builtin_cpu_supports("avx512f")) found = "AVX-512";
  if (has_bf16_instructions({})) found += " with bf16";
  return found;
#else
  return "";
#endif
}

std::string system_fact() {
  utsname kernel;
  if (uname(&kernel) != 0) return "";
  const std::string name = value_in_file("/etc/os-release", "PRETTY_NAME", '=');
  return fmt::format("{}, {} {} {}", name.empty() ? "unknown" : name, kernel.sysname, kernel.release,
                     kernel.machine);
}

std::string compiler_fact() {
#ifdef __clang__
  return fmt::format("clang++ {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

#ifdef RINGTAPE_WITH_CUDA
std::string describe_gpu(Device device) {
  cudaDeviceProp properties;
  RINGTAPE_CUDA(cudaGetDeviceProperties(&properties, device.index));
  return fmt::format("{}, sm_{}{}, {} multiprocessors, {:.0f} GiB", properties.name, properties.major,
                     properties.minor, properties.multiProcessorCount, gibibytes(properties.totalGlobalMem));
}
#endif

}  // namespace

std::string describe(Device device) {
#ifdef RINGTAPE_WITH_CUDA
  if (device.is_cuda()) return describe_gpu(device);
#endif
  check(device.is_cpu(), "{} cannot be described: this build has no CUDA kernels", to_string(device));
  return fmt::format("{}, {}, {:.0f} GiB", cpu_model(), counted(omp_get_max_threads(), "thread"),
                     gibibytes(physical_memory(device)));
}

std::vector<Fact> describe_machine(Device device) {
  std::vector<Fact> facts;
  const auto add = [&](const char* name, std::string value) {
    if (!value.empty()) facts.push_back({name, std::move(value)});
  };
  add("device", to_string(device));
  if (device.is_cuda()) {
    add("gpu", describe(device));
    add("driver", first_line("/sys/module/nvidia/version"));
  }
  add("cpu", cpu_fact());
  add("cores", cores_fact());
  add("caches", cache_fact());
  add("vectors", vector_fact());
  add("threads", fmt::format("{}", omp_get_max_threads()));
  add("memory", fmt::format("{:.0f} GiB", gibibytes(physical_memory(Device{}))));
  add("system", system_fact());
  add("compiler", compiler_fact());
  add("build", RINGTAPE_BUILD);
  add("kernel flags", RINGTAPE_KERNEL_FLAGS);
  for (Fact& library : describe_libraries(device)) facts.push_back(std::move(library));
  return facts;
}

}  // namespace ringtape
