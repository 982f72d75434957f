#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/data/images.hpp"
#include "unisono/data/import.hpp"

namespace unisono::data {

/// A file of a folder of pictures.
struct PictureFile {
  std::string path;                       ///< as it is opened
  std::string name;                       ///< below the folder
  std::int64_t label = -1;                ///< number of its class; −1: none
  std::vector<std::int64_t> labels = {};  ///< where there may be several: their numbers
  Split split = Split::train;
};

/// The pictures of a folder, in the order of their names.
struct PictureFolder {
  std::vector<std::string> classes = {};  ///< in alphabetical order, or in that of the columns of a table
  bool several_labels = false;            ///< whether a picture may be of several of them
  std::vector<PictureFile> files = {};
  bool is_divided = false;                 ///< whether folders or a table say what is for training, validation and test
  std::vector<std::string> left_out = {};  ///< names of files that are no pictures, by their ends
  std::string unlabelled = {};  ///< why pictures have no labels, though some could; empty: they have, or none could
};

/// The split that is called train, val (or valid, validation) or test; nothing for other names.
std::optional<Split> split_of(const std::string& name);

/// A folder with a folder for each class, maybe below train, val and test. Pictures may lie in further folders below.
/// Names that begin with a dot are left out. \throws DataError where it has no such layout
PictureFolder list_classes(const std::string& folder);

/// The files of a folder that a table names, with their classes. \throws ConfigError for a column that is not there,
/// DataError naming the line of a file that is not there, of a split with another name, or of labels that are none
PictureFolder list_table(const std::string& folder, const ImagesOptions& options);

/// All pictures below a folder, or one file, to which a model is applied. Where all lie in folders that are named like
/// the classes of the model, these are their labels.
PictureFolder list_pictures(const std::string& path, const std::vector<std::string>& classes);

/// What is made of the bytes of a file. \throws DataError for damaged ones
using ConvertPicture =
    std::function<std::vector<std::uint8_t>(std::vector<std::uint8_t> bytes, const std::string& path)>;

/// Reads files with all cores and hands over what `convert` makes of them, in the order of the list. \param take gets
/// the number of a file and this
/// \param remedy for a damaged one, at the end of the message
/// \return what is wrong with the damaged ones, if they are to be skipped \throws DataError for the first one, if not
std::vector<std::string> read_pictures(const std::vector<PictureFile>& files, bool skips_damaged,
                                       const std::string& remedy, const ConvertPicture& convert,
                                       const std::function<void(std::size_t, const std::vector<std::uint8_t>&)>& take);

/// Makes images of the form, [channels, height, width].
ConvertPicture to_images(const ImageForm& form);

}  // namespace unisono::data
