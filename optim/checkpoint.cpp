#include "optim/checkpoint.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "core/error.h"
#include "core/quote.h"
#include "io/checksum.h"
#include "io/json.h"

namespace ringtape {
namespace {

constexpr int kFormat = 2;  // 1: moments of the whole arena; 2: moments of each parameter
constexpr std::string_view kHistory = "history.";
constexpr std::uint64_t kMaxJsonBytes = 16'000'000;

std::string checksum_text(std::uint32_t checksum) {
  return fmt::format("{:08x}", checksum);
}

/// The JSON's first line, without the newline; `body` is the rest.
std::string first_line(std::string_view body) {
  return fmt::format("{{\"crc32\": \"{}\",", checksum_text(crc32(0, body.data(), body.size())));
}

std::filesystem::path tensors_beside(std::filesystem::path json) {
  return json.replace_extension(".safetensors");
}

Json read_json(const std::filesystem::path& path) {
  const std::uint64_t size = InputFile(path).size();
  check(size <= kMaxJsonBytes, "{}: is {} bytes long, expected at most {}", path.string(), size,
        kMaxJsonBytes);
  const std::vector<std::uint8_t> bytes = read_file(path);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  check(!text.empty(), "{}: is empty, expected a checkpoint", path.string());
  const std::string_view line = text.substr(0, text.find('\n'));
  const std::string_view body = text.substr(std::min(line.size() + 1, text.size()));
  const std::string expected = first_line(body);
  check(line == expected,
        "{}: is truncated or changed: its first line is {}, expected {} for the {} bytes after it",
        path.string(), quote(line), quote(expected), body.size());
  return Json::parse(text, path.string());
}

/// The number under `key`, from 0 to `most`.
std::uint64_t whole_number(const std::string& file, const Json& object, const char* key,
                           std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
  const Json& value = object.at(key);
  const std::string text = value.dump();
  const bool is_whole = value.is_number() && text.find_first_not_of("0123456789") == std::string::npos;
  check(is_whole && value.as_uint64() <= most, "{}: {} is {}, expected a whole number from 0 to {}", file,
        key, quote(text), most);
  return value.as_uint64();
}

TrainingPosition read_position(const std::string& file, const Json& content) {
  constexpr std::uint64_t kMaxInteger = std::numeric_limits<std::int64_t>::max();
  const auto step = static_cast<std::int64_t>(whole_number(file, content, "step", kMaxInteger));
  // Every completed epoch had at least one update.
  const auto epoch =
      static_cast<std::int64_t>(whole_number(file, content, "epoch", static_cast<std::uint64_t>(step)));
  const auto samples = static_cast<std::int64_t>(whole_number(file, content, "samples", kMaxInteger));
  return {step, epoch, samples};
}

std::string describe(const SafetensorsFile::Entry& entry) {
  return fmt::format("{}{}", entry.dtype_name, to_string(entry.shape));
}

/// The first few of `differences` in one line.
std::string list(const std::vector<std::string>& differences) {
  constexpr std::size_t kMaxListed = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(differences.size(), kMaxListed); ++i) {
    text += (i == 0 ? "" : "; ") + differences[i];
  }
  if (differences.size() > kMaxListed) text += fmt::format("; and {} more", differences.size() - kMaxListed);
  return text;
}

}  // namespace

void save_checkpoint(const std::filesystem::path& json, const CheckpointContents& state) {
  const TrainingPosition& at = state.position;
  check(at.epoch >= 0 && at.epoch <= at.step && at.samples >= 0,
        "{}: a position of step {}, epoch {} and {} samples: expected at least a step for each epoch, and no "
        "negative number",
        json.string(), at.step, at.epoch, at.samples);
  std::vector<NamedTensor> tensors = state.tensors;
  for (const auto& [name, tensor] : state.history) tensors.push_back({std::string(kHistory) + name, tensor});
  const std::filesystem::path path = tensors_beside(json);
  const std::uint32_t checksum = save_safetensors(path, tensors, {{"format", "pt"}});

  const Json content{
      {"format", kFormat},
      {"step", state.position.step},
      {"epoch", state.position.epoch},
      {"samples", state.position.samples},
      {"random", Json{{"seed", state.random.seed}, {"offset", state.random.offset}}},
      {"settings", Json::Object(state.settings.begin(), state.settings.end())},
      {"tensors", Json{{"bytes", std::filesystem::file_size(path)}, {"crc32", checksum_text(checksum)}}}};
  const std::string body = fmt::format("\"checkpoint\": {}}}\n", content.dump(2));
  const std::string line = first_line(body) + "\n";
  try {
    AtomicFile file(json);
    file.write(line.data(), line.size());
    file.write(body.data(), body.size());
    file.commit();
  } catch (...) {
    std::error_code ignored;
    // The disk is full: leave no file without its JSON.
    if (!std::filesystem::exists(json, ignored)) std::filesystem::remove(path, ignored);
    throw;
  }
}

