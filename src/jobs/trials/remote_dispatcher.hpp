#pragma once

#include <array>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "trials/dispatcher.hpp"
#include "unisono/comm/communicator.hpp"

// How ranks other than 0 reach the plan: each question is a message to rank 0 and each answer one back. A rank asks
// again while it must wait; so no message is awaited for as long as a training takes.

namespace unisono::jobs {

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
