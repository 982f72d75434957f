#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <optional>

#include "communicator.hpp"
#include "job.hpp"
#include "topology.hpp"
#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/comm/mpi.hpp"

namespace unisono::comm {
namespace {

constexpr std::uint64_t kMebibyte = 1 << 20;
constexpr std::uint64_t kNeeded = 192 * kMebibyte;  // Open MPI 4.1 takes 165 to 180 MiB on one host

/// What this process has mapped; 0 where the system does not say.
std::uint64_t mapped_bytes() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

/// Checks that Open MPI has enough address space for its libraries and memory; without, it crashes or hangs.
/// \throws DeviceError where the limit of this process (ulimit -v) is too low
void require_address_space() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const std::uint64_t needed = mapped_bytes() + kNeeded;
  if (limit.rlim_cur >= needed) return;
  throw DeviceError(fmt::format(
      "this process may address only {} MiB of memory (ulimit -v), but needs {} MiB to start MPI; raise the "
      "limit, or remove it with 'ulimit -v unlimited'",
      limit.rlim_cur / kMebibyte, needed / kMebibyte));
}

using mpi::check;
using mpi::End;

/// Sets an environment variable that Open MPI reads when it is initialised, unless the user has set it.
void prefer(const char* name, const char* value) { setenv(name, value, 0); }

/// Idle ranks must leave the core to others where there are more ranks than cores.
void yield_when_idle(const mpi::Environment& environment) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof(allowed), &allowed);
  const auto all = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  if (mpi::launched_more_ranks_than_cores(environment, CPU_COUNT(&allowed), all)) {
    prefer("OMPI_MCA_mpi_yield_when_idle", "1");
  }
}

/// Ranks of one node need no network. The libraries for Omni-Path and InfiniPath take 0.1 s each to be loaded, whether
/// or not there is such a network; a process that is alone needs no daemon, either, which takes another 0.1 s. Without
/// a daemon, all such processes would share a session folder in /tmp, and fail where another one removes it at that
/// moment; so none is created.
void load_what_is_needed(mpi::Peers peers) {
  if (peers == mpi::Peers::unknown) return;
  if (peers == mpi::Peers::none) prefer("OMPI_MCA_btl", "self");  // others listen on a port
  prefer("OMPI_MCA_mtl", "^ofi,psm,psm2");
  prefer("OMPI_MCA_btl", "^ofi,openib");
  if (peers != mpi::Peers::none) return;
  prefer("OMPI_MCA_ess_singleton_isolated", "1");
  prefer("OMPI_MCA_orte_create_session_dirs", "0");
}

bool is_initialised() {
  int initialised = 0;
  MPI_Initialized(&initialised);
  return initialised != 0;
}

void initialise(int& argc, char**& argv) {
  require_address_space();
  yield_when_idle(mpi::process_environment());
  load_what_is_needed(mpi::launched_peers(mpi::process_environment()));
  if (mpi::is_first_of_node(mpi::process_environment())) mpi::remove_dead_segments();
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::string problem = mpi::launch_problem(mpi::process_environment(), size);
  if (problem.empty() && provided < MPI_THREAD_SERIALIZED) {
    problem =
        "this MPI does not allow calls from several threads in turn (MPI_THREAD_SERIALIZED); use an MPI that was built "
        "with this support";
  }
  if (problem.empty()) return;
  MPI_Finalize();
  throw LaunchError(problem);
}

int code_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return static_cast<int>(ExitCode::device);
  const auto* const known = dynamic_cast<const Error*>(&error);
  return static_cast<int>(known != nullptr ? known->code() : ExitCode::other);
}

/// The code to exit with, given how the ranks ended, as far as that is known.
int agreed_code(const mpi::Control& control) {
  if (const int failed = control.failed_rank(); failed >= 0)
    return control.ends()[static_cast<std::size_t>(failed)]->code;
  int largest = 0;
  for (const auto& end : control.ends()) {
    if (end) largest = std::max(largest, end->code);
  }
  return largest;
}

/// For scripts/launch, which may have to end an mpirun that hangs and then knows no exit code. In one piece: a process
/// that is killed here leaves what another one has noted.
void note_code(int code) {
  const char* const path = std::getenv("UNISONO_EXIT_CODE_FILE");
  if (path == nullptr) return;
  const std::string aside = fmt::format("{}.{}", path, getpid());
  std::FILE* const file = std::fopen(aside.c_str(), "w");
  if (file == nullptr) return;  // it is on another host
  fmt::print(file, "{}\n", code);
  std::fclose(file);
  std::rename(aside.c_str(), path);
}

