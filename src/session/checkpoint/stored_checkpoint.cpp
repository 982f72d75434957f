#include "unisono/session/stored_checkpoint.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "checkpoint/checkpoint_header.hpp"
#include "checkpoint/checkpoint_store.hpp"
#include "unisono/data/hdf5.hpp"
#include "unisono/data/tensors.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::session {
namespace {

namespace fs = std::filesystem;

bool is_checkpoint(const std::string& name) { return name.starts_with("step-") && name.ends_with(".h5"); }

/// Rank 0 reads the header of a verified file for all ranks. \return what is wrong with it nevertheless; empty if
/// nothing is
std::string read_for_all(comm::Communicator& group, StoredCheckpoint& stored) {
  std::string damage;
  if (group.is_root()) {
    try {
      stored.header = read_header(stored.path);
      stored.optimizer_states = optimizer_states(stored.path);
    } catch (const DamagedCheckpoint& error) {
      damage = error.what();
    }
  }
  damage = group.broadcast_text(damage);
  if (!damage.empty()) return damage;
  const std::string config = group.broadcast_text(stored.header.config);
  stored.header = header_from_json(group.broadcast_text(to_json(stored.header)));
  stored.header.config = config;
  stored.optimizer_states = static_cast<int>(group.max(stored.optimizer_states));
  return "";
}

/// Where the models of a job's folder are; empty: the folder is no job's.
std::string_view place_of_models(const std::string& folder) {
  using records::FolderOwner;
  switch (records::owner_of(folder)) {
    case FolderOwner::search:
      return "a search: its models are in the folders 'trials' and 'best', as far as they were kept";
    case FolderOwner::cross_validation:
      return "a cross-validation: its models are in the folders 'folds' and 'final', as far as they were kept";
    case FolderOwner::trials:
      return "a search or a cross-validation: its models are in the folders below it";
    case FolderOwner::study:
      return "a study: its models are in the folders of its runs";
    default:
      return "";
  }
}

[[noreturn]] void fail_without_checkpoint(const std::string& run) {
  if (const std::string_view place = place_of_models(run); !place.empty()) {
    throw CheckpointError(fmt::format("{}: is no run, but {}; name one of these", run, place));
  }
  throw CheckpointError(fmt::format("{}: holds no complete checkpoint; train it first, or name another run", run));
}

/// What a file is that is no checkpoint, as far as that can be seen; empty: it may be a checkpoint.
std::string other_kind_of(const std::string& path) {
  const bool is_named_as_one = path.ends_with(".h5");  // what is not readable then is damaged
  if (!data::hdf5::is_hdf5(path)) return is_named_as_one ? "" : "it is not an HDF5 file";
  try {
    const data::hdf5::File file(path, data::hdf5::File::Mode::read);
    if (file.exists("header")) return "";
    if (file.exists("parameters") && file.has_attribute("", "step")) return "'unisono export' wrote it";
    const bool is_set = std::ranges::any_of(
        data::kSplits, [&](data::Split split) { return file.exists(std::string(data::name_of(split))); });
    return is_set ? "it is a data set" : "";
  } catch (const DataError&) {
    return "";
  }
}

void require_checkpoint_file(const std::string& path) {
  const std::string kind = other_kind_of(path);
  if (kind.empty()) return;
  throw CheckpointError(fmt::format(
      "{}: is no checkpoint: {}. A model is applied from the folder of its run, or one of its checkpoints/*.h5{}", path,
      kind,
      data::names_tensor_file(path)
          ? fmt::format("; a file of weights lacks the config and the preprocessing, and 'unisono train CONFIG --set "
                        "train.epochs=0 --set train.initialise_from={}' makes a run of it",
                        path)
          : ""));
}

}  // namespace

std::vector<std::string> checkpoints_in(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (is_checkpoint(entry.path().filename().string())) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) > std::pair(b.size(), b);  // ten digits are more than nine
  });
  if (const std::string best = (fs::path(folder) / "best.h5").string(); fs::exists(best, error)) paths.push_back(best);
  return paths;
}

