#pragma once

#include <string>
#include <string_view>

#include "io/json.h"

namespace ringtape::report {

/// The document of a report as one HTML page, with nothing to fetch: template.html with the JSON put in.
std::string html_page(const Json& document);

/// The text of train/report/template.html, which is a part of the library.
std::string_view page_template();

}  // namespace ringtape::report
