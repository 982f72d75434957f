#include <fmt/format.h>

#include <array>
#include <optional>
#include <set>

#include "import/libsvm_rows.hpp"
#include "import/raw_formats.hpp"
#include "import/set_writer.hpp"
#include "recipe/encoder.hpp"
#include "recipe/recipe_file.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kMostClassNames = 4000;  // an attribute of HDF5 holds 64 KiB: 16 bytes a name

void check_options(const LibsvmOptions& options) {
  if (options.columns < 0 || options.columns > kMostColumns)
    throw ConfigError(
        fmt::format("--columns {}: it must be a number from 1 to 2³² − 1, or 0 to detect it", options.columns));
}

using Classes = std::map<double, std::int32_t>;

/// How the examples become a set.
struct Plan {
  std::int64_t base = 1, columns = 0;
  bool all_ones = false, answers = true;
  Classes classes;  ///< empty: targets
};

struct SparseGroupSize {
  std::uint64_t rows = 0, nonzeros = 0;
};

/// A group's dataset of each kind, in the layout of scipy's CSR matrices.
class SparseGroupWriter {
 public:
  SparseGroupWriter(SetWriter& writer, Split split, const SparseGroupSize& size, const Plan& plan)
      : plan_(plan),
        indptr_(writer, path(split, "features/indptr"), size.rows + 1),
        indices_(writer, path(split, "features/indices"), size.nonzeros) {
    if (!plan.all_ones) data_.emplace(writer, path(split, "features/data"), size.nonzeros);
    if (plan.answers && plan.classes.empty()) targets_.emplace(writer, path(split, "targets"), size.rows);
    if (plan.answers && !plan.classes.empty()) labels_.emplace(writer, path(split, "labels"), size.rows);
    writer.file().write_attribute(path(split, "features"), "columns", plan.columns);
    indptr_.add(0);
  }

  void add(const LibsvmRow& row) {
    nonzeros_ += row.indices.size();
    indptr_.add(nonzeros_);
    for (const std::uint32_t index : row.indices) indices_.add(index - static_cast<std::uint32_t>(plan_.base));
    if (data_) data_->add(std::span(row.values));
    if (labels_) labels_->add(plan_.classes.at(row.label));
    if (targets_) targets_->add(static_cast<float>(row.label));
  }

  void finish() {
    indptr_.finish();
    indices_.finish();
    if (data_) data_->finish();
    if (labels_) labels_->finish();
    if (targets_) targets_->finish();
  }

 private:
  static std::string path(Split split, const char* dataset) { return fmt::format("{}/{}", name_of(split), dataset); }

  const Plan& plan_;
  std::uint64_t nonzeros_ = 0;
  ColumnWriter<std::uint64_t> indptr_;
  ColumnWriter<std::uint32_t> indices_;
  std::optional<ColumnWriter<float>> data_, targets_;
  std::optional<ColumnWriter<std::int32_t>> labels_;
};

using VisitLibsvmRow = std::function<void(Split, const LibsvmRow&)>;

void for_each_row_of_split(SpilledExamples& training, SpilledExamples& test, const RandomSplit& split,
                           const VisitLibsvmRow& visit) {
  training.for_each([&](std::int64_t number, const LibsvmRow& row) { visit(split.of(number), row); });
  test.for_each([&](std::int64_t, const LibsvmRow& row) { visit(Split::test, row); });
}

std::array<SparseGroupSize, 3> measure_groups(SpilledExamples& training, SpilledExamples& test,
                                              const RandomSplit& split) {
  std::array<SparseGroupSize, 3> sizes;
  for_each_row_of_split(training, test, split, [&](Split to, const LibsvmRow& row) {
    SparseGroupSize& size = sizes[static_cast<std::size_t>(to)];
    ++size.rows;
    size.nonzeros += row.indices.size();
  });
  return sizes;
}

/// \param visit_all calls what it gets for each example and the group that it belongs to
void write_groups(const std::function<void(const VisitLibsvmRow&)>& visit_all,
                  const std::array<SparseGroupSize, 3>& sizes, const Plan& plan, SetWriter& writer) {
  std::array<std::optional<SparseGroupWriter>, 3> groups;
  for (const Split to : {Split::train, Split::validation, Split::test}) {
    const auto i = static_cast<std::size_t>(to);
    if (sizes[i].rows > 0) groups[i].emplace(writer, to, sizes[i], plan);
  }
  visit_all([&](Split to, const LibsvmRow& row) { groups[static_cast<std::size_t>(to)]->add(row); });
  for (auto& group : groups) {
    if (group) group->finish();
  }
}

std::vector<std::string> name_classes(const Classes& classes) {
  std::vector<std::string> names;
  for (const auto& [label, number] : classes) names.push_back(fmt::format("{:.0f}", label));
  return names;
}

void write_classes(const std::vector<std::string>& names, hdf5::File& file) {
  if (names.empty()) return;
  file.write_attribute("", "classes", static_cast<std::int64_t>(names.size()));
  if (names.size() <= kMostClassNames) file.write_attribute("", "class_names", names);
}

SparseSummary summarize(const Plan& plan, const std::array<SparseGroupSize, 3>& sizes, const std::string& path) {
  SparseSummary summary{.path = path, .columns = plan.columns, .base = plan.base, .all_ones = plan.all_ones};
  summary.train = static_cast<std::int64_t>(sizes[0].rows);
  summary.validation = static_cast<std::int64_t>(sizes[1].rows);
  summary.test = static_cast<std::int64_t>(sizes[2].rows);
  for (const SparseGroupSize& size : sizes) summary.nonzeros += static_cast<std::int64_t>(size.nonzeros);
  summary.classes = name_classes(plan.classes);
  return summary;
}

