// The controller's reads and writes of the API, each one call, with the answers to writes fed back into the World.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "src/api/claim_template.h"
#include "src/controller/world.h"
#include "src/kube/client.h"

namespace cd::controller {

// Worker's thread only; every function blocks until the answer is there.
class Cluster {
 public:
  Cluster(kube::ApiClient& client, World& world) : client_(client), world_(world) {}

  // Live, by name with comparison of the UID.
  Result<domain::Liveness> ReadLiveness(const api::ObjectRef& compute_domain);
  // Live, for a UID without name.
  Result<domain::Liveness> LookUpLiveness(const LookUp& look_up);
  // Quorum list of all IMEXNodes, sorted by name. An undecodable one is an error: it might hold a channel.
  Result<domain::Nodes> ListNodes();
  Result<bool> NodeExists(const std::string& name);
  // Live: the IMEXDomain of that name has this version; empty: there is none.
  Result<bool> IsNewest(const std::string& imex_domain, const std::string& version);
  // Live, of one namespace.
  Result<std::vector<ChannelClaim>> ListClaims(const std::string& ns);
  // nullopt: there is none.
  Result<std::optional<api::ObjectMeta>> ReadTemplate(const api::ObjectKey& key);

  // Creates a domain without resourceVersion, else updates it with that precondition.
  Status Write(const api::ImexDomain& domain);
  Status Remove(const api::ImexDomain& domain);
  // `moves`: the domain is written as well, if the IMEXNode still is the one that was decided from.
  Status WriteNodeSpec(const api::ImexNode& node, const NodeDecision& decision, bool moves);
  // The pod of the node's IMEX daemon with that UID. False: it is gone, or ending already.
  Result<bool> DeleteDaemonPod(const std::string& ns, const std::string& node, const std::string& uid);
  Status AddFinalizer(const api::ComputeDomain& cd);
  Status RemoveFinalizer(const api::ObjectMeta& meta, const api::ResourceType& type);
  // kAlreadyExists: somebody has a template of that name. kFailedPrecondition: the server does not know devices that claims
  // share, and the template, which would not ask for a whole node, is deleted again.
  Status CreateTemplate(const api::ComputeDomain& cd, const api::NodeDevices& devices);
  Status DeleteTemplate(const api::ObjectKey& key, const std::string& uid);
  Status WriteStatus(const api::ComputeDomain& cd, const api::ComputeDomainStatus& status);
  // Changes the pod's wake annotation, so that the kubelet looks at the pod now. A pod that is gone is fine.
  Status Wake(const api::ObjectRef& pod, const std::string& now);

 private:
  kube::ApiClient& client_;
  World& world_;
};

}  // namespace cd::controller
