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

/// Thrown where a value is not of the kind that is asked for, or a member is missing.
class JsonError : public Error {
 public:
  using Error::Error;
};

/// A JSON value (RFC 8259). Objects keep the order of their members. io/json.cpp alone includes the library
/// that reads and writes the text, nlohmann-json, because that takes seconds to compile.
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

  /// Reads a whole text. Throws Error, which begins with `source`, that says at which line and column it is
  /// not JSON; also for a name that occurs twice in an object, for values nested deeper than kDeepest, and
  /// for more than kMostValues of them, so that a hostile text cannot fill the stack or the memory.
  static Json parse(std::string_view text, const std::string& source = "JSON");
  static constexpr int kDeepest = 64;
  static constexpr std::size_t kMostValues = 10'000'000;

  /// What dump() does with bytes in a string that are not UTF-8: throws Error, or writes U+FFFD for them.
  enum class InvalidUtf8 { refuse, replace };
  /// The text: in one line, or with this many spaces for each level.
  std::string dump(int indent = -1, InvalidUtf8 invalid = InvalidUtf8::refuse) const;

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_number() const;
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  /// "a string", "an object", ..., for error texts.
  const char* kind() const;

  // The value as a C++ type; JsonError for a value of another kind, or one that does not fit.
  bool as_bool() const;
  double as_double() const;
  std::int64_t as_int64() const;    ///< of a whole number
  std::uint64_t as_uint64() const;  ///< of a whole number from 0
  const std::string& as_string() const;
  const Array& as_array() const;
  const Object& as_object() const;

  /// The member of that name, or null where this is no object or has none.
  const Json* find(std::string_view name) const;
  /// The same; JsonError where it is not there.
  const Json& at(std::string_view name) const;
  /// The member of that name, which is added as null where there is none; a null becomes an object; JsonError
  /// for a value of another kind.
  Json& operator[](std::string_view name);
  /// Adds an element to an array; a null becomes one; JsonError for a value of another kind.
  void push_back(Json element);

 private:
  friend class JsonReader;
  friend struct JsonText;
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> value_;
};

}  // namespace ringtape
