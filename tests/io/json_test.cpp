#include "io/json.h"

#include <cmath>
#include <limits>

#include "tests/support/catch.h"
#include "tests/support/error_of.h"

namespace ringtape::test {
namespace {

std::string parse_error(const std::string& text) {
  return error_of([&] { Json::parse(text, "f.json"); });
}

}  // namespace

TEST_CASE("JSON: values written and read", "[json]") {
  Json object{{"step", 3}, {"loss", 0.5}, {"name", "a\"b\n"}, {"good", true}, {"none", Json()}};
  object["more"]["list"].push_back(1u);
  object["more"]["list"].push_back("two");
  object["step"] = -4;
  const std::string text =
      R"({"step":-4,"loss":0.5,"name":"a\"b\n","good":true,"none":null,"more":{"list":[1,"two"]}})";
  CHECK(object.dump() == text);
  CHECK(Json::parse(text).dump() == text);
  CHECK(Json{{"a", 1}}.dump(2) == "{\n  \"a\": 1\n}");
  CHECK(Json(std::numeric_limits<std::uint64_t>::max()).dump() == "18446744073709551615");
  CHECK(Json::parse("18446744073709551615").as_uint64() == std::numeric_limits<std::uint64_t>::max());
  CHECK(Json(0.1).dump() == "0.1");
  CHECK(Json(1.0).dump() == "1.0");
  CHECK(Json(std::nan("")).dump() == "null");
  CHECK(Json::parse(R"("\u00e4\ud83d\ude00")").as_string() == "\u00e4\U0001F600");
}

TEST_CASE("JSON: a value of another kind is an error that names both", "[json]") {
  const Json object = Json::parse(R"({"a": 1.5, "b": "x", "c": -1})");
  CHECK(object.at("a").as_double() == 1.5);
  CHECK(object.find("d") == nullptr);
  CHECK(object.at("c").as_int64() == -1);
  CHECK_THROWS_WITH(object.at("d"), ContainsSubstring("an object has no 'd'"));
  CHECK_THROWS_AS(object.at("d"), JsonError);
  CHECK_THROWS_WITH(object.at("a").as_int64(),
                    ContainsSubstring("expected a signed 64-bit whole number, found '1.5'"));
  CHECK_THROWS_WITH(object.at("c").as_uint64(),
                    ContainsSubstring("expected a whole number from 0, found '-1'"));
  CHECK_THROWS_WITH(object.at("b").as_double(), ContainsSubstring("expected a number, found '\"x\"'"));
  CHECK_THROWS_WITH(object.as_array(), ContainsSubstring("expected an array, found an object"));
  CHECK_THROWS_WITH(Json("\xff").dump(), ContainsSubstring("not valid UTF-8"));
  CHECK(Json("a\xff").dump(-1, Json::InvalidUtf8::replace) == "\"a\xef\xbf\xbd\"");  // U+FFFD
}

TEST_CASE("JSON: texts that are refused", "[json]") {
  CHECK_THAT(parse_error(""),
             ContainsSubstring("f.json: is not valid JSON: parse error at line 1, column 1"));
  CHECK_THAT(parse_error("{\"a\": 1}\n x"),
             ContainsSubstring("f.json: is not valid JSON: parse error at line 2, column 2"));
  CHECK(parse_error(std::string("1\0", 2)) == "f.json: is not valid JSON at its byte 2: a zero byte");
  CHECK_THAT(parse_error("\"\xff\""),
             ContainsSubstring("f.json: is not valid JSON: parse error at line 1, column 2"));
  CHECK(parse_error(R"({"a": 1, "\u0061": 2})") == "f.json: the name 'a' occurs twice");
  CHECK(parse_error(std::string(Json::kDeepest, '[') + std::string(Json::kDeepest, ']')).empty());
  CHECK(parse_error(std::string(1'000'000, '[')) == "f.json: its values are nested more than 64 deep");
}

}  // namespace ringtape::test
