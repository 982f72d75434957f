#include <cstdio>

#include "unisono/base/errors.hpp"
#include "unisono/settings/config.hpp"

// Reads a config with the library's own reader, which knows the settings of every module.
int main(int argc, char** argv) {
  try {
    const unisono::settings::Config config =
        unisono::settings::parse_config(unisono::read_config(argc > 1 ? argv[1] : ""));
    std::printf("%s: %lld epochs\n", config.name.c_str(), static_cast<long long>(config.train.epochs));
    return 0;
  } catch (const unisono::Error& error) {
    std::printf("%s: %s\n", error.kind().c_str(), error.what());
    return static_cast<int>(error.code());
  }
}
