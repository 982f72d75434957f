#include "unisono/base/nesting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

/// Reads a text in TOML far enough to know how deep each key and value lies.
class TomlDepth {
 public:
  explicit TomlDepth(std::string_view text) : text_(text) {}

  std::optional<std::size_t> first_too_deep() {
    for (at_ = 0; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        if (!skip_string(c)) return std::nullopt;
      } else if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
      } else {
        take(c);
      }
      if (depth() > kMostNested) return at_;
    }
    return std::nullopt;
  }

 private:
  /// Of the key or value that is being read.
  int depth() const { return base_ + steps_; }

  void take(char c) {
    const bool outside = open_.empty();
    if (c == '\n' && outside) {
      if (is_header_) table_ = steps_;
      begin_entry(table_);
      is_header_ = false;
    } else if (c == '.' && !is_value_) {
      ++steps_;
    } else if (c == '=') {
      is_value_ = true;
    } else if (c == '[' && outside && !is_value_) {
      is_header_ = true;
      base_ = 0;
      ++steps_;
    } else if (c == '[' || c == '{') {
      open_.push_back({base_, steps_});
      base_ += steps_ + 1;
      steps_ = 0;
      is_value_ = false;
    } else if ((c == ']' || c == '}') && !outside) {
      base_ = open_.back().base;
      steps_ = open_.back().steps;
      is_value_ = true;
      open_.pop_back();
    } else if (c == ',' && !outside) {
      begin_entry(base_);
    }
  }

  void begin_entry(int base) {
    base_ = base;
    steps_ = 0;
    is_value_ = false;
  }

  /// To the last quote. \return whether there is one
  bool skip_string(char quote) {
    const std::string three(3, quote);
    const bool is_long = text_.substr(at_, 3) == three;
    const std::string_view end = is_long ? std::string_view(three) : std::string_view(three).substr(2);
    for (at_ += end.size(); at_ < text_.size(); ++at_) {
      if (text_[at_] == '\\' && quote == '"') {
        ++at_;
      } else if (text_.substr(at_, end.size()) == end) {
        at_ += end.size() - 1;
        // A long string may end in one or two quotes of its own.
        for (int own = 0; is_long && own < 2 && at_ + 1 < text_.size() && text_[at_ + 1] == quote; ++own) ++at_;
        return true;
      } else if (text_[at_] == '\n' && !is_long) {
        return false;
      }
    }
    return false;
  }

  struct Bracket {
    int base, steps;
  };

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<Bracket> open_;
  int table_ = 0;           ///< depth of the table that the last header names
  int base_ = 0;            ///< depth of the table or array around
  int steps_ = 0;           ///< dots of the key
  bool is_value_ = false;   ///< behind '='
  bool is_header_ = false;  ///< "[a.b]"
};

}  // namespace

std::optional<std::size_t> where_toml_is_too_deep(std::string_view text) { return TomlDepth(text).first_too_deep(); }

std::string_view shallow_json(std::string_view text, std::string_view where) {
  int depth = 0;
  bool is_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (is_string && c == '\\') {
      ++at;
    } else if (c == '"') {
      is_string = !is_string;
    } else if (!is_string && (c == '[' || c == '{')) {
      if (++depth <= kMostNested) continue;
      throw DataError(
          fmt::format("{}: arrays and objects are nested more than {} deep, which unisono never writes; "
                      "restore the file, or remove it",
                      where, kMostNested));
    } else if (!is_string && (c == ']' || c == '}')) {
      --depth;
    }
  }
  return text;
}

}  // namespace unisono
