#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "unisono/apply/evaluate.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/records/progress.hpp"
#include "vectors/tables.hpp"
#include "vectors/word_scores.hpp"

namespace unisono::apply {
namespace {

using Json = nlohmann::ordered_json;

/// Counts of questions asked and answered correctly.
struct Score {
  std::string name;
  std::int64_t questions = 0;
  std::int64_t found = 0;  ///< whose words are all among the frequent ones
  std::int64_t right = 0;

  Score& operator+=(const Score& more) {
    questions += more.questions;
    found += more.found;
    right += more.right;
    return *this;
  }
  double accuracy() const { return found == 0 ? 0 : static_cast<double>(right) / static_cast<double>(found); }
};

Json to_json(const Score& score) {
  return {{"name", score.name},
          {"questions", score.questions},
          {"found", score.found},
          {"right", score.right},
          {"accuracy", score.found == 0 ? Json() : Json(score.accuracy())}};
}

std::string to_text(const Score& score) {
  const std::string share = score.found == 0 ? "–" : fmt::format("{:.2f} %", 100 * score.accuracy());
  return fmt::format("  {:28} {:>8}  {:>6} of {:>6} right, of {:>6} questions", score.name, share, grouped(score.right),
                     grouped(score.found), grouped(score.questions));
}

/// A file's questions whose words are all among the frequent ones, and which question each is.
struct Asked {
  std::vector<Analogy> analogies;
  std::vector<std::size_t> questions;
};

Asked choose_questions(const QuestionFile& file, const Vocabulary& vocabulary,
                       const std::vector<std::int32_t>& frequent) {
  std::vector<std::int32_t> places(vocabulary.size(), -1);
  for (std::size_t place = 0; place < frequent.size(); ++place) {
    places[static_cast<std::size_t>(frequent[place])] = static_cast<std::int32_t>(place);
  }
  std::vector<std::string> words;
  for (const auto& question : file.questions) words.insert(words.end(), question.words.begin(), question.words.end());
  std::vector<std::int32_t> found = vocabulary.find(std::move(words));
  for (std::int32_t& row : found) row = row < 0 ? -1 : places[static_cast<std::size_t>(row)];

  Asked asked;
  for (std::size_t q = 0; q < file.questions.size(); ++q) {
    const auto word = found.begin() + static_cast<std::ptrdiff_t>(4 * q);
    if (*std::min_element(word, word + 4) < 0) continue;
    asked.analogies.push_back({.given = {word[0], word[1], word[2]}, .expected = word[3]});
    asked.questions.push_back(q);
  }
  return asked;
}

/// Whether each answer is the one expected. Every rank and each of its threads takes a slice of the questions.
std::vector<std::int64_t> answer(comm::Communicator& world, int threads, const UnitRows& words,
                                 const std::vector<Analogy>& analogies) {
  std::vector<std::int64_t> right(analogies.size());
  const comm::Slice own = comm::slice_of(static_cast<Index>(analogies.size()), world.rank(), world.size());
  ThreadTeam team(threads, "the tests of word vectors");
  team.run([&](int thread) {
    const comm::Slice part = comm::slice_of(own.last - own.first, thread, threads);
    const auto first = static_cast<std::size_t>(own.first + part.first);
    const auto mine = std::span(analogies).subspan(first, static_cast<std::size_t>(part.last - part.first));
    const auto answers = solve_analogies(words, mine);
    for (std::size_t i = 0; i < mine.size(); ++i) right[first + i] = answers[i] == mine[i].expected ? 1 : 0;
  });
  world.allreduce_sum(std::span(right));
  return right;
}

/// Section by section, then semantic and syntactic ones (whose names begin with "gram") where there are both, then all.
std::vector<Score> count(const QuestionFile& file, const Asked& asked, const std::vector<std::int64_t>& right) {
  std::vector<Score> scores;
  for (const std::string& section : file.sections) scores.push_back({.name = section});
  for (const auto& question : file.questions) ++scores[question.section].questions;
  for (std::size_t i = 0; i < asked.questions.size(); ++i) {
    Score& score = scores[file.questions[asked.questions[i]].section];
    ++score.found;
    score.right += right[i];
  }
  Score semantic{.name = "semantic"}, syntactic{.name = "syntactic"}, total{.name = "total"};
  for (const Score& score : scores) {
    (score.name.starts_with("gram") ? syntactic : semantic) += score;
    total += score;
  }
  if (semantic.questions > 0 && syntactic.questions > 0) {
    scores.push_back(semantic);
    scores.push_back(syntactic);
  }
  scores.push_back(total);
  return scores;
}

/// The tests of one model. Rank 0 alone has the vocabulary, reads files and reports.
class WordTests {
 public:
  WordTests(comm::Communicator& world, const WordTestOptions& options, Log& log)
      : world_(world),
        options_(options),
        model_(world, options.model, log, TrainedModel::With::nothing),
        table_(choose_table(model_, "words")) {
    if (world.is_root()) vocabulary_.emplace(names_of(model_, table_));
    report_ = {{"checkpoint", model_.checkpoint.path}, {"step", model_.checkpoint.header.step}};
    say(fmt::format("{} (step {}): {} words, {} numbers each", model_.checkpoint.path, model_.checkpoint.header.step,
                    grouped(table_.rows), table_.width));
  }

