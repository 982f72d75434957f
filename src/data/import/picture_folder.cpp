#include "import/picture_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "images/picture_reader.hpp"
#include "import/rows.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/base/resources.hpp"
#include "unisono/base/threads.hpp"

namespace unisono::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kEnds = {".jpg", ".jpeg", ".jpe", ".jfif", ".png"};
constexpr std::size_t kAtATime = 256;  // files that are read before they are handed over

struct SplitName {
  std::string_view name;
  Split split;
};
constexpr std::array<SplitName, 5> kSplitNames = {{{"train", Split::train},
                                                   {"val", Split::validation},
                                                   {"valid", Split::validation},
                                                   {"validation", Split::validation},
                                                   {"test", Split::test}}};

bool is_picture(const fs::path& path) {
  std::string end = path.extension().string();
  std::ranges::transform(end, end.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::count(kEnds, end) > 0;
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

/// What is in a folder, in the order of the names, without hidden entries. \throws DataError
std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (!is_hidden(at->path())) entries.push_back(*at);
  }
  if (error) throw DataError(fmt::format("{}: cannot be read: {}", folder.string(), error.message()));
  std::ranges::sort(entries);
  return entries;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// Listing a folder says so already, without a look at each entry.
bool is_folder(const fs::directory_entry& entry) {
  std::error_code ignored;
  return entry.is_directory(ignored);
}

/// Adds the pictures below a folder. Links to folders are not followed below the folders of classes: they could lead in
/// circles.
void add_pictures(const fs::path& folder, const fs::path& root, const PictureFile& like, PictureFolder& found) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : entries_of(folder)) {
    const fs::path& path = entry.path();
    if (is_folder(entry)) {
      if (!entry.is_symlink(ignored)) add_pictures(path, root, like, found);
      continue;
    }
    const std::string name = path.lexically_relative(root).string();
    if (!is_utf8(name)) {
      throw DataError(fmt::format("{}: its name is not UTF-8, in which sets keep names; rename it", path.string()));
    }
    if (!is_picture(path)) {
      found.left_out.push_back(name);
      continue;
    }
    found.files.push_back({.path = path.string(), .name = name, .label = like.label, .split = like.split});
  }
}

std::vector<fs::path> folders_of(const fs::path& folder) {
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : entries_of(folder)) {
    if (is_folder(entry)) folders.push_back(entry.path());
  }
  return folders;
}

/// Adds the pictures of a folder with a folder for each class. \param defines whether it says which classes there are
void add_classes(const fs::path& folder, const fs::path& root, Split split, bool defines, PictureFolder& found) {
  for (const fs::directory_entry& entry : entries_of(folder)) {
    const fs::path& path = entry.path();
    if (!is_folder(entry) && is_picture(path)) {
      throw DataError(fmt::format("{}: lies in no folder of a class; make one for each class in {}", path.string(),
                                  folder.string()));
    }
    if (!is_folder(entry)) continue;
    const std::string name = path.filename().string();
    auto at = std::ranges::find(found.classes, name);
    if (at == found.classes.end()) {
      if (!defines) {
        throw DataError(fmt::format("{}: '{}' is no class of the training pictures", path.string(), name));
      }
      at = found.classes.insert(at, name);
    }
    const std::size_t before = found.files.size();
    add_pictures(path, root, {.path = {}, .name = {}, .label = at - found.classes.begin(), .split = split}, found);
    if (defines && found.files.size() == before) {
      throw DataError(fmt::format("{}: has no JPEG or PNG files, so that its class has no example; remove the folder",
                                  path.string()));
    }
  }
}

}  // namespace

std::optional<Split> split_of(const std::string& name) {
  const auto found = std::ranges::find(kSplitNames, name, &SplitName::name);
  return found == kSplitNames.end() ? std::nullopt : std::optional(found->split);
}

