#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Pieces of an HTML page. Whatever is text is escaped in here; what is called markup is not.
namespace ringtape::report {

/// Names and values, in the order to be shown.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// A page of its own: no other file, no script, nothing fetched. `body` is markup.
std::string page(const std::string& title, const std::string& body);

/// A part of the page under a heading; `note` is a sentence below it, or empty; `body` is markup.
std::string section(const std::string& heading, const std::string& note, const std::string& body);

/// A picture (markup) in a box in which it can be scrolled sideways where it is wider than the screen.
std::string wide_figure(const std::string& picture);

/// A legend that wraps: names, each beside its colour by number.
std::string legend(const std::vector<std::pair<std::string, int>>& names);

std::string description_list(const Facts& facts);

/// A table that can be scrolled sideways in its box.
class Table {
 public:
  struct Column {
    std::string name;
    bool is_number = true;
    std::string tip{};  ///< shown while the pointer is over the name
  };
  explicit Table(const std::vector<Column>& columns);

  /// A row of cells of text, after its first cell, which is markup.
  void add(const std::string& first_cell, const std::vector<std::string>& cells,
           std::string_view classes = "");
  std::string markup() const;

 private:
  std::vector<bool> is_number_;
  std::string text_;
};

/// A bar that fills `share`, 0 to 1, of its cell, in the colour of that number, with a text behind it:
/// markup.
std::string bar(double share, int colour, std::string_view text);

}  // namespace ringtape::report
