#include "dist/port.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/error.h"
#include "tests/support/catch.h"

using namespace ringtape;

TEST_CASE("address: an IPv6 address is in brackets before its port, as NCCL_COMM_ID requires", "[launch]") {
  CHECK(with_port("node7", 29501) == "node7:29501");
  CHECK(with_port("10.0.0.7", 29501) == "10.0.0.7:29501");
  CHECK(with_port("fe80::1", 29501) == "[fe80::1]:29501");
  CHECK(with_port("[::1]", 29501) == "[::1]:29501");
  for (const char* const good : {"node7:1", "10.0.0.7:29501", "[::1]:29501", "[fe80::1%eth0]:65535"}) {
    CHECK_NOTHROW(check_address("NCCL_COMM_ID", good));
  }
  for (const char* const bad : {"", ":", "node7", "node7:", ":1", "node7:x", "node7:1x", "node7:0",
                                "node7:65536", "::1:29501", "[]:1", "[::1]", "[::1:29501"}) {
    INFO(bad);
    CHECK_THROWS_WITH(check_address("NCCL_COMM_ID", bad),
                      ContainsSubstring("NCCL_COMM_ID is '" + std::string(bad) +
                                        "', expected HOST:PORT, or "
                                        "[ADDRESS]:PORT"));
  }
}

TEST_CASE("port: a port that a socket listens on is an error, and free again afterwards", "[launch]") {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(descriptor >= 0);
  sockaddr_in address{};  // port 0: the system chooses one
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  REQUIRE(bind(descriptor, reinterpret_cast<const sockaddr*>(&address), length) == 0);
  REQUIRE(listen(descriptor, 1) == 0);
  REQUIRE(getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  const int port = ntohs(address.sin_port);
  CHECK_THROWS_WITH(check_port_is_free(port),
                    ContainsSubstring("port " + std::to_string(port)) && ContainsSubstring("in use"));
  close(descriptor);
  CHECK_NOTHROW(check_port_is_free(port));
}
