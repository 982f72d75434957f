#include "unisono/data/dataset.hpp"
#include "validation/splitters.hpp"

namespace unisono::jobs {

Folds folds_of_set(const settings::CrossValidationSettings& settings, const std::string& path) {
  std::vector<std::int32_t> labels;
  std::vector<std::int64_t> column;
  if (settings.stratified) labels = data::read_training_labels(path);
  if (const std::string name = column_of(settings); !name.empty()) column = data::read_training_column(path, name);
  return make_folds(settings, {.rows = data::count_training_rows(path), .labels = labels, .column = column});
}

}  // namespace unisono::jobs
