#include "train/report/html.h"

#include <algorithm>

#include "plot/canvas.h"

namespace ringtape::report {

using svg::escape;

std::string section(const std::string& heading, const std::string& note, const std::string& body) {
  const std::string below = note.empty() ? "" : fmt::format("<p class=\"note\">{}</p>\n", escape(note));
  return fmt::format("<section>\n<h2>{}</h2>\n{}{}</section>\n", escape(heading), below, body);
}

std::string wide_figure(const std::string& picture) {
  return "<figure class=\"scroll\" tabindex=\"0\">\n" + picture + "</figure>\n";
}

std::string legend(const std::vector<std::pair<std::string, int>>& names) {
  std::string text = "<ul class=\"keys\">\n";
  for (const auto& [name, colour] : names) {
    text += fmt::format("<li><i style=\"background:var(--c{})\"></i>{}</li>\n", colour, escape(name));
  }
  return text + "</ul>\n";
}

std::string description_list(const Facts& facts) {
  std::string text = "<dl>\n";
  for (const auto& [name, value] : facts) {
    text += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value));
  }
  return text + "</dl>\n";
}

Table::Table(const std::vector<Column>& columns) {
  text_ = "<thead><tr>";
  for (const Column& column : columns) {
    is_number_.push_back(column.is_number);
    const std::string tip = column.tip.empty() ? "" : fmt::format(" title=\"{}\"", escape(column.tip));
    text_ += fmt::format("<th scope=\"col\"{}{}>{}</th>", column.is_number ? " class=\"num\"" : "", tip,
                         escape(column.name));
  }
  text_ += "</tr></thead>\n<tbody>\n";
}

void Table::add(const std::string& first_cell, const std::vector<std::string>& cells,
                std::string_view classes) {
  text_ += classes.empty() ? "<tr>" : fmt::format("<tr class=\"{}\">", classes);
  text_ += fmt::format("<th scope=\"row\">{}</th>", first_cell);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    text_ += fmt::format("<td{}>{}</td>", is_number_[i + 1] ? " class=\"num\"" : "", escape(cells[i]));
  }
  text_ += "</tr>\n";
}

std::string Table::markup() const {
  return "<div class=\"scroll\" tabindex=\"0\">\n<table>\n" + text_ + "</tbody>\n</table>\n</div>\n";
}

std::string bar(double share, int colour, std::string_view text) {
  return fmt::format("<span class=\"bar\"><i style=\"width:{:.1f}%;background:var(--c{})\"></i></span>{}",
                     100 * std::clamp(share, 0.0, 1.0), colour, escape(text));
}

}  // namespace ringtape::report
