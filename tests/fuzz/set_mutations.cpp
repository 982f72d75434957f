// Sets and dictionaries that were damaged.
//   set_mutations COUNT SEED FOLDER…

#include "mutations.hpp"
#include "use_set.hpp"

int main(int argc, char** argv) {
  using unisono::test::Outcome;
  return unisono::test::use_mutations(argc, argv, [](const std::string& path, const unisono::test::Seed&) {
    return unisono::test::use_set(path) > 0 ? Outcome::refused : Outcome::read;
  });
}
