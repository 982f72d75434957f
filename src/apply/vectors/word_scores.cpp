#include "vectors/word_scores.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>

#include "unisono/apply/evaluate.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/records/json_line.hpp"
#include "unisono/records/progress.hpp"
#include "vectors/tables.hpp"

namespace unisono::apply {
namespace {

constexpr Index kTile = 16;    // words whose products with another word are computed at once, in registers
constexpr Index kBlock = 512;  // words whose products with all given ones fit into a cache

/// The words that any question gives, and for each question the indices of its three words.
struct Given {
  explicit Given(std::span<const Analogy> questions) {
    for (const Analogy& question : questions) words.insert(words.end(), question.given.begin(), question.given.end());
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    for (const Analogy& question : questions) {
      auto& places = of_question.emplace_back();
      for (std::size_t i = 0; i < places.size(); ++i) {
        places[i] = std::lower_bound(words.begin(), words.end(), question.given[i]) - words.begin();
      }
    }
  }

  std::vector<std::int32_t> words;
  std::vector<std::array<std::ptrdiff_t, 3>> of_question;
};

/// panel[k, j] = number k of word first + j; zeros behind the last word.
void pack(const UnitVectors& words, Index first, std::vector<float>& panel) {
  panel.assign(static_cast<std::size_t>(words.width * kTile), 0.0F);
  for (Index j = 0; j < std::min(kTile, words.count - first); ++j) {
    const View row = words.row(first + j);
    for (Index k = 0; k < words.width; ++k) {
      panel[static_cast<std::size_t>(k * kTile + j)] = row[static_cast<std::size_t>(k)];
    }
  }
}

/// products[j] = v · word j of the panel
void multiply(View v, const std::vector<float>& panel, float* products) {
  std::array<float, kTile> sums{};
  const float* column = panel.data();
  for (const float x : v) {
    for (std::size_t j = 0; j < kTile; ++j) sums[j] += x * column[j];
    column += kTile;
  }
  std::copy(sums.begin(), sums.end(), products);
}

/// The best word so far.
struct BestAnswer {
  std::int32_t word = -1;
  float score = -std::numeric_limits<float>::infinity();
};

class ProductBlock {
 public:
  ProductBlock(const UnitVectors& words, const Given& given)
      : words_(words), given_(given), products_(given.words.size() * kBlock) {}

  /// The products of words [first, first + kBlock) with all given ones.
  void make(Index first) {
    first_ = first;
    count_ = std::min(kBlock, words_.count - first);
    for (Index tile = 0; tile < count_; tile += kTile) {
      pack(words_, first + tile, panel_);
      for (std::size_t g = 0; g < given_.words.size(); ++g) {
        multiply(words_.row(given_.words[g]), panel_, products_.data() + g * kBlock + tile);
      }
    }
  }

  void improve(const Analogy& question, const std::array<std::ptrdiff_t, 3>& places, BestAnswer& best) {
    const auto row = [&](std::size_t i) { return products_.data() + places[i] * kBlock; };
    const float *const a = row(0), *const b = row(1), *const c = row(2);
    float largest = -std::numeric_limits<float>::infinity();
    for (Index j = 0; j < kBlock; ++j) {
      scores_[static_cast<std::size_t>(j)] = b[j] - a[j] + c[j];
    }
    for (const std::int32_t word : question.given) exclude(word);
    for (Index j = 0; j < count_; ++j) largest = std::max(largest, scores_[static_cast<std::size_t>(j)]);
    if (!(largest > best.score)) return;
    const auto found = std::find(scores_.begin(), scores_.end(), largest) - scores_.begin();
    best = {.word = static_cast<std::int32_t>(first_ + found), .score = largest};
  }

 private:
  void exclude(std::int32_t word) {
    if (word < first_ || word >= first_ + count_) return;
    scores_[static_cast<std::size_t>(word - first_)] = -std::numeric_limits<float>::infinity();
  }

  const UnitVectors& words_;
  const Given& given_;
  Index first_ = 0, count_ = 0;
  std::vector<float> panel_, products_;  ///< [width, kTile], [given, kBlock]
  std::array<float, kBlock> scores_{};
};

std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return values[i] < values[j]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
    while (last < order.size() && values[order[last]] == values[order[first]]) ++last;
    const double mean = static_cast<double>(first + last - 1) / 2;
    for (std::size_t i = first; i < last; ++i) ranks[order[i]] = mean;
  }
  return ranks;
}

constexpr const char* kSeparators = " \t\r";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  for (std::size_t first = line.find_first_not_of(kSeparators); first != std::string::npos;) {
    const std::size_t last = std::min(line.find_first_of(kSeparators, first), line.size());
    words.push_back(line.substr(first, last - first));
    first = line.find_first_not_of(kSeparators, last);
  }
  return words;
}

