#include "unisono/apply/trained_model.hpp"
#include "unisono/data/tokenizer.hpp"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "unisono/data/hdf5.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/evaluation.hpp"
#include "unisono/session/run_checks.hpp"
#include "unisono/session/run_state.hpp"

namespace unisono::apply {
namespace {

settings::Config config_of(const std::string& path, const session::CheckpointHeader& header,
                           const ApplyOptions& options) {
  settings::Config config = settings::parse_config(
      ConfigText{.path = path + " (its config)", .text = header.config, .overrides = {}}, options.models);
  config.train.threads = options.threads;
  config.device = options.device;
  config.allow_shared_device = true;  // nothing is timed
  config.replica = {};                // each rank holds the whole model
  config.strategy = {};               // nothing is trained: threads are as many as the line above says
  const std::filesystem::path run = std::filesystem::absolute(path).parent_path().parent_path();
  config.data.is_training_set = options.input.empty() && (options.data.empty() || options.data == config.data.path);
  config.data.path = options.data.empty() ? records::find_data(run.string(), config.data.path) : options.data;
  if (header.config.find("split_seed") == std::string::npos) {  // an earlier version, which split by `seed`
    config.data.split_seed = static_cast<std::int64_t>(header.seed);
    config.data.stratify = false;
  }
  if (settings::value_of_key(header.config, "data.split_by").empty())
    config.data.split_by = data::SplitBy::rows;  // an earlier version, which did not keep groups together
  // Which examples were held out depends on the reader.
  if (config.data.validation_fraction > 0)
    config.data.reader = header.resident ? data::Reader::resident : data::Reader::streaming;
  return config;
}

data::Split split_of(const std::string& name, const data::DatasetInfo& info, const std::string& path) {
  constexpr std::array preferred = {data::Split::test, data::Split::validation, data::Split::train};
  for (const data::Split split : preferred) {
    const bool wanted = name.empty() || name == data::name_of(split);
    if (wanted && session::examples_of(info, split) > 0) return split;
  }
  throw DataError(
      fmt::format("{}: has no examples to test with{}; name another split with --split, or another file with "
                  "--data",
                  path, name.empty() ? "" : fmt::format(" in '{}'", name)));
}

constexpr std::string_view kLikeTheOther = "use a set like the training set";

/// Checks that the set has no larger numbers (of words, users, items) than the model has rows.
void require_lines(const models::ModelInputs& model, const data::DatasetInfo& data, const std::string& path) {
  const auto check = [&](Index there, Index known, std::string_view what) {
    if (there <= known) return;
    throw DataError(
        fmt::format("{}: has {} {}, but the model was trained for {}; {}", path, there, what, known, kLikeTheOther));
  };
  const bool ratings = data.kind == data::SetKind::ratings;
  check(data.rows, model.rows, ratings ? "users" : data.kind == data::SetKind::tokens ? "tokens" : "words");
  check(data.columns, model.columns, data.kind == data::SetKind::sparse ? "columns" : ratings ? "items" : "words");
}

void require_features(const models::ModelInputs& trained, const data::DatasetInfo& info, const std::string& path) {
  if (trained.kind != info.kind) {
    throw DataError(fmt::format("{}: holds {}, but the model was trained on {}; {}", path, data::name_of(info.kind),
                                data::name_of(trained.kind), kLikeTheOther));
  }
  if (info.kind != data::SetKind::table) return require_lines(trained, info, path);
  const data::FeatureShape &model = trained.features, &data = info.features;
  if (model == data) return;
  throw DataError(fmt::format("{}: its examples are {}×{}×{}, but the model takes {}×{}×{}; {}", path, data.channels,
                              data.height, data.width, model.channels, model.height, model.width, kLikeTheOther));
}

/// Losses of text depend on what is drawn by the words' counts; other models read what they need from the batches.
data::Dataset* needed_by(const models::ModelInputs& inputs, const session::SharedDataset* data) {
  return data != nullptr && inputs.kind == data::SetKind::text ? &**data : nullptr;
}

std::int64_t stride_of(const ApplyOptions& options, const models::ModelInputs& inputs) {
  if (options.stride == 0) return 0;
  if (inputs.kind != data::SetKind::tokens || inputs.classes > 0) {
    throw ConfigError(fmt::format("--stride: {} is no language model; leave it out", options.model));
  }
  if (options.stride <= inputs.context) return options.stride;
  throw ConfigError(
      fmt::format("--stride {}: the model sees {} tokens at once, so that windows further apart would "
                  "leave tokens out; use {} at most",
                  options.stride, inputs.context, inputs.context));
}

bool is_hdf5_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && data::hdf5::is_hdf5(path);
}

}  // namespace

