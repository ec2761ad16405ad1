#include <algorithm>
#include <cstdlib>
#include <deque>
#include <nlohmann/json.hpp>

#include "src/api/imex_node.h"
#include "src/base/files.h"
#include "src/base/manual_executor.h"
#include "src/kube/frame_splitter.h"
#include "src/kube/informer.h"
#include "src/kube/kubeconfig.h"
#include "src/kube/lease_record.h"
#include "src/kube/status_error.h"
#include "tests/fuzz/fuzz.h"

namespace cd::fuzz {

namespace {

using nlohmann::json;

constexpr std::size_t kLargestFrame = 512;

// The frames of a stream that comes in pieces of `step` bytes; nullopt when it is refused.
std::optional<std::vector<std::string>> FramesOf(std::string_view stream, std::size_t step) {
  kube::FrameSplitter splitter(kLargestFrame);
  std::vector<std::string> frames;
  for (; !stream.empty(); stream.remove_prefix(std::min(step, stream.size()))) {
    if (!splitter.Feed(stream.substr(0, step))) return std::nullopt;
    for (std::string_view frame = splitter.Next(); !frame.empty(); frame = splitter.Next()) frames.emplace_back(frame);
  }
  return frames;
}

// Answers by a script as long as it lasts, then as a healthy server. The script: bodies of lists and streams of watches in the
// order they are asked for, between lines `---`; one that begins with `!<code>` is an error of that HTTP status.
class Server final : public kube::ApiClient {
 public:
  Server(Executor& executor, std::string_view script) : executor_(executor) {
    constexpr std::string_view kNext = "\n---\n";
    for (std::size_t end = script.find(kNext); end != std::string_view::npos; end = script.find(kNext)) {
      script_.emplace_back(script.substr(0, end));
      script.remove_prefix(end + kNext.size());
    }
    script_.emplace_back(script);
    expected_ = script_.size() + 2;
  }

  void Call(kube::ApiRequest, Callback done) override {
    CountRequest();
    executor_.Post([this, done = std::move(done)] { done(NextList()); });
  }

  std::unique_ptr<kube::WatchStream> Watch(kube::WatchRequest request, EventHandler on_event, EndHandler on_end) override {
    CountRequest();
    const std::string& version = request.query["resourceVersion"];
    Require(!version.empty() && version != "0", "a watch starts from a version that was seen");
    auto life = std::make_shared<bool>(true);
    watching_ = script_.empty();
    if (!watching_) {
      executor_.Post([life, text = TakeNext(), on_event = std::move(on_event), on_end = std::move(on_end)] {
        Play(*life, text, on_event, on_end);
      });
    }
    return std::make_unique<Stream>(std::move(life));
  }

  bool watching() const { return watching_; }

 private:
  struct Stream final : kube::WatchStream {
    explicit Stream(std::shared_ptr<bool> l) : life(std::move(l)) {}
    ~Stream() override { *life = false; }
    std::shared_ptr<bool> life;
  };

  void CountRequest() {
    ++requests_;
    Require(requests_ <= expected_, "no request is made in vain, and a healthy server is asked twice");
  }
  std::string TakeNext() {
    std::string text = std::move(script_.front());
    script_.pop_front();
    return text;
  }
  static std::optional<Error> ErrorIn(std::string_view text) {
    if (!text.starts_with('!')) return std::nullopt;
    const std::size_t line = std::min(text.find('\n'), text.size());
    const int code = std::atoi(std::string(text.substr(1, std::min<std::size_t>(line, 4))).c_str());
    return kube::AnswerError(text.substr(line), 400 + code % 200);
  }
  Result<json> NextList() {
    if (script_.empty()) {
      return json{{"metadata", {{"resourceVersion", "1000"}}},
                  {"items", {{{"metadata", {{"name", "n1"}, {"resourceVersion", "999"}}}}}}};
    }
    const std::string text = TakeNext();
    if (auto error = ErrorIn(text)) return Fail(*std::move(error));
    json list = json::parse(text, nullptr, false);
    // That much the client has looked at.
    if (!list.is_object() || !list["metadata"].is_object()) return Fail(ErrorCode::kInternal, "the answer is not a list");
    return list;
  }
  static void Play(const bool& alive, std::string_view text, const EventHandler& on_event, const EndHandler& on_end) {
    if (!alive) return;
    if (auto error = ErrorIn(text)) return on_end(Fail(*std::move(error)));
    kube::FrameSplitter splitter(kLargestFrame);
    for (; !text.empty(); text.remove_prefix(std::min<std::size_t>(7, text.size()))) {
      if (auto fed = splitter.Feed(text.substr(0, 7)); !fed) return on_end(Fail(fed.error()));
      for (std::string_view frame = splitter.Next(); !frame.empty(); frame = splitter.Next()) {
        on_event(frame);
        if (!alive) return;
      }
    }
    on_end({});
  }

