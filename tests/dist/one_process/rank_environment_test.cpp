#include "dist/rank_environment.h"

#include "core/error.h"
#include "tests/support/catch.h"

using namespace ringtape;

namespace {

const Environment kTorchrun = {{"RANK", "5"},         {"WORLD_SIZE", "8"},      {"LOCAL_RANK", "1"},
                               {"MASTER_ADDR", "n0"}, {"MASTER_PORT", "29500"}, {"LOCAL_WORLD_SIZE", "4"}};
const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Environment kPmi = {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "0"}};
const Environment kSlurm = {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "6"},  {"SLURM_STEP_NUM_TASKS", "8"},
                            {"SLURM_LOCALID", "2"}, {"SLURM_NTASKS", "16"}, {"SLURM_JOB_ID", "77"}};

Environment joined(Environment first, const Environment& second) {
  first.insert(second.begin(), second.end());
  return first;
}

/// `environment` with one variable set to another value, or removed if the value is null.
Environment with(Environment environment, const std::string& name, const char* value) {
  environment.erase(name);
  if (value != nullptr) environment.emplace(name, value);
  return environment;
}

void check_launch(const Environment& environment, Launcher launcher, int rank, int size, int local_rank,
                  bool has_mpi) {
  const RankEnvironment env = detect_rank_environment(environment);
  CHECK(env.launcher == launcher);
  CHECK(env.rank == rank);
  CHECK(env.world_size == size);
  CHECK(env.local_rank == local_rank);
  CHECK(env.has_mpi == has_mpi);
}

void check_error(const Environment& environment, const std::string& text) {
  CHECK_THROWS_WITH(detect_rank_environment(environment), ContainsSubstring(text));
}

}  // namespace

TEST_CASE("launch: each launcher", "[launch]") {
  check_launch({}, Launcher::none, 0, 1, 0, false);
  check_launch(kTorchrun, Launcher::torchrun, 5, 8, 1, false);
  check_launch(kOpenMpi, Launcher::open_mpi, 3, 4, 1, true);
  check_launch(kPmi, Launcher::pmi, 2, 4, 0, true);
  check_launch(kSlurm, Launcher::slurm, 6, 8, 2, false);
  check_launch(with(kSlurm, "PMIX_RANK", "6"), Launcher::slurm, 6, 8, 2, true);
  const RankEnvironment torchrun = detect_rank_environment(kTorchrun);
  CHECK(torchrun.master_address == "n0");
  CHECK(torchrun.master_port == 29500);
}

TEST_CASE("launch: PMI's local rank comes from any variable that has it, else it is the rank", "[launch]") {
  const Environment bare = with(kPmi, "MPI_LOCALRANKID", nullptr);
  check_launch(with(bare, "SLURM_LOCALID", "1"), Launcher::pmi, 2, 4, 1, true);
  check_launch(bare, Launcher::pmi, 2, 4, 2, true);
}

TEST_CASE("launch: Slurm counts inside a step alone, and last", "[launch]") {
  check_launch(with(kSlurm, "SLURM_STEP_ID", nullptr), Launcher::none, 0, 1, 0, false);
  check_launch(joined(kOpenMpi, kSlurm), Launcher::open_mpi, 3, 4, 1, true);
  check_launch(joined(kTorchrun, kSlurm), Launcher::torchrun, 5, 8, 1, false);
  check_launch(joined(kPmi, kSlurm), Launcher::pmi, 2, 4, 0, true);
}

TEST_CASE("launch: two launchers that agree, and two that contradict each other", "[launch]") {
  const Environment both = joined(kTorchrun, kOpenMpi);
  check_error(both, "two launchers contradict: torchrun says rank 5 of 8");
  check_error(both, "Open MPI says rank 3 of 4");
  const Environment same_rank = with(both, "RANK", "3");
  check_error(same_rank, "unset the variables");
  check_launch(with(same_rank, "WORLD_SIZE", "4"), Launcher::torchrun, 3, 4, 1, true);
  check_error(joined(kOpenMpi, kPmi), "PMI says rank 2 of 4");
}

