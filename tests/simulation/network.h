// Between processes and the API server: every request and answer is a message that arrives when the scheduler says so, or never.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/kube/client.h"
#include "src/kube/model_server.h"
#include "tests/simulation/dice.h"
#include "tests/simulation/simulated_executor.h"
#include "tests/simulation/trace.h"

namespace cd::simulation {

using kube::HistoryEvent;
using kube::ModelServer;
using kube::ObjectPtr;
using kube::Selection;

class Client;

// How the network treats requests and watches; per mille of what is handled.
struct NetworkFaults {
  unsigned lost_request = 0;  // not delivered, and the sender hears it
  unsigned lost_answer = 0;   // executed, but the sender does not hear it
  unsigned refused = 0;       // 5xx
  unsigned watch_end = 0;     // the server closes it
  unsigned watch_lost = 0;    // the connection breaks
};

struct Message {
  Client* client = nullptr;  // nullptr: nobody waits for the answer any more
  std::string sender;
  kube::ApiRequest request;
  kube::ApiClient::Callback done;
  std::optional<Result<nlohmann::json>> answer;
  SteadyTime deadline;
  int tries = 0;
  unsigned speed = 1024;  // weight in the scheduler's draw
};

struct Watch {
  Client* client = nullptr;
  kube::WatchRequest request;
  Selection selection;
  kube::ApiClient::EventHandler on_event;
  kube::ApiClient::EndHandler on_end;
  std::uint64_t version = 0;
  std::uint64_t bookmarked = 0;
  SteadyTime deadline;
  unsigned speed = 1024;  // weight in the scheduler's draw
  bool ended = false;
  mutable std::uint64_t nothing_at = 0;  // server's version at which no event was there
};

class Network {
 public:
  Network(ModelServer& server, Dice& dice, const SimulatedClock& clock, Trace& trace)
      : server_(server), dice_(dice), clock_(clock), trace_(trace) {}

  NetworkFaults faults;
  bool outage = false;
  unsigned slow_messages = 0;  // per mille

  std::list<Message>& messages() { return messages_; }
  std::list<std::shared_ptr<Watch>>& watches() { return watches_; }

  // True when a step of the message can change something now.
  bool Ready(const Message& message) const;
  bool Ready(const Watch& watch) const;
  // Serves the request, or hands the answer over. The message may be gone afterwards.
  void Step(std::list<Message>::iterator message);
  // Delivers one event, a bookmark, or the end.
  void Step(std::shared_ptr<Watch> watch);
  // Nothing reaches a process that ended; what it sent is still on its way.
  void Forget(Client* client);
  std::optional<SteadyTime> NextDeadline() const;

 private:
  friend class Client;
  void Serve(Message& message);
  void Answer(Message& message, Result<nlohmann::json> answer);
  void EndWatch(std::shared_ptr<Watch> watch, Status status);

  ModelServer& server_;
  Dice& dice_;
  const SimulatedClock& clock_;
  Trace& trace_;
  std::list<Message> messages_;
  std::list<std::shared_ptr<Watch>> watches_;
};

// What one process sees of the API server.
class Client final : public kube::ApiClient {
 public:
  Client(Network& network, std::string owner) : network_(network), owner_(std::move(owner)) {}
  ~Client() override { network_.Forget(this); }

  // Test switches: what a defective process would send, or be told instead of the server's answer.
  std::function<void(kube::ApiRequest&)> corrupt_request;
  std::function<std::optional<Result<nlohmann::json>>(const kube::ApiRequest&)> corrupt_answer;
  std::function<void(std::string& event)> corrupt_event;
  std::string late_watch;  // plural of the type whose watch is always far behind

  // Inside a worker's fiber the call returns when the answer is there, as CallAndWait expects.
  void Call(kube::ApiRequest request, Callback done) override;
  std::unique_ptr<kube::WatchStream> Watch(kube::WatchRequest request, EventHandler on_event, EndHandler on_end) override;

  // Runs a handler as the process would; set by it.
  std::function<void(const std::function<void()>&)> run;
  // Calls from here block their fiber.
  bool blocking = false;
  // The process cannot take anything now.
  std::function<bool()> busy;
  unsigned speed = 1024;

  const std::string& owner() const { return owner_; }

 private:
  Network& network_;
  const std::string owner_;
};

}  // namespace cd::simulation
