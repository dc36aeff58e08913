#include "io/json.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "core/quote.h"

namespace ringtape {

namespace {

/// The library's message is "[its id] where and what; last read: ...": the part "where and what".
std::string where_and_what(const std::string& message) {
  const std::size_t id = message.find("] ");
  const std::size_t begin = id == std::string::npos ? 0 : id + 2;
  return message.substr(begin, message.find("; last read") - begin);
}

}  // namespace

/// Builds a value from the events of the library's parser.
class JsonReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit JsonReader(const std::string& source) : source_(source) {}

  Json result;

  bool null() override { return add({}); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(nlohmann::json::binary_t&) override { fail("{}: has binary data", source_); }
  bool start_object(std::size_t) override { return open(Json(Json::Object{})); }
  bool start_array(std::size_t) override { return open(Json(Json::Array{})); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    check(open_.back().names.insert(name).second, "{}: the name {} occurs twice", source_, quote(name));
    open_.back().name = std::move(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) override {
    fail("{}: is not valid JSON: {}", source_, where_and_what(error.what()));
  }

 private:
  /// An object or array whose end has not been reached.
  struct Open {
    Json value;
    std::string name{};                       // of the member that comes next
    std::unordered_set<std::string> names{};  // of the members so far
  };

  bool add(Json value) {
    check(++values_ <= Json::kMaxValues, "{}: has more than {} values", source_, Json::kMaxValues);
    if (open_.empty()) {
      result = std::move(value);
    } else if (open_.back().value.is_array()) {
      open_.back().value.push_back(std::move(value));
    } else {
      std::get<Json::Object>(open_.back().value.value_)
          .emplace_back(std::move(open_.back().name), std::move(value));
    }
    return true;
  }
  bool open(Json value) {
    check(open_.size() < Json::kDeepest, "{}: its values are nested more than {} deep", source_,
          Json::kDeepest);
    open_.push_back({std::move(value)});
    return true;
  }
  bool close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(value));
  }

  const std::string& source_;
  std::vector<Open> open_;
  std::size_t values_ = 0;
};

/// Converts a value to the library's type, for writing.
struct JsonText {
  static nlohmann::ordered_json of(const Json& value) {
    return std::visit(
        [](const auto& content) -> nlohmann::ordered_json {
          using Content = std::decay_t<decltype(content)>;
          if constexpr (std::is_same_v<Content, std::monostate>) {
            return nullptr;
          } else if constexpr (std::is_same_v<Content, Json::Array>) {
            nlohmann::ordered_json array = nlohmann::ordered_json::array();
            for (const Json& element : content) array.push_back(of(element));
            return array;
          } else if constexpr (std::is_same_v<Content, Json::Object>) {
            nlohmann::ordered_json object = nlohmann::ordered_json::object();
            for (const auto& [name, member] : content) object[name] = of(member);
            return object;
          } else {
            return content;
          }
        },
        value.value_);
  }
};

namespace {

void expect(bool holds, const char* expected, const Json& found) {
  if (holds) return;
  const std::string text = found.is_array() || found.is_object() ? found.kind() : quote(found.dump());
  throw JsonError(fmt::format("JSON: expected {}, found {}", expected, text));
}

}  // namespace

Json Json::parse(std::string_view text, const std::string& source) {
  // The library would treat a zero byte as the end of the text and ignore the rest.
  const std::size_t zero = text.find('\0');
  check(zero == std::string_view::npos, "{}: is not valid JSON at its byte {}: a zero byte", source,
        zero + 1);
  JsonReader reader(source);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  return std::move(reader.result);
}

std::string Json::dump(int indent, InvalidUtf8 invalid) const {
  using Handler = nlohmann::json::error_handler_t;
  try {
    return JsonText::of(*this).dump(indent, ' ', /*ensure_ascii=*/false,
                                    invalid == InvalidUtf8::refuse ? Handler::strict : Handler::replace);
  } catch (const nlohmann::json::type_error&) {
    fail("JSON: a string is not valid UTF-8");
  }
}

bool Json::is_number() const {
  return std::holds_alternative<std::int64_t>(value_) || std::holds_alternative<std::uint64_t>(value_) ||
         std::holds_alternative<double>(value_);
}

const char* Json::kind() const {
  if (is_null()) return "null";
  if (is_bool()) return "true or false";
  if (is_string()) return "a string";
  if (is_array()) return "an array";
  if (is_object()) return "an object";
  return "a number";
}

bool Json::as_bool() const {
  expect(is_bool(), "true or false", *this);
  return std::get<bool>(value_);
}

double Json::as_double() const {
  expect(is_number(), "a number", *this);
  if (const auto* integer = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*integer);
  if (const auto* integer = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*integer);
  return std::get<double>(value_);
}

std::int64_t Json::as_int64() const {
  if (const auto* integer = std::get_if<std::int64_t>(&value_)) return *integer;
  const auto* integer = std::get_if<std::uint64_t>(&value_);
  expect(integer != nullptr && *integer <= std::numeric_limits<std::int64_t>::max(),
         "a signed 64-bit whole number", *this);
  return static_cast<std::int64_t>(*integer);
}

std::uint64_t Json::as_uint64() const {
  if (const auto* integer = std::get_if<std::uint64_t>(&value_)) return *integer;
  const auto* integer = std::get_if<std::int64_t>(&value_);
  expect(integer != nullptr && *integer >= 0, "a whole number from 0", *this);
  return static_cast<std::uint64_t>(*integer);
}

const std::string& Json::as_string() const {
  expect(is_string(), "a string", *this);
  return std::get<std::string>(value_);
}

const Json::Array& Json::as_array() const {
  expect(is_array(), "an array", *this);
  return std::get<Array>(value_);
}

const Json::Object& Json::as_object() const {
  expect(is_object(), "an object", *this);
  return std::get<Object>(value_);
}

const Json* Json::find(std::string_view name) const {
  const auto* const members = std::get_if<Object>(&value_);
  if (members == nullptr) return nullptr;
  for (const auto& [member, value] : *members) {
    if (member == name) return &value;
  }
  return nullptr;
}

const Json& Json::at(std::string_view name) const {
  const Json* const member = find(name);
  if (member == nullptr) throw JsonError(fmt::format("JSON: {} has no {}", kind(), quote(name)));
  return *member;
}

Json& Json::operator[](std::string_view name) {
  if (is_null()) value_ = Object{};
  expect(is_object(), "an object", *this);
  auto& members = std::get<Object>(value_);
  for (auto& [member, value] : members) {
    if (member == name) return value;
  }
  return members.emplace_back(std::string(name), Json()).second;
}

void Json::push_back(Json element) {
  if (is_null()) value_ = Array{};
  expect(is_array(), "an array", *this);
  std::get<Array>(value_).push_back(std::move(element));
}

}  // namespace ringtape
