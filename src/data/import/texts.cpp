// Texts with classes: rows of CSV tables.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "import/read_tokens.hpp"
#include "recipe/recipe_file.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

/// The classes of a plan's documents, by Split.
void write_labels(const TokensPlan& plan, SetWriter& writer) {
  std::array<std::vector<std::int64_t>, 3> labels;
  for (const Part& part : plan.parts) labels[static_cast<std::size_t>(part.split)].push_back(part.label);
  for (const Split split : kSplits) {
    const auto& of_group = labels[static_cast<std::size_t>(split)];
    if (!of_group.empty()) writer.file().write(fmt::format("{}/labels", name_of(split)), of_group);
  }
}

/// Tables of texts with classes.
struct LabelledTables {
  std::vector<std::string> labels;         ///< the class of each document
  std::array<std::size_t, 3> documents{};  ///< how many there are behind the files of each Split
  std::optional<TextClasses> classes;      ///< numbered
  Recipe recipe;                           ///< of the first one
};

LabelledTables read_tables(const std::vector<std::string>& files, const TokensOptions& options, ReadTokens& text) {
  LabelledTables read;
  const TextColumns columns{.text = options.text_column,
                            .label = options.label_column,
                            .form = {.delimiter = options.delimiter, .encoding = options.encoding}};
  const auto read_file = [&](const std::string& path) {
    TextTable table(path, columns);
    if (!read.classes) {
      read.classes.emplace(table.label().name);
      read.recipe = table.recipe();
    }
    text.read_table(table, [&](const LineReader& line, const std::string& name) {
      read.classes->note(line, name);
      read.labels.push_back(name);
    });
  };
  for (const std::string& path : files) read_file(path);
  read.documents[0] = read.labels.size();
  for (const std::size_t group : {1, 2}) {
    const std::string& path = group == 1 ? options.validation_file : options.test_file;
    if (!path.empty()) read_file(path);
    read.documents[group] = read.labels.size();
  }
  read.classes->number();
  return read;
}

TokensPlan plan_of(const LabelledTables& tables, const ReadTokens& text, const TokensOptions& options) {
  TokensPlan plan;
  plan.keeps_documents = true;
  std::vector<Part> documents = documents_of(text, 0, tables.labels.size(), /*closes=*/false);
  const RandomSplit split(static_cast<std::int64_t>(tables.documents[0]), shares_of(options));
  for (std::size_t i = 0; i < documents.size(); ++i) {
    Part& document = documents[i];
    document.label = tables.classes->number_of(tables.labels[i]);
    document.split = i >= tables.documents[1]   ? Split::test
                     : i >= tables.documents[0] ? Split::validation
                                                : split.of(static_cast<std::int64_t>(i));
    plan.add(document);
  }
  return plan;
}
}  // namespace

TokensSummary import_tables(const std::vector<std::string>& files, const TokensOptions& options,
                            const ImportOutput& output) {
  SetWriter writer(output);
  ReadTokens text(options, output.path);
  const LabelledTables tables = read_tables(files, options, text);
  text.complete(/*several=*/false);
  const TokensPlan plan = plan_of(tables, text, options);
  require_parts(plan, options);
  write_tokens(text, plan, writer);
  write_labels(plan, writer);
  writer.file().write_attribute("", "class_names", tables.classes->names());
  writer.file().write_attribute("", "label_name", tables.recipe.label);
  write_recipe(writer.file(), tables.recipe);
  writer.finish();
  ClassCounts counts(tables.classes->names().size());
  std::vector<std::uint64_t> lengths;
  for (const Part& part : plan.parts) {
    counts.add(part.split, part.label);
    lengths.push_back(part.size());
  }
  std::ranges::sort(lengths);
  return {.path = output.path,
          .tokens = plan.tokens,
          .documents = std::ssize(lengths),
          .bytes = static_cast<std::int64_t>(text.bytes()),
          .vocabulary = text.tokenizer().vocabulary(),
          .tokenizer = std::string(text.tokenizer().name()),
          .split = TokenSplit::documents,
          .texts = plan.documents,
          .classes = tables.classes->names(),
          .median_tokens = static_cast<std::int64_t>(lengths[lengths.size() / 2]),
          .most_tokens = static_cast<std::int64_t>(lengths.back()),
          .warnings = counts.warnings(output.path, tables.classes->names(), "text")};
}
std::string write_raw_texts(const std::string& path, const Preprocessing& trained, const TokensOptions& options,
                            const ImportOutput& output) {
  TextTable table = table_for(path, trained.recipe);
  SetWriter writer(output);
  ReadTokens text(options, output.path);
  std::vector<std::int64_t> labels;
  std::string left_out;
  text.read_table(table, [&](const LineReader& line, const std::string& name) {
    const auto known = std::ranges::find(trained.class_names, name);
    if (known == trained.class_names.end() && table.has_labels() && left_out.empty()) {
      left_out = fmt::format("{}:{}: column '{}': '{}' is not one of the classes that the model was trained on",
                             line.name(), line.number(), table.label().name, name);
    }
    labels.push_back(known - trained.class_names.begin());
  });
  text.complete(/*several=*/false);
  TokensPlan plan;
  plan.keeps_documents = true;
  for (Part document : documents_of(text, 0, labels.size(), /*closes=*/false)) {
    document.split = Split::test;
    document.label = labels[plan.parts.size()];
    plan.add(document);
  }
  write_tokens(text, plan, writer);
  writer.file().write_attribute("", "class_names", trained.class_names);
  if (table.has_labels() && left_out.empty()) write_labels(plan, writer);
  writer.finish();
  return left_out;
}

}  // namespace unisono::data
