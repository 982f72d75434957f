// The tables are filled out of the shared libraries that the loader finds.
#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#include "cuda/libraries.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::kernels::cuda {
namespace {

/// A shared library, loaded for as long as the process lives.
class Library {
 public:
  Library(const std::string& file, const std::string& product)
      : product_(product), handle_(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ != nullptr) return;
    throw DeviceError(
        fmt::format("device = \"cuda\" needs {}, which cannot be loaded ({}); install it or add its folder to "
                    "LD_LIBRARY_PATH, or set device = \"cpu\"",
                    product, dlerror()));
  }

  template <typename Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (function != nullptr) return;
    throw DeviceError(fmt::format("{} has no function {}: it is too old; install a newer one", product_, name));
  }

 private:
  std::string product_;
  void* handle_;
};

// The names of the files are literals, which scripts/make-bundle reads in the binary.
#define UNISONO_TEXT(number) UNISONO_TEXT_OF(number)
#define UNISONO_TEXT_OF(number) #number

CublasLt load_cublas_lt() {
  const Library library("libcublasLt.so." UNISONO_TEXT(CUBLAS_VER_MAJOR), "cuBLASLt " UNISONO_TEXT(CUBLAS_VER_MAJOR));
  CublasLt table{};
#define UNISONO_FIND(function) library.find(#function, table.function);
  UNISONO_CUBLASLT_FUNCTIONS(UNISONO_FIND)
  return table;
}

Cudnn load_cudnn() {
  const Library library("libcudnn.so." UNISONO_TEXT(CUDNN_MAJOR), "cuDNN " UNISONO_TEXT(CUDNN_MAJOR));
  Cudnn table{};
  UNISONO_CUDNN_FUNCTIONS(UNISONO_FIND)
#undef UNISONO_FIND
  return table;
}

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt table = load_cublas_lt();  // never changes
  return table;
}

const Cudnn& cudnn() {
  static const Cudnn table = load_cudnn();
  return table;
}

}  // namespace unisono::kernels::cuda
