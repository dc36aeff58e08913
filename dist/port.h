#pragma once

#include <string>

namespace ringtape {

/// "HOST:PORT", or "[HOST]:PORT" for an IPv6 address, which may be in brackets already: the form that NCCL
/// reads.
std::string with_port(const std::string& host, int port);
/// Throws Error that names `variable` unless `address` is of that form, with a port from 1 to 65535.
void check_address(const std::string& variable, const std::string& address);

/// Throws Error if this machine's TCP port cannot be bound, such as when another process listens on it.
void check_port_is_free(int port);

}  // namespace ringtape
