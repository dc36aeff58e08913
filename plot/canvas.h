#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

/// Pictures as SVG text. Their colours are CSS custom properties, so that a page defines the colours once for
/// all pictures, and they follow the reader's light or dark mode.
namespace ringtape::svg {

/// Text that is safe in XML and HTML, in elements and in quoted attributes. Bytes that are not UTF-8 become
/// U+FFFD, control characters other than newline and tab "?".
std::string escape(std::string_view text);

/// A coordinate: at most one digit after the point.
std::string coordinate(double value);

/// The CSS that pictures need: the colours, light and dark, and the classes of their elements. A page with
/// pictures must contain it once.
std::string style();

/// Number of different series colours; classes "s0", "s1", ... fill a shape, "l0", "l1", ... draw a line.
constexpr int kColours = 8;

/// A picture being drawn, in pixels of its original size.
class Canvas {
 public:
  /// `title` is read by screen readers.
  Canvas(double width, double height, std::string_view title);

  /// `classes` are CSS classes of style(). `tip` is shown while the pointer is over the element; empty: none.
  void line(double x1, double y1, double x2, double y2, std::string_view classes);
  void rectangle(double x, double y, double width, double height, std::string_view classes,
                 std::string_view tip = "", double radius = 0);
  void circle(double x, double y, double radius, std::string_view classes, std::string_view tip = "");
  /// `data` as in SVG's path element.
  void path(std::string_view data, std::string_view classes, std::string_view tip = "");
  /// The text starts at x; with class "middle" or "end" its middle or end is there.
  void text(double x, double y, std::string_view text, std::string_view classes = "");

  /// Another picture, with its top left corner at x, y.
  void picture(double x, double y, const Canvas& other);

  /// The picture as an element of a page that has style().
  std::string element(std::string_view classes = "") const;
  /// The picture as a complete SVG file.
  std::string file() const;

 private:
  void add(std::string_view tag, const std::string& attributes, std::string_view classes,
           std::string_view tip);
  std::string open(std::string_view attributes) const;

  double width_, height_;
  std::string title_;
  std::string body_;
};

/// Approximate width of a text at a font size of 13 pixels.
double text_width(std::string_view text);

}  // namespace ringtape::svg
