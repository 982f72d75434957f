#pragma once

#include <vector>

namespace unisono::strategies {

/// Which rank runs which workers and servers. A rank may run several.
class Roles {
 public:
  /// \param servers dedicated ones, fewer than ranks, spread evenly over them; 0: every rank runs a worker and a server
  static Roles of_ranks(int ranks, int servers);
  /// So many workers and servers, assigned to the ranks round-robin: for replays on another number of ranks.
  static Roles dealt(int ranks, int workers, int servers);

  int workers() const { return static_cast<int>(workers_.size()); }
  int servers() const { return static_cast<int>(servers_.size()); }
  int rank_of_worker(int worker) const { return workers_[static_cast<std::size_t>(worker)]; }
  int rank_of_server(int server) const { return servers_[static_cast<std::size_t>(server)]; }
  /// Its number among the workers, or servers, of the same rank.
  int place_of_worker(int worker) const;
  int place_of_server(int server) const;
  int most_servers_of_a_rank() const;
  std::vector<int> workers_of(int rank) const;
  std::vector<int> servers_of(int rank) const;

 private:
  std::vector<int> workers_, servers_;  ///< their ranks
};

}  // namespace unisono::strategies
