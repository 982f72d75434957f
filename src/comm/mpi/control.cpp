#include "mpi/control.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "unisono/base/errors.hpp"

namespace unisono::comm::mpi {
namespace {

/// The first word of a control message; the comments say which words follow.
enum Kind : std::int64_t {
  kEnd,       ///< code, how
  kQuestion,  ///< its number, group
  kAnswer,    ///< the question's number, begun, and any number of (rank, step)
};

constexpr int kTag = 0;

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

void Steps::share() {
  if (std::exchange(tried_, true)) return;  // on all ranks alike, whether or not their nodes had room
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split(MPI_COMM_WORLD, roster_[roster_.rank()].node, roster_.rank(), &node), "MPI_Comm_split");
  int ranks = 0;
  check(MPI_Comm_size(node, &ranks), "MPI_Comm_size");
  using Step = std::atomic<std::int64_t>;
  int has_room = SharedWindow::lack(SharedWindow::needed_bytes(sizeof(Step), ranks)) ? 0 : 1;
  check(MPI_Allreduce(MPI_IN_PLACE, &has_room, 1, MPI_INT, MPI_MIN, node), "MPI_Allreduce");
  if (has_room != 0 && ranks > 1) {
    window_ = std::make_unique<SharedWindow>(node, sizeof(Step));
    new (window_->mine()) Step(of(roster_.rank()));
    check(MPI_Barrier(node), "MPI_Barrier");
    int place = 0;
    for (int r = 0; r < roster_.size(); ++r) {
      if (roster_[r].node != roster_[roster_.rank()].node) continue;
      of_rank_[r] = std::launder(reinterpret_cast<Step*>(window_->part(place++)));
    }
  }
  check(MPI_Comm_free(&node), "MPI_Comm_free");
}

void Steps::free() {
  if (shared()) window_->free();
}

std::int64_t Steps::of(int rank) const {
  const auto found = of_rank_.find(rank);
  return found == of_rank_.end() ? kUnknown : found->second->load(std::memory_order_relaxed);
}

std::map<int, std::int64_t> Steps::known() const {
  std::map<int, std::int64_t> steps;
  for (const auto& [rank, step] : of_rank_) steps[rank] = step->load(std::memory_order_relaxed);
  return steps;
}

Control::Control(const Roster& roster, const Steps& steps)
    : roster_(roster), steps_(steps), ends_(static_cast<std::size_t>(roster.size())) {
  check(MPI_Comm_dup(MPI_COMM_WORLD, &communicator_), "MPI_Comm_dup");
}

Control::~Control() {
  for (Sent& sent : sent_) {
    if (sent.request != MPI_REQUEST_NULL) MPI_Request_free(&sent.request);
  }
  MPI_Comm_free(&communicator_);
}

void Control::poll() {
  sent_.remove_if([](Sent& sent) {
    int done = 0;
    check(MPI_Test(&sent.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  });
  for (;;) {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check(MPI_Improbe(MPI_ANY_SOURCE, kTag, communicator_, &found, &message, &status), "MPI_Improbe");
    if (found == 0) return;
    int length = 0;
    check(MPI_Get_count(&status, MPI_INT64_T, &length), "MPI_Get_count");
    Words words(static_cast<std::size_t>(length));
    check(MPI_Mrecv(words.data(), length, MPI_INT64_T, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
    receive(status.MPI_SOURCE, words);
  }
}

void Control::send(int rank, Words words) {
  Sent& sent = sent_.emplace_back(Sent{MPI_REQUEST_NULL, std::move(words)});
  check(MPI_Isend(sent.words.data(), static_cast<int>(sent.words.size()), MPI_INT64_T, rank, kTag, communicator_,
                  &sent.request),
        "MPI_Isend");
}

void Control::receive(int rank, const Words& words) {
  switch (words[0]) {
    case kEnd:
      ends_[static_cast<std::size_t>(rank)] = End{static_cast<int>(words[1]), End::How{words[2]}};
      return;
    case kQuestion:
      return send(rank, answer_about(words[1], static_cast<std::uint64_t>(words[2])));
    case kAnswer:
      return take_answer(rank, words);
    default:
      throw CommunicationError("a control message of unknown kind: are all ranks of the same build?");
  }
}

void Control::take_answer(int rank, const Words& words) {
  const auto question = questions_.find(words[1]);
  const auto answers = question == questions_.end() ? nullptr : question->second.lock();
  if (!answers) return;  // nobody waits for it any more
  Answer& answer = (*answers)[rank];
  answer.begun = static_cast<std::uint64_t>(words[2]);
  for (std::size_t i = 3; i + 1 < words.size(); i += 2) answer.steps[static_cast<int>(words[i])] = words[i + 1];
}

Control::Words Control::answer_about(std::int64_t question, std::uint64_t group) const {
  const auto found = groups_.find(group);
  Words words{kAnswer, question, static_cast<std::int64_t>(found == groups_.end() ? 0 : found->second->begun.load())};
  for (const auto& [rank, step] : steps_.known()) {
    words.push_back(rank);
    words.push_back(step);
  }
  return words;
}

void Control::announce_end(End end) {
  for (int rank = 0; rank < roster_.size(); ++rank) {
    if (rank != roster_.rank()) send(rank, {kEnd, end.code, static_cast<std::int64_t>(end.how)});
  }
  ends_[static_cast<std::size_t>(roster_.rank())] = end;
}

int Control::failed_rank() const {
  int follower = -1;
  for (int rank = roster_.size() - 1; rank >= 0; --rank) {
    const auto& end = ends_[static_cast<std::size_t>(rank)];
    if (end && end->how == End::How::followed_a_failure) follower = rank;
  }
  for (int rank = 0; rank < roster_.size(); ++rank) {
    const auto& end = ends_[static_cast<std::size_t>(rank)];
    if (end && end->how == End::How::failed) return rank;
  }
  return follower;
}

std::shared_ptr<const Answers> Control::ask(std::uint64_t group) {
  std::erase_if(questions_, [](const auto& question) { return question.second.expired(); });
  const auto answers = std::make_shared<Answers>();
  questions_[++last_question_] = answers;
  for (int rank = 0; rank < roster_.size(); ++rank) {
    if (rank != roster_.rank()) send(rank, {kQuestion, last_question_, static_cast<std::int64_t>(group)});
  }
  return answers;
}

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
