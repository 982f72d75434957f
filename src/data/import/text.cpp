#include <fmt/format.h>

#include <array>
#include <optional>

#include "import/read_text.hpp"
#include "import/set_writer.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/resources.hpp"

namespace unisono::data {
namespace {

void check_options(const TextOptions& options) {
  if (options.minimum_count < 1)
    throw ConfigError(fmt::format("--minimum-count {}: it must be at least 1", options.minimum_count));
  if (options.maximum_words < 0)
    throw ConfigError(fmt::format("--maximum-words {}: it must be at least 0", options.maximum_words));
  if (options.sentence_length < 1)
    throw ConfigError(fmt::format("--sentence-length {}: it must be at least 1", options.sentence_length));
  check_shares({0, options.test_fraction, options.seed}, "sentences", "");
}

/// By number in the text: the place in the vocabulary.
std::vector<std::int32_t> number_words(const std::vector<std::uint32_t>& chosen, std::size_t words) {
  std::vector<std::int32_t> number_of(words, kDropped);
  for (std::size_t place = 0; place < chosen.size(); ++place)
    number_of[chosen[place]] = static_cast<std::int32_t>(place);
  return number_of;
}

struct TextGroupSize {
  std::int64_t words = 0, sentences = 0;
};

/// Deals the sentences to groups. \param number_of tells which words are kept \param training_counts by the same
/// numbers: occurrences in the training group
struct TextPlan {
  RandomSplit split;
  std::array<TextGroupSize, 3> groups;
  std::vector<std::int64_t> training_counts;
};

TextPlan deal_sentences(ReadText& text, const std::vector<std::int32_t>& number_of, std::size_t vocabulary,
                        const TextOptions& options) {
  std::int64_t sentences = 0;
  for_each_sentence(text, number_of, options.sentence_length, [&](std::span<const std::int32_t>) { ++sentences; });
  TextPlan plan{RandomSplit(sentences, {0, options.test_fraction, options.seed}), {}, {}};
  plan.training_counts.resize(vocabulary);
  if (options.test_fraction == 0) {  // nothing is dealt
    plan.groups[0].sentences = sentences;
    for (std::size_t word = 0; word < number_of.size(); ++word) {
      if (number_of[word] == kDropped) continue;
      plan.training_counts[static_cast<std::size_t>(number_of[word])] = text.counts[word];
      plan.groups[0].words += text.counts[word];
    }
    return plan;
  }
  std::int64_t sentence = 0;
  for_each_sentence(text, number_of, options.sentence_length, [&](std::span<const std::int32_t> words) {
    const Split split = plan.split.of(sentence++);
    TextGroupSize& group = plan.groups[static_cast<std::size_t>(split)];
    ++group.sentences;
    group.words += static_cast<std::int64_t>(words.size());
    if (split != Split::train) return;
    for (const std::int32_t word : words) ++plan.training_counts[static_cast<std::size_t>(word)];
  });
  return plan;
}

class SentenceWriter {
 public:
  SentenceWriter(SetWriter& writer, Split split, const TextGroupSize& size)
      : words_(writer, fmt::format("{}/words", name_of(split)), static_cast<std::uint64_t>(size.words)),
        sentences_(writer, fmt::format("{}/sentences", name_of(split)),
                   static_cast<std::uint64_t>(size.sentences + 1)) {
    sentences_.add(0);
  }
  void add(std::span<const std::int32_t> words) {
    words_.add(words);
    written_ += words.size();
    sentences_.add(written_);
  }
  void finish() {
    words_.finish();
    sentences_.finish();
  }

 private:
  ColumnWriter<std::int32_t> words_;
  ColumnWriter<std::uint64_t> sentences_;
  std::uint64_t written_ = 0;
};

void write_sentences(ReadText& text, const std::vector<std::int32_t>& number_of, const TextPlan& plan,
                     std::int64_t longest, SetWriter& writer) {
  std::array<std::optional<SentenceWriter>, 3> groups;
  for (const Split split : {Split::train, Split::test}) {
    const auto i = static_cast<std::size_t>(split);
    if (plan.groups[i].sentences > 0) groups[i].emplace(writer, split, plan.groups[i]);
  }
  std::int64_t sentence = 0;
  for_each_sentence(text, number_of, longest, [&](std::span<const std::int32_t> words) {
    groups[static_cast<std::size_t>(plan.split.of(sentence++))]->add(words);
  });
  for (auto& group : groups) {
    if (group) group->finish();
  }
}

/// \param counts by number in the text
void write_dictionary(const ReadText& text, const std::vector<std::uint32_t>& chosen,
                      const std::vector<std::int64_t>& counts, hdf5::File& file) {
  std::vector<std::string> words;
  std::vector<std::int64_t> chosen_counts;
  for (const std::uint32_t word : chosen) {
    words.emplace_back(text.words[word]);
    chosen_counts.push_back(counts[word]);
  }
  file.write_names("dictionary/words", words);
  file.write("dictionary/counts", chosen_counts);
}

TextSummary summarize(const TextPlan& plan, const ReadText& text, const std::string& path) {
  const TextGroupSize &train = plan.groups[0], &test = plan.groups[static_cast<std::size_t>(Split::test)];
  return {.path = path,
          .train = train.words,
          .test = test.words,
          .train_sentences = train.sentences,
          .test_sentences = test.sentences,
          .vocabulary = static_cast<std::int64_t>(plan.training_counts.size()),
          .distinct = text.words.size(),
          .in_all = text.length};
}

}  // namespace

TextSummary import_text(const std::vector<std::string>& paths, const TextOptions& options, const ImportOutput& output) {
  check_options(options);
  const std::vector<std::string> files = list_files(paths);
  SetWriter writer(output);
  ReadText text = read_text(files, options, output.path, usable_cpus());
  std::vector<std::uint32_t> chosen = choose_words(text.words, text.counts, options);
  if (text.words.size() == 0) throw DataError(paths[0] + ": has no words");
  if (chosen.empty()) {
    throw DataError(fmt::format("{}: none of its {} words occurs {} times; lower --minimum-count", paths[0],
                                text.words.size(), options.minimum_count));
  }
  const TextPlan plan = deal_sentences(text, number_words(chosen, text.words.size()), chosen.size(), options);
  if (plan.groups[0].sentences == 0) throw DataError(paths[0] + ": no sentence is left for training");
  std::vector<std::int64_t> counts(text.words.size());
  for (std::size_t place = 0; place < chosen.size(); ++place) counts[chosen[place]] = plan.training_counts[place];
  if (options.test_fraction > 0) sort_words(text.words, counts, chosen);  // by what is left for training
  write_sentences(text, number_words(chosen, text.words.size()), plan, options.sentence_length, writer);
  write_dictionary(text, chosen, counts, writer.file());
  writer.finish();
  return summarize(plan, text, output.path);
}

}  // namespace unisono::data