/// Ends the processes that cannot be reached, and this one.
[[noreturn]] void abort_all(int code) {
  std::fflush(nullptr);
  mpi::remove_segments_of(mpi::process_environment()("PMIX_NAMESPACE"));
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

/// A line from the lowest rank that has ended.
void say_who_is_left(const MpiJob& job) {
  std::string names;
  bool is_first = true;
  for (int rank = 0; rank < job.roster().size(); ++rank) {
    if (!job.control().ends()[static_cast<std::size_t>(rank)]) {
      names += (names.empty() ? "" : ", ") + job.roster().name(rank) + ")";
    } else if (rank < job.roster().rank()) {
      is_first = false;
    }
  }
  if (!is_first) return;
  print_error(fmt::format("warning: {} had not ended {} s after the results were stored; ended with the others", names,
                          *job.end_limit()));
}

volatile std::sig_atomic_t code_at_end = 0;

/// Ends this process if it has not ended by then: in MPI_Finalize, and where windows are freed, ranks wait for each
/// other without a limit.
void end_at(double seconds) {
  std::signal(SIGALRM, [](int) { _exit(code_at_end); });
  alarm(static_cast<unsigned>(std::clamp(std::ceil(seconds), 1.0, 1e6)));
}

/// Ends this rank, and waits for the others. \param print for the rank whose error is the run's
int end_rank(MpiJob& job, const End& how, const std::function<void()>& print) {
  {
    const std::lock_guard lock(job.progress().mutex());
    job.control().announce_end(how);
  }
  const bool met = job.meet();
  const std::lock_guard lock(job.progress().mutex());
  const int agreed = agreed_code(job.control());
  const bool speaks = job.control().failed_rank() == job.roster().rank();
  if (speaks) print();
  note_code(agreed);
  code_at_end = agreed;
  if (met) return agreed;
  if (job.control().failed_rank() < 0) say_who_is_left(job);
  if (!speaks) usleep(1'000'000);  // the rank that failed prints first, and aborts
  abort_all(agreed);
}

constexpr Named<DeviceTransport> kDeviceTransports[] = {
    {DeviceTransport::automatic, "auto", "nccl if every rank has a GPU of its own and NCCL is found, otherwise staged"},
    {DeviceTransport::nccl, "nccl", "with NCCL; an error if it is not available"},
    {DeviceTransport::staged, "staged", "through host memory, as between CPUs"}};

constexpr Named<Reduction> kReductions[] = {
    {Reduction::fast, "fast", "in the order of the ranks, so that the last bits depend on how many there are"},
    {Reduction::reproducible, "reproducible",
     "in the order of a fixed tree over train.micro_batches: any number of ranks gives the same bits"}};

}  // namespace

MpiSession::MpiSession(int& argc, char**& argv) {
  const bool mine = !is_initialised();
  if (mine) initialise(argc, argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  job_ = std::shared_ptr<MpiJob>(new MpiJob, [mine](MpiJob* job) {
    const bool is_limited = job->end_limit().has_value();
    delete job;
    if (mine) MPI_Finalize();
    if (is_limited) alarm(0);
  });
}

MpiSession::~MpiSession() = default;

int MpiSession::rank() const { return job_->roster().rank(); }
int MpiSession::size() const { return job_->roster().size(); }

std::unique_ptr<Communicator> MpiSession::world(const CommunicationSettings& settings, Warn warn) {
  const std::uint64_t number = job_->gather_all(settings.timeout_seconds);
  if (settings.shared_memory) {
    const std::lock_guard lock(job_->progress().mutex());
    job_->steps().share();
  }
  return std::make_unique<mpi::MpiCommunicator>(mpi::Terms{job_, settings, std::move(warn)}, MPI_COMM_WORLD, number);
}

void MpiSession::results_are_stored(double seconds) {
  constexpr double kToAbort = 10;  // after `meet` has waited in vain
  job_->limit_end(seconds);
  end_at(seconds + kToAbort);
  if (rank() == 0) note_code(0);
}

int MpiSession::finish(int code) {
  return end_rank(*job_, {code, End::How::normally}, [] {});
}

int MpiSession::fail(const std::exception& error, const std::function<void()>& print) {
  const bool follows = dynamic_cast<const PeerFailure*>(&error) != nullptr;
  return end_rank(*job_, {code_of(error), follows ? End::How::followed_a_failure : End::How::failed}, print);
}

bool is_first_of_launch() { return mpi::is_first_of_launch(mpi::process_environment()); }

void CommunicationSettings::describe(ConfigVisitor& visitor) {
  visitor.field(
      {.name = "timeout_seconds",
       .meaning =
           "how long ranks wait for each other; if a rank takes longer, the job ends with an error that names it",
       .unit = "s",
       .range = above(0)},
      timeout_seconds);
  visitor.field(
      {.name = "bucket_bytes",
       .meaning = "size of a gradient bucket, which is sent as soon as it is complete; 0: chosen automatically",
       .unit = "bytes",
       .range = at_least(0).at_most(0x1p50)},
      bucket_bytes);
  visitor.field(
      {.name = "shared_memory", .meaning = "ranks of a node compute sums in shared memory instead of sending messages"},
      shared_memory);
  visitor.choice({.name = "reduction", .meaning = "how the gradients of a step are summed"}, reduction, kReductions);
  visitor.field(
      {.name = "leaves",
       .meaning = "into how many runs of micro-batches reproducible sums divide a step; at least the number of "
                  "replicas. The result depends on it",
       .range = at_least(1).at_most(1024)},
      leaves);
  visitor.choice({.name = "device_transport", .meaning = "how gradients and parameters are transferred between GPUs"},
                 device_transport, kDeviceTransports);
  visitor.field({.name = "record_times",
                 .meaning = "write when each gradient was computed and each message arrived, to gradients.jsonl and "
                            "messages.jsonl of the run folder: unisono simulate can follow them"},
                record_times);
}

}  // namespace unisono::comm