  void run() {
    if (!options_.analogies.empty()) ask_all();
    for (const std::string& path : options_.similarity) {
      if (world_.is_root()) compare(path);
    }
  }

  const Json& report() const { return report_; }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  void say(std::string line) { lines_.push_back(std::move(line)); }
  std::string spelling() const { return vocabulary_->is_lower_case() ? ", in lower case like the vocabulary" : ""; }
  View parameters() { return model_.parts->parameters.view(); }

  void ask_all() {
    std::vector<std::int32_t> frequent;
    if (vocabulary_) frequent = vocabulary_->most_frequent(options_.words);
    world_.broadcast_vector(frequent);
    const UnitRows words = unit_rows(table_, parameters(), frequent);
    for (const std::string& path : options_.analogies) ask(path, words, frequent);
  }

  void ask(const std::string& path, const UnitRows& words, const std::vector<std::int32_t>& frequent) {
    QuestionFile file;
    Asked asked;
    if (vocabulary_) {
      file = read_questions(path);
      asked = choose_questions(file, *vocabulary_, frequent);
    }
    world_.broadcast_vector(asked.analogies);
    const Stopwatch watch;
    const auto right = answer(world_, model_.parts->placement.threads, words, asked.analogies);
    if (!vocabulary_) return;
    Json sections = Json::array();
    say(fmt::format("{}: analogies among the {} most frequent words{}, in {:.1f} s", path, grouped(words.count),
                    spelling(), watch.seconds()));
    for (const Score& score : count(file, asked, right)) {
      sections.push_back(to_json(score));
      say(to_text(score));
    }
    report_["analogies"].push_back({{"file", path},
                                    {"words", words.count},
                                    {"seconds", watch.seconds()},
                                    {"total", sections.back()},
                                    {"sections", sections}});
  }

  void compare(const std::string& path) {
    const std::vector<RatedPair> pairs = read_pairs(path);
    std::vector<std::string> names;
    for (const RatedPair& pair : pairs) names.insert(names.end(), {pair.first, pair.second});
    const std::vector<std::int32_t> rows = vocabulary_->find(std::move(names));
    std::vector<double> scores, cosines;
    std::vector<float> first(static_cast<std::size_t>(table_.width)), second(first.size());
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (rows[2 * i] < 0 || rows[2 * i + 1] < 0) continue;
      read_row(table_, parameters(), rows[2 * i], first);
      read_row(table_, parameters(), rows[2 * i + 1], second);
      scores.push_back(pairs[i].score);
      cosines.push_back(cosine(first, second));
    }
    const double correlation = spearman(scores, cosines);
    const bool defined = !std::isnan(correlation);
    report_["similarity"].push_back({{"file", path},
                                     {"pairs", pairs.size()},
                                     {"found", scores.size()},
                                     {"spearman", defined ? Json(correlation) : Json()}});
    say(fmt::format("{}: similarity{}", path, spelling()));
    say(fmt::format(
        "  {:28} {:>8}  {:>6} of {:>6} pairs found", "spearman", defined ? fmt::format("{:.4f}", correlation) : "–",
        grouped(static_cast<std::int64_t>(scores.size())), grouped(static_cast<std::int64_t>(pairs.size()))));
  }

  comm::Communicator& world_;
  const WordTestOptions& options_;
  TrainedModel model_;
  models::VectorTable table_;
  std::optional<Vocabulary> vocabulary_;
  Json report_;
  std::vector<std::string> lines_;
};

}  // namespace

void evaluate_words(comm::Communicator& world, const WordTestOptions& options, bool json, Log& log) {
  WordTests tests(world, options, log);
  tests.run();
  if (json) return log.info(tests.report().dump());
  for (const std::string& line : tests.lines()) log.info(line);
}

}  // namespace unisono::apply
