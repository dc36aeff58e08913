#pragma once

#include <string>
#include <string_view>

#include "io/json.h"

namespace ringtape::report {

/// A report's document as one HTML page without external resources: the template with the JSON inserted.
std::string html_page(const Json& document);

/// The text of train/report/template.html, embedded in the library.
std::string_view page_template();

}  // namespace ringtape::report
