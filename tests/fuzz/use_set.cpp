#include "use_set.hpp"

#include <filesystem>
#include <functional>

#include "unisono/base/errors.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/data/dictionary.hpp"
#include "unisono/data/import.hpp"

namespace unisono::test {
namespace {

constexpr std::int64_t kMostSteps = 64;          // a damaged extent may tell of very many
constexpr std::int64_t kMostColumns = 16 << 20;  // a model takes memory for each, and so do their counts

/// Every value of a batch is looked at, so that memory that is not there is noticed.
double look_at(const data::Batch& batch) {
  double sum = 0;
  for (const float value : batch.features) sum += static_cast<double>(value);
  for (const float value : batch.targets) sum += static_cast<double>(value);
  for (const std::int32_t label : batch.labels) sum += label;
  for (const std::int32_t token : batch.tokens) sum += token;
  for (const std::int32_t length : batch.lengths) sum += length;
  return sum;
}

/// \param context of a set of tokens; other sets refuse it, and those of tokens refuse 0
void read_batches(const std::string& path, unisono::data::Reader reader, std::int64_t context) {
  data::DataSettings settings;
  settings.path = path;
  settings.reader = reader;
  settings.context = context;
  const auto set = data::open_dataset(settings, 1);
  if (set->info().columns < kMostColumns) set->occurrences();
  const auto source = set->train({.batch_size = 16});
  volatile double sum = 0;
  for (std::int64_t step = 0; step < std::min(source->steps_per_epoch(), kMostSteps); ++step)
    sum = sum + look_at(source->next());
  for (const data::Split split : {data::Split::validation, data::Split::test}) {
    if (set->info().targets[static_cast<std::size_t>(split)].labels == false &&
        (split == data::Split::validation ? set->info().validation : set->info().test) == 0)
      continue;
    const auto evaluation = set->evaluate(split, 0, 1, 16);
    for (std::int64_t step = 0; step < kMostSteps; ++step) {
      const auto batch = evaluation->next();
      if (!batch) break;
      sum = sum + look_at(*batch);
    }
  }
}

/// Reads arrays out of a file of any layout.
void import_arrays(const std::string& path, const std::string& features, const std::string& labels) {
  const std::string output = path + ".imported";
  std::filesystem::remove(output);
  data::import_hdf5({path}, {.features = {features}, .labels = {labels}, .test_fraction = 0.2}, {.path = output});
  std::filesystem::remove(output);
}

}  // namespace

int use_set(const std::string& path) {
  int refused = 0;
  const auto attempt = [&refused](const std::function<void()>& use) {
    try {
      use();
    } catch (const DataError&) {
      ++refused;
    } catch (const ConfigError&) {  // a sparse set is not streamed, and has no context
    }
  };
  attempt([&] { data::read_dictionary(path); });
  attempt([&] { data::describe_set(path); });
  attempt([&] {
    data::DataSettings settings;
    settings.path = path;
    data::inspect_dataset(settings);
  });
  attempt([&] { import_arrays(path, "/X", "/y"); });
  attempt([&] { import_arrays(path, "/train/features", "/train/labels"); });
  for (const std::int64_t context : {0, 4}) {
    attempt([&] { read_batches(path, unisono::data::Reader::resident, context); });
    attempt([&] { read_batches(path, unisono::data::Reader::streaming, context); });
  }
  return refused;
}

}  // namespace unisono::test
