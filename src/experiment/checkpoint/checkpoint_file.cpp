#include "checkpoint/checkpoint_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "checkpoint/checkpoint_header.hpp"
#include "unisono/base/seal.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::experiment {
namespace {

constexpr Index kChunkFloats = 1 << 20;  // are read at a time

constexpr std::string_view kOtherModel =
    "the checkpoint is of another model; use the config that it was trained with, or start a new run";

std::vector<std::uint64_t> extent_of(const Block& block) { return {block.shape.begin(), block.shape.end()}; }

/// Calls move(byte in the file, first float, floats) for rows of a block, whose canonical form begins at byte `begin`.
template <typename Move>
void for_each_run(const Block& block, const strategies::HeldRows& rows, std::int64_t begin, Move move) {
  const Index row = block.row_size(), together = rows.step == 1 ? rows.count : 1;
  for (Index i = 0; i < rows.count; i += together) {
    const Index at = (rows.first + i * rows.step) * row * static_cast<Index>(sizeof(float));
    move(static_cast<std::uint64_t>(begin + at), static_cast<std::size_t>(i * row),
         static_cast<std::size_t>(together * row));
  }
}

void read_rows(const RawFile& file, const Block& block, const strategies::HeldRows& rows, std::int64_t begin,
               MutableView canonical) {
  for_each_run(block, rows, begin, [&](std::uint64_t byte, std::size_t first, std::size_t floats) {
    file.read(byte, std::as_writable_bytes(canonical.subspan(first, floats)));
  });
}

/// \param begins of the block in each of several groups
void read_mean(const RawFile& file, const Block& block, const strategies::HeldRows& rows,
               const std::vector<std::int64_t>& begins, MutableView canonical) {
  read_rows(file, block, rows, begins.front(), canonical);
  if (begins.size() == 1) return;
  std::vector<double> sum(canonical.begin(), canonical.end());
  for (auto begin = begins.begin() + 1; begin != begins.end(); ++begin) {
    read_rows(file, block, rows, *begin, canonical);
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += canonical[k];
  }
  std::transform(sum.begin(), sum.end(), canonical.begin(),
                 [&](double value) { return static_cast<float>(value / static_cast<double>(begins.size())); });
}

void write_text(data::hdf5::File& file, const std::string& name, const std::string& text) {
  file.create<std::uint8_t>(name, {text.size()});
  file.write_rows<std::uint8_t>(name, 0, text.size(), reinterpret_cast<const std::uint8_t*>(text.data()));
}

std::string read_text(const data::hdf5::File& file, const std::string& name) {
  const auto bytes = file.read<std::uint8_t>(name);
  return {bytes.begin(), bytes.end()};
}

std::vector<std::string> children(const data::hdf5::File& file, const std::string& group) {
  return file.exists(group) ? file.children(group) : std::vector<std::string>{};
}

void require_blocks(const data::hdf5::File& file, const std::string& group, const ParameterLayout& layout) {
  const auto stored = children(file, group);
  for (const Block& block : layout.blocks()) {
    if (std::find(stored.begin(), stored.end(), block.name) == stored.end()) {
      throw CheckpointError(
          fmt::format("{}: has no {}/{}, but the config's model has: {}", file.path(), group, block.name, kOtherModel));
    }
    const auto extent = file.shape(group + "/" + block.name).extent;
    if (extent != extent_of(block)) {
      throw CheckpointError(fmt::format("{}: {}/{} is {}, but the config's model has {}: {}", file.path(), group,
                                        block.name, fmt::join(extent, "×"), fmt::join(block.shape, "×"), kOtherModel));
    }
  }
  if (stored.size() > layout.blocks().size()) {
    throw CheckpointError(fmt::format("{}: {} holds {} tensors, but the config's model has {}: {}", file.path(), group,
                                      stored.size(), layout.blocks().size(), kOtherModel));
  }
}

template <typename Read>
auto with_file(const std::string& path, Read read) {
  try {
    return read(data::hdf5::File(path, data::hdf5::File::Mode::read));
  } catch (const DataError& error) {
    throw DamagedCheckpoint(error.what());
  }
}

}  // namespace

std::vector<std::int64_t> create_checkpoint(const std::string& path, std::uint64_t number,
                                            const CheckpointHeader& header, const HeldState& state) {
  std::vector<std::int64_t> begins;
  {
    data::hdf5::File file(path, data::hdf5::File::Mode::create);
    write_text(file, "header", to_json(header));
    write_text(file, "config", header.config);
    for (const HeldVector& vector : state) {
      for (const Block& block : vector.layout.blocks()) {
        const auto begin = file.reserve<float>(vector.group + "/" + block.name, extent_of(block));
        begins.push_back(static_cast<std::int64_t>(begin));
      }
    }
    file.flush();
  }
  append_open_trailer(path, number);
  return begins;
}

