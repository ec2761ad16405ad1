// Who owns the pods that a gated ComputeDomain holds, and how many of them there will be.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/api/meta.h"
#include "src/base/clock.h"
#include "src/domain/gating.h"
#include "src/kube/client.h"

namespace cd::controller {

// What an owner says of itself; pure, from the object as the API has it. `kind` Job, StatefulSet and ReplicaSet declare how many
// pods they have at a time, unless something above them creates them one after the other.
domain::Workload DescribeWorkload(const std::string& kind, const nlohmann::json& object);

// Worker's thread only. Reads nothing that is watched: pods of a whole cluster are too many for the few that wait.
class WorkloadReader {
 public:
  WorkloadReader(kube::ApiClient& client, const Clock& clock) : client_(client), clock_(clock) {}

  // One GET for each pod that was not seen before, and one for each owner not read in the last two seconds. `pods`: one entry for
  // each pod that reserves a claim of the ComputeDomain.
  Result<std::vector<domain::Workload>> Read(const std::string& compute_domain_uid, const std::vector<api::ObjectRef>& pods);
  void Forget(const std::string& compute_domain_uid) { gangs_.erase(compute_domain_uid); }

 private:
  struct Owner {
    domain::Workload workload;
    SteadyTime read;
  };
  struct Gang {
    std::map<std::string, api::OwnerReference> owner_of_pod;  // by pod UID; an empty kind: it has none
    std::map<std::string, Owner> owners;                      // by UID
  };

  Result<api::OwnerReference> OwnerOf(Gang& gang, const api::ObjectRef& pod);
  Result<domain::Workload> Describe(Gang& gang, const api::OwnerReference& owner, const std::string& ns);

  kube::ApiClient& client_;
  const Clock& clock_;
  std::map<std::string, Gang> gangs_;  // by ComputeDomain UID
};

}  // namespace cd::controller
