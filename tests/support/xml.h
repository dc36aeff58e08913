#pragma once

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace ringtape::test {

/// The error of a text that should be well-formed XML, or empty: every element is closed in order, attributes
/// are quoted and unique, `<` and `&` appear only as markup and entities. Comments and CDATA are not
/// supported. The text of a `style` element is not checked.
class XmlCheck {
 public:
  explicit XmlCheck(std::string_view text) : text_(text) {}

  std::string error() {
    while (at_ < text_.size() && error_.empty()) {
      if (text_[at_] == '<') {
        tag();
      } else {
        character("<");
      }
    }
    if (error_.empty() && !open_.empty()) error_ = "<" + open_.back() + "> is not closed";
    return error_;
  }

 private:
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }

  std::string name() {
    const std::size_t first = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '-')) {
      ++at_;
    }
    if (at_ == first) fail("a name was expected");
    return std::string(text_.substr(first, at_ - first));
  }

  void tag() {
    ++at_;
    if (take("/")) {
      const std::string closed = name();
      if (open_.empty() || open_.back() != closed) return fail("</" + closed + "> closes nothing");
      open_.pop_back();
      if (!take(">")) fail("'>' was expected");
      return;
    }
    const std::string opened = name();
    std::vector<std::string> attributes;
    while (error_.empty() && take(" ")) attribute(attributes);
    if (take("/>")) return;
    if (!take(">")) return fail("'>' was expected in <" + opened);
    open_.push_back(opened);
    if (opened == "style") at_ = std::min(text_.find("</style>", at_), text_.size());
  }

  void attribute(std::vector<std::string>& known) {
    const std::string attribute = name();
    for (const std::string& other : known) {
      if (other == attribute) fail("two attributes " + attribute);
    }
    known.push_back(attribute);
    if (!take("=\"")) return fail("a quoted value was expected for " + attribute);
    while (error_.empty() && !take("\"")) {
      if (at_ == text_.size()) return fail("the text ends in an attribute");
      character("<");
    }
  }

  /// One character, or one entity.
  void character(std::string_view forbidden) {
    const char c = text_[at_];
    if (forbidden.find(c) != std::string_view::npos) return fail(std::string("a bare ") + c);
    ++at_;
    if (c != '&') return;
    for (const char* entity : {"amp;", "lt;", "gt;", "quot;", "#39;"}) {
      if (take(entity)) return;
    }
    fail("a bare &");
  }

  void fail(const std::string& what) {
    if (error_.empty()) {
      error_ = what + " near: " + std::string(text_.substr(at_ < 60 ? 0 : at_ - 60, 120));
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::string> open_;
  std::string error_;
};

inline std::string xml_error(std::string_view text) {
  return XmlCheck(text).error();
}

}  // namespace ringtape::test
