#include <cstdlib>
#include <string>

#include "core/error.h"
#include "dist/nccl_communicator.h"
#include "tests/support/catch.h"

using namespace ringtape;

namespace {

/// A run of one rank that torchrun has started.
RankEnvironment torchrun_at(const std::string& address) {
  RankEnvironment env;
  env.launcher = Launcher::torchrun;
  env.world_size = 1;
  env.master_address = address;
  env.master_port = 29500;
  return env;
}

}  // namespace

TEST_CASE("ranks of torchrun connect at an IPv6 address, in NCCL's form of it") {
  unsetenv("NCCL_COMM_ID");
  const auto comm = NcclCommunicator::connect(torchrun_at("::1"), {DeviceType::cuda, 0}, Seconds(60));
  CHECK(comm->size() == 1);
  CHECK(std::string(std::getenv("NCCL_COMM_ID")) == "[::1]:29501");
  unsetenv("NCCL_COMM_ID");
}

TEST_CASE("NCCL_COMM_ID with a bare IPv6 address is refused") {
  setenv("NCCL_COMM_ID", "::1:29501", 1);
  CHECK_THROWS_WITH(NcclCommunicator::connect(torchrun_at("::1"), {DeviceType::cuda, 0}, Seconds(60)),
                    "NCCL_COMM_ID is '::1:29501', expected HOST:PORT, or [ADDRESS]:PORT for an IPv6 address");
  unsetenv("NCCL_COMM_ID");
}
