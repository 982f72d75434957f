#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "order/schedule.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/data/hdf5.hpp"

// What the views of folds of all kinds of sets share.

namespace unisono::data {

/// \throws ConfigError saying why the set has no views of folds
void require_folds_possible(const DataSettings& settings, SetKind kind, bool resident);

/// Checks that a fold's rows ascend, lie in [0, rows), and are in one part only, and that it has training rows.
/// \throws DataError
void require_fold(const Fold& fold, std::int64_t rows, const std::string& path);

FileRows runs_of(std::span<const std::int64_t> rows);

/// Whether a file says to which group each of its training examples belongs, in /train/groups. \param rows of the group
/// 'train' \throws DataError for groups of other examples than those
bool has_groups(const hdf5::File& file, std::int64_t rows);

/// A division of training examples by groups.
struct GroupDivision {
  Fold fold;
  std::int64_t groups = 0, held_out = 0;
};

/// The division that data.validation_fraction and data.split_by ask for, where whole groups are held out; nothing: rows
/// are, or none. Groups come in a random order, a function of data.split_seed; each is held out if at least half of it
/// still fits into the fraction. \param rows of the group 'train'
/// \throws DataError where there are no groups, or none of them is small enough
std::optional<GroupDivision> divide_by_groups(const DataSettings& settings, const hdf5::File& file, std::int64_t rows);

/// DatasetInfo::identity of a fold of a set.
std::uint64_t identity_of(const Fold& fold, std::uint64_t set);

/// Copies that views of folds need of their rows: those of the same fold share one, as long as one of them lives. Its
/// member may be called by several threads.
template <typename Copy>
class FoldCopies {
 public:
  /// \param fold its identity \param make called if there is no copy
  std::shared_ptr<const Copy> get(std::uint64_t fold, const std::function<std::shared_ptr<const Copy>()>& make) {
    if (auto copy = find(fold)) return copy;
    auto made = make();  // without the lock: threads that copy different folds need not wait for each other
    const std::scoped_lock lock(mutex_);
    std::erase_if(copies_, [](const auto& one) { return one.second.expired(); });
    copies_.emplace_back(fold, made);
    return made;
  }

 private:
  std::shared_ptr<const Copy> find(std::uint64_t fold) {
    const std::scoped_lock lock(mutex_);
    for (const auto& [identity, copy] : copies_) {
      if (identity != fold) continue;
      if (auto held = copy.lock()) return held;
    }
    return nullptr;
  }

  std::mutex mutex_;
  std::vector<std::pair<std::uint64_t, std::weak_ptr<const Copy>>> copies_;
};

}  // namespace unisono::data
