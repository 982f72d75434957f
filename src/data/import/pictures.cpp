// Sets of pictures: JPEG and PNG files in folders of classes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "images/picture.hpp"
#include "import/picture_folder.hpp"
#include "import/raw_formats.hpp"
#include "import/set_writer.hpp"
#include "import/spill.hpp"
#include "recipe/recipe_file.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr const char* kSkipping = "; --skip-damaged leaves such files out";

/// Of pictures of several labels each: 0 or 1 for each of them.
void write_several_labels(const std::string& group, const std::vector<PictureFile>& files, std::size_t labels,
                          SetWriter& writer) {
  constexpr std::size_t kAtOnce = 4096;
  const std::string path = group + "/targets";
  writer.file().create<std::uint8_t>(path, {files.size(), labels});
  for (std::size_t first = 0; first < files.size(); first += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, files.size() - first);
    std::vector<std::uint8_t> rows(count * labels);
    for (std::size_t i = 0; i < count; ++i) {
      for (const std::int64_t label : files[first + i].labels) rows[i * labels + static_cast<std::size_t>(label)] = 1;
    }
    writer.file().write_rows(path, first, count, rows.data());
  }
}

/// The classes that pictures may be of.
struct PictureClasses {
  std::vector<std::string> names;
  bool are_several = false;  ///< whether a picture may be of several
};

/// The labels of a group's pictures, where there are any, and the names of their files.
void write_labels_and_names(const std::string& group, const std::vector<PictureFile>& files,
                            const PictureClasses& classes, SetWriter& writer) {
  std::vector<std::int32_t> labels;
  std::vector<std::string> names;
  for (const PictureFile& file : files) {
    labels.push_back(static_cast<std::int32_t>(file.label));
    names.push_back(file.name);
  }
  if (files.front().label >= 0) writer.file().write(group + "/labels", labels);
  if (classes.are_several) write_several_labels(group, files, classes.names.size(), writer);
  writer.file().write_strings(group + "/files", names);
}

/// Images of one form that are set aside until it is known how many there are of each group.
class ImagesAside {
 public:
  ImagesAside(const ImageForm& form, PictureClasses classes, const std::string& output)
      : form_(form), classes_(std::move(classes)), spilled_(output) {}

  void add(const PictureFile& file, const std::vector<std::uint8_t>& image) {
    spilled_.append(std::span<const std::uint8_t>(image));
    kept_.push_back(file);
  }
  const std::vector<PictureFile>& kept() const { return kept_; }

  /// Writes the groups, with their labels where there are any, and the names of the files.
  void write(SetWriter& writer) {
    std::array<std::vector<PictureFile>, 3> groups;
    for (const PictureFile& file : kept_) groups[static_cast<std::size_t>(file.split)].push_back(file);
    for (const Split split : kSplits) {
      const auto& files = groups[static_cast<std::size_t>(split)];
      if (!files.empty()) write_group(std::string(name_of(split)), files, writer);
    }
    write_images(writer);
  }

 private:
  void write_group(const std::string& group, const std::vector<PictureFile>& files, SetWriter& writer) const {
    std::vector<std::int64_t> shape;
    if (form_.channels() > 1) shape.push_back(form_.channels());
    shape.insert(shape.end(), {form_.height, form_.width});
    writer.create_features<std::uint8_t>(group, std::ssize(files), shape);
    writer.scale_to_one(group);
    write_labels_and_names(group, files, classes_, writer);
  }

  void write_images(SetWriter& writer) {
    std::array<std::int64_t, 3> written{};
    std::vector<std::uint8_t> image(static_cast<std::size_t>(form_.bytes()));
    spilled_.flush();
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      const Split split = kept_[i].split;
      spilled_.read(i * image.size(), std::as_writable_bytes(std::span(image)));
      writer.write_features(std::string(name_of(split)), written[static_cast<std::size_t>(split)]++, 1, image.data());
    }
  }

  ImageForm form_;
  PictureClasses classes_;
  SpillFile spilled_;
  std::vector<PictureFile> kept_;
};

