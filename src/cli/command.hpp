#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

// The command line is parsed by CLI11, whose header takes seconds to compile: command.cpp alone includes it.

namespace unisono::cli {

/// An option or a positional argument of a command. A handle: the command owns it.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required();
  /// What stands for the value in the help: "FILE".
  Option type_name(const std::string& name);
  /// The help shows the present value as the default.
  Option capture_default_str();
  Option default_str(const std::string& text);

  // What a value must be; the parser refuses others.
  Option one_of(std::initializer_list<const char*> names);
  Option between(int least, int most);
  Option between(double least, double most);
  Option positive();
  Option not_negative();
  /// Before what reads numbers without a sign, which takes -1 for a large one.
  Option no_sign();
  /// "512MiB", read as bytes.
  Option size();
  /// "yes" or "no", read as a bool.
  Option yes_or_no();

  /// May be given several times, each with one value.
  Option repeated();
  /// One value, which is a list.
  Option separated_by(char delimiter);
  /// Of several values, each needs the option's name again.
  Option one_at_a_time();

  Option needs(Option other);
  Option excludes(Option other);
  bool is_given() const;  ///< after parsing

 private:
  CLI::Option* option_;
};

/// The program, or one of its commands. A handle: the program owns it.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  Command add_subcommand(const std::string& name, const std::string& meaning);
  /// Exactly one of the commands below this one must be given.
  void require_subcommand();
  /// \param names "--output", or without dashes those of a positional argument
  /// \param value of one of the types that command.cpp names; it outlives parsing
  template <typename Value>
  Option add_option(const std::string& names, Value& value, const std::string& meaning);
  /// One of an enum's names; the parser refuses others.
  template <typename Enum>
  Option add_choice(const std::string& names, Enum& value, NamesOf<Enum> choices, const std::string& meaning) {
    std::vector<std::string> words;
    for (const auto& one : choices) words.emplace_back(one.name);
    const auto choose = [&value, choices](const std::string& word) {
      for (const auto& one : choices) {
        if (one.name == word) value = one.value;
      }
    };
    return add_word(names, words, std::string(name_of(value, choices)), choose, meaning);
  }
  Option add_flag(const std::string& names, bool& value, const std::string& meaning);
  Option add_flag(const std::string& names, const std::function<void()>& given, const std::string& meaning);
  /// One that was added before.
  Option option(const std::string& name) const;
  /// Called when the command was given, after parsing.
  void callback(const std::function<void()>& given);

 private:
  Option add_word(const std::string& names, const std::vector<std::string>& words, const std::string& present,
                  const std::function<void(const std::string&)>& choose, const std::string& meaning);

  CLI::App* app_;
};

/// What became of a command line.
struct Parsed {
  enum class Kind { command, answer, error };
  Kind kind = Kind::command;
  std::string text = {};  ///< the answer to --help or --version; or what is wrong
};

/// The program with all its commands.
class Program {
 public:
  Program(const std::string& meaning, const std::string& name, const std::string& version);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Command commands();  ///< that further ones are added to
  std::vector<std::string> names() const;
  /// Calls back the command that was given.
  Parsed parse(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace unisono::cli
