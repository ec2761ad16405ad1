#include "src/controller/domain_reconciler.h"

#include "src/base/log.h"
#include "src/controller/work_key.h"
#include "src/domain/imex_options.h"
#include "src/domain/unseen.h"

namespace cd::controller {

// An absent Node is read twice, gone_after_ apart: no polling, and one wrong answer frees nothing.
Result<std::set<std::string>> DomainReconciler::GoneNodes(const DomainSnapshot& snapshot) {
  std::set<std::string> gone;
  if (!snapshot.clique.domain) return gone;
  for (const api::DomainMember& member : snapshot.clique.domain->members) {
    if (domain::FindNode(snapshot.clique.nodes, member.node) != nullptr) {
      absent_.erase(member.node);
      continue;
    }
    const SteadyTime now = clock_.Now();
    auto it = absent_.find(member.node);
    if (it != absent_.end() && now < it->second.next_read) {
      // Again at every turn: the queue keeps only the earliest wish of a key, and this turn may have been that of another one.
      queue_.AddAfter(ImexDomainKey(snapshot.clique.name), it->second.next_read - now);
      continue;
    }
    const auto exists = cluster_.NodeExists(member.node);
    if (!exists) return Fail(exists.error());
    const bool absent_before = it != absent_.end() && it->second.since.has_value();
    if (!*exists && absent_before) {
      gone.insert(member.node);
      continue;
    }
    LogInfo("member has no IMEXNode", {{"node", member.node}, {"imexDomain", snapshot.clique.name}, {"nodeExists", *exists}});
    absent_[member.node] = {now + gone_after_, *exists ? std::nullopt : std::optional(now)};
    queue_.AddAfter(ImexDomainKey(snapshot.clique.name), gone_after_);
  }
  return gone;
}

// A new leader waits anew before it says so of another node; what an earlier one has said stands meanwhile.
std::set<std::string> DomainReconciler::UnseenNodes(const DomainSnapshot& snapshot) {
  const std::set<std::string> now_unseen = domain::UnseenMembers(snapshot.clique);
  const SteadyTime now = clock_.Now();
  auto& since = unseen_[snapshot.clique.name];
  std::erase_if(since, [&](const auto& entry) { return !now_unseen.contains(entry.first); });
  std::set<std::string> out;
  for (const std::string& node : now_unseen) {
    const SteadyTime due = since.try_emplace(node, now).first->second + domain::kUnseenFor;
    if (now >= due || api::FindMember(*snapshot.clique.domain, node)->unseen) {
      out.insert(node);
    } else {
      queue_.AddAfter(ImexDomainKey(snapshot.clique.name), due - now);
    }
  }
  if (since.empty()) unseen_.erase(snapshot.clique.name);
  return out;
}

Status DomainReconciler::Read(const DomainSnapshot& snapshot, const DomainDecision& decision, Readings& readings) {
  for (const api::ObjectRef& owner : decision.verify) {
    const auto liveness = cluster_.ReadLiveness(owner);
    if (!liveness) return Fail(liveness.error());
    readings.verified[owner.uid] = *liveness;
  }
  for (const LookUp& look_up : decision.look_up) {
    const auto liveness = cluster_.LookUpLiveness(look_up);
    if (!liveness) return Fail(liveness.error());
    readings.verified[look_up.uid] = *liveness;
  }
  if (!decision.look) return {};
  // The version was known before the list begins: that is what makes the list proof.
  const std::string version = domain::VersionOf(snapshot.clique);
  auto nodes = cluster_.ListNodes();
  if (!nodes) return Fail(nodes.error());
  readings.looked = Look{version, *std::move(nodes)};
  return {};
}

// A changed setting of the cluster is for new domains: running daemons were started with the old one.
void DomainReconciler::TellOldOptions(const DomainSnapshot& snapshot) {
  const auto& domain = snapshot.clique.domain;
  if (!domain || domain->mode != api::DomainMode::kShared || domain::SameOptions(domain->imex_config, snapshot.imex_config))
    return;
  if (!old_options_told_.insert(domain->meta.uid).second) return;
  LogWarning("IMEXDomain keeps the options of nvidia-imex it was created with; the configured ones are for new IMEXDomains",
             {{"imexDomain", domain->meta.name}});
}

// No event need follow: neither of the end of an object that cannot be decoded, nor, where no claim of it is in use, of its
// mending.
void DomainReconciler::AwaitOwner(const std::string& name) {
  LogWarning("lost IMEXDomain waits: its ComputeDomain cannot be decoded; run a controller that knows all its values",
             {{"imexDomain", name}, {"computeDomain", api::IdentityOf(name).owner_uid}});
  queue_.AddAfter(ImexDomainKey(name), kOwnerAgain);
}

Status DomainReconciler::Reconcile(const std::string& name) {
  Readings readings;
  // Reads, a write, then the look and the freeing that Draining asks for; more rounds mean that others change the world
  // meanwhile.
  constexpr int kMaxRounds = 8;
  for (int round = 0; round < kMaxRounds; ++round) {
    DomainSnapshot snapshot = world_.SnapshotDomain(name);
    if (const auto removed = removed_.find(name); removed != removed_.end()) {
      // The watch is behind the deletion.
      const auto& present = snapshot.clique.domain ? snapshot.clique.domain : snapshot.clique.begun;
      if (present && present->meta.uid == removed->second) return {};
      removed_.erase(removed);
    }
    TellOldOptions(snapshot);
    auto gone = GoneNodes(snapshot);
    if (!gone) return Fail(gone.error());
    snapshot.gone_nodes = *std::move(gone);
    snapshot.unseen_nodes = UnseenNodes(snapshot);
    snapshot.known.verified = readings.verified;
    snapshot.looked = readings.looked;
    const DomainDecision decision = DecideDomain(snapshot);
    if (decision.NeedsReads()) {
      if (auto ok = Read(snapshot, decision, readings); !ok) return ok;
      continue;
    }
    if (decision.owner_unreadable) AwaitOwner(name);
    for (const std::string& reason : decision.reasons) LogInfo(reason, {{"imexDomain", name}});
    if (decision.remove) {
      if (auto ok = cluster_.Remove(*snapshot.clique.domain); !ok) return Fail(Annotate(ok.error(), "remove IMEXDomain"));
      removed_[name] = snapshot.clique.domain->meta.uid;
      return {};
    }
    if (!decision.write) return {};
    if (auto ok = cluster_.Write(*decision.write); !ok) return Fail(Annotate(ok.error(), "write IMEXDomain"));
  }
  return Fail(ErrorCode::kFailedPrecondition, "IMEXDomain changes faster than it can be decided");
}

}  // namespace cd::controller
