#include <dlfcn.h>

#include "nccl/library.hpp"

namespace unisono::nccl {
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

}  // namespace unisono::nccl