/// Calls visit(words of a line, its number) for each that holds any. \throws DataError
template <typename Visit>
void visit_lines(const std::string& path, Visit visit) {
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path)) {
    throw DataError(fmt::format("{}: cannot be read: {}", path, file ? "this is a folder" : std::strerror(errno)));
  }
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (number == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    const auto words = words_of(line);
    if (!words.empty()) visit(words, number);
  }
}

[[noreturn]] void fail(const std::string& path, std::int64_t line, const std::string& what) {
  throw DataError(fmt::format("{}:{}: {}", path, line, what));
}

void require_some(bool some, const std::string& path, std::string_view what) {
  if (!some) throw DataError(fmt::format("{}: holds no {}", path, what));
}

/// ": capital-common-countries"; what stands behind the colon may be several words.
std::string section_of(const std::vector<std::string>& words) {
  std::string name = words[0].substr(1);
  for (std::size_t i = 1; i < words.size(); ++i) name += (name.empty() ? "" : " ") + words[i];
  return name;
}

double score_of(const std::string& text, const std::string& path, std::int64_t line) {
  double score = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), score);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(score)) {
    fail(path, line, fmt::format("'{}' is not a number; each line must be two words and a score", text));
  }
  return score;
}

}  // namespace

UnitVectors unit_rows(const models::VectorTable& table, View parameters, std::span<const std::int32_t> rows) {
  UnitVectors matrix{.count = static_cast<Index>(rows.size()), .width = table.width, .values = {}};
  matrix.values.resize(static_cast<std::size_t>(matrix.count * matrix.width));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto width = static_cast<std::size_t>(table.width);
    const MutableView vector = MutableView(matrix.values).subspan(i * width, width);
    read_row(table, parameters, rows[i], vector);
    double squares = 0;
    for (const float value : vector) squares += static_cast<double>(value) * static_cast<double>(value);
    const double scale = squares == 0 ? 0 : 1 / std::sqrt(squares);
    for (float& value : vector) value = static_cast<float>(static_cast<double>(value) * scale);
  }
  return matrix;
}

std::vector<std::int32_t> solve_analogies(const UnitVectors& words, std::span<const Analogy> questions) {
  const Given given(questions);
  std::vector<BestAnswer> best(questions.size());
  ProductBlock block(words, given);
  for (Index first = 0; first < words.count; first += kBlock) {
    block.make(first);
    for (std::size_t q = 0; q < questions.size(); ++q) block.improve(questions[q], given.of_question[q], best[q]);
  }
  std::vector<std::int32_t> answers;
  for (const BestAnswer& one : best) answers.push_back(one.word);
  return answers;
}

double spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double mean = (static_cast<double>(a.size()) - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx == 0 || yy == 0 ? std::nan("") : xy / std::sqrt(xx * yy);
}

QuestionFile read_questions(const std::string& path) {
  QuestionFile file;
  visit_lines(path, [&](const std::vector<std::string>& words, std::int64_t line) {
    if (words[0].starts_with(':')) return file.sections.push_back(section_of(words));
    if (words.size() != 4) {
      fail(path, line,
           fmt::format("has {}; an analogy has four words, and the line of a section begins with ':'",
                       count_of(std::ssize(words), "word")));
    }
    if (file.sections.empty()) file.sections.emplace_back("without a section");
    file.questions.push_back({.words = {words[0], words[1], words[2], words[3]}, .section = file.sections.size() - 1});
  });
  require_some(!file.questions.empty(), path, "analogies, lines of four words");
  return file;
}

std::vector<RatedPair> read_pairs(const std::string& path) {
  std::vector<RatedPair> pairs;
  visit_lines(path, [&](const std::vector<std::string>& words, std::int64_t line) {
    if (words[0].starts_with('#')) return;
    if (words.size() != 3) {
      fail(path, line,
           fmt::format("has {}; each line must be two words and a score, separated by tabs or spaces",
                       count_of(std::ssize(words), "word")));
    }
    pairs.push_back({.first = words[0], .second = words[1], .score = score_of(words[2], path, line)});
  });
  require_some(!pairs.empty(), path, "lines of two words and a score");
  return pairs;
}

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
std::vector<std::int64_t> answer(comm::Communicator& world, int threads, const UnitVectors& words,
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
    const UnitVectors words = unit_rows(table_, parameters(), frequent);
    for (const std::string& path : options_.analogies) ask(path, words, frequent);
  }

  void ask(const std::string& path, const UnitVectors& words, const std::vector<std::int32_t>& frequent) {
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
  if (json) return log.info(records::json_line(tests.report()));
  for (const std::string& line : tests.lines()) log.info(line);
}

}  // namespace unisono::apply
