#include "vectors/word_files.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "unisono/base/errors.hpp"
#include "unisono/base/text.hpp"

namespace unisono::apply {
namespace {

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

}  // namespace unisono::apply
