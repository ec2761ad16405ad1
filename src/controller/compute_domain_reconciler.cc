#include "src/controller/compute_domain_reconciler.h"

#include <algorithm>
#include <utility>

#include "src/base/log.h"
#include "src/controller/partition_change.h"
#include "src/controller/work_key.h"

namespace cd::controller {

namespace {

// Templates of other people are not watched; one that is in the way is read again now and then.
constexpr Duration kForeignTemplateInterval{30'000};
constexpr Duration kReadOwnersAgain{2'000};
// Between two texts of one refusal.
constexpr Duration kRefusalInterval{30'000};

// nullptr: it is accepted, or nothing was said yet.
const api::Condition* RefusalIn(const api::ComputeDomainStatus& status) {
  const auto it = std::find_if(status.conditions.begin(), status.conditions.end(),
                               [](const api::Condition& c) { return c.type == "Accepted" && c.status == "False"; });
  return it == status.conditions.end() ? nullptr : &*it;
}

// By a quota or an admission policy. Nothing tells when the reason has gone.
bool IsRefusal(const Error& error) {
  return error.code == ErrorCode::kForbidden || error.code == ErrorCode::kInvalidArgument;
}

}  // namespace

ComputeDomainDecision ComputeDomainReconciler::Decide(ComputeDomainSnapshot& snapshot, Memory& memory) const {
  const SteadyTime now = clock_.Now();
  snapshot.now = FormatTime(clock_.WallNow());
  if (memory.last_write) snapshot.since_write = now - *memory.last_write;
  if (memory.differs_since) snapshot.since_change = now - *memory.differs_since;
  if (!snapshot.claim_template.exists && memory.foreign) {
    snapshot.claim_template.exists = true;
    snapshot.claim_template.owner = memory.foreign->owner;
  }
  snapshot.claim_template.refusal = memory.template_refusal.words;
  snapshot.finalizer_refusal = memory.finalizer_refusal.words;
  const ComputeDomainDecision decision = DecideComputeDomain(snapshot);
  if (!decision.differs) {
    memory.differs_since.reset();
  } else if (!memory.differs_since) {
    memory.differs_since = now;
  }
  return decision;
}

// Once the gang has gone, who its owners are matters no more.
void ComputeDomainReconciler::LookAtGate(ComputeDomainSnapshot& snapshot, Memory& memory) {
  const std::string& uid = snapshot.cd->meta.uid;
  GateSnapshot& gate = snapshot.gate;
  if (!snapshot.cd->gating || gate.claims.empty() || gate.open) {
    workloads_.Forget(uid);
  } else {
    std::vector<api::ObjectRef> pods;
    for (const GatedClaim& claim : gate.claims) pods.insert(pods.end(), claim.pods.begin(), claim.pods.end());
    auto workloads = workloads_.Read(uid, pods);
    if (workloads) {
      gate.workloads = *std::move(workloads);
    } else {
      LogWarning("cannot read the owners of held pods",
                 {{"computeDomain", ToString(snapshot.cd->meta.Key())}, {"error", workloads.error().message}});
      queue_.AddAfter(ComputeDomainKey(snapshot.cd->meta.Key()), kReadOwnersAgain);
    }
  }
  if (!snapshot.cd->gating) return;
  std::string state = GateState(gate, FormationOf(snapshot));
  if (state != memory.gate_state) {
    memory.gate_state = std::move(state);
    memory.gate_since = clock_.Now();
  }
  gate.unchanged = clock_.Now() - memory.gate_since;
}

// Another ComputeDomain may have taken the name.
ComputeDomainReconciler::Memory& ComputeDomainReconciler::MemoryOf(const api::ComputeDomain& cd) {
  Memory& memory = memory_[cd.meta.Key()];
  if (memory.uid != cd.meta.uid) {
    memory = Memory();
    memory.uid = cd.meta.uid;
  }
  return memory;
}

Status ComputeDomainReconciler::Reconcile(const api::ObjectKey& key) {
  // Finalizer, template, status: each answer is in the next snapshot.
  constexpr int kMaxRounds = 6;
  for (int round = 0; round < kMaxRounds; ++round) {
    auto snapshot = world_.SnapshotComputeDomain(key);
    if (!snapshot) {
      memory_.erase(key);
      return {};
    }
    Memory& memory = MemoryOf(*snapshot->cd);
    if (auto ok = FollowForeignTemplate(*snapshot, memory); !ok) return ok;
    LookAtGate(*snapshot, memory);
    const ComputeDomainDecision decision = Decide(*snapshot, memory);
    // An order that was given stays until all of the gang has gone: the first of its claims to go opens the gate.
    if (!snapshot->gate.open) world_.OrderRelease(snapshot->cd->meta.uid, decision.release);
    if (snapshot->cd->meta.deleting) return Finish(*snapshot, decision, memory);
    Status done;
    if (decision.add_finalizer) {
      done = AddFinalizer(*snapshot, memory);
    } else if (decision.create_template) {
      done = CreateTemplate(*snapshot, memory);
    } else if (decision.status) {
      done = WriteStatus(*snapshot, decision, memory);
    } else {
      if (decision.gate_due) queue_.AddAfter(ComputeDomainKey(key), *decision.gate_due);
      if (decision.status_due) queue_.AddAfter(ComputeDomainKey(key), *decision.status_due);
      return {};
    }
    if (!done) return done;
  }
  return Fail(ErrorCode::kFailedPrecondition, "ComputeDomain changes faster than it can be served");
}

bool ComputeDomainReconciler::IsNews(Refusal& refusal, const Error& error) const {
  if (!refusal.words.empty() && clock_.Now() < refusal.next) return false;
  refusal = {error.message, clock_.Now() + kRefusalInterval};
  return true;
}

// Whoever waits for what is refused looks at the ComputeDomain, not at the controller's log.
Status ComputeDomainReconciler::TellInStatus(ComputeDomainSnapshot& snapshot, Refusal& refusal, const Error& error,
                                             Memory& memory) {
  IsNews(refusal, error);
  const ComputeDomainDecision decision = Decide(snapshot, memory);
  return decision.status ? WriteStatus(snapshot, decision, memory) : Status{};
}

void ComputeDomainReconciler::TellInEvent(const api::ComputeDomain& cd, const std::string& reason, const std::string& what,
                                          const Error& error, Memory& memory) {
  if (!IsRefusal(error) || !IsNews(memory.other_refusal, error)) return;
  events_.Record({.type = api::kComputeDomains,
                  .object = cd.meta.Ref(),
                  .severity = kube::EventType::kWarning,
                  .reason = reason,
                  .action = "Write",
                  .note = what + ", it is tried again: " + error.message +
                          "; let the admission policies allow it to the driver's controller"});
}

Status ComputeDomainReconciler::AddFinalizer(ComputeDomainSnapshot& snapshot, Memory& memory) {
  const Status added = cluster_.AddFinalizer(*snapshot.cd);
  if (added) {
    memory.finalizer_refusal = {};
    return {};
  }
  if (IsRefusal(added.error())) {
    if (auto ok = TellInStatus(snapshot, memory.finalizer_refusal, added.error(), memory); !ok) return ok;
  }
  return Fail(Annotate(added.error(), "add finalizer"));
}

Status ComputeDomainReconciler::CreateTemplateFor(const api::ComputeDomain& cd) {
  const Status created = cluster_.CreateTemplate(cd, settings_.devices);
  if (created || created.error().code != ErrorCode::kFailedPrecondition || !settings_.devices_may_be_plain) return created;
  LogInfo("the API server does not know devices that claims share; nodes offer plain ones", {{"slots", settings_.devices.slots}});
  settings_.devices.plain = true;
  return cluster_.CreateTemplate(cd, settings_.devices);
}

Status ComputeDomainReconciler::CreateTemplate(ComputeDomainSnapshot& snapshot, Memory& memory) {
  const Status created = CreateTemplateFor(*snapshot.cd);
  if (created) {
    memory.template_refusal = {};
    LogInfo("ResourceClaimTemplate created",
            {{"computeDomain", ToString(snapshot.cd->meta.Ref())}, {"template", snapshot.cd->claim_template_name}});
    return {};
  }
  const Error& error = created.error();
  if (IsRefusal(error) || error.code == ErrorCode::kFailedPrecondition) {
    if (auto ok = TellInStatus(snapshot, memory.template_refusal, error, memory); !ok) return ok;
  }
  if (error.code != ErrorCode::kAlreadyExists) return Fail(Annotate(error, "create ResourceClaimTemplate"));
  memory.template_refusal = {};
  return ReadForeignTemplate(snapshot, memory);
}

Status ComputeDomainReconciler::FollowForeignTemplate(const ComputeDomainSnapshot& snapshot, Memory& memory) {
  if (!memory.foreign) return {};
  const SteadyTime now = clock_.Now();
  if (now >= memory.foreign->next_read) return ReadForeignTemplate(snapshot, memory);
  // Again at every turn: the queue keeps only the earliest wish of a key, and this turn may have been that of another one.
  queue_.AddAfter(ComputeDomainKey(snapshot.cd->meta.Key()), memory.foreign->next_read - now);
  return {};
}

Status ComputeDomainReconciler::ReadForeignTemplate(const ComputeDomainSnapshot& snapshot, Memory& memory) {
  const api::ObjectKey key{snapshot.cd->meta.ns, snapshot.cd->claim_template_name};
  const auto found = cluster_.ReadTemplate(key);
  if (!found) return Fail(found.error());
  const auto told = std::exchange(memory.foreign, std::nullopt);
  if (!*found) return {};
  // Ours from a life of this process before: the cache was behind.
  const auto label = (*found)->labels.find(api::kComputeDomainLabel);
  if (label != (*found)->labels.end() && label->second == snapshot.cd->meta.uid) {
    world_.Put(std::make_shared<const ClaimTemplate>(ClaimTemplate{**found}), Source::kWrite);
    return {};
  }
  memory.foreign = ForeignTemplate{key.name, OwnerOf(**found, *snapshot.cd), clock_.Now() + kForeignTemplateInterval};
  queue_.AddAfter(ComputeDomainKey(snapshot.cd->meta.Key()), kForeignTemplateInterval);
  if (told && told->owner == memory.foreign->owner) return {};
  LogWarning("ResourceClaimTemplate of somebody else is left alone",
             {{"computeDomain", ToString(snapshot.cd->meta.Ref())}, {"template", key.name}, {"owner", memory.foreign->owner}});
  return {};
}

std::string ComputeDomainReconciler::OwnerOf(const api::ObjectMeta& claim_template, const api::ComputeDomain& cd) const {
  for (const api::OwnerReference& owner : claim_template.owners) {
    if (owner.uid == cd.meta.uid) return std::string("this ComputeDomain, but has lost its label ") + api::kComputeDomainLabel;
    return owner.kind + " " + claim_template.ns + "/" + owner.name;
  }
  const auto label = claim_template.labels.find(api::kComputeDomainLabel);
  if (label != claim_template.labels.end()) return world_.NameOfComputeDomain(label->second);
  return "somebody who set no owner reference";
}

// Users look at events first. Only what the status did not say before is told, so a new leader repeats nothing.
void ComputeDomainReconciler::TellRefusal(const api::ComputeDomain& before, const api::ComputeDomainStatus& written) {
  const api::Condition* refusal = RefusalIn(written);
  const api::Condition* known = RefusalIn(before.status);
  if (refusal == nullptr || (known != nullptr && known->reason == refusal->reason && known->message == refusal->message)) return;
  events_.Record({.type = api::kComputeDomains,
                  .object = before.meta.Ref(),
                  .severity = kube::EventType::kWarning,
                  .reason = refusal->reason,
                  .action = "Accept",
                  .note = refusal->message});
}

Status ComputeDomainReconciler::WriteStatus(const ComputeDomainSnapshot& snapshot, const ComputeDomainDecision& decision,
                                            Memory& memory) {
  if (snapshot.cd->status.partition != decision.status->partition) {
    if (auto ok = MayChangePartition(cluster_, world_, *snapshot.cd, decision.status->partition); !ok) return ok;
  }
  if (auto ok = cluster_.WriteStatus(*snapshot.cd, *decision.status); !ok) {
    TellInEvent(*snapshot.cd, "StatusRefused", "the status cannot be written, and what it says may be out of date", ok.error(),
                memory);
    return Fail(Annotate(ok.error(), "write status of ComputeDomain"));
  }
  TellRefusal(*snapshot.cd, *decision.status);
  if (decision.counts) memory.last_write = clock_.Now();
  memory.differs_since.reset();
  return {};
}

// Nothing here waits for nodes: an unreachable one must not keep a namespace from being deleted.
Status ComputeDomainReconciler::Finish(const ComputeDomainSnapshot& snapshot, const ComputeDomainDecision& decision,
                                       Memory& memory) {
  const api::ObjectMeta& meta = snapshot.cd->meta;
  if (!decision.remove_finalizer) {
    memory.finalizer_removed = false;  // seen; should somebody add it again, it is removed again
    return {};
  }
  if (memory.finalizer_removed) return {};
  if (decision.delete_template && !memory.template_deleted) {
    const api::ObjectKey key{meta.ns, snapshot.cd->claim_template_name};
    if (auto ok = cluster_.DeleteTemplate(key, snapshot.claim_template.uid); !ok) {
      TellInEvent(*snapshot.cd, "DeletionRefused", "ResourceClaimTemplate " + key.name + " cannot be deleted", ok.error(),
                  memory);
      return Fail(Annotate(ok.error(), "delete ResourceClaimTemplate"));
    }
    memory.template_deleted = true;
  }
  for (const std::string& name : decision.drain) {
    if (auto ok = domains_.Reconcile(name); !ok) return ok;
  }
  if (auto ok = cluster_.RemoveFinalizer(meta, api::kComputeDomains); !ok) {
    TellInEvent(*snapshot.cd, "DeletionRefused", std::string("the finalizer ") + api::kFinalizer + " cannot be removed",
                ok.error(), memory);
    return Fail(Annotate(ok.error(), "remove finalizer"));
  }
  memory.finalizer_removed = true;
  LogInfo("ComputeDomain is released", {{"computeDomain", ToString(meta.Ref())}, {"uid", meta.uid}});
  return {};
}

}  // namespace cd::controller
