#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "describe/figures.hpp"
#include "sparse/schema.hpp"
#include "tokens/schema.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kShownTokens = 10, kShownCharacters = 200;

/// The tokenizer of a set, or why there is none.
struct Reading {
  std::unique_ptr<Tokenizer> tokenizer = {};
  std::string why_not = "the file holds no tokenizer";
};

Reading reading_of(const TokenSchema& schema) {
  Reading reading;
  if (schema.tokenizer == nullptr) return reading;
  try {
    reading.tokenizer = make_tokenizer(*schema.tokenizer, schema.path);
    if (reading.tokenizer->vocabulary() == schema.vocabulary) return reading;
    reading.why_not = fmt::format("the tokenizer has {} tokens", reading.tokenizer->vocabulary());
  } catch (const DataError& error) {
    reading.why_not = error.what();
  }
  reading.tokenizer.reset();
  return reading;
}

std::vector<std::int64_t> count_tokens(const hdf5::File& file, const TokenSchema& schema, const TokenGroup& group) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(schema.vocabulary));
  visit_numbers(file, group.path(), {0, group.tokens}, schema.vocabulary,
                [&](std::int64_t, std::span<const std::int64_t> tokens) {
                  for (const std::int64_t token : tokens) ++counts[static_cast<std::size_t>(token)];
                });
  return counts;
}

std::int64_t count_documents(const hdf5::File& file, const TokenGroup& group) {
  const std::string dataset = group.name + "/documents";
  if (!file.exists(dataset)) return 1;
  const auto bounds = static_cast<std::int64_t>(file.shape(dataset).rows());
  if (bounds < 2)
    throw DataError(fmt::format("{}: /{} has no documents; see docs/data-format.md", file.path(), dataset));
  return std::ssize(read_offsets(file, dataset, bounds - 1, group.tokens)) - 1;
}

/// How many documents each class has.
std::string classes_text(const hdf5::File& file, const TokenSchema& schema, const TokenGroup& group) {
  const auto classes = std::ssize(schema.class_names);
  std::vector<std::int64_t> counts(schema.class_names.size());
  visit_numbers(file, group.labels_path(), {0, group.documents}, classes,
                [&](std::int64_t, std::span<const std::int64_t> labels) {
                  for (const std::int64_t label : labels) ++counts[static_cast<std::size_t>(label)];
                });
  return labels_line(hdf5::name_of(file.shape(group.labels_path()).type), counts) +
         balance_text(counts, schema.class_names);
}

std::string bytes_text(const Reading& reading, const std::vector<std::int64_t>& counts, std::int64_t tokens) {
  if (reading.tokenizer == nullptr || tokens == 0) return "";
  double bytes = 0;
  for (std::size_t token = 0; token < counts.size(); ++token) {
    bytes += static_cast<double>(counts[token]) *
             static_cast<double>(reading.tokenizer->token_bytes(static_cast<std::int32_t>(token)));
  }
  return fmt::format(", {:.2f} bytes a token", bytes / static_cast<double>(tokens));
}

std::string name_of_token(const Reading& reading, std::size_t token) {
  const auto number = static_cast<std::int32_t>(token);
  if (reading.tokenizer == nullptr) return "";
  if (number == reading.tokenizer->end_of_text()) return "(end of text)";
  const std::int32_t one[] = {number};
  return fmt::format("'{}'", on_one_line(reading.tokenizer->decode(one)));
}

std::string most_frequent_text(const Reading& reading, const std::vector<std::int64_t>& counts, std::int64_t tokens) {
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), 0);
  const std::size_t shown = std::min(kShownTokens, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown), order.end(),
      [&](std::size_t a, std::size_t b) { return counts[a] != counts[b] ? counts[a] > counts[b] : a < b; });
  std::string text = "  most frequent:\n";
  for (std::size_t i = 0; i < shown && counts[order[i]] > 0; ++i) {
    text += fmt::format("  {:>8} {:<16} {:>12} {:>7}\n", order[i], name_of_token(reading, order[i]),
                        grouped(counts[order[i]]), share_text(counts[order[i]], tokens));
  }
  return text;
}

/// The first characters of a group.
std::string beginning_text(const hdf5::File& file, const Reading& reading, const TokenGroup& group) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(std::min<std::int64_t>(group.tokens, kShownCharacters)));
  file.read_rows(group.path(), 0, tokens.size(), tokens.data());
  std::string text = reading.tokenizer->decode(tokens);
  std::size_t characters = 0;
  const auto end = std::ranges::find_if(text, [&](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80 && characters++ == kShownCharacters;
  });
  text.erase(end, text.end());
  return fmt::format("\nbeginning of {}:\n  {}\n", group.name, on_one_line(text));
}

}  // namespace

std::string describe_tokens(const hdf5::File& file) {
  const TokenSchema schema = read_token_schema(file);
  const Reading reading = reading_of(schema);
  std::string text =
      title_text(file) +
      fmt::format("a text as numbers of {} tokens, {}\n", grouped(schema.vocabulary),
                  reading.tokenizer ? fmt::format("tokenizer {}", reading.tokenizer->name()) : reading.why_not);
  std::string beginning;
  for (const auto& group : schema.groups) {
    if (!group) continue;
    const std::vector<std::int64_t> counts = count_tokens(file, schema, *group);
    const auto used = std::ssize(counts) - std::ranges::count(counts, 0);
    text += fmt::format("\n{}: {} tokens in {}, {} of them different{}\n", group->name, grouped(group->tokens),
                        count_of(count_documents(file, *group), "document"), grouped(used),
                        bytes_text(reading, counts, group->tokens));
    if (group->has_labels) text += classes_text(file, schema, *group);
    text += most_frequent_text(reading, counts, group->tokens);
    if (beginning.empty() && reading.tokenizer) beginning = beginning_text(file, reading, *group);
  }
  return text + beginning;
}

}  // namespace unisono::data
