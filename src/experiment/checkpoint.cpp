#include "unisono/experiment/checkpoint.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "checkpoint_header.hpp"
#include "seal.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono {
namespace {

// Datasets are written so many bytes at a time: HDF5's mutex is free between, for readers of data.
constexpr Index kChunkBytes = 4 << 20;

std::vector<std::uint64_t> extent_of(const Block& block) { return {block.shape.begin(), block.shape.end()}; }

/// Calls move(first row, rows, offset in floats) for a block's rows along its first axis, some 4 MiB at a time.
template <typename Move>
void for_each_chunk(const Block& block, Move move) {
  const Index rows = block.shape.front(), row_floats = block.size() / rows;
  const Index at_once = std::max<Index>(1, kChunkBytes / static_cast<Index>(sizeof(float)) / row_floats);
  for (Index first = 0; first < rows; first += at_once) {
    move(static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(std::min(at_once, rows - first)),
         first * row_floats);
  }
}

void write_vector(hdf5::File& file, const std::string& group, const ParameterLayout& layout, View values) {
  std::vector<float> canonical;
  for (const Block& block : layout.blocks()) {
    canonical.resize(static_cast<std::size_t>(block.size()));
    to_canonical(block, part(values, block), canonical);
    const std::string name = group + "/" + block.name;
    file.create<float>(name, extent_of(block));
    for_each_chunk(block, [&](std::uint64_t first, std::uint64_t rows, Index offset) {
      file.write_rows<float>(name, first, rows, canonical.data() + offset);
    });
  }
}

/// \param path of the file, for messages
void check_blocks(const hdf5::File& file, const std::string& group, const ParameterLayout& layout) {
  const auto stored = file.exists(group) ? file.children(group) : std::vector<std::string>{};
  for (const Block& block : layout.blocks()) {
    if (std::find(stored.begin(), stored.end(), block.name) == stored.end()) {
      throw CheckpointError(
          fmt::format("{}: holds no {}/{}, which the config's model has: it is a checkpoint of another model; give the "
                      "config it was "
                      "trained with, or start a new run",
                      file.path(), group, block.name));
    }
    const auto extent = file.shape(group + "/" + block.name).extent;
    if (extent != extent_of(block)) {
      throw CheckpointError(fmt::format(
          "{}: {}/{} is {}, but the config's model has {}: it is a checkpoint of another model; give the config it was "
          "trained with, or start a new run",
          file.path(), group, block.name, fmt::join(extent, "×"), fmt::join(block.shape, "×")));
    }
  }
  if (stored.size() > layout.blocks().size()) {
    throw CheckpointError(
        fmt::format("{}: {} holds {} blocks, but the config's model has {}: it is a checkpoint of "
                    "another model; give the config it was trained with, or start a new run",
                    file.path(), group, stored.size(), layout.blocks().size()));
  }
}

void read_vector(const hdf5::File& file, const std::string& group, const ParameterLayout& layout, MutableView values) {
  check_blocks(file, group, layout);
  std::vector<float> canonical;
  for (const Block& block : layout.blocks()) {
    canonical.resize(static_cast<std::size_t>(block.size()));
    for_each_chunk(block, [&](std::uint64_t first, std::uint64_t rows, Index offset) {
      file.read_rows<float>(group + "/" + block.name, first, rows, canonical.data() + offset);
    });
    from_canonical(block, canonical, part(values, block));
  }
}

void write_text(hdf5::File& file, const std::string& name, const std::string& text) {
  file.create<std::uint8_t>(name, {text.size()});
  file.write_rows<std::uint8_t>(name, 0, text.size(), reinterpret_cast<const std::uint8_t*>(text.data()));
}

std::string read_text(const hdf5::File& file, const std::string& name) {
  std::string text(file.shape(name).extent.at(0), '\0');
  file.read_rows<std::uint8_t>(name, 0, text.size(), reinterpret_cast<std::uint8_t*>(text.data()));
  return text;
}

std::string optimizer_group(std::size_t rank, const std::string& vector) {
  return fmt::format("optimizer/{}/{}", rank, vector);
}

void write_file(const std::string& path, const Checkpoint& checkpoint, const CheckpointLayout& layout) {
  hdf5::File file(path, hdf5::File::Mode::create);
  write_text(file, "header", to_json(checkpoint.header));
  write_text(file, "config", checkpoint.header.config);
  write_vector(file, "parameters", layout.parameters, checkpoint.parameters);
  write_vector(file, "statistics", layout.statistics, checkpoint.statistics);
  for (std::size_t rank = 0; rank < checkpoint.optimizer.size(); ++rank) {
    for (std::size_t i = 0; i < layout.optimizer.size(); ++i) {
      write_vector(file, optimizer_group(rank, layout.optimizer[i]), layout.parameters, checkpoint.optimizer[rank][i]);
    }
  }
  file.flush();
}

/// Opens a checkpoint whose checksum holds, and does something with it.
template <typename Read>
auto with_valid_file(const std::string& path, Read read) {
  if (const std::string reason = broken_seal(path); !reason.empty()) {
    throw DamagedCheckpoint(path + " " + reason);
  }
  try {
    return read(hdf5::File(path, hdf5::File::Mode::read));
  } catch (const DataError& error) {
    throw DamagedCheckpoint(error.what());
  }
}

CheckpointHeader header_of(const hdf5::File& file) {
  try {
    CheckpointHeader header = header_from_json(read_text(file, "header"));
    header.config = read_text(file, "config");
    return header;
  } catch (const DamagedCheckpoint& error) {
    throw DamagedCheckpoint(fmt::format("{} {}", file.path(), error.what()));
  } catch (const CheckpointError& error) {
    throw CheckpointError(fmt::format("{} {}", file.path(), error.what()));
  }
}

void check_optimizer(const hdf5::File& file, const std::vector<std::string>& names) {
  const auto stored = file.exists("optimizer/0") ? file.children("optimizer/0") : std::vector<std::string>{};
  if (std::is_permutation(stored.begin(), stored.end(), names.begin(), names.end())) return;
  throw CheckpointError(
      fmt::format("{}: it holds optimizer state ({}) of another optimizer than the config's ({}); "
                  "resume with the optimizer that the run was started with",
                  file.path(), fmt::join(stored, ", "), fmt::join(names, ", ")));
}

}  // namespace

