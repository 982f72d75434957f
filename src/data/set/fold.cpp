#include "set/fold.hpp"

#include <fmt/format.h>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::data {
namespace {

void require_rows(std::span<const std::int64_t> part, std::int64_t rows, const std::string& path) {
  std::int64_t before = -1;
  for (const std::int64_t row : part) {
    if (row <= before || row >= rows) {
      throw DataError(fmt::format("{}: a fold has row {} after row {}; its rows must ascend and lie in [0, {})", path,
                                  row, before, rows));
    }
    before = row;
  }
}

}  // namespace

void require_folds_possible(const DataSettings& settings, SetKind kind, bool resident) {
  if (kind == SetKind::text || kind == SetKind::cooccurrences) {
    throw ConfigError(
        fmt::format("data.path: {} holds {}, which cannot be divided into folds", settings.path, name_of(kind)));
  }
  if (!resident) {
    throw ConfigError(
        fmt::format("data.reader: folds need the data set in memory, but {} is streamed; set data.reader "
                    "= \"resident\"",
                    settings.path));
  }
  if (kind == SetKind::table && settings.partition == Partition::fixed) {
    throw ConfigError("data.partition = \"fixed\": folds need one copy of the whole set; use \"global\"");
  }
  if (settings.validation_fraction > 0) {
    throw ConfigError(fmt::format("data.validation_fraction = {}: the folds say which examples are held out; remove it",
                                  settings.validation_fraction));
  }
}

void require_fold(const Fold& fold, std::int64_t rows, const std::string& path) {
  if (fold.train.empty()) throw DataError(fmt::format("{}: a fold has no training examples", path));
  require_rows(fold.train, rows, path);
  require_rows(fold.validation, rows, path);
  auto train = fold.train.begin();
  for (const std::int64_t row : fold.validation) {
    train = std::lower_bound(train, fold.train.end(), row);
    if (train != fold.train.end() && *train == row) {
      throw DataError(fmt::format("{}: a fold has row {} for training and for validation", path, row));
    }
  }
}

FileRows runs_of(std::span<const std::int64_t> rows) {
  FileRows runs;
  for (const std::int64_t row : rows) runs.append(row, 1);
  runs.index();
  return runs;
}

std::uint64_t identity_of(const Fold& fold, std::uint64_t set) {
  const std::uint64_t train = hash_bytes(std::as_bytes(std::span(fold.train)), set);
  return hash_bytes(std::as_bytes(std::span(fold.validation)), train);
}

}  // namespace unisono::data