/// Groups that hold the bytes of the files, which are written as they come.
class EncodedWriter {
 public:
  EncodedWriter(const std::vector<PictureFile>& files, PictureClasses classes, SetWriter& writer)
      : classes_(std::move(classes)), writer_(writer) {
    std::array<std::uint64_t, 3> bytes{};
    for (const PictureFile& file : files) bytes[static_cast<std::size_t>(file.split)] += size_of_file(file.path);
    for (const Split split : kSplits) {
      const std::uint64_t all = bytes[static_cast<std::size_t>(split)];
      if (all > 0) writer_.file().create<std::uint8_t>(path_of(split, "pictures"), {all});
      groups_[static_cast<std::size_t>(split)].room = all;
    }
  }

  void add(const PictureFile& file, const std::vector<std::uint8_t>& picture) {
    Group& group = groups_[static_cast<std::size_t>(file.split)];
    const std::uint64_t begin = group.ends.empty() ? 0 : group.ends.back();
    if (picture.size() > group.room - begin) {
      throw DataError(file.path + ": or another file was changed while it was imported; import the folder again");
    }
    writer_.file().write_rows(path_of(file.split, "pictures"), begin, picture.size(), picture.data());
    group.ends.push_back(begin + picture.size());
    group.files.push_back(file);
  }

  /// \return the pictures that were added
  std::vector<PictureFile> finish() {
    std::vector<PictureFile> all;
    for (const Split split : kSplits) {
      const Group& group = groups_[static_cast<std::size_t>(split)];
      if (group.files.empty()) continue;
      writer_.file().write(path_of(split, "ends"), group.ends);
      write_labels_and_names(std::string(name_of(split)), group.files, classes_, writer_);
      all.insert(all.end(), group.files.begin(), group.files.end());
    }
    return all;
  }

 private:
  struct Group {
    std::uint64_t room = 0;  ///< bytes of all files
    std::vector<std::uint64_t> ends;
    std::vector<PictureFile> files;
  };

  static std::string path_of(Split split, const char* name) { return fmt::format("{}/{}", name_of(split), name); }

  static std::uint64_t size_of_file(const std::string& path) {
    std::error_code error;
    const std::uint64_t size = std::filesystem::file_size(path, error);
    return error ? 0 : size;  // reading it says what is wrong
  }

  PictureClasses classes_;
  SetWriter& writer_;
  std::array<Group, 3> groups_;
};

/// Chooses pictures for the groups where the folder does not.
void divide(std::vector<PictureFile>& files, const ImagesOptions& options) {
  const RandomSplit split(std::ssize(files), shares_of(options));
  for (std::size_t i = 0; i < files.size(); ++i) files[i].split = split.of(static_cast<std::int64_t>(i));
}

std::vector<std::string> notes_on(const PictureFolder& folder, const std::vector<std::string>& damaged) {
  std::vector<std::string> notes;
  for (const std::string& why : damaged) notes.push_back("left out: " + why);
  if (!folder.left_out.empty()) {
    notes.push_back(fmt::format("left out: {}, which {} neither .jpg, .jpeg nor .png, such as {}",
                                count_of(std::ssize(folder.left_out), "file"),
                                folder.left_out.size() == 1 ? "is" : "are", folder.left_out.front()));
  }
  return notes;
}

/// On classes that no training picture has. \param path of the set
std::vector<std::string> warnings_on(const PictureFolder& folder, const ClassCounts& counts, const std::string& path) {
  if (folder.several_labels) return counts.untrained_labels(path, folder.classes, "picture");
  return counts.warnings(path, folder.classes, "picture");
}

std::int64_t count_of_split(const std::vector<PictureFile>& files, Split split) {
  return std::ranges::count(files, split, &PictureFile::split);
}

void write_form(const ImageForm& form, const PictureClasses& classes, SetWriter& writer) {
  writer.file().write_attribute("", classes.are_several ? "label_names" : "class_names", classes.names);
  write_recipe(writer.file(), {.images = form});
}

PictureClasses picture_classes(const PictureFolder& folder) {
  return {.names = folder.classes, .are_several = folder.several_labels};
}

