// An ApiClient for tests of what stands above it: records requests, answers when the test says so. Not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "src/kube/client.h"

namespace cd::kube {

class ScriptedClient final : public ApiClient {
 public:
  struct Stream {
    WatchRequest request;
    EventHandler on_event;
    EndHandler on_end;
    bool alive = true;
  };

  void Call(ApiRequest request, Callback done) override {
    requests.push_back(request);
    unanswered_.emplace_back(std::move(request), std::move(done));
  }
  std::unique_ptr<WatchStream> Watch(WatchRequest request, EventHandler on_event, EndHandler on_end) override {
    streams.push_back(std::make_shared<Stream>(Stream{std::move(request), std::move(on_event), std::move(on_end)}));
    return std::make_unique<Handle>(streams.back());
  }

  // Answers the oldest open call and returns what was asked.
  ApiRequest Answer(Result<nlohmann::json> answer) {
    if (unanswered_.empty()) throw std::logic_error("no call is waiting for an answer");
    auto [request, done] = std::move(unanswered_.front());
    unanswered_.pop_front();
    done(std::move(answer));
    return request;
  }
  std::size_t Unanswered() const { return unanswered_.size(); }
  // The newest watch.
  Stream& Newest() { return *streams.at(streams.size() - 1); }
  void Event(const nlohmann::json& event) {
    const std::shared_ptr<Stream> keep = streams.back();
    keep->on_event(event.dump());
  }
  void End(Status status) {
    const std::shared_ptr<Stream> keep = streams.back();
    keep->on_end(std::move(status));
  }

  std::vector<ApiRequest> requests;  // every call ever made
  std::vector<std::shared_ptr<Stream>> streams;

 private:
  struct Handle final : WatchStream {
    explicit Handle(std::shared_ptr<Stream> s) : stream(std::move(s)) {}
    ~Handle() override { stream->alive = false; }
    std::shared_ptr<Stream> stream;
  };

  std::deque<std::pair<ApiRequest, Callback>> unanswered_;
};

}  // namespace cd::kube
