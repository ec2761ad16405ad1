#include "tests/simulation/controller_process.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace cd::simulation {

using kube::Verb;
using nlohmann::json;

ControllerProcess::ControllerProcess(Context& context)
    : context_(context),
      name_("controller-" + std::to_string(context.next_instance++)),
      executor_(context.clock),
      client_(context.network, name_) {
  client_.blocking = true;
  client_.run = [this](const std::function<void()>& task) {
    task();
    idle_ = false;
  };
  InstallBugs();
  controller::ControllerOptions options;
  options.seed = context.dice.Next();
  options.ns = "driver";
  options.daemon_revision = std::to_string(context.daemon_revision);
  if (context.Has(Bug::kSlotAtOnce)) options.gone_after = Duration(0);
  controller_ = std::make_unique<controller::Controller>(client_, executor_, options);
  controller_->StartInformers();
}

ControllerProcess::~ControllerProcess() {
  fiber_.Kill();
  controller_.reset();
}

bool ControllerProcess::HasWork() const {
  return executor_.HasPosted() || executor_.HasDue() || (!fiber_.busy() && !idle_ && controller_->Synced());
}

void ControllerProcess::Step() {
  const bool task = executor_.HasPosted() || executor_.HasDue();
  const bool work = !fiber_.busy() && !idle_ && controller_->Synced();
  if (task && (!work || context_.dice.PerMille(500))) {
    executor_.HasPosted() ? executor_.TakePosted()() : executor_.TakeDue()();
    idle_ = false;
    return;
  }
  fiber_.Run([this] { idle_ = !controller_->WorkOnce(); });
}

void ControllerProcess::InstallBugs() {
  if (context_.Has(Bug::kNoPrecondition)) {
    client_.corrupt_request = [this](kube::ApiRequest& request) {
      if (request.verb != Verb::kUpdate || request.type.plural != api::kImexDomains.plural) return;
      const ObjectPtr present = context_.server.Find(api::kImexDomains, request.key);
      if (present == nullptr) return;
      json body = json::parse(request.body);
      body["metadata"]["resourceVersion"] = present->at("metadata")["resourceVersion"];
      request.body = body.dump();
    };
  }
  if (context_.Has(Bug::kReleaseAtOnce)) {
    client_.corrupt_request = [](kube::ApiRequest& request) {
      const bool writes = request.verb == Verb::kUpdate || request.verb == Verb::kCreate;
      if (!writes || request.type.plural != api::kImexDomains.plural) return;
      json body = json::parse(request.body);
      for (json& lease : body["spec"]["channels"]) lease["released"] = true;
      request.body = body.dump();
    };
  }
  if (context_.Has(Bug::kForgetIsolation)) {
    const auto forget = [](json& cd) {
      if (cd.value("kind", "") == api::kComputeDomains.kind || cd.contains("/spec/isolationMode"_json_pointer))
        cd["spec"].erase("isolationMode");
    };
    client_.corrupt_event = [forget](std::string& text) {
      if (text.find("isolationMode") == std::string::npos) return;
      json event = json::parse(text);
      forget(event["object"]);
      text = event.dump();
    };
    client_.corrupt_answer = [this, forget](const kube::ApiRequest& request) -> std::optional<Result<json>> {
      if (request.verb != Verb::kList || request.type.plural != api::kComputeDomains.plural) return std::nullopt;
      auto answer = context_.server.Handle(request);
      if (answer) {
        for (json& item : (*answer)["items"]) forget(item);
      }
      return answer;
    };
  }
  if (!context_.Has(Bug::kStaleLook) && !context_.Has(Bug::kStaleLiveness) && !context_.Has(Bug::kBlindRebuild) &&
      !context_.Has(Bug::kStaleClaims)) {
    return;
  }
  client_.corrupt_answer = [this](const kube::ApiRequest& request) -> std::optional<Result<json>> {
    const std::string& plural = request.type.plural;
    const bool look = request.verb == Verb::kList && plural == api::kImexNodes.plural && request.query.empty();
    if (look && context_.Has(Bug::kStaleLook)) return context_.server.OlderList(request, context_.dice.Below(8));
    if (request.verb == Verb::kList && plural == api::kResourceClaims.plural && context_.Has(Bug::kStaleClaims))
      return context_.server.OlderList(request, context_.dice.Below(30));
    if (look && context_.Has(Bug::kBlindRebuild)) {
      const auto& nodes = context_.server.Objects(api::kImexNodes);
      const bool lost = std::any_of(nodes.begin(), nodes.end(), [this](const auto& item) {
        const std::string domain = item.second->value("/spec/domain/name"_json_pointer, "");
        return !domain.empty() && context_.server.Find(api::kImexDomains, {"", domain}) == nullptr;
      });
      if (!lost) return std::nullopt;
      json list = context_.server.OlderList(request, 0);
      for (json& item : list["items"]) {
        if (item.contains("status")) item["status"]["channels"] = json::array();
      }
      return list;
    }
    if (request.verb == Verb::kGet && plural == api::kComputeDomains.plural && context_.Has(Bug::kStaleLiveness)) {
      const ObjectPtr older = context_.server.Older(api::kComputeDomains, request.key, 1'000);
      const ObjectPtr some =
          older == nullptr ? context_.server.Older(api::kComputeDomains, request.key, context_.dice.Below(20)) : older;
      if (some != nullptr) return *some;
    }
    return std::nullopt;
  };
}

}  // namespace cd::simulation
