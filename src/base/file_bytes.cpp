#include "unisono/base/file_bytes.hpp"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace unisono {
namespace {

struct Redirected {
  std::string path;
  std::shared_ptr<const FileBytes> bytes;
};

/// Those of this process, in the order in which they were made.
struct RedirectedFiles {
  std::mutex mutex;
  std::vector<Redirected> list;
};

RedirectedFiles& redirected_files() {
  static RedirectedFiles files;
  return files;
}

}  // namespace

Redirection::Redirection(std::string path, std::shared_ptr<const FileBytes> bytes) : bytes_(std::move(bytes)) {
  const std::lock_guard lock(redirected_files().mutex);
  redirected_files().list.push_back({std::move(path), bytes_});
}

Redirection::~Redirection() {
  const std::lock_guard lock(redirected_files().mutex);
  auto& list = redirected_files().list;
  list.erase(std::ranges::find(list, bytes_, &Redirected::bytes));
}

std::shared_ptr<const FileBytes> redirection_of(const std::string& path) {
  const std::lock_guard lock(redirected_files().mutex);
  const auto& list = redirected_files().list;
  const auto found = std::find_if(list.rbegin(), list.rend(), [&](const Redirected& one) { return one.path == path; });
  return found == list.rend() ? nullptr : found->bytes;
}

}  // namespace unisono
