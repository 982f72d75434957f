#include "roster.hpp"

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "check.hpp"

namespace unisono::comm::mpi {
namespace {

/// What every rank tells all others; plain bytes.
struct Card {
  char host[256];
  int pid;
  int node;
  cpu_set_t cores;  ///< that it may run on
};

int lowest_rank_of_node(int rank) {
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  int lowest = rank;
  check(MPI_Allreduce(MPI_IN_PLACE, &lowest, 1, MPI_INT, MPI_MIN, node), "MPI_Allreduce");
  check(MPI_Comm_free(&node), "MPI_Comm_free");
  return lowest;
}

Card my_card(int rank) {
  Card card = {};
  gethostname(card.host, sizeof(card.host) - 1);
  card.pid = static_cast<int>(getpid());
  card.node = lowest_rank_of_node(rank);
  sched_getaffinity(0, sizeof(card.cores), &card.cores);
  return card;
}

/// Whether the ranks on this rank's node outnumber the cores that they may run on.
bool more_ranks_than_cores(const std::vector<Card>& cards, int node) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  int ranks = 0;
  for (const Card& card : cards) {
    if (card.node != node) continue;
    ++ranks;
    CPU_OR(&cores, &cores, &card.cores);
  }
  return ranks > CPU_COUNT(&cores);
}

}  // namespace

Roster::Roster() {
  int size = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  const Card mine = my_card(rank_);
  std::vector<Card> cards(static_cast<std::size_t>(size));
  check(MPI_Allgather(&mine, sizeof(Card), MPI_BYTE, cards.data(), sizeof(Card), MPI_BYTE, MPI_COMM_WORLD),
        "MPI_Allgather");
  for (const Card& card : cards) members_.push_back({card.host, card.pid, card.node});
  oversubscribed_ = more_ranks_than_cores(cards, mine.node);
}

std::string Roster::name(int rank) const {
  const Member& member = (*this)[rank];
  return fmt::format("rank {} ({}, pid {}", rank, member.host, member.pid);
}

}  // namespace unisono::comm::mpi
