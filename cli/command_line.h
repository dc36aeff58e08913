#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "train/option_value.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ringtape {

/// One flag of a command line. Calls of its functions can be chained.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}

  /// It is an error if the flag is not given. Removes the default from --help.
  Flag& required();
  /// It is an error if this flag is given without the other.
  Flag& needs(const Flag& other);
  /// It is an error if both flags are given.
  Flag& excludes(const Flag& other);
  /// Replaces the text in --help.
  Flag& help(const std::string& text);
  /// Replaces INT or TEXT in --help.
  Flag& type_name(const std::string& text);
  /// Omits the default from --help.
  Flag& no_default();
  /// Replaces the default in --help.
  Flag& default_text(const std::string& text);
  /// `--name` without a value means `--name TEXT`.
  Flag& value_may_be_left_out(const std::string& text);
  /// Whether the command line, or CommandLine::set(), has set the flag.
  bool is_given() const;

 private:
  CLI::Option* option_;
};

/// The command line of a program: its flags, which set typed variables, and --help. Built on CLI11, which
/// only cli/command_line.cpp includes because CLI11 takes seconds to compile.
class CommandLine {
 public:
  /// `description` is printed at the top of --help.
  explicit CommandLine(const std::string& description);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// Flags that are added after this call appear under this heading in --help.
  void group(const std::string& name);

  /// Adds `--name VALUE`, or for a bool the switch `--name`. The variable's value is the default. `value` may
  /// also be an OptionValue, such as in_range(option_value(x), 0, 1). A name without dashes is a positional
  /// argument. The accepted words, if any, are appended to `help` unless it contains all of them in order.
  template <class T>
  Flag option(const std::string& name, T& value, const std::string& help) {
    return add(name, option_value(value), help);
  }
  Flag option(const std::string& name, OptionValue value, const std::string& help) {
    return add(name, std::move(value), help);
  }
  /// The name of a file or folder, as file_value() reads it; `type` appears in --help, such as "FILE".
  Flag file(const std::string& name, std::string& value, const std::string& help,
            const std::string& type = "FILE");
  /// A flag that may be given several times. Its texts replace the content of `values`, in their order.
  Flag repeated(const std::string& name, std::vector<std::string>& values, const std::string& help);
  /// A flag that was added before; `name` has its dashes. CLI11 throws for an unknown name.
  Flag operator[](const std::string& name) const;

  /// Adds a command, called as `PROGRAM NAME FLAGS`, that runs `program`; returns the command line of its
  /// flags. A program with commands requires exactly one, before all flags.
  CommandLine& command(const std::string& name, const std::string& description,
                       std::function<void()> program);

  /// Sets a flag that was not given, as if it were on the command line.
  void set(const std::string& name, const std::string& text);
  /// All flags with the texts of their values, in the order in which they were added; without --help.
  std::vector<std::pair<std::string, std::string>> values() const;

  /// Calls `callback` after the flags are parsed, before the program runs. If a command is given, only the
  /// callback of that command is called. An Error that it throws is reported as a wrong flag.
  void after_parsing(std::function<void()> callback);

  /// Parses the command line (a text such as `--quiet` is a flag, never the value of the flag before it,
  /// which can be `--save=--quiet`), runs `program` (or the command that was given), and prints an exception
  /// as one line on standard error. Returns the exit code: 0, 1 for an error, 2 for a wrong flag.
  int run(int argc, char** argv, const std::function<void()>& program = nullptr);

 private:
  explicit CommandLine(CLI::App& app);
  Flag add(const std::string& name, OptionValue value, const std::string& help);
  [[noreturn]] void fail_without_command(const std::string& found) const;

  struct Entry {
    std::string name;
    CLI::Option* option;
    OptionValue value;
  };
  std::unique_ptr<CLI::App> owned_;
  CLI::App* app_;
  std::string group_;
  std::vector<Entry> entries_;
  std::vector<std::unique_ptr<CommandLine>> commands_;
  std::vector<std::pair<std::string, std::function<void()>>> programs_;
  std::function<void()> after_parsing_;
};

/// A number, or a list of numbers, from `low` to `high`, both inclusive.
template <class T>
OptionValue between(T& value, double low, double high) {
  return in_range(option_value(value), low, high);
}
/// One of these words; for a list, each element is one of them.
OptionValue word(std::string& value, std::vector<std::string> words);
OptionValue word(std::vector<std::string>& values, std::vector<std::string> words);

}  // namespace ringtape
