#include "set/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

/// "3data error:" and the message.
std::string pack(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  const int code = static_cast<int>(known == nullptr ? ExitCode::other : known->code());
  return fmt::format("{}{}:{}", code, known == nullptr ? "error" : known->kind(), error.what());
}

Error unpack(const std::string& packed) {
  const std::size_t colon = packed.find(':');
  return {static_cast<ExitCode>(packed[0] - '0'), packed.substr(1, colon - 1), packed.substr(colon + 1)};
}

}  // namespace

std::vector<std::string> Agreement::gather(const std::string& text) {
  if (!share_.gather) return {text};
  std::vector<std::string> texts = share_.gather(text);
  ranks_ = static_cast<int>(texts.size());
  return texts;
}

void Agreement::all_do(const std::function<void()>& work) {
  std::string message;
  std::exception_ptr error;
  try {
    work();
  } catch (const std::exception& thrown) {
    error = std::current_exception();
    message = pack(thrown);
  }
  const std::vector<std::string> messages = gather(message);
  if (error) std::rethrow_exception(error);
  const auto failed = std::find_if(messages.begin(), messages.end(), [](const auto& m) { return !m.empty(); });
  if (failed != messages.end()) throw unpack(*failed);
}

std::string Agreement::first_does(const std::function<std::string()>& work) {
  std::string text;
  all_do([&] {
    if (share_.rank == 0) text = work();
  });
  return gather(text).front();
}

std::int64_t Agreement::smallest(std::int64_t value) {
  for (const std::string& text : gather(std::to_string(value))) value = std::min<std::int64_t>(value, std::stoll(text));
  return value;
}

NodeMemory::NodeMemory(const NodeShare& share, std::size_t bytes) : share_(share), bytes_(bytes) {
  if (share.allocate) data_ = share.allocate(bytes);
  shared_ = data_ != nullptr;
}

void NodeMemory::take_own() {
  if (shared_) return;
  own_ = Buffer(static_cast<Index>((bytes_ + sizeof(float) - 1) / sizeof(float)));
  data_ = reinterpret_cast<std::byte*>(own_.data());
}

Range NodeMemory::part(std::int64_t n) const {
  return shared_ ? part_of(n, share_.node_rank, share_.node_size) : Range{0, n};
}

void NodeMemory::complete() const {
  if (share_.barrier) share_.barrier();
}

}  // namespace unisono::data
