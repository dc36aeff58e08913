#include "dist/port.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/error.h"
#include "core/quote.h"
#include "io/parse.h"

namespace ringtape {

std::string with_port(const std::string& host, int port) {
  const bool is_bare_ipv6 = host.find(':') != std::string::npos && !host.starts_with('[');
  return fmt::format(fmt::runtime(is_bare_ipv6 ? "[{}]:{}" : "{}:{}"), host, port);
}

void check_address(const std::string& variable, const std::string& address) {
  const std::size_t colon = std::min(address.rfind(':'), address.size());
  const std::string host = address.substr(0, colon);
  const bool is_in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const bool is_host = is_in_brackets || (!host.empty() && host.find_first_of("[]:") == std::string::npos);
  const std::int64_t port =
      parse_int64(std::string_view(address).substr(std::min(colon + 1, address.size()))).value_or(0);
  check(is_host && port >= 1 && port <= 65535,
        "{} is {}, expected HOST:PORT, or [ADDRESS]:PORT for an IPv6 address", variable, quote(address));
}

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