TrainedModel::TrainedModel(comm::Communicator& world, const ApplyOptions& options, Log& log, With with)
    : checkpoint(session::find_checkpoint(world, options.model, log)),
      config(config_of(checkpoint.path, checkpoint.header, options)),
      threshold(options.threshold ? options.threshold : checkpoint.header.threshold),
      threshold_is_given(options.threshold.has_value()) {
  if (with == With::set) open_set(world, options, log);
  models::ModelInputs inputs = checkpoint.header.inputs;
  inputs.token_bytes = data::token_bytes_of(checkpoint.header.preprocessing.tokenizer);
  const session::NodePlace place(world);
  parts = std::make_unique<session::ModelParts>(session::ModelPlace{world, place, log}, config, inputs,
                                                needed_by(inputs, data.get()));
  if (world.is_root())
    session::require_same_model(checkpoint.path, parts->model->layout(), parts->model->statistics_layout());
  session::restore_model(*parts, checkpoint);
}

bool TrainedModel::reads_raw_file() const { return raw && raw->path() != source; }

std::string TrainedModel::data_text() const {
  return reads_raw_file() ? source : fmt::format("{} of {}", data::name_of(split), source);
}

void TrainedModel::open_set(comm::Communicator& world, const ApplyOptions& options, Log& log) {
  close_set();  // whose file has the path of the next one
  source = options.input.empty() ? config.data.path : options.input;
  if (!options.input.empty()) {
    raw = std::make_unique<RawSet>(world, options.input, checkpoint, options.scratch);
    if (raw->path() != options.input && !options.split.empty() && options.split != data::name_of(data::Split::test)) {
      throw ConfigError(fmt::format("--split {}: {} is a raw file, which has no groups; leave --split out",
                                    options.split, options.input));
    }
    config.data.path = raw->path();
    config.data.reader = data::Reader::automatic;
    config.data.validation_fraction = 0;
  }
  config.data.stride = stride_of(options, checkpoint.header.inputs);
  data = std::make_unique<session::SharedDataset>(world, config.data, checkpoint.header.seed,
                                                  &checkpoint.header.preprocessing);
  // What was held out belongs to the training set, wherever that lies now, and not to another one in its place.
  if (config.data.validation_fraction > 0 && (*data)->info().identity != checkpoint.header.data_identity) {
    config.data.validation_fraction = 0;
    config.data.is_training_set = false;
    data.reset();
    data = std::make_unique<session::SharedDataset>(world, config.data, checkpoint.header.seed,
                                                    &checkpoint.header.preprocessing);
  }
  const data::DatasetInfo& info = (*data)->info();
  comm::require_same(world, "data set", info.identity, "copy the same file to all nodes, or use a shared one");
  require_features(checkpoint.header.inputs, info, config.data.path);
  const bool other = !options.data.empty() || !options.input.empty();
  if (world.is_root() && other) session::require_same_names(checkpoint, config, config.data.path);
  const bool tells_tokens = checkpoint.header.preprocessing.tokenizer != nullptr;
  if (world.is_root() && tells_tokens && !data::has_tokenizer(config.data.path, config.data.external_files)) {
    log.warning(data::unknown_tokens_text(source, checkpoint.path));
  }
  split = split_of(options.split, info, config.data.path);
}

void TrainedModel::close_set() {
  data.reset();
  raw.reset();
}

void TrainedModel::say_left_out(Log& log) const {
  if (raw && !raw->left_out().empty()) log.warning(raw->left_out() + ": the file's labels or targets are ignored");
}

RawSet::RawSet(comm::Communicator& world, const std::string& input, const session::StoredCheckpoint& checkpoint,
               const std::string& folder) {
  if (world.is_root()) make(input, checkpoint, folder);
  path_ = world.broadcast_text(path_);
  left_out_ = world.broadcast_text(left_out_);
}

void RawSet::make(const std::string& input, const session::StoredCheckpoint& checkpoint, const std::string& folder) {
  if (is_hdf5_file(input)) {
    path_ = input;
    return;
  }
  const models::ModelInputs& inputs = checkpoint.header.inputs;
  const std::string path = data::temporary_set(folder);
  left_out_ = data::import_raw(
      input, {.kind = inputs.kind, .features = inputs.features, .preprocessing = checkpoint.header.preprocessing},
      {.path = path, .overwrite = true});
  path_ = path;
  owned_ = true;
}

RawSet::~RawSet() {
  std::error_code ignored;
  if (owned_) std::filesystem::remove(path_, ignored);
}

}  // namespace unisono::apply
