#include "weights/tensor_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "checkpoint/checkpoint_store.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::session {
namespace {

namespace fs = std::filesystem;

/// The file in a folder; empty: there is none.
std::string file_in(const std::string& folder) {
  std::error_code ignored;
  for (const char* const name : {"model.safetensors", "model.safetensors.index.json"}) {
    const fs::path file = fs::path(folder) / name;
    if (fs::is_regular_file(file, ignored)) return file.string();
  }
  return "";
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// What is wrong with a file of weights is wrong with a checkpoint.
template <typename Read>
auto as_checkpoint(Read read) {
  try {
    return read();
  } catch (const DataError& error) {
    throw CheckpointError(error.what());
  }
}

std::string to_text(const data::StoredTensors& tensors) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [name, tensor] : tensors) {
    list.push_back({name, tensor.file, tensor.type, tensor.shape, tensor.first_byte, tensor.format, tensor.name,
                    tensor.group, tensor.number});
  }
  return list.dump();
}

data::StoredTensors from_text(const std::string& text) {
  data::StoredTensors tensors;
  for (const auto& entry : nlohmann::json::parse(text)) {
    tensors[entry[0]] = {.file = entry[1],
                         .type = entry[2],
                         .shape = entry[3],
                         .first_byte = entry[4],
                         .format = entry[5],
                         .name = entry[6],
                         .group = entry[7],
                         .number = entry[8]};
  }
  return tensors;
}

/// y[j, i] = x[i, j]. \param x [rows, columns]
void transpose(View x, std::size_t rows, std::size_t columns, MutableView y) {
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) y[j * rows + i] = x[i * columns + j];
  }
}

/// Reads a whole block. \param canonical [block.size()], overwritten
void read_block(const data::StoredTensors& stored, const Block& block, const std::vector<TensorRows>& tensors,
                MutableView canonical) {
  const auto row = static_cast<std::size_t>(block.row_size());
  std::vector<float> columns;
  for (const TensorRows& part : tensors) {
    const auto rows = static_cast<std::size_t>(part.rows);
    const MutableView own = canonical.subspan(static_cast<std::size_t>(part.first) * row, rows * row);
    columns.resize(part.transposed ? own.size() : 0);
    const data::StoredTensor& tensor = stored.at(part.tensor);
    data::read_tensor(tensor.name, tensor, 0, part.transposed ? MutableView(columns) : own);
    if (part.transposed) transpose(columns, row, rows, own);
  }
}

/// The numbers of a box. \param canonical [block.size()]
std::vector<float> numbers_of(const Block& block, const Box& box, View canonical) {
  std::vector<float> packed;
  packed.reserve(static_cast<std::size_t>(size_of(box)));
  for_each_run(block, box, [&](Index position, Index step, Index count) {
    for (Index i = 0; i < count; ++i) packed.push_back(canonical[static_cast<std::size_t>(position + i * step)]);
  });
  return packed;
}

/// \throws DataError for running variances below 0
void require_variances(const Block& block, const TensorRows& tensor, const data::StoredTensors& stored,
                       View canonical) {
  const bool are_variances = block.role == Role::statistic && block.name.ends_with(".variance");
  if (!are_variances || std::ranges::none_of(canonical, [](float number) { return number < 0; })) return;
  const data::StoredTensor& there = stored.at(tensor.tensor);
  throw DataError(
      fmt::format("{}: tensor '{}' holds running variances, but some are below 0; correct them, or name "
                  "another file",
                  there.file, there.name));
}

/// Reads block by block what this rank holds of a vector.
void read_held(const data::StoredTensors& stored, const TensorFit& fit, const StoredVector& vector) {
  std::vector<Shard> shards = vector.holding->shards();
  std::erase_if(shards, [&](const Shard& shard) { return !fit.blocks[shard.block]; });
  std::ranges::stable_sort(shards, {}, &Shard::block);
  std::vector<float> canonical;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::size_t number = shards[i].block;
    const Block& block = vector.layout().blocks()[number];
    if (i == 0 || shards[i - 1].block != number) {
      canonical.resize(static_cast<std::size_t>(block.size()));
      read_block(stored, block, fit.names.blocks[number], canonical);
      require_variances(block, fit.names.blocks[number].front(), stored, canonical);
    }
    unpack(shards[i].place, numbers_of(block, shards[i].box, canonical), vector.values);
  }
}

}  // namespace

bool names_tensors(const std::string& path) {
  if (!is_folder(path)) return data::names_tensor_file(path);
  return !file_in(path).empty() && checkpoints_in(records::checkpoints_of(path)).empty();
}

data::StoredTensors read_tensors(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw CheckpointError(
        fmt::format("{}: there is no such file; name a run, a checkpoint or a file of weights", path));
  }
  return as_checkpoint([&] { return data::read_tensors(is_folder(path) ? file_in(path) : path); });
}

TensorFile open_tensors(comm::Communicator& ranks, const std::string& path) {
  std::string text;
  if (ranks.is_root()) text = to_text(read_tensors(path));
  // Before the aggregate: where an initialiser throws, as here while another rank fails, g++ 12 destroys the members of
  // a nested one twice.
  data::StoredTensors tensors = from_text(ranks.broadcast_text(text));
  const bool seen_by_all = all_see(ranks, path);
  return {.file = {.path = path, .seen_by_all = seen_by_all}, .tensors = std::move(tensors)};
}

void read_tensors(comm::Communicator& ranks, const StoredFile& file, const data::StoredTensors& tensors,
                  const TensorFit& fit, const StoredVector& vector) {
  if (std::ranges::count(fit.blocks, true) == 0) return;
  read_by_ranks(ranks, file, vector,
                [&](const StoredVector& plain) { as_checkpoint([&] { read_held(tensors, fit, plain); }); });
}

std::vector<float> numbers_of(const std::string& name, const data::StoredTensor& tensor) {
  std::vector<float> numbers(static_cast<std::size_t>(tensor.size()));
  as_checkpoint([&] { data::read_tensor(name, tensor, 0, numbers); });
  return numbers;
}

void require_same_head(const std::string& path, const data::StoredTensors& tensors, const TensorFit& fit) {
  if (!fit.compares_head) return;
  constexpr Index kAtOnce = 1 << 20;
  const std::string &first = fit.names.embedding, &second = fit.names.head;
  const data::StoredTensor &embedding = tensors.at(first), &head = tensors.at(second);
  bool same = embedding.shape == head.shape;
  for (Index at = 0; same && at < embedding.size(); at += kAtOnce) {
    std::vector<float> a(static_cast<std::size_t>(std::min(kAtOnce, embedding.size() - at))), b(a.size());
    as_checkpoint([&] {
      data::read_tensor(first, embedding, at, a);
      data::read_tensor(second, head, at, b);
    });
    same = a == b;
  }
  if (same) return;
  throw ConfigError(fmt::format(
      "train.initialise_from: {}: {} differs from {}, but the unembedding of this model has the weights of the "
      "embedding; give it weights of its own with tied = false",
      path, second, first));
}

}  // namespace unisono::session
