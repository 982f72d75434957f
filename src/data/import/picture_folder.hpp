#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/data/images.hpp"

namespace unisono::data {

/// A file of a folder of pictures.
struct PictureFile {
  std::string path;         ///< as it is opened
  std::string name;         ///< below the folder
  std::int64_t label = -1;  ///< number of its class; −1: none
  Split split = Split::train;
};

/// The pictures of a folder, in the order of their names.
struct PictureFolder {
  std::vector<std::string> classes = {};  ///< in alphabetical order
  std::vector<PictureFile> files = {};
  bool is_divided = false;                 ///< whether it has folders of its own for training, validation and test
  std::vector<std::string> left_out = {};  ///< names of files that are no pictures, by their ends
};

/// A folder with a folder for each class, maybe below train, val and test. Pictures may lie in further folders below.
/// Names that begin with a dot are left out. \throws DataError where it has no such layout
PictureFolder list_classes(const std::string& folder);

/// All pictures below a folder, or one file, to which a model is applied. Where all lie in folders that are named like
/// the classes of the model, these are their labels.
PictureFolder list_pictures(const std::string& path, const std::vector<std::string>& classes);

/// Reads pictures with all cores and hands over the images of the form, in the order of the list. \param take gets the
/// number of a file and its image, [channels, height, width]
/// \return what is wrong with the damaged ones, if they are to be skipped \throws DataError for the first one, if not
std::vector<std::string> read_pictures(const std::vector<PictureFile>& files, const ImageForm& form, bool skips_damaged,
                                       const std::function<void(std::size_t, const std::vector<std::uint8_t>&)>& take);

}  // namespace unisono::data
