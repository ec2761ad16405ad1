#include "src/plugin/slice_publisher.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "src/api/resource_version.h"
#include "src/base/json_text.h"
#include "src/base/log.h"

namespace cd::plugin {

using nlohmann::json;

namespace {

constexpr Duration kRetry{1'000};
constexpr Duration kKeepsNothing{60'000};

std::string NameOf(const json& slice) {
  return TextOf(MemberOf(slice, "metadata"), "name");
}
std::string VersionOf(const json& slice) {
  return TextOf(MemberOf(slice, "metadata"), "resourceVersion");
}
std::string UidOf(const json& slice) {
  return TextOf(MemberOf(slice, "metadata"), "uid");
}
std::int64_t GenerationOf(const json& slice) {
  const json& generation = MemberOf(MemberOf(MemberOf(slice, "spec"), "pool"), "generation");
  return generation.is_number_integer() ? generation.get<std::int64_t>() : 0;
}

kube::InformerOptions Selection(const std::string& node) {
  return {api::kResourceSlices, "", "", std::string("spec.driver=") + api::kDriverName + ",spec.nodeName=" + node};
}

}  // namespace

SlicePublisher::SlicePublisher(Executor& executor, kube::ApiClient& client, const std::string& node, int slots,
                               DeviceModeChoice choice, std::uint64_t seed)
    : executor_(executor),
      client_(client),
      input_{node, "", false, slots, choice == DeviceModeChoice::kPlain ? DeviceMode::kPlain : DeviceMode::kMulti},
      choice_(choice),
      reflector_(client, executor, Selection(node),
                 {[this](const std::vector<const json*>& items, const std::string&) { TakeList(items); },
                  [this](kube::ChangeType type, const json& object) { TakeChange(type, object); }},
                 seed) {}

void SlicePublisher::Start() {
  reflector_.Start();
}

void SlicePublisher::BecomePublisher(OwnerSource owner) {
  owner_ = std::move(owner);
  Reconcile();
}

void SlicePublisher::SetOffer(const std::string& clique_id, bool channel) {
  offer_known_ = true;
  input_.clique_id = clique_id;
  input_.offers_channel = channel;
  Reconcile();
}

void SlicePublisher::TakeList(const std::vector<const json*>& items) {
  slices_.clear();
  for (const json* item : items) slices_[NameOf(*item)] = *item;
  synced_ = true;
  if (!slices_.contains(SliceName(input_.node))) SeeAbsence();
  Reconcile();
}

void SlicePublisher::TakeChange(kube::ChangeType type, const json& object) {
  const std::string name = NameOf(object);
  if (type != kube::ChangeType::kDeleted) {
    slices_[name] = object;
    return Reconcile();
  }
  if (name == SliceName(input_.node)) SeeAbsence();
  if (const auto known = slices_.find(name); known != slices_.end() && UidOf(known->second) == UidOf(object)) {
    LogInfo("a slice of this node was deleted", {{"slice", name}});
    slices_.erase(known);
  }
  Reconcile();
}

void SlicePublisher::SeeAbsence() {
  if (auto* requesting = std::get_if<Requesting>(&turn_)) requesting->absence_seen = true;
}

// One slice is the whole pool, so a changed one keeps the pool's generation: the server replaces it in one step.
void SlicePublisher::Reconcile() {
  if (!offer_known_ || !synced_ || !std::holds_alternative<Idle>(turn_)) return;
  const json* ours = nullptr;
  const json* obsolete = nullptr;
  for (const auto& [name, slice] : slices_) {
    generation_ = std::max(generation_, GenerationOf(slice));
    (name == SliceName(input_.node) ? ours : obsolete) = &slice;
  }
  published_ = false;
  if (!owner_) {
    published_ = ours != nullptr;
    return;
  }
  if (obsolete != nullptr) return Remove(*obsolete);
  if (ours == nullptr) {
    turn_ = AwaitingOwner{};
    return owner_([this](const api::OwnerReference& owner) { Create(owner); });
  }
  const json wanted = BuildSlice(input_, GenerationOf(*ours));
  published_ = Covers(*ours, wanted);
  if (!published_ && wanted["spec"] != not_kept_) Update(*ours);
}

void SlicePublisher::Create(const api::OwnerReference& owner) {
  turn_ = Idle{};
  if (slices_.contains(SliceName(input_.node))) return Reconcile();  // somebody has made it meanwhile
  // Above all there were, also those just removed: a scheduler may still know them. Somebody may have used the highest number.
  if (generation_ < std::numeric_limits<std::int64_t>::max()) ++generation_;
  json slice = BuildSlice(input_, generation_);
  const json reference{
      {"apiVersion", owner.api_version}, {"kind", owner.kind}, {"name", owner.name}, {"uid", owner.uid}, {"controller", true}};
  slice["metadata"]["ownerReferences"] = json::array({reference});
  Write(kube::Create(api::kResourceSlices, "", slice), slice, "create");
}

void SlicePublisher::Update(const json& present) {
  json wanted = BuildSlice(input_, GenerationOf(present));
  wanted["metadata"]["resourceVersion"] = VersionOf(present);
  wanted["metadata"]["ownerReferences"] = MemberOf(MemberOf(present, "metadata"), "ownerReferences");
  Write(kube::Update(api::kResourceSlices, wanted), wanted, "update");
}

// Left by another driver of this name, or by an older version of ours.
void SlicePublisher::Remove(const json& slice) {
  Request(kube::Delete(api::kResourceSlices, {"", NameOf(slice)}, UidOf(slice), VersionOf(slice)),
          [this, name = NameOf(slice)](const Result<json>& answer, bool) {
            const bool gone = answer || answer.error().code == ErrorCode::kNotFound;
            if (gone) slices_.erase(name);
            LogInfo("removing a slice that is not ours to keep",
                    {{"slice", name}, {"removed", gone}, {"error", answer ? "" : answer.error().message}});
            gone ? Reconcile() : Pause(kRetry, &SlicePublisher::Reconcile);
          });
}

// The watch saw the slice disappear while a write was under way: before it or after it, only a read can tell.
void SlicePublisher::Reread() {
  Request(kube::Get(api::kResourceSlices, {"", SliceName(input_.node)}), [this](Result<json> answer, bool absence_seen) {
    if (absence_seen) return Reread();
    if (answer) {
      Learn(std::move(*answer));
    } else if (answer.error().code == ErrorCode::kNotFound) {
      slices_.erase(SliceName(input_.node));
    } else {
      return Pause(answer.error().retry_after.value_or(kRetry), &SlicePublisher::Reread);
    }
    Reconcile();
  });
}

void SlicePublisher::Request(kube::ApiRequest request, Answered answered) {
  turn_ = Requesting{};
  client_.Call(std::move(request), [this, answered = std::move(answered)](Result<json> answer) {
    const bool absence_seen = std::get<Requesting>(turn_).absence_seen;
    turn_ = Idle{};
    answered(std::move(answer), absence_seen);
  });
}

void SlicePublisher::Write(kube::ApiRequest request, const json& slice, const char* what) {
  Request(std::move(request), [this, what, spec = slice["spec"]](Result<json> answer, bool absence_seen) {
    OnWritten(std::move(answer), absence_seen, spec, what);
  });
}

// The watch may have told of a later change before the answer came.
void SlicePublisher::Learn(json slice) {
  // Named first: json's assignment takes its right side by value, so it would be moved from before the left side is evaluated.
  const std::string name = NameOf(slice);
  const auto known = slices_.find(name);
  const bool older = known != slices_.end() && UidOf(known->second) == UidOf(slice) &&
                     api::VersionOrder(VersionOf(slice), VersionOf(known->second)) < 0;
  if (!older) slices_[name] = std::move(slice);
}

void SlicePublisher::OnWritten(Result<json> answer, bool absence_seen, const json& spec, const char* what) {
  if (absence_seen) return Reread();
  if (!answer) {
    LogWarning("cannot publish the slice", {{"node", input_.node}, {"step", what}, {"error", answer.error().message}});
    // A conflict is what the watch is about to tell. That the object is gone it may have told before it was known here.
    if (answer.error().code == ErrorCode::kNotFound) slices_.erase(SliceName(input_.node));
    return Pause(answer.error().retry_after.value_or(kRetry), &SlicePublisher::Reconcile);
  }
  if (Covers(MemberOf(*answer, "spec"), spec)) {
    LogInfo("slice published",
            {{"node", input_.node}, {"step", what}, {"cliqueID", input_.clique_id}, {"channel", input_.offers_channel}});
  } else {
    NotKept(*answer, spec);
  }
  Learn(std::move(*answer));
  Reconcile();
}

// The same must not be written for ever. A server that learns more, or another admission policy, may keep it some day.
void SlicePublisher::NotKept(const json& stored, const json& spec) {
  if (input_.mode == DeviceMode::kMulti && DroppedSharing(stored)) {
    SharingDropped();
  } else {
    LogWarning("the API server keeps another slice than was sent: does an admission policy change it?", {{"node", input_.node}});
  }
  not_kept_ = spec;
  executor_.Cancel(again_);
  again_ = executor_.PostAfter(kKeepsNothing, [this] {
    not_kept_ = nullptr;
    Reconcile();
  });
}

void SlicePublisher::SharingDropped() {
  if (choice_ == DeviceModeChoice::kMulti) {
    return LogError(
        "the API server drops allowMultipleAllocations (feature gate DRAConsumableCapacity is off): one pod per node at a time; "
        "set the device mode to auto or plain",
        {{"node", input_.node}});
  }
  LogWarning(
      "the API server drops allowMultipleAllocations (feature gate DRAConsumableCapacity is off): publishing plain devices",
      {{"node", input_.node}, {"devices", input_.slots}});
  input_.mode = DeviceMode::kPlain;
}

void SlicePublisher::Pause(Duration delay, void (SlicePublisher::*next)()) {
  turn_ = Pausing{};
  executor_.PostAfter(delay, [this, next] {
    turn_ = Idle{};
    (this->*next)();
  });
}

}  // namespace cd::plugin
