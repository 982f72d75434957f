#include "set/joined.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "set/external.hpp"
#include "sparse/schema.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/file_pattern.hpp"
#include "unisono/data/dataset.hpp"

namespace unisono::data {
namespace {

/// \throws DataError "FILE: WHAT, unlike OTHER; ADVICE"
[[noreturn]] void fail(const hdf5::File& file, const hdf5::File& other, const std::string& what,
                       const std::string& advice) {
  throw DataError(fmt::format("{}: {}, unlike {}; {}", file.path(), what, other.path(), advice));
}

template <typename T>
bool has_same_attribute(const hdf5::File& file, const hdf5::File& other, const std::string& object,
                        const std::string& name) {
  const bool there = file.has_attribute(object, name);
  if (there != other.has_attribute(object, name)) return false;
  return !there || file.read_attribute<T>(object, name) == other.read_attribute<T>(object, name);
}

/// What values stand for is the same in both files.
void require_same_meaning(const hdf5::File& file, const hdf5::File& other, const std::string& dataset) {
  const bool same = has_same_attribute<double>(file, other, dataset, "scale") &&
                    has_same_attribute<double>(file, other, dataset, "offset") &&
                    has_same_attribute<std::string>(file, other, dataset, "layout") &&
                    has_same_attribute<std::vector<std::string>>(file, other, dataset, "feature_names");
  if (same) return;
  fail(file, other, fmt::format("/{} has other attributes (scale, offset, layout, feature_names)", dataset),
       "make all files of a set in the same way");
}

void require_same_rows(const hdf5::File& file, const hdf5::File& other, const std::string& dataset) {
  const hdf5::DatasetShape own = file.shape(dataset), its = other.shape(dataset);
  const auto row_of = [](const hdf5::DatasetShape& shape) {
    return std::vector<std::uint64_t>(shape.extent.begin() + std::min<std::ptrdiff_t>(1, std::ssize(shape.extent)),
                                      shape.extent.end());
  };
  if (own.type == its.type && own.extent.size() == its.extent.size() && row_of(own) == row_of(its)) {
    return require_same_meaning(file, other, dataset);
  }
  fail(file, other,
       fmt::format("/{} has shape {} and type {} where the other has {} and {}", dataset, own.extent,
                   hdf5::name_of(own.type), its.extent, hdf5::name_of(its.type)),
       "only the first extent may differ");
}

void require_same_group(const hdf5::File& file, const hdf5::File& other, const std::string& group) {
  const std::vector<std::string> own = file.children(group), its = other.children(group);
  if (own != its) {
    fail(file, other,
         fmt::format("/{} holds {}, where the other holds {}", group, fmt::join(own, ", "), fmt::join(its, ", ")),
         "all files of a set need the same datasets");
  }
  for (const std::string& name : own) {
    const std::string object = group + "/" + name;
    const bool is_dataset = file.is_dataset(object);
    if (is_dataset != other.is_dataset(object)) {
      fail(file, other, fmt::format("/{} is a {}", object, is_dataset ? "dataset" : "group"), "make all in one way");
    }
    if (is_dataset) require_same_rows(file, other, object);
  }
}

/// What is said of the whole set: classes, and how the importer made features.
void require_same_set(const hdf5::File& file, const hdf5::File& other) {
  if (!has_same_attribute<std::int64_t>(file, other, "", "classes") ||
      !has_same_attribute<std::vector<std::string>>(file, other, "", "class_names")) {
    fail(file, other, "has other classes", "give all files of a set the same attributes classes and class_names");
  }
  if (!has_same_attribute<std::vector<std::string>>(file, other, "", "label_names")) {
    fail(file, other, "has other labels", "give all files of a set the same attribute label_names");
  }
  const auto recipe_of = [](const hdf5::File& one) {
    return one.exists("recipe") ? one.read<std::uint8_t>("recipe") : std::vector<std::uint8_t>();
  };
  if (recipe_of(file) == recipe_of(other)) return;
  fail(file, other, "was imported in another way: its /recipe differs",
       "import the raw files together, 'unisono data import' takes several");
}

}  // namespace

hdf5::File open_joined(const std::string& pattern, bool external_files) {
  std::vector<hdf5::File> parts;
  std::vector<std::string> groups;
  for (const Split split : kSplits) groups.emplace_back(name_of(split));
  for (const std::string& path : files_of(pattern)) {
    parts.push_back(open_set_file(path, external_files));
    const hdf5::File& file = parts.back();
    if (const SetKind kind = kind_of(file); kind != SetKind::table) {
      throw DataError(
          fmt::format("{}: holds {}, but only tables and pictures can be several files; import the raw "
                      "files as one set",
                      path, name_of(kind)));
    }
    require_same_set(file, parts.front());
    for (const std::string& group : groups) {
      const auto with_it = [&](const hdf5::File& one) { return one.exists(group); };
      if (with_it(file)) require_same_group(file, *std::ranges::find_if(parts, with_it), group);
    }
  }
  if (parts.empty()) {
    throw DataError(fmt::format("{}: no file has a name like this; check the path and its wildcards", pattern));
  }
  return hdf5::File::join(pattern, std::move(parts), std::move(groups));
}

}  // namespace unisono::data
