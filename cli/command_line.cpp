#include "cli/command_line.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <system_error>
#include <thread>

#include "core/error.h"
#include "core/quote.h"
#include "dist/rank_environment.h"
#include "io/parse.h"

namespace ringtape {
namespace {

/// This process's rank according to the launcher; 0 without a launcher.
int rank_or_0() {
  try {
    return detect_rank_environment(process_environment()).rank;
  } catch (const Error&) {
    return 0;
  }
}

/// Prints an error on standard error. All ranks find a wrong command line or file, so rank 0 reports it at
/// once, and the others after a delay, in which the launcher ends them because rank 0 has ended: mpirun does
/// so after a second by default.
void report_error(const char* error, const char* help = "") {
  constexpr std::chrono::seconds kTimeForRank0{5};  // enough on a busy machine
  std::fflush(stdout);
  if (rank_or_0() > 0) std::this_thread::sleep_for(kTimeForRank0);
  std::fprintf(stderr, "error: %s%s\n", error, help);
}

/// The exit code of a program that has succeeded: 0, or 1, with an error, if its output cannot be written.
int end_of_output() {
  std::cout.flush();
  if (std::cout.good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  report_error("standard output cannot be written");
  return 1;
}

/// CLI11's --help without its lists of excluded flags, which stand before an explanation and may be longer.
class HelpFormatter : public CLI::Formatter {
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string text = CLI::Formatter::make_option_opts(option);
    return text.substr(0, text.find(" Excludes:"));
  }
};

bool is_long_flag(const std::string& argument) {
  return argument.size() > 2 && argument.starts_with("--") &&
         std::isalpha(static_cast<unsigned char>(argument[2])) != 0;
}

/// Throws for `--save --quiet`, in which CLI11 would take the flag as the value.
void check_no_flag_is_a_value(const CLI::App& app, int argc, char** argv) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (!is_long_flag(argv[i]) || !is_long_flag(argv[i + 1])) continue;
    const CLI::Option* const option = app.get_option_no_throw(argv[i]);
    if (option == nullptr || option->get_items_expected_min() == 0) continue;
    throw CLI::ValidationError(
        fmt::format("{}: expected a value, found the flag {}", argv[i], quote(argv[i + 1])));
  }
}

/// "--lr" for "--lr: ..." and for "--lr requires ...".
std::string first_word(const std::string& text) {
  return text.substr(0, text.find_first_of(": "));
}

/// CLI11's error in the form of all other errors: expected and found.
std::string message_of(const CLI::App& app, const CLI::ParseError& error) {
  const std::string text = error.what(), flag = first_word(text);
  const auto after = [&](const std::string& words) { return text.substr(text.find(words) + words.size()); };
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    return fmt::format("found {}, expected only flags of this program", quote(app.remaining(true).front()));
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    const CLI::Option* const argument = app.get_option_no_throw(flag);
    const bool is_positional = argument != nullptr && argument->get_positional();
    return fmt::format("{}: found none, expected {}", flag,
                       is_positional ? argument->get_description() : "one");
  }
  if (dynamic_cast<const CLI::RequiresError*>(&error) != nullptr) {
    return fmt::format("{}: expected {} with it, found none", flag, after(" requires "));
  }
  if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr) {
    return fmt::format("{} cannot be used with {}", flag, after(" excludes "));
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const bool is_repeated = text.find("received") != std::string::npos;
    return flag + (is_repeated ? fmt::format(": expected once, found {} times", after("received "))
                               : ": expected a value, found none");
  }
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    const std::string pair = after(": "), value = pair.substr(pair.find('=') + 2);
    return fmt::format("{}: expected no value, found {}", first_word(pair), quote(value));
  }
  return text;
}

/// Whether a text contains all these words, in their order.
bool names_all(const std::string& text, const std::vector<std::string>& words) {
  std::size_t at = 0;
  for (const std::string& word : words) {
    at = text.find(word, at);
    if (at == std::string::npos) return false;
    at += word.size();
  }
  return true;
}

std::string with_words(const std::string& help, const std::vector<std::string>& words) {
  return names_all(help, words) ? help : fmt::format("{}; expected {}", help, list_of(words));
}

}  // namespace

Flag& Flag::required() {
  option_->required();
  return no_default();
}
Flag& Flag::needs(const Flag& other) {
  option_->needs(other.option_);
  return *this;
}
Flag& Flag::excludes(const Flag& other) {
  option_->excludes(other.option_);
  return *this;
}
Flag& Flag::help(const std::string& text) {
  option_->description(text);
  return *this;
}
Flag& Flag::type_name(const std::string& text) {
  option_->type_name(text);
  return *this;
}
Flag& Flag::no_default() {
  return default_text("");
}
Flag& Flag::default_text(const std::string& text) {
  option_->default_str(text);
  return *this;
}
Flag& Flag::value_may_be_left_out(const std::string& text) {
  option_->expected(0, 1)->default_str(text);
  return *this;
}
bool Flag::is_given() const {
  return option_->count() > 0;
}

CommandLine::CommandLine(const std::string& description)
    : owned_(std::make_unique<CLI::App>(description)), app_(owned_.get()) {
  app_->formatter(std::make_shared<HelpFormatter>());  // commands inherit it
}
CommandLine::CommandLine(CLI::App& app) : app_(&app) {}
CommandLine::~CommandLine() = default;

