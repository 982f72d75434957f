// The sum of a vector over all ranks: ours in shared memory, ours by messages, and the MPI library's allreduce,
// measured alternately in one run. Prints medians over the rounds of the slowest rank.
//
//   mpirun -n 2 bench_allreduce [rounds]
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "unisono/base/clock.hpp"
#include "unisono/base/median.hpp"
#include "unisono/comm/mpi.hpp"

using namespace unisono;

namespace {

/// One way of summing, and what it took.
struct Contender {
  std::function<void()> sum;
  std::vector<double> seconds = {};
};

void measure(unisono::comm::Communicator& communicator, std::vector<Contender>& contenders, int rounds) {
  for (int round = -1; round < rounds; ++round) {  // the first warms up
    for (Contender& contender : contenders) {
      communicator.barrier();
      const unisono::Stopwatch watch;
      contender.sum();
      double seconds = watch.seconds();
      communicator.allreduce_max(std::span(&seconds, 1));
      if (round >= 0) contender.seconds.push_back(seconds);
    }
  }
}

/// The part of `seconds` that a sum still takes after computing so long beside it.
double exposed_share(unisono::comm::Communicator& communicator, unisono::MutableView values, double seconds,
                     int rounds) {
  std::vector<double> exposed;
  for (int round = 0; round < rounds; ++round) {
    communicator.barrier();
    const unisono::comm::RequestPtr request = communicator.start_allreduce_sum(values);
    for (const unisono::Stopwatch computing; computing.seconds() < seconds;) {
    }
    const unisono::Stopwatch watch;
    request->wait();
    double waited = watch.seconds();
    communicator.allreduce_max(std::span(&waited, 1));
    exposed.push_back(waited);
  }
  return median_of(exposed) / seconds;
}

void compare(unisono::comm::Communicator& communicator, unisono::Index n, int rounds) {
  unisono::Buffer shared(n, communicator.shared_allocator()), plain(n), theirs(n);
  std::vector<Contender> contenders{
      {[&] { communicator.allreduce_sum(shared.view()); }}, {[&] { communicator.allreduce_sum(plain.view()); }}, {[&] {
        MPI_Allreduce(MPI_IN_PLACE, theirs.data(), static_cast<int>(n), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      }}};
  measure(communicator, contenders, rounds);
  const double window = median_of(contenders[0].seconds), messages = median_of(contenders[1].seconds),
               library = median_of(contenders[2].seconds);
  const double exposed = exposed_share(communicator, shared.view(), window, rounds);
  if (!communicator.is_root()) return;
  constexpr double kMicro = 1e6;
  fmt::print("{:>12} {:>12.1f} {:>12.1f} {:>12.1f} {:>10.2f} {:>10.2f} {:>10.2f} {:>9.0f}%\n", n * 4, window * kMicro,
             messages * kMicro, library * kMicro, library / window, library / messages,
             static_cast<double>(n) * 4 / window * 1e-9, 100 * exposed);
}

}  // namespace

int main(int argc, char** argv) {
  unisono::comm::MpiSession session(argc, argv);
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 21;
  {
    const auto communicator = session.world({}, [](const std::string& text) { fmt::print("{}\n", text); });
    if (communicator->is_root()) {
      fmt::print("{} ranks, {} on a node; microseconds, the library's over ours, GB/s of the vector\n",
                 communicator->size(), communicator->node_size());
      fmt::print("{:>12} {:>12} {:>12} {:>12} {:>10} {:>10} {:>10} {:>10}\n", "bytes", "shared", "messages", "MPI",
                 "×shared", "×messages", "GB/s", "exposed");
    }
    for (const unisono::Index n : {1, 256, 4096, 65'536, 262'144, 669'706, 4'194'304, 20'037'642}) {
      compare(*communicator, n, n < 100'000 ? 10 * rounds : rounds);
    }
  }
  return session.finish(0);
}
