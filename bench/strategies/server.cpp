// What a parameter server moves and does, beside what the machine could, alternately in one run: half the round trip of
// MPI messages of a shard's size, a pull, a push that is not applied, and a push that makes a step of SGD. Rank 0
// works, rank 1 serves. Then the step alone, beside a triad. Prints medians over the rounds.
//
//   mpirun -n 2 bench_server [rounds]
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <vector>

#include "server/server.hpp"
#include "server/workers.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/base/median.hpp"
#include "unisono/comm/mpi.hpp"
#include "unisono/kernels/backend.hpp"

using namespace unisono;

namespace {

constexpr double kGiga = 1e9;

double seconds_of(const std::function<void()>& work) {
  const unisono::Stopwatch watch;
  work();
  return watch.seconds();
}

/// A shard of n floats, updated by SGD.
std::unique_ptr<unisono::strategies::ServerShard> make_sgd_shard(unisono::Index n, unisono::MutableView theta,
                                                                 unisono::kernels::Backend& backend) {
  unisono::ParameterLayout layout;
  layout.add({.name = "theta", .shape = {n}});
  return unisono::strategies::make_gradient_shard(unisono::strategies::served_holding(layout, {0, n}),
                                                  unisono::optim::make_optimizer({.kind = "sgd"}, layout, backend),
                                                  {0, n}, {theta, {}}, {});
}

/// Seconds of each kind, a round each.
struct Seconds {
  std::vector<double> ping, pull, push, push_and_step;
};

class Bench {
 public:
  Bench(unisono::comm::Communicator& communicator, unisono::Index n)
      : communicator_(communicator),
        group_(communicator.split(0, communicator.rank())),
        roles_(unisono::strategies::Roles::of_ranks(2, 1)),
        wire_(*group_, roles_),
        works_(roles_.rank_of_worker(0) == communicator.rank()),
        theta_(n),
        gradient_(n),
        backend_(unisono::kernels::make_cpu_backend(1)) {
    if (!works_) {
      shard_ = make_sgd_shard(n, theta_.view(), *backend_);
      server_ = std::make_unique<unisono::strategies::Server>(wire_, roles_, 0, *shard_,
                                                              unisono::strategies::ServerSettings{});
    }
  }

  void round(Seconds& seconds) {
    communicator_.barrier();
    ping();  // both are here
    seconds.ping.push_back(seconds_of([this] { ping(); }) / 2);
    const unisono::strategies::Segment segment{.first = 0, .last = 1 << 20, .active = 1, .steps = 1 << 20};
    unisono::strategies::EventOrder order;
    if (!works_) return server_->serve(segment, order);
    unisono::strategies::Client client(wire_, 0, 1, 0);
    pull(client);
    push(client, 1);  // so that what is pulled was written since
    seconds.pull.push_back(seconds_of([&] { pull(client); }));
    seconds.push.push_back(seconds_of([&] { push(client, 0); }));
    seconds.push_and_step.push_back(seconds_of([&] { push(client, 1); }));
    client.leave();
  }

 private:
  /// There and back.
  void ping() {
    const int bytes = static_cast<int>(gradient_.size() * sizeof(float)), peer = 1 - communicator_.rank();
    const auto send = [&] { MPI_Send(gradient_.data(), bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD); };
    const auto receive = [&] { MPI_Recv(theta_.data(), bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); };
    if (works_) send();
    receive();
    if (!works_) send();
  }

  void pull(unisono::strategies::Client& client) {
    client.start_pull(0, 1, {{theta_.view()}}, {});
    client.finish_pull();
  }

  /// \param examples 0: it is not applied
  void push(unisono::strategies::Client& client, std::int64_t examples) {
    client.start_push({.clock = 1, .examples = examples, .rate = 1e-3, .weight = 1}, {{gradient_.view()}}, {});
    client.finish_push();
  }

  unisono::comm::Communicator& communicator_;
  std::unique_ptr<unisono::comm::Communicator> group_;
  unisono::strategies::Roles roles_;
  unisono::strategies::Wire wire_;
  bool works_;
  unisono::Buffer theta_, gradient_;
  std::unique_ptr<unisono::kernels::Backend> backend_;
  std::unique_ptr<unisono::strategies::ServerShard> shard_;
  std::unique_ptr<unisono::strategies::Server> server_;
};

void compare(unisono::comm::Communicator& communicator, unisono::Index n, int rounds) {
  Bench bench(communicator, n);
  Seconds seconds;
  bench.round(seconds);  // warms up
  seconds = {};
  for (int round = 0; round < rounds; ++round) bench.round(seconds);
  if (seconds.pull.empty()) return;  // the server
  const double bytes = static_cast<double>(n) * sizeof(float), ping = median_of(seconds.ping);
  const double pull = median_of(seconds.pull), push = median_of(seconds.push),
               stepped = median_of(seconds.push_and_step);
  fmt::print("{:>12.0f} {:>12.2f} {:>8.2f} {:>5.0f} % {:>8.2f} {:>5.0f} % {:>16.2f}\n", bytes, bytes / ping / kGiga,
             bytes / pull / kGiga, 100 * ping / pull, bytes / push / kGiga, 100 * ping / push, bytes / stepped / kGiga);
}

/// SGD reads θ and g, and writes θ: 12 bytes a float.
void compare_step(unisono::Index n, int rounds) {
  const auto backend = unisono::kernels::make_cpu_backend(1);
  unisono::Buffer theta(n), gradient(n);
  const auto shard = make_sgd_shard(n, theta.view(), *backend);
  const unisono::strategies::Question question{.examples = 1, .rate = 1e-3, .weight = 1};
  std::vector<double> seconds, triad;
  for (int round = 0; round < rounds; ++round) {
    triad.push_back(backend->measure_bandwidth_bytes_per_second());
    seconds.push_back(seconds_of([&] { shard->apply({.question = &question, .values = gradient.view()}); }));
  }
  const double rate = 3 * sizeof(float) * static_cast<double>(n) / median_of(seconds);
  fmt::print("{:>12} {:>12.2f} {:>8.2f} {:>5.0f} %\n", n * 4, median_of(triad) / kGiga, rate / kGiga,
             100 * rate / median_of(triad));
}

}  // namespace

int main(int argc, char** argv) {
  unisono::comm::MpiSession session(argc, argv);
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 21;
  {
    const auto communicator = session.world({}, [](const std::string& text) { fmt::print("{}\n", text); });
    if (communicator->size() != 2) {
      fmt::print(stderr, "bench_server: start it on two ranks\n");
      return session.finish(1);
    }
    if (communicator->is_root()) {
      fmt::print("GB/s of a shard: MPI's ping-pong, a pull, a push, a push with its step of SGD\n");
      fmt::print("{:>12} {:>12} {:>16} {:>16} {:>16}\n", "bytes", "ping-pong", "pull", "push", "push and step");
    }
    for (const unisono::Index n : {16'384, 65'536, 215'296, 669'706, 4'194'304, 20'037'642}) {
      compare(*communicator, n, n < 1'000'000 ? 5 * rounds : rounds);
    }
    if (communicator->is_root()) {
      fmt::print("GB/s of memory on one core: a triad, a step of SGD\n{:>12} {:>12} {:>16}\n", "bytes", "triad", "SGD");
      for (const unisono::Index n : {215'296, 4'194'304, 20'037'642}) compare_step(n, rounds / 4 + 1);
    }
    communicator->barrier();
  }
  return session.finish(0);
}
