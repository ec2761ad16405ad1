#include "tests/simulation/controller_bugs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace cd::simulation {

using kube::Verb;
using nlohmann::json;

namespace {

using Answer = std::optional<Result<json>>;  // nullopt: the server's own

bool Lists(const kube::ApiRequest& request, const api::ResourceType& type) {
  return request.verb == Verb::kList && request.type.plural == type.plural;
}

// A quorum list of all nodes.
bool Looks(const kube::ApiRequest& request) {
  return Lists(request, api::kImexNodes) && request.query.empty();
}

Answer StaleLook(Context& context, const kube::ApiRequest& request) {
  if (!Looks(request)) return std::nullopt;
  return context.server.OlderList(request, context.dice.Below(8));
}

Answer StaleClaims(Context& context, const kube::ApiRequest& request) {
  // An informer, which lists all namespaces, has its watch for what is new.
  if (!Lists(request, api::kResourceClaims) || request.key.ns.empty()) return std::nullopt;
  return context.server.OlderList(request, 1'000);
}

Answer BlindRebuild(Context& context, const kube::ApiRequest& request) {
  if (!Looks(request)) return std::nullopt;
  const auto& nodes = context.server.Objects(api::kImexNodes);
  const bool lost = std::any_of(nodes.begin(), nodes.end(), [&](const auto& item) {
    const std::string domain = item.second->value("/spec/domain/name"_json_pointer, "");
    return !domain.empty() && context.server.Find(api::kImexDomains, {"", domain}) == nullptr;
  });
  if (!lost) return std::nullopt;
  json list = context.server.OlderList(request, 0);
  for (json& item : list["items"]) {
    if (item.contains("status")) item["status"]["channels"] = json::array();
  }
  return list;
}

Answer StaleLiveness(Context& context, const kube::ApiRequest& request) {
  if (request.verb != Verb::kGet || request.type.plural != api::kComputeDomains.plural) return std::nullopt;
  const ObjectPtr oldest = context.server.Older(api::kComputeDomains, request.key, 1'000);
  const ObjectPtr some =
      oldest == nullptr ? context.server.Older(api::kComputeDomains, request.key, context.dice.Below(20)) : oldest;
  return some == nullptr ? std::nullopt : Answer(*some);
}

void WithoutIsolation(json& compute_domain) {
  if (compute_domain.value("kind", "") == api::kComputeDomains.kind ||
      compute_domain.contains("/spec/isolationMode"_json_pointer))
    compute_domain["spec"].erase("isolationMode");
}

Answer ForgetIsolation(Context& context, const kube::ApiRequest& request) {
  if (!Lists(request, api::kComputeDomains)) return std::nullopt;
  auto answer = context.server.Handle(request);
  if (answer) {
    for (json& item : (*answer)["items"]) WithoutIsolation(item);
  }
  return answer;
}

void ForgetIsolationIn(std::string& event_text) {
  if (event_text.find("isolationMode") == std::string::npos) return;
  json event = json::parse(event_text);
  WithoutIsolation(event["object"]);
  event_text = event.dump();
}

void NoPrecondition(Context& context, kube::ApiRequest& request) {
  if (request.verb != Verb::kUpdate || request.type.plural != api::kImexDomains.plural) return;
  const ObjectPtr present = context.server.Find(api::kImexDomains, request.key);
  if (present == nullptr) return;
  json body = json::parse(request.body);
  body["metadata"]["resourceVersion"] = present->at("metadata")["resourceVersion"];
  request.body = body.dump();
}

void ReleaseAtOnce(Context&, kube::ApiRequest& request) {
  const bool writes = request.verb == Verb::kUpdate || request.verb == Verb::kCreate;
  if (!writes || request.type.plural != api::kImexDomains.plural) return;
  json body = json::parse(request.body);
  for (json& lease : body["spec"]["channels"]) lease["released"] = true;
  request.body = body.dump();
}

constexpr std::pair<Bug, Answer (*)(Context&, const kube::ApiRequest&)> kAnswers[] = {
    {Bug::kStaleLook, StaleLook},         {Bug::kStaleClaims, StaleClaims},         {Bug::kBlindRebuild, BlindRebuild},
    {Bug::kStaleLiveness, StaleLiveness}, {Bug::kForgetIsolation, ForgetIsolation},
};
constexpr std::pair<Bug, void (*)(Context&, kube::ApiRequest&)> kRequests[] = {
    {Bug::kNoPrecondition, NoPrecondition},
    {Bug::kReleaseAtOnce, ReleaseAtOnce},
};

}  // namespace

void PlantControllerBugs(Context& context, Client& client) {
  if (context.bugs.empty()) return;
  client.corrupt_answer = [&context](const kube::ApiRequest& request) -> Answer {
    for (const auto& [bug, instead] : kAnswers) {
      if (!context.Has(bug)) continue;
      if (Answer answer = instead(context, request)) return answer;
    }
    return std::nullopt;
  };
  client.corrupt_request = [&context](kube::ApiRequest& request) {
    for (const auto& [bug, change] : kRequests) {
      if (context.Has(bug)) change(context, request);
    }
  };
  if (context.Has(Bug::kForgetIsolation)) client.corrupt_event = ForgetIsolationIn;
  // Whoever trusts the cache is right until it lags.
  if (context.Has(Bug::kStaleClaims)) client.late_watch = api::kResourceClaims.plural;
}

}  // namespace cd::simulation
