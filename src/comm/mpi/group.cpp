#include <fmt/format.h>

#include <string_view>

#include "group.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::comm::mpi {

void check(int code, const char* call, const char* file, int line) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0, rank = -1;
  MPI_Error_string(code, text, &length);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string_view path(file);
  throw CommunicationError(fmt::format("{} failed on rank {} ({}:{}): {}", call, rank,
                                       path.substr(path.find_last_of('/') + 1), line, std::string_view(text)));
}

}  // namespace unisono::comm::mpi
