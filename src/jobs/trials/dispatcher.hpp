#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/records/journal.hpp"

namespace unisono::jobs {

/// What a group of ranks is told when it asks for work.
struct Answer {
  enum class Kind {
    work,
    wait,  ///< nothing can start before another training has ended: ask again
    stop   ///< all has ended, or the job was asked to stop
  };
  Kind kind = Kind::wait;
  records::TrialTask task = {};  ///< of work
};

/// Hands out trainings. Its functions may be called from several threads, and never wait for a training.
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  virtual Answer take() = 0;
  virtual void give(const records::TrialRun& training, const records::TrialResult& result) = 0;
  /// Notes what a training has reached so far. \param loss lower is better \return whether it should go on
  virtual bool goes_on(const records::TrialRun& training, std::int64_t epochs, double loss) = 0;
  /// Whether trainings that are running must stop now.
  virtual bool wants_stop() = 0;
  /// No other training starts, and those that are running stop.
  virtual void request_stop() = 0;
};

// How ranks other than 0 reach the plan: each question is a message to rank 0 and each answer one back. A rank asks
// again while it must wait; so no message is awaited for as long as a training takes.

/// An answer as text, for a message, and back.
std::string text_of(const Answer& answer);
Answer answer_from(const std::string& text);

/// Another rank's side; its threads share it.
class RemoteDispatcher final : public Dispatcher {
 public:
  /// \param ranks of the job; on rank 0 a DispatchServer must listen
  explicit RemoteDispatcher(comm::Communicator& ranks);
  /// Tells rank 0 that this rank asks nothing more. Must be called once by each rank that has not failed.
  void leave();

  Answer take() override;
  void give(const records::TrialRun& training, const records::TrialResult& result) override;
  bool goes_on(const records::TrialRun& training, std::int64_t epochs, double loss) override;
  bool wants_stop() override;
  void request_stop() override;

 private:
  std::string ask(std::int64_t kind, const std::string& text);

  comm::Communicator& ranks_;
  std::mutex mutex_;
  char stop_ = 0;
  comm::RequestPtr stop_wish_;  ///< arrives when the job was asked to stop
  bool stops_ = false;
};

/// Rank 0's side: answers all other ranks that ask.
class DispatchServer {
 public:
  DispatchServer(comm::Communicator& ranks, const std::vector<int>& clients, Dispatcher& dispatcher);
  /// Returns when every client has left. Called on a thread of its own.
  void serve();

 private:
  struct Client {
    int rank;
    std::array<std::int64_t, 2> head{};  ///< of its question
    comm::RequestPtr question = {}, wish = {};
    char stop = 0;
  };
  void listen(Client& client);
  bool hears(Client& client);
  void answer(Client& client);
  std::string answer_to(std::int64_t question, const std::string& text);
  void tell(Client& client, bool stop);

  comm::Communicator& ranks_;
  Dispatcher& dispatcher_;
  std::list<Client> clients_;
};

/// Waits for a message without keeping a core busy, however long it takes, and notices where a rank fails meanwhile.
void wait_asleep(comm::Communicator& ranks, comm::Request& message, double seconds_between);

}  // namespace unisono::jobs
