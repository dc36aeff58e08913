#include "train/report/page.h"

#include "io/embed.h"

RINGTAPE_EMBED(ringtape_report_template, RINGTAPE_REPORT_TEMPLATE);

namespace ringtape::report {
namespace {

/// The marker in the template that the document replaces.
constexpr std::string_view kMarker = "@DOCUMENT@";

/// The same JSON with each "<" escaped, so that it cannot end its script element or begin a comment.
std::string without_markup(const std::string& json) {
  std::string text;
  for (const char c : json) c == '<' ? text += "\\u003c" : text += c;
  return text;
}

}  // namespace

std::string_view page_template() {
  return {reinterpret_cast<const char*>(ringtape_report_template_begin),
          static_cast<std::size_t>(ringtape_report_template_end - ringtape_report_template_begin)};
}

std::string html_page(const Json& document) {
  std::string page(page_template());
  return page.replace(page.find(kMarker), kMarker.size(),
                      without_markup(document.dump(1, Json::InvalidUtf8::replace)));
}

}  // namespace ringtape::report
