#include "unisono/records/csv_field.hpp"

#include <charconv>
#include <string_view>

namespace unisono::records {

namespace {

bool is_number(const std::string& text) {
  double number = 0;
  const char* const first = text.data() + (text.front() == '+' ? 1 : 0);
  const auto [end, error] = std::from_chars(first, text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

/// Whether a spreadsheet would compute it.
bool is_formula(const std::string& text) {
  return text.size() > 1 && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos &&
         !is_number(text);
}

}  // namespace

std::string csv_text(const std::string& name) { return is_formula(name) ? csv_field("'" + name) : csv_field(name); }

std::string csv_field(const std::string& name) {
  if (name.find_first_of(",\"\r\n") == std::string::npos) return name;
  std::string quoted = "\"";
  for (const char c : name) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace unisono::records
