// Sets and dictionaries of any bytes: read, or refused with a data error.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "use_set.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int file = memfd_create("set", MFD_CLOEXEC);
  if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  unisono::test::use_set("/proc/self/fd/" + std::to_string(file));
  close(file);
  return 0;
}
