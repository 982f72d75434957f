#include <fmt/format.h>

#include <optional>

#include "dense/set.hpp"
#include "set/agreement.hpp"
#include "set/seal.hpp"
#include "sparse/set.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

void check_order(const DataSettings& settings, SetKind kind) {
  if (settings.order != Order::strata || kind == SetKind::ratings) return;
  const std::string_view by = settings.strata_set_by;
  throw ConfigError(fmt::format("{}data.order = \"strata\" {} ratings, but {} holds {}; choose another {}order",
                                by.empty() ? "" : fmt::format("{} and ", by), by.empty() ? "needs" : "need",
                                settings.path, name_of(kind), by.empty() ? "" : "strategy and "));
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(const DataSettings& settings, std::uint64_t seed, const NodeShare& share,
                                      const Preprocessing* trained) {
  Agreement agreement(share);
  SetKind kind = SetKind::table;
  agreement.all_do([&] { check_seal(settings.path, share.node_rank, share.node_size); });
  agreement.all_do([&] {
    kind = kind_of(hdf5::File(settings.path, hdf5::File::Mode::read));
    if (trained == nullptr) check_order(settings, kind);
  });
  if (kind != SetKind::table) return open_sparse_set(settings, seed, share, trained);
  return open_table(settings, share, trained);
}

DatasetInfo inspect_dataset(const DataSettings& settings) {
  const NodeShare alone;
  Agreement agreement(alone);
  check_seal(settings.path);
  const hdf5::File file(settings.path, hdf5::File::Mode::read);
  const SetKind kind = kind_of(file);
  check_order(settings, kind);
  if (kind != SetKind::table) return inspect_sparse_set(settings, file);
  return inspect_table(settings, file);
}

}  // namespace unisono::data