/// The classes that the model knows, by the labels that name them.
Classes trained_classes(const Preprocessing& trained, const std::set<double>& labels) {
  const LevelIndex known(trained.class_names);
  Classes classes;
  for (const double label : labels) {
    if (const auto number = known.find(fmt::format("{}", label))) {
      classes.emplace(label, static_cast<std::int32_t>(*number));
    }
  }
  return classes;
}

std::int64_t base_of(const std::string& path, const Preprocessing& trained) {
  if (trained.recipe.base) return *trained.recipe.base;
  throw DataError(
      fmt::format("{}: the training set does not record which index its first column had; import the file with "
                  "'unisono data import libsvm --base', and give it with --data",
                  path));
}

void require_columns(const LibsvmFindings& found, const Plan& plan) {
  if (found.largest_at.empty() || std::int64_t{found.largest} - plan.base < plan.columns) return;
  throw DataError(
      fmt::format("{}: the index {} is beyond the {} columns that the model was trained on, the first of which "
                  "has the index {}",
                  found.largest_at, found.largest, plan.columns, plan.base));
}

}  // namespace

std::string write_raw_rows(const std::string& path, const RawForm& form, const ImportOutput& output) {
  const Preprocessing& trained = form.preprocessing;
  Plan plan;
  plan.base = base_of(path, trained);
  plan.columns = form.features.channels;
  LibsvmOptions options;
  options.base = plan.base == 0 ? IndexBase::zero : IndexBase::one;
  options.task = Task::regression;  // any number may stand where a label is
  LibsvmFindings found;
  SpilledExamples rows(output.path), none(output.path);
  std::set<double> labels;
  const LevelIndex known_labels(trained.class_names);
  std::string unknown;  // the first label that is not one of the classes, with its place
  read_libsvm(*text_of(path)(), options, found, nullptr, [&](const LibsvmRow& row) {
    const bool is_first = labels.size() <= trained.class_names.size() && labels.insert(row.label).second;
    if (is_first && unknown.empty() && !known_labels.find(fmt::format("{}", row.label)))
      unknown = fmt::format("{}:{}:{}: the label {}", path, row.line, row.label_at, row.label);
    rows.add(row);
  });
  require_columns(found, plan);
  plan.all_ones = found.all_ones;
  plan.classes = trained_classes(trained, labels);
  const bool known = trained.class_names.empty() || plan.classes.size() == labels.size();
  plan.answers = known;
  SetWriter writer(output);
  std::array<SparseGroupSize, 3> sizes;
  SparseGroupSize& test = sizes[static_cast<std::size_t>(Split::test)];
  rows.for_each([&](std::int64_t, const LibsvmRow& row) {
    ++test.rows;
    test.nonzeros += row.indices.size();
  });
  const auto visit_all = [&](const VisitLibsvmRow& visit) {
    rows.for_each([&](std::int64_t, const LibsvmRow& row) { visit(Split::test, row); });
  };
  write_groups(visit_all, sizes, plan, writer);
  if (known) write_classes(trained.class_names, writer.file());
  write_recipe(writer.file(), {.base = plan.base});
  writer.finish();
  return known ? ""
               : fmt::format("{} is not one of the classes that the model was trained on ({})", unknown,
                             listed(trained.class_names));
}

SparseSummary import_libsvm(const std::vector<std::string>& paths, const LibsvmOptions& options,
                            const ImportOutput& output) {
  check_options(options);
  const Shares shares = shares_of(options);
  check_shares(shares, "examples", options.test_file);
  SetWriter writer(output);

  LibsvmFindings found;
  SpilledExamples training(output.path), test(output.path);
  const auto read = [&](const std::string& path, const Classes* classes, SpilledExamples& rows) {
    read_libsvm(*text_of(path)(), options, found, classes, [&rows](const LibsvmRow& row) { rows.add(row); });
  };
  for (const std::string& path : paths) read(path, nullptr, training);
  Plan plan;
  plan.classes = decide_classes(found, options, paths[0]);
  const std::string lost = lost_in_float_text(found.lowest_label, found.highest_label, found.label_rounding);
  if (plan.classes.empty() && !lost.empty()) throw DataError(fmt::format("{}: the target: {}", paths[0], lost));
  if (!options.test_file.empty()) read(options.test_file, &plan.classes, test);
  plan.base = decide_base(found, options);
  plan.columns = decide_columns(found, options, paths[0]);
  plan.all_ones = found.all_ones;

  const RandomSplit split(training.size(), shares);
  const std::array<SparseGroupSize, 3> sizes = measure_groups(training, test, split);
  if (sizes[0].rows == 0)
    throw DataError(fmt::format("{}: no examples are left for training (the files have {}); use smaller fractions",
                                paths[0], training.size()));
  ClassCounts counts(plan.classes.size());
  const auto visit_all = [&](const VisitLibsvmRow& visit) {
    for_each_row_of_split(training, test, split, [&](Split to, const LibsvmRow& row) {
      if (!plan.classes.empty()) counts.add(to, plan.classes.at(row.label));
      visit(to, row);
    });
  };
  write_groups(visit_all, sizes, plan, writer);
  SparseSummary summary = summarize(plan, sizes, output.path);
  summary.warnings = counts.warnings(output.path, summary.classes, "example");
  write_classes(summary.classes, writer.file());
  write_recipe(writer.file(), {.scaling = options.scale, .base = plan.base});
  writer.finish();
  return summary;
}

}  // namespace unisono::data
