#include "unisono/apply/raw_set.hpp"

#include <filesystem>

#include "unisono/data/hdf5.hpp"

namespace unisono::apply {
namespace {

bool is_hdf5_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && data::hdf5::is_hdf5(path);
}

}  // namespace

RawSet::RawSet(comm::Communicator& world, const std::string& input, const session::StoredCheckpoint& checkpoint,
               const std::string& folder, Log& log) {
  if (world.is_root()) make(input, checkpoint, folder, log);
  path_ = world.all_gather_text(path_).front();
}

void RawSet::make(const std::string& input, const session::StoredCheckpoint& checkpoint, const std::string& folder,
                  Log& log) {
  if (is_hdf5_file(input)) {
    path_ = input;
    return;
  }
  const models::ModelInputs& inputs = checkpoint.header.inputs;
  const std::string path = data::temporary_set(folder);
  const std::string left_out = data::import_raw(
      input, {.kind = inputs.kind, .features = inputs.features, .preprocessing = checkpoint.header.preprocessing},
      {.path = path, .overwrite = true});
  path_ = path;
  owned_ = true;
  if (!left_out.empty()) log.warning(left_out + ": the file's labels or targets are ignored");
}

RawSet::~RawSet() {
  std::error_code ignored;
  if (owned_) std::filesystem::remove(path_, ignored);
}

}  // namespace unisono::apply
