#pragma once

#include <functional>
#include <string>
#include <vector>

// Files that were damaged: whatever happens to a file's bytes, the program reads it or refuses it with a data error,
// soon and in little memory.

namespace unisono::test {

/// A file that is damaged.
struct Seed {
  std::string name;  ///< of the file
  std::string path;
  std::vector<char> bytes;
};

enum class Outcome { read, refused };

/// Reads a file that was made from a seed. \return whether it was read as a whole; any other error passes
using Use = std::function<Outcome(const std::string& path, const Seed& seed)>;

/// The body of a program NAME COUNT SEED FOLDER…, which damages the files of the folders in turn; a function of the
/// seed. Each mutation is used in a process of its own. One that ends otherwise is kept as ./mutation-NUMBER and named.
/// \return the exit code
int use_mutations(int argc, char** argv, const Use& use);

}  // namespace unisono::test
