#include <dlfcn.h>

#include <cstdlib>

#include "nccl/library.hpp"

namespace unisono::comm::nccl {
namespace {

struct Loaded {
  Functions functions{};
  std::string missing;
};

template <typename Function>
void find(void* library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) missing = std::string("libnccl.so.2 has no ") + name + ": it is too old";
}

Loaded load_library() {
  Loaded loaded;
  // Several communicators have operations on the device at the same time. They must run in the order in which the host
  // launched them, which is the same on all ranks; else they might deadlock.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    loaded.missing = std::string("NCCL is not found (") + dlerror() + ")";
    return loaded;
  }
#define UNISONO_FIND(function) find(library, #function, loaded.functions.function, loaded.missing);
  UNISONO_NCCL_FUNCTIONS(UNISONO_FIND)
#undef UNISONO_FIND
  return loaded;
}

}  // namespace

const Functions* load(std::string& missing) {
  static const Loaded loaded = load_library();  // never changes
  missing = loaded.missing;
  return missing.empty() ? &loaded.functions : nullptr;
}

}  // namespace unisono::comm::nccl
