#include "unisono/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <new>
#include <string>

#include "unisono/base/printable.hpp"

namespace unisono {

void print_error(std::string_view line) noexcept {
  std::string shown;
  try {
    shown = printable_message(line) + "\n";
  } catch (const std::bad_alloc&) {
    for (const char c : line) std::fputc(static_cast<unsigned char>(c) < ' ' && c != '\n' ? '?' : c, stderr);
    std::fputc('\n', stderr);
    shown.clear();
  }
  std::fwrite(shown.data(), 1, shown.size(), stderr);
  std::fflush(stderr);
}

std::string advice_about(const std::string& path, const std::string& otherwise) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  if (folder.empty() || fs::exists(folder, error) || error) return otherwise;
  return fmt::format(
      "the folder {} is gone: it was removed or renamed while the program ran; restore it and continue with --resume, "
      "or start again",
      folder.string());
}

namespace {

std::string plural(std::string_view noun) {
  if (noun.ends_with('s') || noun.ends_with('x')) return std::string(noun) + "es";
  const bool consonant_and_y =
      noun.size() > 1 && noun.ends_with('y') && std::string_view("aeiou").find(noun[noun.size() - 2]) == noun.npos;
  return consonant_and_y ? std::string(noun.substr(0, noun.size() - 1)) + "ies" : std::string(noun) + "s";
}

std::string listed(const std::vector<std::string_view>& names, std::string_view before_last) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? before_last : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace

std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3) {
    text.insert(static_cast<std::size_t>(at), ",");
  }
  return text;
}

std::string words_of(std::string_view name) {
  std::string words(name);
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::string any_of(const std::vector<std::string_view>& names) { return listed(names, " or "); }

std::string all_of(const std::vector<std::string_view>& names) { return listed(names, " and "); }

std::string duration_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} µs", 1e6 * seconds);
  if (seconds < 1) return fmt::format("{:.3g} ms", 1e3 * seconds);
  return seconds < 1000 ? fmt::format("{:.3g} s", seconds) : grouped(std::llround(seconds)) + " s";
}

std::string count_of(std::int64_t count, std::string_view noun) {
  return grouped(count) + " " + (count == 1 ? std::string(noun) : plural(noun));
}

}  // namespace unisono