void write_rows(RawFile& file, const Block& block, const strategies::HeldRows& rows, std::int64_t begin,
                View canonical) {
  for_each_run(block, rows, begin, [&](std::uint64_t byte, std::size_t first, std::size_t floats) {
    file.write(byte, std::as_bytes(canonical.subspan(first, floats)));
  });
}

CheckpointHeader read_header(const std::string& path) {
  return with_file(path, [&](const data::hdf5::File& file) {
    try {
      CheckpointHeader header = header_from_json(read_text(file, "header"));
      header.config = read_text(file, "config");
      return header;
    } catch (const DamagedCheckpoint& error) {
      throw DamagedCheckpoint(fmt::format("{} {}", path, error.what()));
    } catch (const CheckpointError& error) {
      throw CheckpointError(fmt::format("{} {}", path, error.what()));
    }
  });
}

void require_same_model(const std::string& path, const ParameterLayout& parameters, const ParameterLayout& statistics) {
  with_file(path, [&](const data::hdf5::File& file) {
    require_blocks(file, "parameters", parameters);
    require_blocks(file, "statistics", statistics);
  });
}

void require_same_optimizer(const std::string& path, const ParameterLayout& parameters,
                            const std::vector<std::string>& names) {
  with_file(path, [&](const data::hdf5::File& file) {
    const auto stored = children(file, "optimizer/0");
    if (!std::is_permutation(stored.begin(), stored.end(), names.begin(), names.end())) {
      throw CheckpointError(
          fmt::format("{}: holds optimizer state ({}) that does not fit the config's optimizer ({}); resume with the "
                      "optimizer that the run was started with",
                      path, fmt::join(stored, ", "), fmt::join(names, ", ")));
    }
    for (const std::string& state : children(file, "optimizer")) {
      for (const std::string& name : names)
        require_blocks(file, fmt::format("optimizer/{}/{}", state, name), parameters);
    }
  });
}

std::map<std::string, std::vector<Index>> shapes_in(const std::string& path, const std::string& group) {
  return with_file(path, [&](const data::hdf5::File& file) {
    std::map<std::string, std::vector<Index>> shapes;
    for (const std::string& block : children(file, group)) {
      const auto extent = file.shape(group + "/" + block).extent;
      shapes[block] = {extent.begin(), extent.end()};
    }
    return shapes;
  });
}

int optimizer_states(const std::string& path) {
  return with_file(path,
                   [&](const data::hdf5::File& file) { return static_cast<int>(children(file, "optimizer").size()); });
}

std::string optimizer_group(int state, const std::string& vector) {
  return fmt::format("optimizer/{}/{}", state, vector);
}

void visit_vector(
    const std::string& path, const std::vector<std::string>& groups, const HeldVector& vector,
    const std::function<void(const Block& block, const strategies::HeldRows& rows, View canonical)>& see) {
  with_file(path, [&](const data::hdf5::File& file) {
    const RawFile raw(path, RawFile::Mode::read);
    std::vector<float> canonical;
    for (const strategies::HeldRows& rows : vector.rows) {
      const Block& block = vector.layout.blocks()[rows.block];
      std::vector<std::int64_t> begins;
      begins.reserve(groups.size());
      for (const std::string& group : groups) {
        begins.push_back(static_cast<std::int64_t>(file.offset(group + "/" + block.name)));
      }
      const Index at_once = std::max<Index>(1, kChunkFloats / std::max<Index>(1, block.row_size()));
      for (Index first = 0; first < rows.count; first += at_once) {
        const strategies::HeldRows some = some_of(rows, block, {first, std::min(first + at_once, rows.count)});
        canonical.resize(static_cast<std::size_t>(some.count * block.row_size()));
        read_mean(raw, block, some, begins, canonical);
        see(block, some, canonical);
      }
    }
  });
}

void read_vector(const std::string& path, const std::vector<std::string>& groups, const HeldVector& vector) {
  visit_vector(path, groups, vector, [&](const Block& block, const strategies::HeldRows& rows, View canonical) {
    from_canonical(block, canonical, vector.values.subspan(static_cast<std::size_t>(rows.offset)));
  });
}

}  // namespace unisono::experiment
