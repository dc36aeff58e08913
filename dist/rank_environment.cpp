#include "dist/rank_environment.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/quote.h"
#include "io/parse.h"

extern char** environ;

namespace ringtape {
namespace {

/// Reads the variables of one launcher, and records their names and values.
class Variables {
 public:
  /// `names`: the variables that identify this launcher.
  Variables(const Environment& environment, Launcher launcher, std::vector<std::string> names)
      : environment_(environment), launcher_(launcher), names_(std::move(names)) {}

  bool has_any() const {
    return std::any_of(names_.begin(), names_.end(), [this](const auto& name) { return has(name); });
  }

  bool has(const std::string& name) const { return environment_.contains(name); }

  std::string text(const std::string& name) {
    const auto found = environment_.find(name);
    check(found != environment_.end() && !found->second.empty(), "{}: {} is not set; found {}",
          name_of(launcher_), name, found_names());
    read_ += fmt::format("{}{}={}", read_.empty() ? "" : ", ", name, found->second);
    return found->second;
  }

  /// A number from `low` to `high`.
  int number(const std::string& name, int low, int high) {
    const std::string word = text(name);
    const std::optional<std::int64_t> value = parse_int64(word);
    check(value && *value >= low && *value <= high, "{}: {} is {}, expected a number from {} to {}",
          name_of(launcher_), name, quote(word), low, high);
    return static_cast<int>(*value);
  }

  /// The number in the first of `names` that is set, else `otherwise`.
  int first_number(const std::vector<std::string>& names, int low, int high, int otherwise) {
    for (const std::string& name : names) {
      if (has(name)) return number(name, low, high);
    }
    return otherwise;
  }

  const std::string& read() const { return read_; }

 private:
  /// The names that are set, with their values, as in "RANK=0".
  std::string found_names() const {
    std::string found;
    for (const std::string& name : names_) {
      const auto entry = environment_.find(name);
      if (entry == environment_.end()) continue;
      found += fmt::format("{}{}={}", found.empty() ? "" : ", ", name, entry->second);
    }
    return found;
  }

  const Environment& environment_;
  Launcher launcher_;
  std::vector<std::string> names_;
  std::string read_;
};

constexpr int kMaxRanks = 1 << 24;

/// Reads size before rank, so that the rank can be checked against it.
RankEnvironment read_ranks(Variables& variables, Launcher launcher, const std::string& rank,
                           const std::string& size) {
  RankEnvironment env;
  env.launcher = launcher;
  env.world_size = variables.number(size, 1, kMaxRanks);
  env.rank = variables.number(rank, 0, env.world_size - 1);
  return env;
}

std::optional<RankEnvironment> torchrun(const Environment& environment) {
  Variables variables(environment, Launcher::torchrun, {"RANK", "WORLD_SIZE"});
  if (!variables.has_any()) return {};
  RankEnvironment env = read_ranks(variables, Launcher::torchrun, "RANK", "WORLD_SIZE");
  env.local_rank = variables.number("LOCAL_RANK", 0, env.world_size - 1);
  env.master_address = variables.text("MASTER_ADDR");
  env.master_port = variables.number("MASTER_PORT", 1, 65535);
  env.reason = variables.read();
  return env;
}

std::optional<RankEnvironment> open_mpi(const Environment& environment) {
  Variables variables(environment, Launcher::open_mpi, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"});
  if (!variables.has_any()) return {};
  RankEnvironment env =
      read_ranks(variables, Launcher::open_mpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  env.local_rank = variables.number("OMPI_COMM_WORLD_LOCAL_RANK", 0, env.world_size - 1);
  env.has_mpi = true;
  env.reason = variables.read();
  return env;
}

std::optional<RankEnvironment> pmi(const Environment& environment) {
  Variables variables(environment, Launcher::pmi, {"PMI_RANK", "PMI_SIZE"});
  if (!variables.has_any()) return {};
  RankEnvironment env = read_ranks(variables, Launcher::pmi, "PMI_RANK", "PMI_SIZE");
  // PMI itself has no local rank; MPICH's and Intel's launchers set the first of these, srun the second.
  env.local_rank =
      variables.first_number({"MPI_LOCALRANKID", "SLURM_LOCALID"}, 0, env.world_size - 1, env.rank);
  env.has_mpi = true;
  env.reason = variables.read();
  return env;
}

std::optional<RankEnvironment> slurm(const Environment& environment) {
  Variables variables(environment, Launcher::slurm, {"SLURM_STEP_ID", "SLURM_PROCID"});
  if (!variables.has("SLURM_STEP_ID")) return {};  // a batch script or an allocation
  RankEnvironment env = read_ranks(variables, Launcher::slurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
  env.local_rank = variables.number("SLURM_LOCALID", 0, env.world_size - 1);
  env.has_mpi = variables.has("PMIX_RANK");  // srun --mpi=pmix
  env.reason = variables.read();
  return env;
}

}  // namespace

const char* name_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::none:
      return "none";
    case Launcher::torchrun:
      return "torchrun";
    case Launcher::open_mpi:
      return "Open MPI";
    case Launcher::pmi:
      return "PMI";
    case Launcher::slurm:
      return "Slurm";
  }
  return "unknown";
}

Environment process_environment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

RankEnvironment detect_rank_environment(const Environment& environment) {
  std::optional<RankEnvironment> first;
  for (const auto& read : {torchrun, open_mpi, pmi}) {
    std::optional<RankEnvironment> found = read(environment);
    if (!found) continue;
    if (!first) {
      first = std::move(found);
      continue;
    }
    check(found->rank == first->rank && found->world_size == first->world_size,
          "two launchers contradict: {} says rank {} of {} ({}), {} says rank {} of {} ({}): unset the "
          "variables "
          "of one of them",
          name_of(first->launcher), first->rank, first->world_size, first->reason, name_of(found->launcher),
          found->rank, found->world_size, found->reason);
    first->has_mpi = first->has_mpi || found->has_mpi;
  }
  if (!first) first = slurm(environment);
  if (first) return *first;
  RankEnvironment plain;
  plain.reason = "none of RANK, OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_STEP_ID is set";
  return plain;
}

std::string describe(const RankEnvironment& env) {
  return fmt::format("launcher  {}\nrank      {} of {}, local rank {}\nbecause   {}\n", name_of(env.launcher),
                     env.rank, env.world_size, env.local_rank, env.reason);
}

Device device_of_rank(const RankEnvironment& env, std::optional<Device> device, int gpus) {
  const bool on_cpu = device ? device->is_cpu() : gpus == 0;
  check(!on_cpu || env.world_size == 1 || env.has_mpi,
        "{} started {} ranks, but ranks on CPUs are connected by MPI: start them with 'mpirun -n {} ...'{}",
        name_of(env.launcher), env.world_size, env.world_size,
        env.launcher == Launcher::slurm ? " or 'srun --mpi=pmix ...'" : "");
  if (on_cpu) return {};
  if (device) return *device;
  check(env.local_rank < gpus,
        "rank {} of {} (local rank {}) has no GPU: found {} on this machine, expected one for each of its "
        "ranks{}",
        env.rank, env.world_size, env.local_rank, gpus,
        gpus == 1
            ? "; where each rank sees another GPU as its only one (srun --gpus-per-task 1): --device cuda:0"
            : "");
  return {DeviceType::cuda, env.local_rank};
}

}  // namespace ringtape
