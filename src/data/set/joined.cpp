#include "set/joined.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

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

template <typename T>
void require_same_attribute(const hdf5::File& file, const hdf5::File& other, const std::string& dataset,
                            const std::string& name) {
  if (has_same_attribute<T>(file, other, dataset, name)) return;
  fail(file, other, fmt::format("/{} has another attribute '{}'", dataset, name),
       "make all files of a set in the same way");
}

/// What values stand for is the same in both files.
void require_same_meaning(const hdf5::File& file, const hdf5::File& other, const std::string& dataset) {
  require_same_attribute<double>(file, other, dataset, "scale");
  require_same_attribute<double>(file, other, dataset, "offset");
  require_same_attribute<std::string>(file, other, dataset, "layout");
  require_same_attribute<std::vector<std::string>>(file, other, dataset, "feature_names");
}

std::uint64_t rows_in(const hdf5::File& file, const std::string& object) {
  return file.is_dataset(object) ? file.shape(object).rows() : file.count_strings(object);
}

/// Each file is a set: what it says of its examples, it says of each. Sums over all files might fit by chance.
void require_own_rows(const hdf5::File& file, const std::string& group) {
  const std::string examples = group + (file.exists(group + "/ends") ? "/ends" : "/features");
  if (!file.exists(examples)) return;  // the reader of the set says so
  for (const std::string& name : file.children(group)) {
    const std::string object = group + "/" + name;
    if (name == "pictures" || object == examples || rows_in(file, object) == rows_in(file, examples)) continue;
    throw DataError(fmt::format("{}: /{} holds {}, but /{} {}; each file of a set needs one for each of its examples",
                                file.path(), object,
                                count_of(static_cast<std::int64_t>(rows_in(file, object)), "value"), examples,
                                count_of(static_cast<std::int64_t>(rows_in(file, examples)), "example")));
  }
}

/// Files stay open; systems allow some hundred of them at first, and more where a process asks. \throws DataError where
/// not even the set's files can be open at the same time
void allow_files(const std::string& pattern, std::size_t files) {
  constexpr rlim_t kOthers = 128;             // libraries, sockets, the run's own
  const rlim_t wanted = 3 * files + kOthers;  // as often as a set is opened at the same time
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, wanted);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max > files) return;
  throw DataError(
      fmt::format("{}: {}, which are open at the same time, but a process may open {} here; raise the limit "
                  "(ulimit -Hn), or join files",
                  pattern, count_of(static_cast<std::int64_t>(files), "file"), limit.rlim_max));
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
    fail(file, other, fmt::format("/{} holds {} and not {}", group, fmt::join(own, ", "), fmt::join(its, ", ")),
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
  const std::vector<std::string> paths = files_of(pattern);
  allow_files(pattern, paths.size());
  for (const std::string& path : paths) {
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
      if (with_it(file)) require_own_rows(file, group);
      if (with_it(file)) require_same_group(file, *std::ranges::find_if(parts, with_it), group);
    }
  }
  if (parts.empty()) {
    throw DataError(fmt::format("{}: no file has a name like this; check the path and its wildcards", pattern));
  }
  return hdf5::File::join(pattern, std::move(parts), std::move(groups));
}

}  // namespace unisono::data