void write_checkpoint(const std::string& path, const Checkpoint& checkpoint, const CheckpointLayout& layout) {
  const std::string aside = path + ".tmp";
  try {
    write_file(aside, checkpoint, layout);
    seal_file(aside);
    sync_and_rename(aside, path);
  } catch (const Error& error) {
    std::error_code ignored;
    std::filesystem::remove(aside, ignored);
    throw OutputError(
        fmt::format("checkpoint {} could not be written: {}; earlier checkpoints are whole: free some "
                    "space and go on with --resume",
                    path, error.what()));
  }
}

Checkpoint read_checkpoint(const std::string& path, const CheckpointLayout& layout) {
  return with_valid_file(path, [&](const hdf5::File& file) {
    Checkpoint checkpoint{.header = header_of(file),
                          .parameters = std::vector<float>(static_cast<std::size_t>(layout.parameters.size())),
                          .statistics = std::vector<float>(static_cast<std::size_t>(layout.statistics.size())),
                          .optimizer = {}};
    read_vector(file, "parameters", layout.parameters, checkpoint.parameters);
    read_vector(file, "statistics", layout.statistics, checkpoint.statistics);
    check_optimizer(file, layout.optimizer);
    for (std::size_t rank = 0; file.exists(fmt::format("optimizer/{}", rank)); ++rank) {
      auto& vectors = checkpoint.optimizer.emplace_back();
      for (const std::string& name : layout.optimizer) {
        vectors.emplace_back(checkpoint.parameters.size());
        read_vector(file, optimizer_group(rank, name), layout.parameters, vectors.back());
      }
    }
    return checkpoint;
  });
}

CheckpointHeader read_checkpoint_header(const std::string& path) {
  return with_valid_file(path, [](const hdf5::File& file) { return header_of(file); });
}

void read_model(const std::string& path, const CheckpointLayout& layout, ModelState state) {
  with_valid_file(path, [&](const hdf5::File& file) {
    read_vector(file, "parameters", layout.parameters, state.parameters);
    read_vector(file, "statistics", layout.statistics, state.statistics);
  });
}

}  // namespace unisono
