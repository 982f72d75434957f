#include "mpi/launch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace unisono::comm::mpi {
namespace {

/// The number that a variable holds, or `otherwise`.
int number(const Environment& environment, const char* name, int otherwise) {
  const std::string text = environment(name);
  int value = otherwise;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : otherwise;
}

/// The number of tasks of this process's Slurm step; 1 where it is in none. Only srun sets the step's variables; a
/// batch script has SLURM_NTASKS and SLURM_PROCID=0, too, and may well start one process by hand.
int slurm_tasks(const Environment& environment) {
  const bool is_task = !environment("SLURM_STEP_ID").empty() || !environment("SLURM_STEPID").empty() ||
                       number(environment, "SLURM_PROCID", 0) > 0;
  if (!is_task) return 1;
  return number(environment, "SLURM_STEP_NUM_TASKS", number(environment, "SLURM_NTASKS", 1));
}

namespace fs = std::filesystem;

bool is_in_memory(const std::string& folder) {
  struct statfs status = {};
  return statfs(folder.c_str(), &status) == 0 && status.f_type == TMPFS_MAGIC;
}

bool is_segment(std::string_view name) { return name.starts_with("vader_segment.") || name.starts_with("osc_sm."); }

/// Calls visit(path) for every segment in the folder.
template <typename Visit>
void for_each_segment(const std::string& folder, Visit visit) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (is_segment(entry.path().filename().string())) visit(entry.path());
  }
}

/// The kernel grants a lease for writing on a file that nobody else has open or mapped, in whatever container.
bool nobody_uses(int file) {
  fcntl(file, F_SETSIG, SIGURG);  // whoever opens it meanwhile waits for the lease's end; SIGURG is ignored
  return fcntl(file, F_SETLEASE, F_WRLCK) == 0;
}

void remove_if_dead(const fs::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return;
  struct stat status = {};
  const bool mine = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
  if (mine && nobody_uses(file)) unlink(path.c_str());
  close(file);  // and with it the lease
}

}  // namespace

Environment process_environment() {
  return [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
}

std::string launch_problem(const Environment& environment, int size) {
  const auto sees = fmt::format("this process sees {} rank{}", size, size == 1 ? "" : "s");
  // Open MPI's own launcher knows best: inside an allocation it starts ranks by an srun of its own.
  if (const int ranks = number(environment, "OMPI_COMM_WORLD_SIZE", 0); ranks > 0) {
    if (ranks == size) return {};
    return fmt::format(
        "OMPI_COMM_WORLD_SIZE is {} but {}: it was started by the mpirun of another Open MPI. Start it "
        "with the mpirun of the MPI that unisono was built with",
        ranks, sees);
  }
  if (const int tasks = slurm_tasks(environment); tasks > size) {
    return fmt::format(
        "SLURM_NTASKS is {} but {}: it was started by an srun that does not speak Open MPI's PMIx. Start "
        "it with 'srun --mpi=pmix', or with mpirun inside the allocation",
        tasks, sees);
  }
  if (const int ranks = number(environment, "PMI_SIZE", 1); ranks > size) {
    return fmt::format(
        "PMI_SIZE is {} but {}: it was started by the mpirun of another MPI. Start it with the mpirun of "
        "the MPI that unisono was built with",
        ranks, sees);
  }
  return {};
}

bool is_first_of_launch(const Environment& environment) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (!environment(name).empty()) return number(environment, name, 0) == 0;
  }
  return true;
}

bool is_first_of_node(const Environment& environment) {
  return number(environment, "OMPI_COMM_WORLD_LOCAL_RANK", number(environment, "SLURM_LOCALID", 0)) == 0;
}

Peers launched_peers(const Environment& environment) {
  if (const int ranks = number(environment, "OMPI_COMM_WORLD_SIZE", 0); ranks > 0) {
    return number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", 0) == ranks ? Peers::on_this_node : Peers::unknown;
  }
  const bool launched =
      !environment("PMIX_NAMESPACE").empty() || !environment("PMI_SIZE").empty() || slurm_tasks(environment) > 1;
  return launched ? Peers::unknown : Peers::none;
}

bool launched_more_ranks_than_cores(const Environment& environment, int allowed_cores, int all_cores) {
  // A rank that the launcher has bound sees only its own cores; other ranks have other cores.
  const bool bound = number(environment, "OMPI_MCA_orte_bound_at_launch", 0) != 0;
  return number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", 1) > (bound ? all_cores : allowed_cores);
}

void remove_dead_segments(const std::string& folder) {
  if (is_in_memory(folder)) for_each_segment(folder, remove_if_dead);
}

void remove_segments_of(const std::string& job, const std::string& folder) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(job.data(), job.data() + job.size(), number);
  if (job.empty() || error != std::errc() || end != job.data() + job.size()) return;
  const std::string part = fmt::format(".{:x}.", number);
  for_each_segment(folder, [&part](const fs::path& path) {
    struct stat status = {};
    const bool mine = lstat(path.c_str(), &status) == 0 && status.st_uid == geteuid();
    if (mine && path.filename().string().find(part) != std::string::npos) unlink(path.c_str());
  });
}

}  // namespace unisono::comm::mpi
