#include "src/kube/events.h"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/log.h"
#include "src/base/text.h"

namespace cd::kube {

using nlohmann::json;

namespace {

constexpr Duration kSameAgainAfter{600'000};
constexpr int kInARow = 10;
constexpr Duration kOneMorePer{60'000};
constexpr std::size_t kMostRemembered = 4096;
constexpr std::size_t kLongestNote = 1024;

}  // namespace

class EventRecorder::Impl {
 public:
  Impl(ApiClient& client, const Clock& clock, std::string controller, std::string instance)
      : client_(client), clock_(clock), controller_(std::move(controller)), instance_(std::move(instance)) {}

  void Record(EventNote event) {
    if (!IsNews(event)) return;
    const std::string reason = event.reason;
    client_.Call(Request(std::move(event)), [reason](Result<json> answer) {
      if (!answer) LogWarning("event not delivered", {{"reason", reason}, {"error", answer.error().message}});
    });
  }

 private:
  // Tokens of one object; they grow back with time.
  struct Allowance {
    int left = kInARow;
    SteadyTime since{};
  };

  bool IsNews(const EventNote& event);
  ApiRequest Request(EventNote event);

  ApiClient& client_;
  const Clock& clock_;
  const std::string controller_;
  const std::string instance_;
  std::mutex mutex_;
  std::map<std::string, SteadyTime> sent_;  // by object, reason and note
  std::map<std::string, Allowance> allowances_;
  std::uint64_t serial_ = 0;
};

bool EventRecorder::Impl::IsNews(const EventNote& event) {
  const SteadyTime now = clock_.Now();
  const std::string object = fmt::format("{}/{}/{}/{}", event.type.kind, event.object.ns, event.object.name, event.object.uid);
  const std::string same = fmt::format("{}\n{}\n{}", object, event.reason, event.note);
  std::lock_guard lock(mutex_);
  std::erase_if(sent_, [&](const auto& entry) { return now - entry.second >= kSameAgainAfter; });
  std::erase_if(allowances_, [&](const auto& entry) { return now - entry.second.since >= kInARow * kOneMorePer; });
  if (sent_.contains(same) || sent_.size() >= kMostRemembered) return false;
  auto [it, fresh] = allowances_.try_emplace(object);
  Allowance& allowance = it->second;
  if (fresh) allowance.since = now;
  const auto grown = (now - allowance.since) / kOneMorePer;
  allowance.since += grown * kOneMorePer;
  allowance.left = static_cast<int>(std::min<std::int64_t>(kInARow, allowance.left + grown));
  if (allowance.left == 0) return false;
  --allowance.left;
  sent_.emplace(same, now);
  return true;
}

ApiRequest EventRecorder::Impl::Request(EventNote event) {
  std::uint64_t serial = 0;
  {
    std::lock_guard lock(mutex_);
    serial = ++serial_;
  }
  const WallTime now = clock_.WallNow();
  // Events of cluster-scoped objects live in "default", as everybody's tools expect.
  const std::string ns = event.object.ns.empty() ? "default" : event.object.ns;
  const auto unique = static_cast<std::uint64_t>(now.time_since_epoch().count());
  json body = {
      {"metadata", {{"name", fmt::format("{}.{:x}.{:x}", event.object.name.substr(0, 200), unique, serial)}, {"namespace", ns}}},
      {"eventTime", FormatMicroTime(now)},
      {"type", event.severity == EventType::kNormal ? "Normal" : "Warning"},
      {"reason", std::move(event.reason)},
      {"action", std::move(event.action)},
      {"note", CutText(std::move(event.note), kLongestNote)},
      {"reportingController", controller_},
      {"reportingInstance", CutText(instance_, 128)},
      {"regarding",
       {{"apiVersion", event.type.ApiVersion()},
        {"kind", event.type.kind},
        {"name", event.object.name},
        {"uid", event.object.uid}}}};
  if (!event.object.ns.empty()) body["regarding"]["namespace"] = event.object.ns;
  return Create(api::kEvents, ns, body);
}

EventRecorder::EventRecorder(ApiClient& client, const Clock& clock, std::string controller, std::string instance)
    : impl_(std::make_unique<Impl>(client, clock, std::move(controller), std::move(instance))) {}

EventRecorder::~EventRecorder() = default;
void EventRecorder::Record(EventNote event) {
  impl_->Record(std::move(event));
}

}  // namespace cd::kube