Checkpoint::Checkpoint(const std::filesystem::path& json) : name_(json.string()) {
  const std::filesystem::path path = tensors_beside(json);
  try {
    const Json content = read_json(json).at("checkpoint");
    const std::uint64_t format = whole_number(name_, content, "format");
    check(format == kFormat, "{}: has format {}, expected {}", name_, format, kFormat);
    position_ = read_position(name_, content);
    random_ = Generator(whole_number(name_, content.at("random"), "seed"));
    random_.offset = whole_number(name_, content.at("random"), "offset");
    for (const auto& [name, value] : content.at("settings").as_object()) {
      settings_.emplace(name, value.as_string());
    }

    const std::string& expected = content.at("tensors").at("crc32").as_string();
    const std::uint64_t bytes = whole_number(name_, content.at("tensors"), "bytes");
    const std::uint64_t found_bytes = InputFile(path).size();
    check(found_bytes == bytes, "{}: is {} bytes long, expected {}", path.string(), found_bytes, bytes);
    const std::string found = checksum_text(crc32_of_file(path));
    check(found == expected, "{}: has the checksum {}, expected {}", path.string(), found, expected);
  } catch (const JsonError& error) {
    fail("{}: is not a checkpoint: {}", name_, error.what());
  }
  tensors_ = std::make_unique<SafetensorsFile>(path);
}

void Checkpoint::expect_settings(const TrainingSettings& expected) const {
  const auto text_in = [](const TrainingSettings& settings, const std::string& name) {
    const auto found = settings.find(name);
    return found == settings.end() || found->second.empty() ? "not set" : found->second;
  };
  TrainingSettings all = settings_;
  all.insert(expected.begin(), expected.end());
  std::vector<std::string> differences;
  for (const auto& [name, ignored] : all) {
    const std::string before = text_in(settings_, name);
    const std::string now = text_in(expected, name);
    if (before != now) differences.push_back(fmt::format("{} was {}, found {}", name, before, now));
  }
  check(differences.empty(), "{}: was made by another training: {}", name_, list(differences));
}

void Checkpoint::load_into(const std::vector<NamedTensor>& targets) const {
  std::map<std::string_view, const SafetensorsFile::Entry*> entries;
  for (const SafetensorsFile::Entry& entry : tensors_->entries()) {
    if (!entry.name.starts_with(kHistory)) entries.emplace(entry.name, &entry);
  }
  std::vector<std::string> differences;
  for (const auto& [name, tensor] : targets) {
    const std::string expected = fmt::format("{}{}", name_of(tensor.dtype()), to_string(tensor.shape()));
    const auto found = entries.find(name);
    if (found == entries.end()) {
      differences.push_back(fmt::format("has no {}, expected {}", name, expected));
      continue;
    }
    const std::string there = describe(*found->second);
    if (there != expected) differences.push_back(fmt::format("{} is {}, expected {}", name, there, expected));
    entries.erase(found);
  }
  for (const auto& [name, entry] : entries) {
    differences.push_back(fmt::format("{} is {}, expected none", quote(name), describe(*entry)));
  }
  check(differences.empty(), "{}: belongs to another model or optimizer: {}", name_, list(differences));
  for (const auto& [name, tensor] : targets) {
    Tensor target = tensor;
    target.copy_from(tensors_->load(name));
  }
}

Tensor Checkpoint::history(const std::string& name, DType dtype, const Shape& shape) const {
  return tensors_->load(std::string(kHistory) + name, dtype, shape);
}

}  // namespace ringtape
