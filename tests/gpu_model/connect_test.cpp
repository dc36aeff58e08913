#include <nccl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "core/error.h"
#include "dist/nccl_communicator.h"
#include "tests/support/catch.h"

using namespace ringtape;

namespace {

/// A socket that listens at a free TCP port of this machine.
class Listener {
 public:
  Listener() : descriptor_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(bind(descriptor_, generic, size) == 0);
    REQUIRE(listen(descriptor_, 1) == 0);
    REQUIRE(getsockname(descriptor_, generic, &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { close(descriptor_); }
  int port() const { return port_; }

 private:
  int descriptor_, port_;
};

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

TEST_CASE(
    "ranks of torchrun connect at an IPv6 address, in NCCL's form of it, at the port after torchrun's") {
  unsetenv("NCCL_COMM_ID");
  int port = 0;
  {
    const Listener listener;
    port = listener.port();
    CHECK_THROWS_WITH(NcclCommunicator::connect(torchrun_at("::1", port), {DeviceType::cuda, 0}, Seconds(60)),
                      ContainsSubstring("port " + std::to_string(port)) && ContainsSubstring("in use"));
  }
  const auto comm = NcclCommunicator::connect(torchrun_at("::1", port), {DeviceType::cuda, 0}, Seconds(60));
  CHECK(comm->size() == 1);
  // Other communicators of the process have ids of their own.
  ncclUniqueId first, second;
  REQUIRE(ncclGetUniqueId(&first) == ncclSuccess);
  REQUIRE(ncclGetUniqueId(&second) == ncclSuccess);
  CHECK(std::memcmp(&first, &second, sizeof first) != 0);
}

TEST_CASE("NCCL_COMM_ID with a bare IPv6 address is refused") {
  setenv("NCCL_COMM_ID", "::1:29501", 1);
  CHECK_THROWS_WITH(NcclCommunicator::connect(torchrun_at("::1"), {DeviceType::cuda, 0}, Seconds(60)),
                    "NCCL_COMM_ID is '::1:29501', expected HOST:PORT, or [ADDRESS]:PORT for an IPv6 address");
  unsetenv("NCCL_COMM_ID");
}
