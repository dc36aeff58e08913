#pragma once

namespace ringtape {

/// Throws Error if another process of this machine listens on this TCP port.
void check_port_is_free(int port);

}  // namespace ringtape