void CommandLine::group(const std::string& name) {
  group_ = name;
}

Flag CommandLine::add(const std::string& name, OptionValue value, const std::string& help) {
  const auto read = [name, read = value.read](const std::string& text) {
    try {
      read(text);
    } catch (const Error& error) {
      throw CLI::ValidationError(name, error.what());
    }
  };
  CLI::Option* option = nullptr;
  if (value.type.empty()) {
    option = app_->add_flag_callback(
        name, [read] { read("true"); }, help);
  } else {
    option = app_->add_option_function<std::string>(name, read, with_words(help, value.words));
    option->type_name(value.type)->default_str(value.write());
  }
  if (!group_.empty()) option->group(group_);
  entries_.push_back({name, option, std::move(value)});
  return Flag(option);
}

Flag CommandLine::file(const std::string& name, std::string& value, const std::string& help,
                       const std::string& type) {
  return add(name, file_value(value, type), help);
}

Flag CommandLine::repeated(const std::string& name, std::vector<std::string>& values,
                           const std::string& help) {
  const auto take = [&values](const std::vector<std::string>& texts) { values = texts; };
  CLI::Option* const option = app_->add_option_function<std::vector<std::string>>(name, take, help);
  option->allow_extra_args(false)->type_name("TEXT");
  if (!group_.empty()) option->group(group_);
  entries_.push_back({name, option, option_value(values)});
  return Flag(option);
}

Flag CommandLine::operator[](const std::string& name) const {
  return Flag(app_->get_option(name));
}

CommandLine& CommandLine::command(const std::string& name, const std::string& description,
                                  std::function<void()> program) {
  commands_.emplace_back(new CommandLine(*app_->add_subcommand(name, description)));
  programs_.emplace_back(name, std::move(program));
  return *commands_.back();
}

void CommandLine::set(const std::string& name, const std::string& text) {
  CLI::Option* const option = app_->get_option(name);
  option->add_result(text);
  option->run_callback();
}

std::vector<std::pair<std::string, std::string>> CommandLine::values() const {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Entry& entry : entries_) values.emplace_back(entry.name, entry.value.write());
  return values;
}

void CommandLine::after_parsing(std::function<void()> callback) {
  after_parsing_ = std::move(callback);
}

/// Throws for a command line that does not begin with a command.
void CommandLine::fail_without_command(const std::string& found) const {
  std::vector<std::string> names;
  for (const auto& [name, command] : programs_) names.push_back(name);
  throw CLI::ValidationError(found + ": expected " + list_of(names));
}

int CommandLine::run(int argc, char** argv, const std::function<void()>& program) {
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the file size limit fails and does not end the process
  std::function<void()> chosen = program;
  if (!commands_.empty()) app_->require_subcommand(0, 1);
  app_->callback([this, &chosen] {
    std::function<void()> check = after_parsing_;
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      if (!app_->got_subcommand(programs_[i].first)) continue;
      chosen = programs_[i].second;
      check = commands_[i]->after_parsing_;
    }
    if (!chosen) fail_without_command("no command");
    if (!check) return;
    try {
      check();
    } catch (const Error& error) {
      throw CLI::ValidationError(error.what());
    }
  });
  try {
    // Checked before parsing: a --help after the command would hide an error before it.
    const auto is_first_word = [&](const auto& command) { return command.first == argv[1]; };
    if (!commands_.empty() && argc > 1 && app_->get_option_no_throw(argv[1]) == nullptr &&
        std::none_of(programs_.begin(), programs_.end(), is_first_word)) {
      fail_without_command(quote(argv[1]) + " is not a command");
    }
    check_no_flag_is_a_value(*app_, argc, argv);
    for (std::size_t i = 0; i < programs_.size() && argc > 1; ++i) {
      if (is_first_word(programs_[i])) check_no_flag_is_a_value(*commands_[i]->app_, argc, argv);
    }
    app_->parse(argc, argv);
    chosen();
    return end_of_output();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help
      if (rank_or_0() == 0) app_->exit(error);
      return end_of_output();
    }
    report_error(message_of(*app_, error).c_str(), " (--help lists the flags)");
    return 2;
  } catch (const std::system_error& error) {
    // fmt::print() throws it if standard output cannot be written.
    if (std::ferror(stdout) != 0) return end_of_output();
    report_error(error.what());
    return 1;
  } catch (const std::exception& error) {
    report_error(error.what());
    return 1;
  }
}

namespace {

void check_word(const std::string& text, const std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), text) == words.end()) fail_unknown_word(text, words);
}

}  // namespace

OptionValue word(std::string& value, std::vector<std::string> words) {
  OptionValue one = option_value(value);
  one.words = words;
  return checked(std::move(one),
                 [words = std::move(words)](const std::string& text) { check_word(text, words); });
}
OptionValue word(std::vector<std::string>& values, std::vector<std::string> words) {
  OptionValue list = option_value(values);
  list.words = words;
  return checked(std::move(list), [words = std::move(words)](const std::string& text) {
    for (const std::string& piece : split(text, ',')) check_word(piece, words);
  });
}

}  // namespace ringtape
