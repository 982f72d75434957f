#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/log.hpp"
#include "unisono/comm/mpi.hpp"
#include "unisono/data/import.hpp"
#include "unisono/jobs/jobs.hpp"
#include "unisono/planning/planning.hpp"
#include "unisono/session/job.hpp"
#include "unisono/session/run.hpp"

// The command line is parsed by CLI11, whose header takes seconds to compile: command.cpp alone includes it.
namespace CLI {

class App;
class Option;

}  // namespace CLI

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
  Option not_empty();
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
  /// One of an enum's names; the parser refuses others. The help shows the present value as the default.
  template <typename Enum>
  Option add_choice(const std::string& names, Enum& value, NamesOf<Enum> choices, const std::string& meaning) {
    std::vector<std::string> words;
    for (const auto& one : choices) words.emplace_back(one.name);
    const auto choose = [&value, choices](const std::string& word) {
      for (const auto& one : choices) {
        if (one.name == word) value = one.value;
      }
    };
    return add_word(names, words, std::string(name_of(value, choices)), choose, meaning).capture_default_str();
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

/// What pages about a command say of an option or a positional argument.
struct OptionEntry {
  std::vector<std::string> names;  ///< "--output"; of a positional argument "model"
  std::string value;               ///< what stands for its value; empty: it is a flag
  std::string meaning;
  std::vector<std::string> choices;  ///< all values that it may have; empty: others
  bool is_positional = false;
};

/// What pages about a command say of it.
struct CommandEntry {
  std::string path;  ///< "unisono data import"
  std::string meaning;
  std::vector<OptionEntry> options;
  std::vector<std::string> commands;  ///< the names of those below it
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
  /// \param version, prefix the answers to --version and --prefix
  Program(const std::string& meaning, const std::string& name, const std::string& version,
          const std::function<std::string()>& prefix);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Command commands();  ///< that further ones are added to
  std::vector<std::string> names() const;
  /// The program, and all commands, each before those below it.
  std::vector<CommandEntry> table() const;
  /// Calls back the command that was given.
  Parsed parse(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

/// The work that the parsed command line asks for: either `alone`, done by one process without MPI (however many were
/// started), or `together`, done by all ranks.
struct Chosen {
  const models::ModelKinds& models;  ///< additional kinds of models
  const Program& program;
  std::function<void()> alone = {};
  std::function<ExitCode(comm::MpiSession&, Log&)> together = {};
};

// Each adds its command to the command line; parsing it fills `chosen`, which must outlive `app`.
void add_train(Command app, Chosen& chosen);
void add_replay(Command app, Chosen& chosen);
void add_evaluate(Command app, Chosen& chosen);
void add_predict(Command app, Chosen& chosen);
void add_generate(Command app, Chosen& chosen);
void add_export(Command app, Chosen& chosen);
void add_neighbors(Command app, Chosen& chosen);
void add_compare(Command app, Chosen& chosen);
void add_runs(Command app, Chosen& chosen);
void add_report(Command app, Chosen& chosen);
void add_watch(Command app, Chosen& chosen);
void add_info(Command app, Chosen& chosen);
void add_bench(Command app, Chosen& chosen);
void add_plan(Command app, Chosen& chosen);
void add_simulate(Command app, Chosen& chosen);
void add_data(Command app, Chosen& chosen);
void add_study(Command app, Chosen& chosen);
void add_find_rate(Command app, Chosen& chosen);
void add_config(Command app, Chosen& chosen);
void add_manual(Command app, Chosen& chosen);
void add_search(Command app, Chosen& chosen);
void add_cross_validate(Command app, Chosen& chosen);

/// The arguments CONFIG, --set and --unset of commands that take a config.
struct ConfigArguments {
  std::string path;
  std::vector<std::string> overrides, removals;
  void add_to(Command command);
  /// The file with these changes. \throws ConfigError where it cannot be read
  ConfigText text() const { return read_config(path, overrides, removals); }
  /// Reads and checks the config; one process prints warnings about it. \throws ConfigError
  settings::Config read(const models::ModelKinds& models) const;
};

/// The options --features, --classes and --vocabulary of commands that work without a data file.
struct ShapeArguments {
  std::string features;
  Index classes = 0, vocabulary = 0;
  void add_to(Command command);
  bool are_given() const { return !features.empty() || vocabulary > 0; }
  std::optional<planning::SyntheticShape> shape() const;
};

/// Reads the config; if shapes are given, it needs no data file.
settings::Config read_config_without_data(const ConfigArguments& arguments, const ShapeArguments& shapes,
                                          const models::ModelKinds& models);

/// Sends warnings of the communication layer to the log.
inline comm::Warn warn_to(Log& log) {
  return [&log](const std::string& text) { log.warning(text); };
}

/// Ends a training on all ranks: one that is complete within communication.timeout_seconds, whatever becomes of other
/// ranks; else when all have come here.
void end_together(comm::Communicator& world, comm::MpiSession& session, const settings::Config& config, ExitCode code);

/// The exit code for a run's result. \throws TrainingError if the run diverged
inline ExitCode exit_code_of(const session::RunResult& result) {
  switch (result.status) {
    case session::RunStatus::complete:
    case session::RunStatus::already_complete:
      return ExitCode::success;
    case session::RunStatus::interrupted:
    case session::RunStatus::stopped:
      return ExitCode::interrupted;
    case session::RunStatus::diverged:
      break;
  }
  throw session::TrainingError(result.message);
}

/// Adds --output and the related options of commands that make a data set.
std::shared_ptr<data::ImportOutput> add_output(Command command);
/// A line for each of an import's warnings.
void say_warnings(const std::vector<std::string>& warnings);
/// How numbers are written in a text: --decimal and --thousands.
void add_number_form(Command command, data::TableForm& form);
void add_encoding(Command command, data::Encoding& encoding);

/// How examples are divided: --validation-fraction, --test-fraction and --seed. \param what "rows"
template <typename Options>
void add_shares(Command command, Options& options, const std::string& what) {
  command
      .add_option("--validation-fraction", options.validation_fraction,
                  "share of the " + what + " for the validation group")
      .between(0.0, 1.0);
  command.add_option("--test-fraction", options.test_fraction, "share of the " + what + " for the test group")
      .between(0.0, 1.0);
  command.add_option("--seed", options.seed, "seed of random choices").no_sign().capture_default_str();
}

/// The same, and a file that is the test group.
template <typename Options>
void add_fractions(Command command, Options& options, const std::string& what) {
  add_shares(command, options, what);
  command.add_option("--test-file", options.test_file, "second file, whose " + what + " become the test group")
      .type_name("FILE")
      .not_empty();
}

/// A delimiter for people: "tabs", "','".
std::string delimiter_text(const std::string& delimiter);

/// Prints what a command made: a set of features, and of a table what its columns are.
void say(const data::ImportSummary& made);

// Each adds its subcommands to `data` or to `data import`.
void add_import(Command data, Chosen& chosen);
void add_array_imports(Command import, Chosen& chosen);
void add_sparse_imports(Command import, Chosen& chosen);
void add_cooccurrences(Command data, Chosen& chosen);

/// The arguments of commands that make many trainings: CONFIG, --output, --resume, --overwrite.
struct TrialArguments {
  ConfigArguments config;
  jobs::TrialOptions options;
  bool resume = false, overwrite = false;
  bool says_notes = false;  ///< whether warnings about the config are printed

  /// \param what "search"
  void add_to(Command command, const std::string& what);

  using Make = session::RunStatus(session::Job&, const ConfigText&, const models::ModelKinds&,
                                  const jobs::TrialOptions&);
  /// Lets a command make its trainings with these arguments.
  static void choose(const std::shared_ptr<TrialArguments>& arguments, Make* make, Chosen& chosen);

 private:
  ExitCode run(Make* make, const models::ModelKinds& models, comm::MpiSession& session, Log& log) const;
};

}  // namespace unisono::cli
