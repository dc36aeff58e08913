#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"

namespace ringtape {

/// Thrown if a value is not of the requested kind, or if a member is missing.
class JsonError : public Error {
 public:
  using Error::Error;
};

/// A JSON value (RFC 8259). Objects keep the order of their members. Only io/json.cpp includes the library
/// that parses and writes the text, nlohmann-json, which takes seconds to compile.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  Json() = default;  ///< null
  template <std::same_as<bool> B>
  Json(B value) : value_(value) {}
  template <std::signed_integral I>
  Json(I value) : value_(std::int64_t{value}) {}
  template <std::unsigned_integral U>
  requires(!std::same_as<U, bool>) Json(U value) : value_(std::uint64_t{value}) {}
  Json(double value) : value_(value) {}  ///< infinity and NaN, which JSON does not have, are written as null
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}
  /// An object: `Json{{"step", 1}, {"loss", 0.5}}`.
  Json(std::initializer_list<Object::value_type> members) : value_(Object(members)) {}

  /// Parses a whole text. Throws Error that begins with `source` for invalid JSON, with the position; for a
  /// name that occurs twice in an object; for values nested deeper than kDeepest, and for more than
  /// kMaxValues of them, so that a hostile text cannot fill the stack or the memory.
  static Json parse(std::string_view text, const std::string& source = "JSON");
  static constexpr int kDeepest = 64;
  static constexpr std::size_t kMaxValues = 10'000'000;

  /// What dump() does with bytes in a string that are not UTF-8: throw Error, or write U+FFFD for them.
  enum class InvalidUtf8 { refuse, replace };
  /// The JSON text: on one line, or with line breaks and this many spaces for each level.
  std::string dump(int indent = -1, InvalidUtf8 invalid = InvalidUtf8::refuse) const;

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_number() const;
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  /// "a string", "an object", ..., for error texts.
  const char* kind() const;

  // The value as a C++ type. They throw JsonError for a value of another kind, or one that does not fit.
  bool as_bool() const;
  double as_double() const;
  std::int64_t as_int64() const;    ///< of an integer
  std::uint64_t as_uint64() const;  ///< of an integer from 0 on
  const std::string& as_string() const;
  const Array& as_array() const;
  const Object& as_object() const;

  /// The member of that name, or null if there is none or this is not an object.
  const Json* find(std::string_view name) const;
  /// The same; throws JsonError if there is none.
  const Json& at(std::string_view name) const;
  /// The member of that name, which is added as null if there is none. A null value becomes an object; throws
  /// JsonError for a value of another kind.
  Json& operator[](std::string_view name);
  /// Adds an element to an array. A null value becomes an array; throws JsonError for a value of another
  /// kind.
  void push_back(Json element);

 private:
  friend class JsonReader;
  friend struct JsonText;
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> value_;
};

}  // namespace ringtape
