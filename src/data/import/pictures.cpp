// Sets of pictures: JPEG and PNG files in folders of classes.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "images/picture.hpp"
#include "import/picture_folder.hpp"
#include "import/raw_formats.hpp"
#include "import/set_writer.hpp"
#include "import/spill.hpp"
#include "recipe/recipe_file.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

/// Images of one form that are set aside until it is known how many there are of each group.
class ImagesAside {
 public:
  ImagesAside(const ImageForm& form, const std::string& output) : form_(form), spilled_(output) {}

  void add(const PictureFile& file, const std::vector<std::uint8_t>& image) {
    spilled_.append(std::span<const std::uint8_t>(image));
    kept_.push_back(file);
  }
  std::vector<PictureFile>& kept() { return kept_; }

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
    std::vector<std::int32_t> labels;
    std::vector<std::string> names;
    for (const PictureFile& file : files) {
      labels.push_back(static_cast<std::int32_t>(file.label));
      names.push_back(file.name);
    }
    if (files.front().label >= 0) writer.file().write(group + "/labels", labels);
    writer.file().write_strings(group + "/files", names);
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
  SpillFile spilled_;
  std::vector<PictureFile> kept_;
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

std::int64_t count_of_split(const std::vector<PictureFile>& files, Split split) {
  return std::ranges::count(files, split, &PictureFile::split);
}

void write_form(const ImageForm& form, const std::vector<std::string>& classes, SetWriter& writer) {
  writer.file().write_attribute("", "class_names", classes);
  write_recipe(writer.file(), {.images = form});
}

}  // namespace

ImportSummary import_images(const std::string& folder, const ImagesOptions& options, const ImportOutput& output) {
  require_size(options.form);
  const PictureFolder found = list_classes(folder);
  if (found.is_divided && (options.validation_fraction > 0 || options.test_fraction > 0)) {
    throw ConfigError(
        fmt::format("--validation-fraction, --test-fraction: {} has folders of its own for training, "
                    "validation and test; remove the options",
                    folder));
  }
  check_shares(shares_of(options), "pictures", "");
  SetWriter writer(output);
  ImagesAside images(options.form, output.path);
  const std::vector<std::string> damaged =
      read_pictures(found.files, options.form, options.skips_damaged,
                    [&](std::size_t i, const auto& image) { images.add(found.files[i], image); });
  std::vector<PictureFile>& kept = images.kept();
  if (!found.is_divided) divide(kept, options);
  if (count_of_split(kept, Split::train) == 0) {
    throw DataError(fmt::format("{}: all pictures for training are damaged, such as {}", folder, damaged.front()));
  }
  images.write(writer);
  write_form(options.form, found.classes, writer);
  writer.finish();
  ClassCounts counts(found.classes.size());
  for (const PictureFile& file : kept) counts.add(file.split, file.label);
  ImportSummary summary{.path = output.path,
                        .train = count_of_split(kept, Split::train),
                        .validation = count_of_split(kept, Split::validation),
                        .test = count_of_split(kept, Split::test),
                        .shape = {options.form.channels(), options.form.height, options.form.width},
                        .classes = std::ssize(found.classes),
                        .warnings = notes_on(found, damaged)};
  for (std::string& warning : counts.warnings(output.path, found.classes, "picture")) {
    summary.warnings.push_back(std::move(warning));
  }
  return summary;
}

std::string write_raw_pictures(const std::string& path, const Preprocessing& trained, const ImportOutput& output) {
  const ImageForm& form = *trained.recipe.images;
  const PictureFolder found = list_pictures(path, trained.class_names);
  SetWriter writer(output);
  ImagesAside images(form, output.path);
  read_pictures(found.files, form, /*skips_damaged=*/false,
                [&](std::size_t i, const auto& image) { images.add(found.files[i], image); });
  images.write(writer);
  write_form(form, trained.class_names, writer);
  writer.finish();
  return "";
}

}  // namespace unisono::data