StoredCheckpoint open_checkpoint(comm::Communicator& group, const std::string& path) {
  StoredCheckpoint stored{.path = path, .seen_by_all = all_see(group, path), .header = {}};
  std::string damage = broken_seal(group, path, stored.seen_by_all ? group.size() : 1);
  if (damage.empty()) damage = read_for_all(group, stored);
  if (!damage.empty()) throw DamagedCheckpoint(damage);
  return stored;
}

std::optional<StoredCheckpoint> newest_whole(comm::Communicator& group, const std::string& folder, Log& log,
                                             std::vector<std::string>& damaged) {
  std::vector<std::string> paths;
  if (group.is_root()) paths = checkpoints_in(folder);
  const auto count = static_cast<std::size_t>(group.max(static_cast<std::int64_t>(paths.size())));
  paths.resize(count);
  for (const std::string& path : paths) {
    const std::string name = group.broadcast_text(fs::path(path).filename().string());
    try {
      return open_checkpoint(group, (fs::path(folder) / name).string());
    } catch (const DamagedCheckpoint& error) {
      damaged.emplace_back(error.what());
      if (group.is_root()) log.warning(fmt::format("{}; the previous checkpoint is used instead", error.what()));
    }
  }
  return std::nullopt;
}

void require_checkpoint(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw CheckpointError(
        fmt::format("{}: there is no such run or checkpoint; name a run folder, or one of its checkpoints/*.h5", path));
  }
  if (!fs::is_directory(path, ignored)) return require_checkpoint_file(path);
  if (checkpoints_in(records::checkpoints_of(path)).empty()) fail_without_checkpoint(path);
}

StoredCheckpoint find_checkpoint(comm::Communicator& group, const std::string& path, Log& log) {
  if (group.is_root()) require_checkpoint(path);
  std::error_code ignored;
  if (group.max(group.is_root() && fs::is_directory(path, ignored) ? 1 : 0) == 0) {
    try {
      return open_checkpoint(group, path);
    } catch (const DamagedCheckpoint& error) {
      throw CheckpointError(fmt::format("{}; name another checkpoint of the run", error.what()));
    }
  }
  std::vector<std::string> damaged;
  if (auto found = newest_whole(group, records::checkpoints_of(path), log, damaged)) return *found;
  fail_without_checkpoint(path);
}

void read_by_ranks(comm::Communicator& ranks, const StoredFile& file, const StoredVector& vector,
                   const std::function<void(const StoredVector& vector)>& read) {
  if (!vector.memory->is_plain()) {
    PlainValues values(*vector.memory, vector.values);
    StoredVector plain = vector;
    plain.values = values.view();
    plain.memory = &plain_allocator();
    read_by_ranks(ranks, file, plain, read);
    return values.put_back();
  }
  if (file.seen_by_all) return read(vector);
  if (vector.is_divided()) {
    throw OutputError(
        fmt::format("{}: each rank must read its own part of it, but not all ranks can see it: put it on a file system "
                    "that all nodes share",
                    file.path));
  }
  if (ranks.is_root()) read(vector);
  ranks.broadcast(std::as_writable_bytes(vector.values), 0);
}

void read_vector(comm::Communicator& ranks, const StoredCheckpoint& stored, const std::vector<std::string>& groups,
                 const StoredVector& vector, const std::vector<bool>& blocks) {
  read_by_ranks(ranks, {stored.path, stored.seen_by_all}, vector,
                [&](const StoredVector& plain) { read_vector(stored.path, groups, plain, blocks); });
}

