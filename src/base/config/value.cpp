#include "unisono/base/config_value.hpp"

#include <fmt/format.h>

#include "config/detail.hpp"

namespace unisono {
namespace {

bool is_bare(const std::string& key) {
  constexpr std::string_view kBare = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
  return !key.empty() && key.find_first_not_of(kBare) == std::string::npos;
}

std::string text_of(const ConfigValue::Table& table) {
  std::string text;
  for (const auto& [key, value] : table) {
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", toml_key(key), toml_text(value));
  }
  return text.empty() ? "{}" : "{ " + text + " }";
}

std::string text_of(const ConfigValue::Array& array) {
  std::string text;
  for (const ConfigValue& value : array) text += (text.empty() ? "" : ", ") + toml_text(value);
  return "[" + text + "]";
}

template <typename Scalar>
std::string text_of(const Scalar& value) {
  return detail::toml_text(value);
}

}  // namespace

bool ConfigValue::operator==(const ConfigValue& other) const { return value == other.value; }

const ConfigValue* ConfigValue::find(const std::string& key) const {
  const Table* const entries = table();
  if (entries == nullptr) return nullptr;
  for (const auto& [name, inner] : *entries) {
    if (name == key) return &inner;
  }
  return nullptr;
}

std::optional<double> ConfigValue::number() const {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

std::string toml_key(const std::string& key) { return is_bare(key) ? key : detail::toml_text(key); }

std::string toml_text(const ConfigValue& value) {
  return std::visit([](const auto& content) { return text_of(content); }, value.value);
}

}  // namespace unisono