/// \return the pictures that are not damaged
std::vector<PictureFile> write_images(const PictureFolder& found, const ImagesOptions& options, SetWriter& writer,
                                      std::vector<std::string>& damaged) {
  ImagesAside images(options.form, picture_classes(found), writer.output());
  damaged = read_pictures(found.files, options.skips_damaged, kSkipping, to_images(options.form),
                          [&](std::size_t i, const auto& image) { images.add(found.files[i], image); });
  if (!images.kept().empty()) images.write(writer);
  return images.kept();
}

std::vector<PictureFile> write_encoded(const PictureFolder& found, const ImagesOptions& options, SetWriter& writer,
                                       std::vector<std::string>& damaged) {
  EncodedWriter pictures(found.files, picture_classes(found), writer);
  const auto check = [&](std::vector<std::uint8_t> bytes, const std::string& path) {
    check_picture(bytes, path);
    if (options.verifies) to_images(options.form)(bytes, path);
    return bytes;
  };
  damaged = read_pictures(found.files, options.skips_damaged, kSkipping, check,
                          [&](std::size_t i, const auto& picture) { pictures.add(found.files[i], picture); });
  return pictures.finish();
}

}  // namespace

ImportSummary import_images(const std::string& folder, const ImagesOptions& options, const ImportOutput& output) {
  if (const std::string problem = problem_of(options.form); !problem.empty()) {
    throw ConfigError("--size, --centre: " + problem);
  }
  if (options.form.centre != 1 && options.form.fit != Fit::crop) {
    throw ConfigError("--centre is for --fit crop alone: pad and stretch show all of a picture; remove one of them");
  }
  PictureFolder found = options.list.empty() ? list_classes(folder) : list_table(folder, options);
  if (found.is_divided && (options.validation_fraction > 0 || options.test_fraction > 0)) {
    const std::string who =
        options.list.empty() ? folder + " has folders of its own for" : "--split-column says what is for";
    throw ConfigError(fmt::format(
        "--validation-fraction, --test-fraction: {} training, validation and test; remove the options", who));
  }
  check_shares(shares_of(options), "pictures", "");
  if (!found.is_divided) divide(found.files, options);
  SetWriter writer(output);
  std::vector<std::string> damaged;
  const std::vector<PictureFile> kept =
      options.encoded ? write_encoded(found, options, writer, damaged) : write_images(found, options, writer, damaged);
  if (count_of_split(kept, Split::train) == 0) {
    const std::string why = damaged.empty()
                                ? "there are no pictures for training; the column of the splits says 'train' nowhere"
                                : "all pictures for training are damaged, such as " + damaged.front();
    throw DataError(fmt::format("{}: {}", options.list.empty() ? folder : options.list, why));
  }
  write_form(options.form, picture_classes(found), writer);
  writer.finish();
  ClassCounts counts(found.classes.size());
  for (const PictureFile& file : kept) {
    counts.add(file.split, file.label);
    for (const std::int64_t label : file.labels) counts.add(file.split, label);
  }
  ImportSummary summary{.path = output.path,
                        .train = count_of_split(kept, Split::train),
                        .validation = count_of_split(kept, Split::validation),
                        .test = count_of_split(kept, Split::test),
                        .shape = {options.form.channels(), options.form.height, options.form.width},
                        .classes = found.several_labels ? 0 : std::ssize(found.classes),
                        .several_labels = found.several_labels ? std::ssize(found.classes) : 0,
                        .warnings = notes_on(found, damaged)};
  for (std::string& warning : warnings_on(found, counts, output.path)) summary.warnings.push_back(std::move(warning));
  return summary;
}

std::string write_raw_pictures(const std::string& path, const Preprocessing& trained, const ImportOutput& output) {
  const ImageForm& form = *trained.recipe.images;
  const bool are_several = !trained.label_names.empty();
  const PictureFolder found = list_pictures(path, trained.class_names);
  SetWriter writer(output);
  ImagesAside images(form, {.names = trained.class_names}, output.path);
  read_pictures(found.files, /*skips_damaged=*/false, "; remove or replace it", to_images(form),
                [&](std::size_t i, const auto& image) { images.add(found.files[i], image); });
  images.write(writer);
  write_form(form, {are_several ? trained.label_names : trained.class_names, are_several}, writer);
  writer.finish();
  return found.unlabelled;
}

}  // namespace unisono::data
