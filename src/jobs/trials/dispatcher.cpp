#include <nlohmann/json.hpp>

#include <chrono>
#include <thread>

#include "trials/dispatcher.hpp"

namespace unisono::jobs {
namespace {

constexpr int kQuestionTag = 71, kAnswerTag = 72, kTextTag = 73, kStopTag = 74;
constexpr double kClientSeconds = 1e-4, kServerSeconds = 3e-4;

enum Question : std::int64_t { kTake, kGive, kReport, kStop, kLeave };

/// What begins each message: what it is, and how many bytes of text follow in a message of their own.
using Head = std::array<std::int64_t, 2>;

void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// Whether a message has arrived. Looks at the messages about failed ranks, too.
bool has_arrived(comm::Communicator& ranks, comm::Request& message) {
  comm::Request* const one = &message;
  return !ranks.wait_any({&one, 1}, [looks = 0]() mutable { return ++looks > 2; }).empty();
}

void send(comm::Communicator& ranks, int peer, int tag, std::span<const std::byte> bytes) {
  const auto sent = ranks.start_send(bytes, peer, tag);
  wait_asleep(ranks, *sent, kClientSeconds);
}

void receive(comm::Communicator& ranks, int peer, int tag, std::span<std::byte> bytes) {
  const auto received = ranks.start_receive(bytes, peer, tag);
  wait_asleep(ranks, *received, kClientSeconds);
}

void send_with_text(comm::Communicator& ranks, int peer, int tag, std::int64_t kind, const std::string& text) {
  Head head{kind, static_cast<std::int64_t>(text.size())};
  send(ranks, peer, tag, comm::bytes_of(head));
  if (!text.empty()) send(ranks, peer, kTextTag, std::as_bytes(std::span(text)));
}

std::string receive_text(comm::Communicator& ranks, int peer, const Head& head) {
  std::string text(static_cast<std::size_t>(head[1]), ' ');
  if (!text.empty()) receive(ranks, peer, kTextTag, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace

std::string text_of(const Answer& answer) {
  return nlohmann::json{{"kind", answer.kind}, {"order", to_json(answer.task)}}.dump();
}

Answer answer_from(const std::string& text) {
  const auto answer = nlohmann::json::parse(text);
  return {.kind = answer.at("kind").get<Answer::Kind>(), .task = records::task_from(answer.at("order"))};
}

void wait_asleep(comm::Communicator& ranks, comm::Request& message, double seconds_between) {
  while (!has_arrived(ranks, message)) sleep(seconds_between);
  message.wait();
}

RemoteDispatcher::RemoteDispatcher(comm::Communicator& ranks)
    : ranks_(ranks), stop_wish_(ranks.start_receive(std::as_writable_bytes(std::span(&stop_, 1)), 0, kStopTag)) {}

std::string RemoteDispatcher::ask(std::int64_t kind, const std::string& text) {
  const std::lock_guard lock(mutex_);
  send_with_text(ranks_, 0, kQuestionTag, kind, text);
  Head head{};
  receive(ranks_, 0, kAnswerTag, comm::bytes_of(head));
  return receive_text(ranks_, 0, head);
}

void RemoteDispatcher::leave() {
  ask(kLeave, "");
  wait_asleep(ranks_, *stop_wish_, kClientSeconds);  // rank 0 sends it at the latest now
}

Answer RemoteDispatcher::take() { return answer_from(ask(kTake, "")); }

void RemoteDispatcher::give(const records::TrialRun& training, const records::TrialResult& result) {
  ask(kGive, nlohmann::json{{"training", to_json(training)}, {"result", to_json(result)}}.dump());
}

bool RemoteDispatcher::goes_on(const records::TrialRun& training, std::int64_t epochs, double loss) {
  const nlohmann::json report{{"training", to_json(training)}, {"epochs", epochs}, {"loss", loss}};
  return nlohmann::json::parse(ask(kReport, report.dump())).get<bool>();
}

bool RemoteDispatcher::wants_stop() {
  const std::lock_guard lock(mutex_);
  stops_ = stops_ || stop_wish_->test();
  return stops_ && stop_ != 0;
}

void RemoteDispatcher::request_stop() { ask(kStop, ""); }

DispatchServer::DispatchServer(comm::Communicator& ranks, const std::vector<int>& clients, Dispatcher& dispatcher)
    : ranks_(ranks), dispatcher_(dispatcher) {
  for (const int rank : clients) listen(clients_.emplace_back(Client{.rank = rank}));
}

void DispatchServer::listen(Client& client) {
  client.question = ranks_.start_receive(comm::bytes_of(client.head), client.rank, kQuestionTag);
}

bool DispatchServer::hears(Client& client) {
  if (!has_arrived(ranks_, *client.question)) return false;
  client.question->wait();
  return true;
}

std::string DispatchServer::answer_to(std::int64_t question, const std::string& text) {
  if (question == kTake) return text_of(dispatcher_.take());
  if (question == kGive) {
    const auto given = nlohmann::json::parse(text);
    dispatcher_.give(records::trial_run_from(given.at("training")), records::result_from(given.at("result")));
  } else if (question == kReport) {
    const auto report = nlohmann::json::parse(text);
    const bool goes_on = dispatcher_.goes_on(records::trial_run_from(report.at("training")),
                                             report.at("epochs").get<std::int64_t>(), report.at("loss").get<double>());
    return nlohmann::json(goes_on).dump();
  } else if (question == kStop) {
    dispatcher_.request_stop();
  }
  return "";
}

void DispatchServer::answer(Client& client) {
  const std::string text = receive_text(ranks_, client.rank, client.head);
  send_with_text(ranks_, client.rank, kAnswerTag, client.head[0], answer_to(client.head[0], text));
}

/// Sends the one message about stopping that a client gets.
void DispatchServer::tell(Client& client, bool stop) {
  if (client.wish) return;
  client.stop = stop ? 1 : 0;
  client.wish = ranks_.start_send(std::as_bytes(std::span(&client.stop, 1)), client.rank, kStopTag);
}

void DispatchServer::serve() {
  while (!clients_.empty()) {
    bool heard = false;
    for (auto client = clients_.begin(); client != clients_.end();) {
      if (!hears(*client)) {
        ++client;
        continue;
      }
      heard = true;
      answer(*client);
      if (client->head[0] == kLeave) {
        tell(*client, false);
        wait_asleep(ranks_, *client->wish, kServerSeconds);
        client = clients_.erase(client);
      } else {
        listen(*client++);
      }
    }
    if (dispatcher_.wants_stop()) {
      for (Client& client : clients_) tell(client, true);
    }
    if (!heard) sleep(kServerSeconds);
  }
}

}  // namespace unisono::jobs
