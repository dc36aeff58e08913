#include "plot/canvas.h"

#include <algorithm>

namespace ringtape::svg {
namespace {

/// Bytes of the UTF-8 character at the start of `text` (RFC 3629); 0 where there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (length < 2) return length;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned start = first << 8 | byte(1);
  const bool is_overlong = (first == 0xE0 && start < 0xE0A0) || (first == 0xF0 && start < 0xF090);
  const bool is_surrogate = first == 0xED && start >= 0xEDA0;
  return is_overlong || is_surrogate || start >= 0xF490 ? 0 : length;
}

}  // namespace

std::string escape(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    if (length != 1) {
      result += length == 0 ? "\xEF\xBF\xBD" : text.substr(i, length);  // U+FFFD, the replacement character
      i += std::max<std::size_t>(length, 1);
      continue;
    }
    const char c = text[i++];
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        // XML does not allow control characters.
        result += static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return result;
}

std::string coordinate(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

Canvas::Canvas(double width, double height, std::string_view title)
    : width_(width), height_(height), title_(escape(title)) {}

void Canvas::add(std::string_view tag, const std::string& attributes, std::string_view classes,
                 std::string_view tip) {
  body_ += fmt::format("<{} {}", tag, attributes);
  if (!classes.empty()) body_ += fmt::format(" class=\"{}\"", classes);
  body_ += tip.empty() ? "/>\n" : fmt::format("><title>{}</title></{}>\n", escape(tip), tag);
}

void Canvas::line(double x1, double y1, double x2, double y2, std::string_view classes) {
  add("line",
      fmt::format("x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"", coordinate(x1), coordinate(y1), coordinate(x2),
                  coordinate(y2)),
      classes, "");
}

void Canvas::rectangle(double x, double y, double width, double height, std::string_view classes,
                       std::string_view tip, double radius) {
  std::string attributes = fmt::format("x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", coordinate(x),
                                       coordinate(y), coordinate(width), coordinate(height));
  if (radius > 0) attributes += fmt::format(" rx=\"{}\"", coordinate(radius));
  add("rect", attributes, classes, tip);
}

void Canvas::circle(double x, double y, double radius, std::string_view classes, std::string_view tip) {
  add("circle", fmt::format("cx=\"{}\" cy=\"{}\" r=\"{}\"", coordinate(x), coordinate(y), coordinate(radius)),
      classes, tip);
}

void Canvas::path(std::string_view data, std::string_view classes, std::string_view tip) {
  add("path", fmt::format("d=\"{}\"", data), classes, tip);
}

void Canvas::text(double x, double y, std::string_view text, std::string_view classes) {
  body_ += fmt::format("<text x=\"{}\" y=\"{}\"", coordinate(x), coordinate(y));
  if (!classes.empty()) body_ += fmt::format(" class=\"{}\"", classes);
  body_ += fmt::format(">{}</text>\n", escape(text));
}

void Canvas::picture(double x, double y, const Canvas& other) {
  body_ +=
      fmt::format("<g transform=\"translate({} {})\">\n{}</g>\n", coordinate(x), coordinate(y), other.body_);
}

std::string Canvas::open(std::string_view attributes) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" role=\"img\" aria-label=\"{2}\"{3}>\n",
      coordinate(width_), coordinate(height_), title_, attributes);
}

std::string Canvas::element(std::string_view classes) const {
  return open(classes.empty() ? std::string() : fmt::format(" class=\"{}\"", classes)) + body_ + "</svg>\n";
}

std::string Canvas::file() const {
  return open("") + fmt::format("<title>{}</title>\n<style>\n{}</style>\n", title_, style()) +
         fmt::format("<rect width=\"{}\" height=\"{}\" class=\"paper\"/>\n", coordinate(width_),
                     coordinate(height_)) +
         body_ + "</svg>\n";
}

double text_width(std::string_view text) {
  std::size_t letters = 0;
  for (const char c : text) letters += (static_cast<unsigned char>(c) & 0xC0) != 0x80;  // UTF-8
  return 7.0 * static_cast<double>(letters);
}

}  // namespace ringtape::svg
