#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "core/error.h"
#include "dist/nccl_communicator.h"
#include "tests/support/catch.h"

using namespace ringtape;

namespace {

/// A TCP port of ::1 that no process listens at.
int free_port() {
  const int descriptor = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(bind(descriptor, generic, size) == 0);
  REQUIRE(getsockname(descriptor, generic, &size) == 0);
  close(descriptor);
  return ntohs(address.sin6_port);
}

/// A run of one rank that torchrun has started; NCCL's port is the one after torchrun's.
RankEnvironment torchrun_at(const std::string& address, int nccl_port = 29501) {
  RankEnvironment env;
  env.launcher = Launcher::torchrun;
  env.world_size = 1;
  env.master_address = address;
  env.master_port = nccl_port - 1;
  return env;
}

}  // namespace

TEST_CASE("ranks of torchrun connect at an IPv6 address, in NCCL's form of it") {
  unsetenv("NCCL_COMM_ID");
  const int port = free_port();
  const auto comm = NcclCommunicator::connect(torchrun_at("::1", port), {DeviceType::cuda, 0}, Seconds(60));
  CHECK(comm->size() == 1);
  CHECK(std::string(std::getenv("NCCL_COMM_ID")) == "[::1]:" + std::to_string(port));
  unsetenv("NCCL_COMM_ID");
}

TEST_CASE("NCCL_COMM_ID with a bare IPv6 address is refused") {
  setenv("NCCL_COMM_ID", "::1:29501", 1);
  CHECK_THROWS_WITH(NcclCommunicator::connect(torchrun_at("::1"), {DeviceType::cuda, 0}, Seconds(60)),
                    "NCCL_COMM_ID is '::1:29501', expected HOST:PORT, or [ADDRESS]:PORT for an IPv6 address");
  unsetenv("NCCL_COMM_ID");
}
