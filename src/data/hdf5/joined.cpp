#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hdf5/library.hpp"
#include "hdf5/state.hpp"
#include "unisono/base/errors.hpp"

// Several files as one. Everything is read through the files themselves, which check what they read.
namespace unisono::data::hdf5 {

File::File() : state_(std::make_unique<State>()) {}

File File::join(std::string path, std::vector<File> parts, std::vector<std::string> groups) {
  File joined;
  joined.state_->path = std::move(path);
  joined.state_->parts = std::move(parts);
  joined.state_->joined_groups = std::move(groups);
  return joined;
}

std::span<const File> File::parts() const { return state_->parts; }

const File& File::State::holder_of(const std::string& object) const {
  const auto found = std::ranges::find_if(parts, [&](const File& part) { return part.exists(object); });
  return found == parts.end() ? parts.front() : *found;
}

std::vector<std::string> File::State::children_of_parts(const std::string& group) const {
  std::set<std::string> names;
  bool any = false;
  for (const File& part : parts) {
    if (!group.empty() && !part.exists(group)) continue;
    any = true;
    for (const std::string& name : part.children(group)) names.insert(name);
  }
  if (!any) fail_read(group, "does not exist");
  return {names.begin(), names.end()};
}

const JoinedRows& File::State::rows_of_parts(const std::string& object) const {
  if (const auto known = joined_rows.find(object); known != joined_rows.end()) return known->second;
  const bool joins = std::ranges::find(joined_groups, object.substr(0, object.find('/'))) != joined_groups.end();
  const File* const holder = &holder_of(object);
  JoinedRows rows{.begins = {0}};
  for (const File& part : parts) {
    std::uint64_t count = 0;
    if (&part == holder || (joins && part.exists(object))) {
      count = part.is_dataset(object) ? part.shape(object).rows() : part.count_strings(object);
    }
    rows.begins.push_back(rows.begins.back() + count);
  }
  if (holder->is_dataset(object)) rows.row_size = holder->shape(object).row_size();
  return joined_rows[object] = std::move(rows);
}

DatasetShape File::State::shape_of_parts(const std::string& dataset) const {
  DatasetShape shape = holder_of(dataset).shape(dataset);
  if (shape.extent.empty()) return shape;
  const std::vector<std::uint64_t>& begins = rows_of_parts(dataset).begins;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (begins[i] == begins[i + 1]) continue;
    const DatasetShape part = parts[i].shape(dataset);
    shape.compressed = shape.compressed || part.compressed;
    shape.complete = shape.complete && part.complete;
  }
  shape.extent[0] = begins.back();
  return shape;
}

void File::State::visit_parts(const std::string& object, std::uint64_t first, std::uint64_t count,
                              const std::function<void(const PartOfRows&)>& visit) const {
  const std::vector<std::uint64_t>& begins = rows_of_parts(object).begins;
  if (const auto wrong = outside({begins.back()}, first, count); !wrong.empty()) fail_read(object, wrong);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::uint64_t from = std::max(first, begins[i]), to = std::min(first + count, begins[i + 1]);
    if (from < to) visit({.file = parts[i], .first = from - begins[i], .count = to - from, .before = from - first});
  }
}

}  // namespace unisono::data::hdf5
