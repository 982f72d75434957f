#include "hdf5/external.hpp"

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "hdf5/library.hpp"
#include "hdf5/state.hpp"
#include "unisono/base/errors.hpp"

// What leads from an HDF5 file to others. The library follows it without a word, wherever it leads.
namespace unisono::data::hdf5 {
namespace {

namespace fs = std::filesystem;

/// \param prefix an environment variable with a folder
std::vector<std::string> places_of(const std::string& name, const std::string& path, const char* prefix) {
  std::vector<std::string> places;
  const fs::path other(name), folder = fs::path(path).parent_path();
  if (other.is_absolute()) places.push_back(name);
  const fs::path relative = other.is_absolute() ? other.filename() : other;
  if (const char* set = std::getenv(prefix)) places.push_back(fs::path(set) / relative);
  places.push_back(folder / relative);
  places.push_back(relative);
  std::error_code ignored;
  places.push_back(fs::canonical(path, ignored).parent_path() / relative);
  return places;
}

struct Survey {
  const std::string& path;  ///< of the file
  std::vector<ExternalReference> found = {};
};

/// \param bytes of what the link holds
void survey_link(Survey& survey, hid_t root, const char* link, std::size_t bytes) {
  std::vector<char> value(bytes + 1);
  const char *other = nullptr, *object = nullptr;
  unsigned flags = 0;
  if (H5Lget_val(root, link, value.data(), bytes, H5P_DEFAULT) < 0) return;
  if (H5Lunpack_elink_val(value.data(), bytes, &flags, &other, &object) < 0) return;
  survey.found.push_back({link, other, places_of(other, survey.path, "HDF5_EXT_PREFIX")});
}

void survey_dataset(Survey& survey, hid_t root, const char* name) {
  const Handle dataset{H5Oopen(root, name, H5P_DEFAULT), H5Oclose};
  if (!dataset.valid() || H5Iget_type(dataset.get()) != H5I_DATASET) return;
  const Handle properties{H5Dget_create_plist(dataset.get()), H5Pclose};
  if (H5Pget_layout(properties.get()) == H5D_VIRTUAL) {
    for (const VirtualSource& source : virtual_sources(properties.get())) {
      if (source.file != ".") survey.found.push_back({name, source.file, places_of_source(source.file, survey.path)});
    }
    return;
  }
  for (const RawFilePart& part : raw_file_parts(properties.get()))
    survey.found.push_back({name, part.name, {part.place}, false});
}

herr_t survey_object(hid_t root, const char* name, const H5L_info_t* link, void* survey) {
  auto& found = *static_cast<Survey*>(survey);
  if (link->type == H5L_TYPE_EXTERNAL) survey_link(found, root, name, link->u.val_size);
  if (link->type == H5L_TYPE_HARD) survey_dataset(found, root, name);
  return 0;
}

}  // namespace

std::vector<std::string> places_of_source(const std::string& source, const std::string& path) {
  return places_of(source, path, "HDF5_VDS_PREFIX");
}

std::vector<VirtualSource> virtual_sources(hid_t properties) {
  const auto text_from = [](const auto& get) -> std::string {
    const auto length = get(nullptr, 0);
    if (length < 0) return "";
    std::string text(static_cast<std::size_t>(length) + 1, '\0');
    get(text.data(), text.size());
    text.pop_back();
    return text;
  };
  std::size_t count = 0;
  H5Pget_virtual_count(properties, &count);
  std::vector<VirtualSource> sources(count);
  for (std::size_t i = 0; i < count; ++i) {
    sources[i].file =
        text_from([&](char* to, std::size_t size) { return H5Pget_virtual_filename(properties, i, to, size); });
    sources[i].dataset =
        text_from([&](char* to, std::size_t size) { return H5Pget_virtual_dsetname(properties, i, to, size); });
  }
  return sources;
}

std::vector<RawFilePart> raw_file_parts(hid_t properties) {
  std::vector<RawFilePart> parts(static_cast<std::size_t>(std::max(0, H5Pget_external_count(properties))));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    char name[4096] = {};
    off_t offset = 0;
    hsize_t bytes = 0;
    H5Pget_external(properties, static_cast<unsigned>(i), sizeof name - 1, name, &offset, &bytes);
    const char* prefix = std::getenv("HDF5_EXTFILE_PREFIX");
    const bool moved = prefix != nullptr && !fs::path(name).is_absolute();
    parts[i] = {name, moved ? fs::path(prefix) / name : fs::path(name), static_cast<std::uint64_t>(offset), bytes};
  }
  return parts;
}

std::vector<ExternalReference> File::external_references() const {
  const LibraryLock lock;
  std::vector<ExternalReference> all;
  for (const File& part : state_->parts) {
    const auto references = part.external_references();
    all.insert(all.end(), references.begin(), references.end());
  }
  if (!state_->parts.empty()) return all;
  Survey survey{state_->path};
  if (H5Lvisit(state_->file.get(), H5_INDEX_NAME, H5_ITER_INC, survey_object, &survey) < 0)
    state_->fail_read("", "cannot be listed");
  return survey.found;
}

void File::require_own_values(const std::string& why) const {
  const std::vector<ExternalReference> references = external_references();
  if (references.empty()) return;
  throw DataError(fmt::format("{}: /{} refers to the file '{}', which is not read: {}", path(), references[0].object,
                              references[0].name, why));
}

}  // namespace unisono::data::hdf5
