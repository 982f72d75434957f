#pragma once

#include <string>
#include <vector>

#include "import/vocabulary.hpp"

namespace unisono::data {

/// Reads texts, each thread its part of them; what is found does not depend on the number of threads. The end of a file
/// ends a sentence.
/// \param beside the output, see SpillFile
/// \throws DataError naming file, line and byte of the first mistake
ReadText read_text(const std::vector<std::string>& files, bool lowercase, const std::string& beside, int threads);

}  // namespace unisono::data