std::vector<Shard> shards_to_write(const StoredVector& vector, int writer, int writers) {
  if (vector.of == ValuesOf::another_replica) return {};
  std::vector<Shard> shards = vector.holding->shards();
  if (vector.of == ValuesOf::this_replica) return shards;
  if (!vector.holding->held_by_all()) {
    std::erase_if(shards, [](const Shard& shard) { return shard.copy != 0; });
    return shards;
  }
  if (writer >= writers) return {};
  for (Shard& shard : shards) {
    const comm::Slice own = comm::slice_of(shard.box.front().count, writer, writers);
    shard = rows_of(shard, own.first, own.last);
  }
  return shards;
}

namespace {

constexpr Index kChunkFloats = 1 << 20;  // are read at a time

constexpr std::string_view kOtherModel =
    "the checkpoint is of another model; use the config that it was trained with, or start a new run";

std::vector<std::uint64_t> extent_of(const Block& block) { return {block.shape.begin(), block.shape.end()}; }

/// Calls visit(first position in the block's canonical order, count) for each contiguous piece of a box.
template <typename Visit>
void for_each_segment(const Block& block, const Box& box, Visit visit) {
  const Box whole = whole_box(block);
  std::size_t axes = box.size();  // without the last axes, which the box covers completely
  Index together = 1;
  for (; axes > 0 && box[axes - 1] == whole[axes - 1]; --axes) together *= block.shape[axes - 1];
  const auto cut = static_cast<std::ptrdiff_t>(axes);
  const Block outer{.name = {}, .shape = {block.shape.begin(), block.shape.begin() + cut}};
  for_each_run(outer, Box(box.begin(), box.begin() + cut), [&](Index position, Index step, Index count) {
    if (step == 1) return visit(position * together, count * together);
    for (Index i = 0; i < count; ++i) visit((position + i * step) * together, together);
  });
}

std::uint64_t byte_of(std::int64_t begin, Index position) {
  return static_cast<std::uint64_t>(begin + position * static_cast<Index>(sizeof(float)));
}

/// Reads everything from a box's first number to its last one, and keeps what belongs to the box.
void read_span(const RawFile& file, const Block& block, const Box& box, FloatRange span, std::int64_t begin,
               MutableView canonical) {
  std::vector<float> all(static_cast<std::size_t>(span.last - span.first));
  file.read(byte_of(begin, span.first), std::as_writable_bytes(std::span(all)));
  auto to = canonical.begin();
  for_each_segment(block, box, [&](Index position, Index count) {
    to = std::copy_n(all.begin() + (position - span.first), count, to);
  });
}

/// Reads a box. Small pieces near each other are read together with what lies between them.
void read_box(const RawFile& file, const Block& block, const Box& box, std::int64_t begin, MutableView canonical) {
  constexpr Index kSmall = 4096, kMostBetween = 8;
  Index segments = 0;
  FloatRange span;
  for_each_segment(block, box, [&](Index position, Index count) {
    if (segments++ == 0) span.first = position;
    span.last = position + count;
  });
  const auto size = static_cast<Index>(canonical.size());
  if (segments > 1 && size < segments * kSmall && span.last - span.first <= size * kMostBetween) {
    return read_span(file, block, box, span, begin, canonical);
  }
  std::size_t at = 0;
  for_each_segment(block, box, [&](Index position, Index count) {
    const MutableView segment = canonical.subspan(at, static_cast<std::size_t>(count));
    file.read(byte_of(begin, position), std::as_writable_bytes(segment));
    at += segment.size();
  });
}

/// \param begins where the block begins in the file, for each group
void read_mean(const RawFile& file, const Block& block, const Box& box, const std::vector<std::int64_t>& begins,
               MutableView canonical) {
  read_box(file, block, box, begins.front(), canonical);
  if (begins.size() == 1) return;
  std::vector<double> sum(canonical.begin(), canonical.end());
  for (auto begin = begins.begin() + 1; begin != begins.end(); ++begin) {
    read_box(file, block, box, *begin, canonical);
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
    const data::hdf5::File file(path, data::hdf5::File::Mode::read);
    file.require_own_values("a checkpoint or exported model of unisono holds all its values itself");
    return read(file);
  } catch (const DataError& error) {
    throw DamagedCheckpoint(error.what());
  }
}

}  // namespace

