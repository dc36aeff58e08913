#include <nccl.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "gpu_model/nccl/connect.h"
#include "gpu_model/nccl/error.h"

namespace gpu_model::nccl {
namespace {

/// Whether it is HOST:PORT or [IPV6]:PORT.
bool is_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) return false;
  const std::string host = text.substr(0, colon), port = text.substr(colon + 1);
  const bool in_brackets = host.front() == '[' && host.back() == ']' && host.size() > 2;
  if (!in_brackets && host.find(':') != std::string::npos) return false;
  for (const char digit : port) {
    if (std::isdigit(static_cast<unsigned char>(digit)) == 0) return false;
  }
  return port.size() <= 5 && std::stoi(port) <= 65535;
}

std::string random_place() {
  std::random_device random;
  std::string place = "id-";
  for (int i = 0; i < 4; ++i) {
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08x", random());
    place += digits;
  }
  return place;
}

}  // namespace

std::string place_of(const ncclUniqueId& id) {
  return {id.internal, strnlen(id.internal, sizeof id.internal)};
}

}  // namespace gpu_model::nccl

using namespace gpu_model::nccl;

extern "C" ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return fail(ncclInvalidArgument, "ncclGetUniqueId: the id pointer is null");
  const char* const given = std::getenv("NCCL_COMM_ID");
  if (given != nullptr && !is_address(given)) {
    return fail(ncclInvalidArgument,
                std::string("NCCL_COMM_ID must be HOST:PORT or [IPV6]:PORT, found ") + given);
  }
  const std::string place = given != nullptr ? given : random_place();
  if (place.size() >= 64) return fail(ncclInvalidArgument, "NCCL_COMM_ID is too long: " + place);
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, place.data(), place.size());
  return ncclSuccess;
}
