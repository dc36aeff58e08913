#include "dist/port.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace ringtape {

void check_port_is_free(int port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  check(descriptor >= 0, "port {}: no socket: {}", port, std::strerror(errno));
  const int yes = 1;  // a port whose last listener has just exited is also free
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const bool is_free = bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  const int reason = errno;
  close(descriptor);
  check(is_free, "port {} of this machine cannot be used: {}", port, std::strerror(reason));
}

}  // namespace ringtape
