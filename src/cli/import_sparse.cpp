#include "unisono/data/import_sparse.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "data_commands.hpp"

namespace unisono::cli {
namespace {

constexpr std::size_t kShownClasses = 10;

std::string classes_text(std::vector<std::string> names) {
  if (names.empty()) return "targets";
  const std::size_t count = names.size();
  names.resize(std::min(count, kShownClasses));
  return fmt::format("{} classes ({}{})", count, fmt::join(names, ", "), count > kShownClasses ? ", …" : "");
}

void say_sparse(const SparseSummary& made) {
  const std::int64_t examples = made.train + made.validation + made.test;
  fmt::print("{}: {} training, {} validation and {} test examples of {} columns, {:.1f} values each{}; {}; the input's "
             "first column is {}\n",
             made.path, made.train, made.validation, made.test, made.columns,
             static_cast<double>(made.nonzeros) / static_cast<double>(examples), made.all_ones ? ", all of them 1" : "",
             classes_text(made.classes), made.base);
}

std::shared_ptr<std::vector<std::string>> add_files(CLI::App& command, const char* meaning) {
  const auto paths = std::make_shared<std::vector<std::string>>();
  command.add_option("files", *paths, meaning)->required()->type_name("FILE");
  return paths;
}

template <typename Options>
void add_fractions(CLI::App& command, Options& options, const std::string& what) {
  command.add_option("--validation-fraction", options.validation_fraction, "of the " + what)
      ->check(CLI::Range(0.0, 1.0));
  command.add_option("--test-fraction", options.test_fraction, "of the " + what)->check(CLI::Range(0.0, 1.0));
  command.add_option("--seed", options.seed, "of what is chosen at random")->capture_default_str();
  command.add_option("--test-file", options.test_file, "whose " + what + " are the test group")->type_name("FILE");
}

void add_libsvm(CLI::App& import, Chosen& chosen) {
  CLI::App& command = *import.add_subcommand("libsvm", "lines of 'label index:value …', gzipped or not");
  const auto paths = add_files(command, "the text");
  const auto output = add_output(command);
  const auto options = std::make_shared<LibsvmOptions>();
  add_fractions(command, *options, "examples");
  command.add_option("--columns", options->columns, "how many; by default as many as the largest index needs")
      ->check(CLI::PositiveNumber);
  command.add_option("--base", options->base, "the first column's index")
      ->check(CLI::IsMember({"auto", "0", "1"}))
      ->capture_default_str();
  command.add_option("--task", options->task, "what the labels are")
      ->check(CLI::IsMember({"auto", "classes", "regression"}))
      ->capture_default_str();
  command.callback([=, &chosen] { chosen.alone = [=] { say_sparse(import_libsvm(*paths, *options, *output)); }; });
}

}  // namespace

void add_sparse_imports(CLI::App& import, Chosen& chosen) { add_libsvm(import, chosen); }

}  // namespace unisono::cli