  Executor& executor_;
  std::deque<std::string> script_;
  std::size_t expected_ = 0;
  std::size_t requests_ = 0;
  bool watching_ = false;
};

}  // namespace

void WatchFrames(std::string_view input) {
  const auto whole = FramesOf(input, std::max<std::size_t>(input.size(), 1));
  for (const std::size_t step : {1, 2, 7, 64}) Require(FramesOf(input, step) == whole, "any split gives the same frames");
  if (!whole) return;
  for (const std::string& frame : *whole) {
    Require(frame.size() <= kLargestFrame && frame.find('\n') == std::string::npos, "a frame is one line within the limit");
  }
}

// Whatever a server sent, once it is healthy its objects are followed again.
void WatchStream(std::string_view input) {
  ManualExecutor executor;
  Server server(executor, input);
  kube::Informer<api::ImexNode> nodes(server, executor, {.type = api::kImexNodes}, api::DecodeImexNode, 1);
  nodes.Start();
  // A server may ask for an hour's patience with each of its answers.
  for (std::size_t hours = 0; hours <= input.size() && !server.watching(); ++hours) executor.Advance(Duration(3'660'000));
  Require(server.watching() && nodes.Synced(), "a healthy server is followed");
  for (const auto& [key, node] : nodes.objects()) {
    Require(node != nullptr && node->meta.Key() == key && IsSafePathComponent(key.name),
            "the store holds objects by their names");
  }
}

void ApiError(std::string_view input) {
  const Error error = kube::AnswerError(input, 500);
  RequireWords(error, input);
  Require(!error.retry_after || (error.retry_after->count() > 0 && error.retry_after->count() <= 3'600'000),
          "a server may ask for an hour's patience at most");
  static_cast<void>(kube::HasCauses(input));
}

void Kubeconfig(std::string_view input) {
  const auto config = kube::ParseKubeconfig(input, "/nonexistent");
  if (!config) return RequireWords(config.error(), input);
  Require(!config->server.empty() && config->server.back() != '/', "a server has an address");
  Require(config->tls.client_cert_pem.empty() == config->tls.client_key_pem.empty(), "a certificate comes with its key");
  Require(config->tls.insecure || !config->tls.ca_pem.empty(), "the server is verified unless the file says otherwise");
  RequirePrintable(config->token, config->token.size());
}

void LeaderLease(std::string_view input) {
  const json parsed = json::parse(input, nullptr, false);
  json lease = parsed.is_object() ? parsed : json::object();
  if (lease.contains("spec") && !lease["spec"].is_object()) return;  // no server has such an object
  const kube::LeaseRecord record = kube::DecodeLease(lease);
  kube::LeaseObservation seen;
  seen.See(record, SteadyTime(Duration(1000)));
  static_cast<void>(seen.Takeable("me", SteadyTime(Duration(2000))));
  const kube::LeaseRecord renewed = kube::Renewed(record, "me", Duration(15'000), WallTime{});
  Require(renewed.holder == "me", "taking it names the taker");
  kube::EncodeLease(renewed, lease);
  Require(kube::DecodeLease(lease) == renewed, "what was written reads the same");
}

}  // namespace cd::fuzz
