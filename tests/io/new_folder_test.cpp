#include "core/error.h"
#include "io/file.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace ringtape::test {
namespace {

TEST_CASE("a new folder is removed with its new parents and files, unless it is kept", "[file]") {
  const TemporaryFolder folder;
  const std::filesystem::path deep = folder.path() / "a" / "b";
  {
    const NewFolder made(deep);
    write_text(deep / "file", "text");
  }
  CHECK(folder.names().empty());
  {
    NewFolder made(deep);
    made.keep();
  }
  CHECK(std::filesystem::exists(deep));
  write_text(deep / "file", "text");
  { const NewFolder there(deep); }  // was there before
  CHECK(read_text(deep / "file") == "text");
  { const NewFolder made(deep / "c"); }
  CHECK(std::filesystem::exists(deep / "file"));
  CHECK_THROWS_WITH(NewFolder(deep / "file" / "x"), ContainsSubstring("cannot make the folder"));
}

}  // namespace
}  // namespace ringtape::test