PictureFolder list_classes(const std::string& folder) {
  const fs::path root(folder);
  if (!is_folder(root)) throw DataError(folder + ": is not a folder");
  PictureFolder found;
  const std::vector<fs::path> folders = folders_of(root);
  found.is_divided = std::ranges::any_of(folders, [](const fs::path& path) { return path.filename() == "train"; });
  if (!found.is_divided) {
    if (!folders.empty() && std::ranges::all_of(folders, [](const fs::path& path) {
          return split_of(path.filename().string()).has_value();
        })) {
      throw DataError(
          fmt::format("{}: has the folder '{}', but no folder 'train'; add it, or give the classes other "
                      "names if these are classes",
                      folder, folders.front().filename().string()));
    }
    add_classes(root, root, Split::train, /*defines=*/true, found);
  } else {
    add_classes(root / "train", root, Split::train, /*defines=*/true, found);
    for (const fs::path& path : folders) {
      const std::optional<Split> split = split_of(path.filename().string());
      if (!split) {
        throw DataError(fmt::format(
            "{}: beside 'train' there may be the folders 'val' (or 'valid', 'validation') and 'test'; remove it",
            path.string()));
      }
      if (*split != Split::train) add_classes(path, root, *split, /*defines=*/false, found);
    }
  }
  if (found.files.empty()) {
    throw DataError(
        fmt::format("{}: has no folders with JPEG or PNG files; each class needs a folder of its own", folder));
  }
  return found;
}

PictureFolder list_pictures(const std::string& path, const std::vector<std::string>& classes) {
  const fs::path root(path);
  PictureFolder found{.classes = classes};
  if (!is_folder(root)) {
    found.files.push_back({.path = path, .name = root.filename().string(), .split = Split::test});
    return found;
  }
  add_pictures(root, root, {.path = {}, .name = {}, .split = Split::test}, found);
  if (found.files.empty()) throw DataError(path + ": has no JPEG or PNG files");
  const auto label_of = [&](const PictureFile& file) {
    const auto at = std::ranges::find(classes, file.name.substr(0, file.name.find('/')));
    return at == classes.end() || file.name.find('/') == std::string::npos ? -1 : at - classes.begin();
  };
  const auto unknown = std::ranges::find_if(found.files, [&](const PictureFile& file) { return label_of(file) < 0; });
  if (unknown == found.files.end()) {
    for (PictureFile& file : found.files) file.label = label_of(file);
  } else if (std::ranges::any_of(found.files, [&](const PictureFile& file) { return label_of(file) >= 0; })) {
    found.unlabelled = fmt::format("{}: lies in no folder of one of the model's classes", unknown->path);
  }
  return found;
}

ConvertPicture to_images(const ImageForm& form) {
  return [form](const std::vector<std::uint8_t>& bytes, const std::string& path) {
    std::vector<std::uint8_t> image(static_cast<std::size_t>(form.bytes()));
    PictureReader().read(bytes, path, form, /*to_the_end=*/true, image);
    return image;
  };
}

namespace {

/// A file as it was converted, or why it could not be.
struct ReadPicture {
  std::vector<std::uint8_t> converted = {};
  std::string failure = {};
};

std::vector<std::uint8_t> bytes_of_file(const std::string& path) {
  constexpr std::uint64_t kLarge = 64 << 20;
  const RawFile file(path, RawFile::Mode::read);
  const std::uint64_t size = file.size();
  if (size > kLarge) require_room(path, static_cast<std::int64_t>(size));
  std::vector<std::uint8_t> bytes(size);
  file.read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace

std::vector<std::string> read_pictures(const std::vector<PictureFile>& files, bool skips_damaged,
                                       const std::string& remedy, const ConvertPicture& convert,
                                       const std::function<void(std::size_t, const std::vector<std::uint8_t>&)>& take) {
  std::vector<std::string> damaged;
  std::vector<ReadPicture> reading(kAtATime), taken(kAtATime);
  const auto read = [&](std::size_t i) {
    ReadPicture& picture = reading[i % kAtATime];
    picture.failure.clear();
    try {
      picture.converted = convert(bytes_of_file(files[i].path), files[i].path);
    } catch (const DataError& error) {
      picture.failure = error.what();
    }
  };
  const auto hand_over = [&](std::size_t i) {
    const ReadPicture& picture = taken[i % kAtATime];
    if (picture.failure.empty()) return take(i, picture.converted);
    if (!skips_damaged) throw DataError(picture.failure + remedy);
    damaged.push_back(picture.failure);
  };
  // While one thread hands over the files that were read before, the others read the next ones, and it helps them then.
  ThreadTeam team(usable_cpus(), "reading pictures");
  for (std::size_t first = 0; first < files.size() + kAtATime; first += kAtATime) {
    const std::size_t last = std::min(files.size(), first + kAtATime);
    std::atomic<std::size_t> next{first};
    team.run([&](int thread) {
      for (std::size_t i = first - std::min(first, kAtATime); thread == 0 && i < std::min(first, last); ++i)
        hand_over(i);
      for (std::size_t i = next++; i < last; i = next++) read(i);
    });
    std::swap(reading, taken);
  }
  return damaged;
}

}  // namespace unisono::data
