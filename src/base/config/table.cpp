#include "config/detail.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/errors.hpp"
#include "unisono/base/nesting.hpp"

namespace unisono {
namespace {

/// Where a text stops being TOML, and what the parser says of it.
struct TomlError {
  std::size_t line = 0, column = 0;  ///< from 1; a column is a character
  std::string_view description;      ///< toml++'s: "Error while parsing array: encountered end-of-file"
};

/// What is wrong, and where the user sees it.
struct TomlProblem {
  std::size_t line = 0, column = 0;
  std::string text;     ///< "'sgd' is not a value; a string needs quotes: \"sgd\""
  std::string excerpt;  ///< the line with a caret below the column, each after a newline; empty where it is no text
};

constexpr std::size_t kShown = 100;  // characters of a line

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

/// A line without its end; empty where there is none such. \param number from 1
std::string_view line_of(std::string_view text, std::size_t number) {
  std::size_t first = 0;
  for (std::size_t line = 1; line < number; ++line) {
    first = text.find('\n', first);
    if (first++ == std::string_view::npos) return "";
  }
  std::string_view line = text.substr(first, text.find('\n', first) - first);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// Bytes before a column.
std::size_t offset_of(std::string_view line, std::size_t column) {
  std::size_t at = 0;
  for (; at < line.size() && column > 1; --column) {
    ++at;
    while (at < line.size() && is_continuation(line[at])) ++at;
  }
  return at;
}

std::size_t column_of(std::string_view line, std::size_t offset) {
  const std::string_view before = line.substr(0, offset);
  return 1 + static_cast<std::size_t>(
                 std::count_if(before.begin(), before.end(), [](char c) { return !is_continuation(c); }));
}

std::string_view without_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return text;
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// What stands in the first pair of quotes of a description.
std::string_view quoted_in(std::string_view description) {
  const std::size_t first = description.find('\'');
  if (first == std::string_view::npos) return "";
  return description.substr(first + 1, description.find('\'', first + 1) - first - 1);
}

/// What stands where a value should, without the blanks and brackets around it.
struct Token {
  std::size_t offset = 0;
  std::string text;
};

Token token_at(std::string_view line, std::size_t offset) {
  constexpr std::string_view kBounds = " \t=,[]{}#";
  offset = std::min(offset, line.size());
  if (offset == line.size() || kBounds.find(line[offset]) != std::string_view::npos) {
    if (offset == 0 || kBounds.find(line[offset - 1]) != std::string_view::npos) return {offset, ""};
    --offset;
  }
  const std::size_t before = line.find_last_of(kBounds, offset);
  const std::size_t first = before == std::string_view::npos ? 0 : before + 1;
  return {first, std::string(line.substr(first, line.find_first_of(kBounds, first) - first))};
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string of_value(const std::string& token, std::string_view reason) {
  if (has(reason, "not representable") || has(reason, "could not be interpreted") || has(reason, "length limit")) {
    return fmt::format("the number {} is too large or too small", token);
  }
  if (has(reason, "nested value depth")) return "arrays and tables are nested too deeply";
  if (has(reason, "leading zeroes")) return fmt::format("'{}' is not a number: numbers do not begin with 0", token);
  if (has(reason, "underscore")) return "an underscore in a number stands between two digits";
  if (has(reason, "control character")) return "a control character stands where a value should";
  if (token.empty()) return "a value is missing here";
  const std::string small = lower(token);
  for (const std::string_view word : {"true", "false"}) {
    if (small == word) return fmt::format("'{}' is not a value; write {}", token, word);
  }
  if (small == "yes" || small == "no") {
    return fmt::format("'{}' is not a value; write true or false, or a string in quotes: \"{}\"", token, token);
  }
  if (has(token, "\xE2\x80\x9C") || has(token, "\xE2\x80\x9D") || has(token, "\xE2\x80\x98") ||
      has(token, "\xE2\x80\x99")) {
    return fmt::format("{} has curly quotes; strings need straight ones: \" or '", token);
  }
  if (token.front() == '.' || token.back() == '.') {
    return fmt::format("'{}' is not a value: a number has digits on both sides of its point, and a string needs quotes",
                       token);
  }
  if (has(token, "\"") || has(token, "'")) return fmt::format("the string {} needs a quote at both ends", token);
  const bool digits = std::isdigit(static_cast<unsigned char>(token.front())) != 0;
  return fmt::format("'{}' is not {}; a string needs quotes: \"{}\"", token, digits ? "a number" : "a value", token);
}

constexpr std::string_view kOpenArray = "the array that began above is not closed: the bracket ] is missing at its end";

/// "[optimizer]", which the parser takes for an array where one is open.
bool is_header(std::string_view line) {
  line = without_blanks(line);
  return line.size() > 2 && line.front() == '[' && line.find_first_of("],={\"' ", 1) == line.find(']', 1) &&
         has(line, "]");
}

/// One line for what a part of the parser ran into.
struct Rule {
  std::string_view scope, reason, text;  ///< the first rule whose scope and reason are parts of the parser's
};

constexpr std::array kRules = {
    Rule{"", "utf-8", "this is not text in UTF-8; is it a config file?"},
    Rule{"", "after '\\r'", "lines end with \\n or \\r\\n, and not with \\r alone"},
    Rule{"", "nested value depth", "arrays and tables are nested too deeply"},
    Rule{"string", "escape sequence",
         "this escape sequence is not valid: write \\\\ for a backslash, or put the string in single quotes"},
    Rule{"unicode scalar", "", "\\u and these digits are not the code of a character"},
    Rule{"string", "hex digit", "\\u is followed by 4 hexadecimal digits, and \\U by 8"},
    Rule{"string", "end-of-file", "the string is not closed: a quote is missing at its end"},
    Rule{"string", "control characters", "a string may not hold control characters; write them as \\u and 4 digits"},
    Rule{"table header", "expected ']'", "the bracket ] is missing at the end of the table's name"},
    Rule{"table header", "end-of-file", "the bracket ] is missing at the end of the table's name"},
    Rule{"table header", "saw ']'", "there is one ] too many"},
    Rule{"table header", "comment or whitespace", "a table's name stands alone on its line: begin a new one here"},
    Rule{"table header", "blank", "the table has no name"},
    Rule{"key-value pair", "expected '=', saw ':'", "a key and its value are joined by '=', not by ':'"},
    Rule{"key-value pair", "expected '='", "'=' is missing here, between a key and its value"},
    Rule{"key-value pair", "expected value", "the key has no value"},
    Rule{"key-value pair", "end-of-file", "the key has no value"},
    Rule{"key-value pair", "comment or whitespace",
         "this does not belong to the value before it: a line holds one key and its value, a list needs brackets, a "
         "string needs quotes, and a comment begins with #"},
    Rule{"key", "multi-line", "a key stands on one line"},
    Rule{"key", "", "a key's name is missing here"},
    Rule{"root table", "", "a line begins with a key (of the letters A-Z, a-z, 0-9, _ and -), with [ or with #"},
    Rule{"array", "saw comma", "a value is missing before this comma"},
    Rule{"array", "expected comma", "a comma is missing before this, or the bracket ] at the end of the array"},
    Rule{"array", "end-of-file", "the array is not closed: the bracket ] is missing at its end"},
    Rule{"inline table", "saw '\\n'", "a table in braces stands on one line: the brace } is missing at its end"},
    Rule{"inline table", "dangling comma", "no comma may stand before the brace }"},
    Rule{"inline table", "saw comma", "a key is missing before this comma"},
    Rule{"inline table", "expected comma", "a comma is missing before this, or the brace } at the end of the table"},
    Rule{"inline table", "end-of-file", "the table in braces is not closed: the brace } is missing at its end"},
    Rule{"inline table", "", "a key is missing here"},
};

/// "(the first is in line 3)": the line that defines the same key of the same table, or the same table; empty where it
/// is not found. \param before the line of the repetition
std::string first_given(std::string_view text, std::string_view name, std::size_t before, bool is_table) {
  struct Definition {
    std::size_t line;
    std::string_view header;
  };
  std::vector<Definition> found;
  std::string_view header;
  for (std::size_t number = 1; number < before && !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    const std::string_view line = without_blanks(text.substr(0, end));
    text.remove_prefix(end + 1);
    if (line.starts_with('[')) {
      header = line;
      if (is_table && line.starts_with(fmt::format("[{}]", name))) found.push_back({number, ""});
    } else if (!is_table && line.starts_with(name) && without_blanks(line.substr(name.size())).starts_with('=')) {
      found.push_back({number, header});
    }
  }
  if (is_table) header = "";
  const auto same = std::find_if(found.begin(), found.end(), [&](const auto& one) { return one.header == header; });
  return same == found.end() ? "" : fmt::format(" (the first is in line {})", same->line);
}

std::string of_repetition(std::string_view text, const TomlError& error, bool header) {
  const std::string_view name = quoted_in(error.description);
  if (name.empty()) return "a part of this key has a value already, and cannot be a table as well";
  if (has(error.description, " as ")) {
    return fmt::format("'{}' has a value already, and cannot be a table as well", name);
  }
  const std::string first = first_given(text, name, error.line, header);
  return header ? fmt::format("the table [{}] is given twice{}", name, first)
                : fmt::format("the key '{}' is given twice{}", name, first);
}

/// The line with a caret below the column, each after a newline; empty where the line cannot be shown.
std::string excerpt(std::string_view shown, std::size_t line, std::size_t column) {
  const bool is_text = std::none_of(
      shown.begin(), shown.end(), [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0 && c != '\t'; });
  const std::size_t offset = offset_of(shown, column);
  if (!is_text || offset > kShown) return "";
  std::string below;
  for (const char c : shown.substr(0, offset)) {
    if (!is_continuation(c)) below += c == '\t' ? '\t' : ' ';
  }
  below.append(column - column_of(shown, offset), ' ');  // beyond the line's end
  if (shown.size() > kShown + 20) shown = shown.substr(0, offset_of(shown, kShown + 1));
  const std::string number = fmt::format("{}", line);
  return fmt::format("\n  {} | {}\n  {:{}} | {}^", number, shown, "", number.size(), below);
}

/// The same without an excerpt.
TomlProblem find_problem(const TomlError& error, std::string_view text) {
  constexpr std::string_view kHead = "Error while parsing ";
  std::string_view scope, reason = error.description;
  if (reason.starts_with(kHead)) {
    const std::size_t colon = reason.find(": ");
    scope = reason.substr(kHead.size(), colon - kHead.size());
    reason.remove_prefix(std::min(colon + 2, reason.size()));
  }
  TomlProblem problem{.line = error.line, .column = error.column, .text = {}, .excerpt = {}};
  const std::string_view line = line_of(text, error.line);
  const std::size_t offset = offset_of(line, error.column);
  if (has(reason, "cannot redefine")) {
    problem.text = of_repetition(text, error, scope == "table header");
    if (scope != "table header") problem.column = column_of(line, line.size() - without_blanks(line).size());
    return problem;
  }
  if (has(scope, "string") && has(reason, "control characters") && offset >= line.size()) reason = "end-of-file";
  for (const std::string_view value : {"value", "boolean", "floating-point", "integer", "date", "time"}) {
    if (scope == "key-value pair" || !has(scope, value)) continue;
    const Token token = token_at(line, offset);
    problem.column = column_of(line, token.offset);
    problem.text = is_header(line) ? std::string(kOpenArray) : of_value(token.text, reason);
    return problem;
  }
  const auto rule = std::find_if(kRules.begin(), kRules.end(),
                                 [&](const Rule& one) { return has(scope, one.scope) && has(reason, one.reason); });
  problem.text = rule == kRules.end() ? "this is not valid TOML" : std::string(rule->text);
  return problem;
}

/// The parser's error in plain words, at the place where a user would fix it.
TomlProblem explain(const TomlError& error, std::string_view text) {
  TomlProblem problem = find_problem(error, text);
  if (has(error.description, "utf-8")) return problem;
  problem.excerpt = excerpt(line_of(text, problem.line), problem.line, problem.column);
  return problem;
}

constexpr std::size_t kMostBytes = std::size_t{16} << 20;

constexpr std::string_view kSet = "--set ", kUnset = "--unset ";

/// One "--set train.epochs=3", or "--unset train.epochs", which has no value.
struct Override {
  std::string source;             ///< as the user wrote it
  std::vector<std::string> path;  ///< "train", "epochs"
  std::string value;              ///< "3"
};

[[noreturn]] void fail(const Override& override, std::string_view reason) {
  throw ConfigError(fmt::format("{}: {}", override.source, reason));
}

/// "configs/lenet.toml:2:8: WHAT", with the line and a caret below; of an override, WHAT alone.
std::string message_of(const toml::parse_error& error, std::string_view text, const std::string& file) {
  const toml::source_position& at = error.source().begin;
  const TomlProblem problem = explain({at.line, at.column, error.description()}, text);
  if (file.starts_with(kSet)) return fmt::format("{}: {}", file, problem.text);
  return fmt::format("{}:{}:{}: {}{}", file, problem.line, problem.column, problem.text, problem.excerpt);
}

[[noreturn]] void fail_too_deep(std::string_view text, const std::string& file, std::size_t end) {
  const auto line =
      1 + static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
  const std::string problem = fmt::format("arrays and tables are nested too deeply: more than {} levels", kMostNested);
  if (file.starts_with(kSet)) throw ConfigError(fmt::format("{}: {}", file, problem));
  const std::string_view shown = line_of(text, line);
  const std::size_t column = column_of(shown, end - static_cast<std::size_t>(shown.data() - text.data()));
  throw ConfigError(fmt::format("{}:{}:{}: {}{}", file, line, column, problem, excerpt(shown, line, column)));
}

/// A number such as 1e-400, of which a double holds nothing but 0.
struct VanishingNumber : ConfigError {
  using ConfigError::ConfigError;
};

/// Refuses them.
class VanishingNumbers {
 public:
  VanishingNumbers(std::string_view text, const std::string& file) : text_(text), file_(file) {
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (text[at] == '\n') lines_.push_back(at + 1);
    }
  }

  void look_at(const toml::node& node) const {
    if (const toml::table* table = node.as_table()) {
      for (const auto& entry : *table) look_at(entry.second);
    } else if (const toml::array* array = node.as_array()) {
      for (const toml::node& element : *array) look_at(element);
    } else if (const auto* number = node.as_floating_point(); number != nullptr && number->get() == 0) {
      look_at_zero(node.source().begin);
    }
  }

 private:
  void look_at_zero(const toml::source_position& at) const {
    std::string_view line = text_.substr(std::min(lines_.at(at.line - 1), text_.size()));
    line = line.substr(0, line.find('\n'));
    const Token token = token_at(line, offset_of(line, at.column));
    const std::string_view digits = std::string_view(token.text).substr(0, token.text.find_first_of("eE"));
    if (digits.find_first_of("123456789") == std::string_view::npos) return;
    const std::string problem = fmt::format("the number {} is too small: it would become 0", token.text);
    if (file_.starts_with(kSet)) throw VanishingNumber(fmt::format("{}: {}", file_, problem));
    throw VanishingNumber(
        fmt::format("{}:{}:{}: {}{}", file_, at.line, at.column, problem, excerpt(line, at.line, at.column)));
  }

  std::string_view text_;
  const std::string& file_;
  std::vector<std::size_t> lines_ = {0};  ///< where each begins
};

toml::table parse(std::string_view text, const std::string& file) {
  if (const auto end = where_toml_is_too_deep(text)) fail_too_deep(text, file, *end);
  try {
    toml::table table = toml::parse(text, file);
    VanishingNumbers(text, file).look_at(table);
    return table;
  } catch (const toml::parse_error& error) {
    throw ConfigError(message_of(error, text, file));
  } catch (const std::logic_error&) {  // see toml.hpp
    throw ConfigError(fmt::format("{}: this is not valid TOML", file));
  }
}

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? ""
                                         : std::string(text.substr(first, text.find_last_not_of(" \t") + 1 - first));
}

/// "model.layers[3].units" as "model.layers.3.units".
std::string with_points(const std::string& path) {
  static const std::regex kIndex(R"(\[ *(\d{1,9}) *\])");
  return std::regex_replace(path, kIndex, ".$1");
}

/// The steps of "train.epochs". \param example how to write it
void split_path(Override& override, const std::string& path, std::string_view example) {
  std::istringstream keys(with_points(path) + ".");
  for (std::string key; std::getline(keys, key, '.');) {
    override.path.push_back(trimmed(key));
    if (override.path.size() > kMostNested) {
      fail(override, fmt::format("the key has more than {} steps", kMostNested));
    }
    if (override.path.back().empty()) fail(override, fmt::format("a key is empty; write it as in {}", example));
  }
}

Override split(const std::string& text) {
  Override result{.source = std::string(kSet) + text, .path = {}, .value = {}};
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) fail(result, "a key and its value are expected, as in --set train.epochs=3");
  result.value = trimmed(text.substr(equals + 1));
  split_path(result, text.substr(0, equals), "--set train.epochs=3");
  return result;
}

Override split_removal(const std::string& text) {
  Override result{.source = std::string(kUnset) + text, .path = {}, .value = {}};
  if (text.find('=') != std::string::npos)
    fail(result, "a key without a value is expected, as in --unset train.epochs");
  split_path(result, text, "--unset train.epochs");
  return result;
}

/// The table { value = … }, which owns the override's value.
toml::table parse_value(const Override& override, std::string_view value) {
  // A value that does not begin as one of TOML's (a quote, a bracket) may be a bare string: --set optimizer.kind=adam
  const bool bracketed = value.find_first_of("\"'[{") == 0;
  try {
    toml::table table = parse(fmt::format("value = {}", value), override.source);
    if (table.size() == 1) return table;
  } catch (const VanishingNumber&) {
    throw;
  } catch (const ConfigError&) {
    if (bracketed) throw;
  }
  return parse(fmt::format("value = {}", detail::toml_text(std::string(value))), override.source);
}

/// The element that a step of an override's path names, or null where an array has none such.
toml::node* element(toml::array& array, const std::string& step) {
  std::size_t index = array.size();
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
  return error == std::errc{} && end == step.data() + step.size() ? array.get(index) : nullptr;
}

/// Removes what is at path[depth…] from `parent`.
void remove(toml::node& parent, const Override& removal, std::size_t depth = 0) {
  toml::table* const table = parent.as_table();
  toml::array* const array = parent.as_array();
  toml::node* child = nullptr;
  if (table != nullptr) child = table->get(removal.path[depth]);
  if (array != nullptr) child = element(*array, removal.path[depth]);
  if (child == nullptr) fail(removal, "the config file has no such key");
  if (depth + 1 < removal.path.size()) return remove(*child, removal, depth + 1);
  if (table != nullptr) {
    table->erase(removal.path[depth]);
  } else {
    array->erase(array->cbegin() + static_cast<std::ptrdiff_t>(std::stoul(removal.path[depth])));
  }
}

/// Later elements of an array go first, so that numbers are those of the file.
void remove_all(toml::table& root, const std::vector<std::string>& texts) {
  std::vector<Override> removals;
  for (const std::string& text : texts) removals.push_back(split_removal(text));
  const auto step_before = [](const std::string& a, const std::string& b) {
    const auto is_number = [](const std::string& step) {
      return step.find_first_not_of("0123456789") == std::string::npos;
    };
    return is_number(a) && is_number(b) && a.size() != b.size() ? a.size() > b.size() : a > b;
  };
  std::stable_sort(removals.begin(), removals.end(), [&](const Override& a, const Override& b) {
    return std::lexicographical_compare(a.path.begin(), a.path.end(), b.path.begin(), b.path.end(), step_before);
  });
  for (const Override& removal : removals) remove(root, removal);
}

/// The node at path[depth] of `parent`; a missing table is created.
toml::node& descend(toml::node& parent, const Override& override, std::size_t depth) {
  const std::string& step = override.path[depth];
  if (toml::table* table = parent.as_table()) {
    if (toml::node* child = table->get(step)) return *child;
    toml::table made = parse_value(override, "{}");
    toml::node& empty = *made.get("value");
    return table->insert_or_assign(toml::key(step, empty.source()), std::move(*empty.as_table())).first->second;
  }
  toml::array* array = parent.as_array();
  if (array == nullptr) fail(override, fmt::format("'{}' is not a table, so it has no keys", override.path[depth - 1]));
  toml::node* child = element(*array, step);
  if (child == nullptr) {
    fail(override,
         fmt::format("'{}' is not an element of '{}', which has {}, numbered from 0", step, override.path[depth - 1],
                     count_of(static_cast<std::int64_t>(array->size()), "element")));
  }
  return *child;
}

void apply(toml::table& root, const Override& override) {
  toml::node* parent = &root;
  for (std::size_t depth = 0; depth + 1 < override.path.size(); ++depth) parent = &descend(*parent, override, depth);

  toml::table holder = parse_value(override, override.value);
  toml::node& value = *holder.get("value");
  const std::string& last = override.path.back();
  if (toml::array* array = parent->as_array()) {
    descend(*array, override, override.path.size() - 1);  // exists
    const auto at = array->cbegin() + static_cast<std::ptrdiff_t>(std::stoul(last));
    value.visit([&](auto& typed) { array->replace(at, std::move(typed)); });
  } else if (toml::table* table = parent->as_table()) {
    const toml::key key(last, value.source());
    value.visit([&](auto& typed) { table->insert_or_assign(key, std::move(typed)); });
  } else {
    fail(override, fmt::format("'{}' is not a table, so it has no keys", override.path[override.path.size() - 2]));
  }
}

}  // namespace

