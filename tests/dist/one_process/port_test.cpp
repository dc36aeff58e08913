#include "dist/port.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/error.h"
#include "tests/support/catch.h"

using namespace ringtape;

TEST_CASE("port: one that somebody listens on is an error, and free again afterwards", "[launch]") {
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
