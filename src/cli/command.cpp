#include "command.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdint>
#include <cstdio>
#include <map>
#include <sstream>

#include "unisono/settings/config.hpp"

namespace unisono::cli {
namespace {

// Checks of numbers; the messages of CLI11's own ones name the limits of a double.
const CLI::Validator kPositive(
    [](std::string& text) { return CLI::PositiveNumber(text).empty() ? std::string() : text + " is not above 0"; },
    "POSITIVE");
const CLI::Validator kNotNegative(
    [](std::string& text) { return CLI::NonNegativeNumber(text).empty() ? std::string() : text + " is below 0"; },
    "NONNEGATIVE");
const CLI::Validator kNoSign(
    [](std::string& text) { return text.starts_with('-') ? text + " is below 0" : std::string(); }, "");
const CLI::Validator kNotEmpty(
    [](std::string& text) { return text.empty() ? std::string("is empty; leave it out, or give it a value") : ""; },
    "");
const CLI::Validator kSize(
    [](std::string& text) { return text.starts_with('-') ? text + " is below 0" : CLI::AsSizeValue(false)(text); },
    "SIZE [b, kb(=1024b), ...]");

}  // namespace

Option Option::required() { return Option(option_->required()); }
Option Option::type_name(const std::string& name) { return Option(option_->type_name(name)); }
Option Option::capture_default_str() { return Option(option_->capture_default_str()); }
Option Option::default_str(const std::string& text) { return Option(option_->default_str(text)); }

Option Option::one_of(std::initializer_list<const char*> names) {
  return Option(option_->check(CLI::IsMember(std::vector<std::string>(names.begin(), names.end()))));
}
Option Option::between(int least, int most) { return Option(option_->check(CLI::Range(least, most))); }
Option Option::between(double least, double most) {
  const auto is_number = [](const std::string& text) {
    return text.find("nan") == std::string::npos ? "" : text + " is no number";
  };
  return Option(option_->check(CLI::Range(least, most))->check(is_number));
}
Option Option::positive() { return Option(option_->check(kPositive)); }
Option Option::not_negative() { return Option(option_->check(kNotNegative)); }
Option Option::not_empty() { return Option(option_->check(kNotEmpty)); }
Option Option::no_sign() { return Option(option_->check(kNoSign)); }
Option Option::size() { return Option(option_->transform(kSize)); }
Option Option::yes_or_no() {
  const std::map<std::string, bool> values{{"yes", true}, {"no", false}};
  return Option(option_->transform(CLI::CheckedTransformer(values)));
}

Option Option::repeated() { return Option(option_->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)); }
Option Option::separated_by(char delimiter) { return Option(option_->delimiter(delimiter)); }
Option Option::one_at_a_time() { return Option(option_->allow_extra_args(false)); }

Option Option::needs(Option other) { return Option(option_->needs(other.option_)); }
Option Option::excludes(Option other) { return Option(option_->excludes(other.option_)); }
bool Option::is_given() const { return option_->count() > 0; }

Command Command::add_subcommand(const std::string& name, const std::string& meaning) {
  return Command(app_->add_subcommand(name, meaning));
}

void Command::require_subcommand() { app_->require_subcommand(1); }

template <typename Value>
Option Command::add_option(const std::string& names, Value& value, const std::string& meaning) {
  return Option(app_->add_option(names, value, meaning));
}

template Option Command::add_option(const std::string&, std::string&, const std::string&);
template Option Command::add_option(const std::string&, std::vector<std::string>&, const std::string&);
template Option Command::add_option(const std::string&, bool&, const std::string&);
template Option Command::add_option(const std::string&, int&, const std::string&);
template Option Command::add_option(const std::string&, std::vector<int>&, const std::string&);
template Option Command::add_option(const std::string&, std::int64_t&, const std::string&);
template Option Command::add_option(const std::string&, std::uint64_t&, const std::string&);
template Option Command::add_option(const std::string&, double&, const std::string&);
template Option Command::add_option(const std::string&, std::optional<double>&, const std::string&);

Option Command::add_word(const std::string& names, const std::vector<std::string>& words, const std::string& present,
                         const std::function<void(const std::string&)>& choose, const std::string& meaning) {
  CLI::Option* const option = app_->add_option_function<std::string>(names, choose, meaning);
  option->default_function([present] { return present; });
  return Option(option->check(CLI::IsMember(words)));
}

Option Command::add_flag(const std::string& names, bool& value, const std::string& meaning) {
  return Option(app_->add_flag(names, value, meaning));
}

Option Command::add_flag(const std::string& names, const std::function<void()>& given, const std::string& meaning) {
  return Option(app_->add_flag_callback(names, given, meaning));
}

Option Command::option(const std::string& name) const { return Option(app_->get_option(name)); }

Program::Program(const std::string& meaning, const std::string& name, const std::string& version,
                 const std::function<std::string()>& prefix)
    : app_(std::make_unique<CLI::App>(meaning, name)) {
  app_->require_subcommand(1);
  app_->set_version_flag("--version", version);
  const auto answer = [prefix] { throw CLI::CallForVersion(prefix(), 0); };
  app_->add_flag_callback("--prefix", answer, "Display the folder that the program is installed in and exit")
      ->trigger_on_parse();
}