ConfigText read_config(const std::string& path, std::vector<std::string> overrides, std::vector<std::string> removals) {
  std::ifstream file(path);
  std::string text;
  std::array<char, 4096> part{};
  while (text.size() <= kMostBytes && (file.read(part.data(), part.size()) || file.gcount() > 0)) {
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad()) {
    const int error = errno;
    if (error == EISDIR) {
      const std::string own = (std::filesystem::path(path) / "config.toml").string();
      throw ConfigError(fmt::format("{}: is a folder, not a config file{}", path,
                                    std::filesystem::exists(own) ? "; name the file " + own : ""));
    }
    throw ConfigError(fmt::format("{}: cannot be read: {}", path, std::strerror(error)));
  }
  if (text.size() > kMostBytes)
    throw ConfigError(fmt::format("{}: is not a config file: it is larger than 16 MiB", path));
  return {path, std::move(text), std::move(overrides), std::move(removals)};
}

namespace detail {

std::string place(const toml::source_region& region, const std::string& file) {
  if (region.path && region.path->starts_with(kSet)) return *region.path;
  if (!region.begin) return file;
  return fmt::format("{}:{}:{}", file, region.begin.line, region.begin.column);
}

bool is_override(const toml::node& node) {
  if (node.source().path && node.source().path->starts_with(kSet)) return true;
  const auto within = [](const auto& children) {
    return std::any_of(children.begin(), children.end(), [](const auto& child) { return is_override(child); });
  };
  if (const toml::array* array = node.as_array()) return within(*array);
  const toml::table* table = node.as_table();
  return table != nullptr &&
         std::any_of(table->begin(), table->end(), [](const auto& entry) { return is_override(entry.second); });
}

LoadedTable load_table(const ConfigText& config) {
  LoadedTable loaded{.table = parse(config.text, config.path), .file = {}};
  remove_all(loaded.table, config.removals);
  loaded.file = loaded.table;
  for (const std::string& text : config.overrides) apply(loaded.table, split(text));
  return loaded;
}

}  // namespace detail

}  // namespace unisono
