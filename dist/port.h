#pragma once

#include <string>

namespace ringtape {

/// "HOST:PORT", or "[HOST]:PORT" for an IPv6 address, which may have its brackets already: NCCL's form.
std::string with_port(const std::string& host, int port);
/// Throws Error that names `variable` unless `address` is of that form, with a port from 1 to 65535.
void check_address(const std::string& variable, const std::string& address);

/// Throws Error if another process of this machine listens on this TCP port.
void check_port_is_free(int port);

}  // namespace ringtape
