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

TEST_CASE("two names of a file that does not exist yet are the same file", "[file]") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "file", link = folder.path() / "link";
  std::filesystem::create_symlink("file", link);
  std::filesystem::create_symlink("link", folder.path() / "second");
  for (const bool exists : {false, true}) {
    if (exists) write_text(file, "text");
    CHECK(are_same_file(file, link));
    CHECK(are_same_file(folder.path() / "second", file));
    CHECK(are_same_file(folder.path() / "x" / ".." / "file", file));
    CHECK_FALSE(are_same_file(folder.path() / "other", link));
  }
  std::filesystem::create_symlink("b", folder.path() / "a");
  std::filesystem::create_symlink("a", folder.path() / "b");
  CHECK_THROWS_WITH(are_same_file(folder.path() / "a", file), ContainsSubstring("the links form a cycle"));
}

}  // namespace
}  // namespace ringtape::test