TEST_CASE("launch: variables that are missing or wrong", "[launch]") {
  check_error({{"RANK", "0"}}, "torchrun: WORLD_SIZE is not set; found RANK=0");
  check_error({{"WORLD_SIZE", "2"}}, "torchrun: RANK is not set; found WORLD_SIZE=2");
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    check_error(with(kTorchrun, name, nullptr), fmt::format("torchrun: {} is not set", name));
    check_error(with(kTorchrun, name, ""), fmt::format("torchrun: {} is not set", name));
  }
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"}) {
    check_error(with(kOpenMpi, name, nullptr), fmt::format("Open MPI: {} is not set", name));
  }
  for (const char* name : {"PMI_RANK", "PMI_SIZE"}) {
    check_error(with(kPmi, name, nullptr), fmt::format("PMI: {} is not set", name));
  }
  for (const char* name : {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"}) {
    check_error(with(kSlurm, name, nullptr), fmt::format("Slurm: {} is not set", name));
  }
  for (const char* value : {"8", "-1", "two", "1x", " 1", "1.0", "99999999999999999999"}) {
    INFO(value);
    check_error(with(kTorchrun, "RANK", value),
                fmt::format("RANK is '{}', expected a number from 0 to 7", value));
  }
  for (const char* value : {"0", "-4", "x", "99999999"}) {
    check_error(with(kOpenMpi, "OMPI_COMM_WORLD_SIZE", value),
                fmt::format("OMPI_COMM_WORLD_SIZE is '{}'", value));
  }
  check_error(with(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_RANK", "4"), "expected a number from 0 to 3");
  check_error(with(kTorchrun, "MASTER_PORT", "65536"),
              "MASTER_PORT is '65536', expected a number from 1 to 65535");
}

TEST_CASE("launch: what --show-launcher prints", "[launch]") {
  CHECK(describe(detect_rank_environment(kOpenMpi)) ==
        "launcher  Open MPI\n"
        "rank      3 of 4, local rank 1\n"
        "because   OMPI_COMM_WORLD_SIZE=4, OMPI_COMM_WORLD_RANK=3, OMPI_COMM_WORLD_LOCAL_RANK=1\n");
  CHECK_THAT(describe(detect_rank_environment({})), ContainsSubstring("launcher  none\nrank      0 of 1"));
}

TEST_CASE("launch: the device of a rank", "[launch]") {
  const RankEnvironment plain = detect_rank_environment({}), mpi = detect_rank_environment(kOpenMpi),
                        torchrun = detect_rank_environment(kTorchrun);
  CHECK(device_of_rank(plain, Device{}, 0) == Device{});
  CHECK(device_of_rank(plain, std::nullopt, 0) == Device{});
  CHECK(device_of_rank(plain, std::nullopt, 2) == Device{DeviceType::cuda, 0});
  CHECK(device_of_rank(mpi, Device{}, 2) == Device{});
  CHECK(device_of_rank(mpi, std::nullopt, 2) == Device{DeviceType::cuda, 1});
  CHECK(device_of_rank(torchrun, Device{DeviceType::cuda, 0}, 4) == Device{DeviceType::cuda, 0});
  CHECK_THROWS_WITH(device_of_rank(mpi, std::nullopt, 1),
                    ContainsSubstring("rank 3 of 4 (local rank 1) has no GPU: found 1"));
  for (const std::optional<Device> device : {std::optional(Device{}), std::optional<Device>()}) {
    CHECK_THROWS_WITH(device_of_rank(torchrun, device, 0), ContainsSubstring("torchrun started 8 ranks") &&
                                                               ContainsSubstring("'mpirun -n 8 ...'"));
  }
  CHECK_THROWS_WITH(device_of_rank(detect_rank_environment(kSlurm), Device{}, 0),
                    ContainsSubstring("srun --mpi=pmix"));
}