Program::~Program() = default;

Command Program::commands() { return Command(app_.get()); }

std::vector<std::string> Program::names() const {
  std::vector<std::string> names;
  for (const CLI::App* command : app_->get_subcommands({})) names.push_back(command->get_name());
  return names;
}

namespace {

/// The words in "TEXT:{train,test}", or in "{no->0,yes->1}"; empty where the type has none.
std::vector<std::string> choices_in(const std::string& type) {
  const std::size_t open = type.find('{'), close = type.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {};
  std::vector<std::string> words = CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
  for (std::string& word : words) word = word.substr(0, word.find("->"));
  return words;
}

OptionEntry entry_of(const CLI::Option& option) {
  OptionEntry entry{.names = {}, .value = {}, .meaning = option.get_description(), .choices = {}};
  entry.is_positional = option.get_positional();
  if (entry.is_positional) entry.names.push_back(option.get_single_name());
  for (const std::string& name : option.get_snames()) entry.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) entry.names.push_back("--" + name);
  if (option.get_items_expected_max() == 0) return entry;
  entry.choices = choices_in(option.get_type_name());
  entry.value = option.get_type_name().substr(0, option.get_type_name().find(':'));
  return entry;
}

void add_entries(const CLI::App& app, const std::string& before, std::vector<CommandEntry>& table) {
  CommandEntry entry{.path = before + app.get_name(), .meaning = app.get_description(), .options = {}, .commands = {}};
  for (const CLI::Option* option : app.get_options()) entry.options.push_back(entry_of(*option));
  for (const CLI::App* command : app.get_subcommands({})) entry.commands.push_back(command->get_name());
  table.push_back(entry);
  for (const CLI::App* command : app.get_subcommands({})) add_entries(*command, entry.path + " ", table);
}

}  // namespace

std::vector<CommandEntry> Program::table() const {
  std::vector<CommandEntry> table;
  add_entries(*app_, "", table);
  return table;
}

Parsed Program::parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
    return {};
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return {Parsed::Kind::error, error.what()};
    std::ostringstream text;
    app_->exit(error, text, text);
    return {Parsed::Kind::answer, text.str()};
  }
}

void Command::callback(const std::function<void()>& given) { app_->callback(given); }

void ConfigArguments::add_to(Command command) {
  command.add_option("config", path, "config file (TOML); 'unisono config reference' lists its keys")
      .required()
      .type_name("CONFIG");
  command
      .add_option(
          "--set", overrides,
          "set a config key, overriding the file, e.g. --set train.epochs=3; may be repeated. Setting another kind, "
          "e.g. --set optimizer.kind=adam, drops the keys that only the file's kind has")
      .type_name("KEY=VALUE")
      .repeated();
  command
      .add_option(
          "--unset", removals,
          "remove a key from the config, so that its default applies, e.g. --unset optimizer.momentum; may be repeated")
      .type_name("KEY")
      .repeated();
}

settings::Config ConfigArguments::read(const models::ModelKinds& models) const {
  settings::Config config = settings::parse_config(read_config(path, overrides, removals), models);
  if (!comm::is_first_of_launch()) return config;
  for (const std::string& note : config.notes) print_error("unisono: " + note);
  return config;
}

void TrialArguments::add_to(Command command, const std::string& what) {
  config.add_to(command);
  command.add_option("--output", options.output, fmt::format("folder of the {} (default: runs/<name>-{})", what, what))
      .type_name("DIR");
  Option goes_on = command.add_flag("--resume", resume, fmt::format("go on with the {} in the folder", what));
  command.add_flag("--overwrite", overwrite, fmt::format("replace the {} in the folder", what)).excludes(goes_on);
}

void TrialArguments::choose(const std::shared_ptr<TrialArguments>& arguments, Make* make, Chosen& chosen) {
  session::hold_stop_signals();
  chosen.together = [arguments, make, &chosen](comm::MpiSession& session, Log& log) {
    return arguments->run(make, chosen.models, session, log);
  };
}

void end_together(comm::Communicator& world, comm::MpiSession& session, const settings::Config& config, ExitCode code) {
  if (code == ExitCode::success) return session.results_are_stored(config.communication.timeout_seconds);
  world.barrier();  // detects ranks that do not reach the end
}

ExitCode TrialArguments::run(Make* make, const models::ModelKinds& models, comm::MpiSession& session, Log& log) const {
  const ConfigText text = config.text();
  jobs::TrialOptions how = options;
  if (resume) how.existing = records::Existing::resume;
  if (overwrite) how.existing = records::Existing::overwrite;
  const settings::Config parsed = says_notes ? config.read(models) : settings::parse_config(text, models);
  const auto world = session.world(parsed.communication, warn_to(log));
  session::RunResult result;
  {
    session::Job job(*world, log, {.heeds_signals = true});
    result.status = make(job, text, models, how);
  }
  end_together(*world, session, parsed, exit_code_of(result));
  return exit_code_of(result);
}

}  // namespace unisono::cli
