#pragma once

#include <string>

#include "core/error.h"

namespace ringtape::test {

/// The text of the Error that `body` throws; empty when it throws none.
template <class Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace ringtape::test