std::vector<std::int64_t> create_checkpoint(const std::string& path, std::uint64_t number,
                                            const CheckpointHeader& header, const StoredVectors& state) {
  std::vector<std::int64_t> begins;
  {
    data::hdf5::File file(path, data::hdf5::File::Mode::create);
    write_text(file, "header", to_json(header));
    write_text(file, "config", header.config);
    for (const StoredVector& vector : state) {
      for (const Block& block : vector.layout().blocks()) {
        const auto begin = file.reserve<float>(vector.group + "/" + block.name, extent_of(block));
        begins.push_back(static_cast<std::int64_t>(begin));
      }
    }
    file.flush();
  }
  append_open_trailer(path, number);
  return begins;
}

void write_box(const Block& block, const Box& box, std::int64_t begin, View canonical, const WriteBytes& write) {
  std::size_t at = 0;
  for_each_segment(block, box, [&](Index position, Index count) {
    const View segment = canonical.subspan(at, static_cast<std::size_t>(count));
    write(byte_of(begin, position), std::as_bytes(segment));
    at += segment.size();
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

void require_same_optimizer(const std::string& path, const std::map<std::string, const ParameterLayout*>& vectors) {
  with_file(path, [&](const data::hdf5::File& file) {
    const auto stored = children(file, "optimizer/0");
    std::vector<std::string> names;
    for (const auto& [name, layout] : vectors) names.push_back(name);
    if (!std::is_permutation(stored.begin(), stored.end(), names.begin(), names.end())) {
      throw CheckpointError(
          fmt::format("{}: holds optimizer state ({}) that does not fit the config's optimizer ({}); resume with the "
                      "optimizer that the run was started with",
                      path, fmt::join(stored, ", "), fmt::join(names, ", ")));
    }
    for (const std::string& state : children(file, "optimizer")) {
      for (const std::string& name : children(file, "optimizer/" + state)) {  // in the others, common ones are left out
        const auto found = vectors.find(name);
        if (found != vectors.end()) require_blocks(file, fmt::format("optimizer/{}/{}", state, name), *found->second);
      }
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

void visit_shards(const std::string& path, const std::vector<std::string>& groups, const ParameterLayout& layout,
                  const std::vector<Shard>& shards,
                  const std::function<void(const Shard& shard, View canonical)>& see) {
  with_file(path, [&](const data::hdf5::File& file) {
    const RawFile raw(path, RawFile::Mode::read);
    std::vector<float> canonical;
    for (const Shard& shard : shards) {
      const Block& block = layout.blocks()[shard.block];
      std::vector<std::int64_t> begins;
      begins.reserve(groups.size());
      for (const std::string& group : groups) {
        begins.push_back(static_cast<std::int64_t>(file.offset(group + "/" + block.name)));
      }
      const Index rows = shard.box.front().count, row = size_of(shard.box) / std::max<Index>(1, rows);
      const Index at_once = std::max<Index>(1, kChunkFloats / std::max<Index>(1, row));
      for (Index first = 0; first < rows; first += at_once) {
        const Shard some = rows_of(shard, first, std::min(first + at_once, rows));
        canonical.resize(static_cast<std::size_t>(size_of(some.box)));
        read_mean(raw, block, some.box, begins, canonical);
        see(some, canonical);
      }
    }
  });
}

void read_vector(const std::string& path, const std::vector<std::string>& groups, const StoredVector& vector,
                 const std::vector<bool>& blocks) {
  std::vector<Shard> shards = vector.holding->shards();
  if (!blocks.empty()) std::erase_if(shards, [&](const Shard& shard) { return !blocks[shard.block]; });
  visit_shards(path, groups, vector.layout(), shards,
               [&](const Shard& shard, View canonical) { unpack(shard.place, canonical, vector.values); });
}

}  // namespace unisono::session
