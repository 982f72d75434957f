#include "mpi/shared_window.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cstring>
#include <new>

#include "job.hpp"
#include "topology.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::comm::mpi {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kSpareBytes = std::size_t{8} << 20;  ///< left to other users of the folder: MPI itself, HDF5

constexpr const char* kFolderVariable = "OMPI_MCA_osc_sm_backing_directory";

/// A control variable of the MPI library that is a text, or empty where it has no such variable.
std::string control_variable(const char* name) {
  int provided = 0, index = 0;
  if (MPI_T_init_thread(MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) return {};
  std::string value;
  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  int count = 0;
  if (MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
      MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS) {
    value.resize(static_cast<std::size_t>(count) + 1);
    if (MPI_T_cvar_read(handle, value.data()) != MPI_SUCCESS) value.clear();
    value.resize(std::strlen(value.c_str()));
    MPI_T_cvar_handle_free(&handle);
  }
  MPI_T_finalize();
  return value;
}

/// The largest size of a file in this folder, in bytes.
std::size_t room_in(const std::string& folder) {
  struct statvfs status = {};
  if (statvfs(folder.c_str(), &status) != 0) return 0;
  const std::size_t free = static_cast<std::size_t>(status.f_bavail) * status.f_frsize;
  return free > kSpareBytes ? free - kSpareBytes : 0;
}

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

bool address_space_is_limited() {
  rlimit limit = {};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/// Whether this process may address so much more.
bool can_be_mapped(std::size_t bytes) {
  void* const place = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return false;
  munmap(place, bytes);
  return true;
}

std::byte* align(void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return reinterpret_cast<std::byte*>((address + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes);
}

}  // namespace

const std::string& SharedWindow::backing_folder() {
  static const std::string folder = [] {
    std::string told = process_environment()(kFolderVariable);
    // When asked for its variables, Open MPI loads all of its components, and crashes where the address space is too
    // small.
    if (told.empty() && !address_space_is_limited()) told = control_variable("osc_sm_backing_directory");
    return told.empty() ? std::string(kSharedMemoryFolder) : told;
  }();
  return folder;
}

std::size_t SharedWindow::room_bytes() { return room_in(backing_folder()); }

std::optional<SharedWindow::Lack> SharedWindow::lack(std::size_t bytes) {
  // Asking Open MPI for its folder takes 0.2 s and more: only where there is not room enough in the usual one.
  const std::string told = process_environment()(kFolderVariable);
  std::size_t room = room_in(told.empty() ? kSharedMemoryFolder : told);
  if (bytes > room) room = room_bytes();
  if (bytes > room) {
    return Lack{fmt::format("{:.1f} MiB are free in {}", mebibytes(room), backing_folder()),
                "make that file system larger"};
  }
  rlimit largest_file = {};
  if (getrlimit(RLIMIT_FSIZE, &largest_file) == 0 && bytes > largest_file.rlim_cur) {
    return Lack{fmt::format("files may have {:.1f} MiB (ulimit -f)", mebibytes(largest_file.rlim_cur)),
                "raise that limit"};
  }
  if (!can_be_mapped(bytes))
    return Lack{"this process may not address that much more memory (ulimit -v)", "raise that limit"};
  return std::nullopt;
}

std::size_t SharedWindow::needed_bytes(std::size_t part_bytes, int ranks) {
  const std::size_t pages = (part_bytes + kAlignmentBytes + kPageBytes - 1) / kPageBytes;
  return (pages * static_cast<std::size_t>(ranks) + 2) * kPageBytes;
}

SharedWindow::SharedWindow(MPI_Comm node, std::size_t part_bytes) : part_bytes_(part_bytes) {
  int size = 0;
  check(MPI_Comm_rank(node, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(node, &size), "MPI_Comm_size");
  MPI_Info info = MPI_INFO_NULL;
  check(MPI_Info_create(&info), "MPI_Info_create");
  check(MPI_Info_set(info, "alloc_shared_noncontig", "true"), "MPI_Info_set");  // parts begin at pages of their own
  void* base = nullptr;
  const int code = MPI_Win_allocate_shared(static_cast<MPI_Aint>(part_bytes + kAlignmentBytes), 1, info, node,
                                           static_cast<void*>(&base), &window_);
  MPI_Info_free(&info);
  if (code != MPI_SUCCESS) {
    throw DeviceError(
        fmt::format("{:.1f} MiB of shared memory cannot be allocated in {}; free some memory, raise what limits it "
                    "(ulimit -v, the job's memory), or set communication.shared_memory = false",
                    mebibytes(needed_bytes(part_bytes, size)), backing_folder()));
  }
  for (int r = 0; r < size; ++r) {
    MPI_Aint bytes = 0;
    int unit = 0;
    check(MPI_Win_shared_query(window_, r, &bytes, &unit, static_cast<void*>(&base)), "MPI_Win_shared_query");
    parts_.push_back(align(base));
  }
}

void SharedWindow::free() {
  if (window_ != MPI_WIN_NULL) check(MPI_Win_free(&window_), "MPI_Win_free");
}

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "a lock inside the window would belong to one process");

Board::Board(MPI_Comm node) : window_(node, sizeof(RankFlags)) {
  new (window_.mine()) RankFlags();
  check(MPI_Barrier(node), "MPI_Barrier");
}

void Board::arrive(std::uint64_t sequence, std::uint64_t signature) {
  mine().signatures[sequence % kRing].store(signature, std::memory_order_relaxed);
  mark(&RankFlags::arrived, sequence);
}

bool Board::reached(Which counter, std::uint64_t sequence, int ranks, int& seen) const {
  while (seen < ranks && (part(seen).*counter).value.load(std::memory_order_acquire) >= sequence) ++seen;
  return seen >= ranks;
}

void Board::check_signatures(std::uint64_t sequence) const {
  const auto signature = [&](int rank) {
    return part(rank).signatures[sequence % kRing].load(std::memory_order_relaxed);
  };
  for (int rank = 0; rank < size(); ++rank) {
    if (signature(rank) != signature(window_.rank())) {
      throw CommunicationError(
          "the ranks of this node call different collectives, or call one with different lengths or offsets; all ranks "
          "must make the same calls in the same order");
    }
  }
}

}  // namespace unisono::comm::mpi
