#include "tests/integration/api_script.h"

#include "src/api/compute_domain.h"
#include "src/api/imex_domain.h"
#include "src/api/imex_node.h"

namespace cd::integration {

using nlohmann::json;

namespace {

json NodeSpec(const std::string& uid) {
  return {{"domain", {{"name", "clique.1"}, {"uid", uid}, {"index", 3}}}};
}

json NodeStatus(const std::string& boot) {
  api::ImexNodeStatus status;
  status.boot_id = boot;
  status.channels = {{"u", 1, "c"}};
  return api::EncodeImexNodeStatus(status);
}

json DomainObject(const std::string& name) {
  api::ImexDomain domain;
  domain.meta.name = name;
  domain.meta.finalizers = {api::kFinalizer};
  domain.clique_id = "clique.1";
  return api::EncodeImexDomain(domain);
}

kube::ApiRequest PatchStatus(const std::string& node, const json& metadata, const json& status) {
  return kube::MergePatch(api::kImexNodes, {"", node}, {{"metadata", metadata}, {"status", status}}, "status");
}

kube::ApiRequest ApplyLabels(const std::string& node, const json& labels, const std::string& uid = "") {
  json metadata{{"name", node}, {"labels", labels}};
  if (!uid.empty()) metadata["uid"] = uid;
  return kube::Apply(api::kImexNodes, {{"metadata", metadata}}, "script");
}

// An object with a status of its own: what each endpoint takes of it.
std::vector<Step> NodeAndStatus(const std::string& node) {
  const api::ObjectKey node_key{"", node};
  const json bare_node{{"metadata", {{"name", node}}}, {"spec", json::object()}, {"status", NodeStatus("boot-0")}};
  return {
      {"read what is not there", [=](Endpoint&) { return kube::Get(api::kImexNodes, node_key); }},
      {"patch what is not there", [=](Endpoint&) { return PatchStatus(node, json::object(), NodeStatus("boot-1")); }},
      {"create with a version",
       [=](Endpoint&) {
         json object = bare_node;
         object["metadata"]["resourceVersion"] = "5";
         return kube::Create(api::kImexNodes, "", object);
       }},
      {"create drops status", [=](Endpoint&) { return kube::Create(api::kImexNodes, "", bare_node); }},
      {"create again", [=](Endpoint&) { return kube::Create(api::kImexNodes, "", bare_node); }},
      {"status with the version",
       [=](Endpoint& e) {
         return PatchStatus(node, {{"resourceVersion", e.version["create drops status"]}}, NodeStatus("boot-1"));
       }},
      {"status with an old version",
       [=](Endpoint& e) {
         return PatchStatus(node, {{"resourceVersion", e.version["create drops status"]}}, NodeStatus("boot-2"));
       }},
      {"status that changes nothing", [=](Endpoint&) { return PatchStatus(node, json::object(), NodeStatus("boot-1")); }},
      {"status leaves the rest alone",
       [=](Endpoint&) {
         return kube::MergePatch(
             api::kImexNodes, node_key,
             {{"metadata", {{"labels", {{"a", "b"}}}}}, {"spec", NodeSpec("u")}, {"status", NodeStatus("boot-3")}}, "status");
       }},
      {"spec with the UID",
       [=](Endpoint& e) {
         return kube::MergePatch(
             api::kImexNodes, node_key,
             {{"metadata", {{"uid", e.uid["create drops status"]}}}, {"spec", NodeSpec("u")}, {"status", NodeStatus("ignored")}});
       }},
      {"spec with another UID",
       [=](Endpoint&) {
         return kube::MergePatch(api::kImexNodes, node_key,
                                 {{"metadata", {{"uid", "00000000-0000-4000-8000-00000000dead"}}}, {"spec", NodeSpec("v")}});
       }},
      {"status with another UID",
       [=](Endpoint&) { return PatchStatus(node, {{"uid", "00000000-0000-4000-8000-00000000dead"}}, NodeStatus("boot-4")); }},
      {"null removes", [=](Endpoint&) { return kube::MergePatch(api::kImexNodes, node_key, {{"spec", {{"domain", nullptr}}}}); }},
      {"null in a status removes",
       [=](Endpoint&) { return PatchStatus(node, json::object(), {{"maintenanceAcknowledged", nullptr}}); }},
  };
}

// Server-side apply of labels beside somebody else's.
std::vector<Step> AppliedLabels(const std::string& node) {
  const api::ObjectKey node_key{"", node};
  return {
      {"labels of somebody",
       [=](Endpoint&) {
         return kube::MergePatch(api::kImexNodes, node_key, {{"metadata", {{"labels", {{"zone", "a"}, {"clique", "x"}}}}}});
       }},
      {"apply", [=](Endpoint& e) { return ApplyLabels(node, {{"daemon", "true"}}, e.uid["create drops status"]); }},
      {"apply again", [=](Endpoint&) { return ApplyLabels(node, {{"daemon", "true"}}); }},
      {"apply what somebody else says otherwise",
       [=](Endpoint&) { return ApplyLabels(node, {{"daemon", "true"}, {"clique", "y"}}); }},
      {"apply what somebody else says as well",
       [=](Endpoint&) { return ApplyLabels(node, {{"daemon", "true"}, {"clique", "x"}}); }},
      {"it is still somebody else's", [=](Endpoint&) { return ApplyLabels(node, {{"daemon", "true"}, {"clique", "y"}}); }},
      {"apply less of what is shared", [=](Endpoint&) { return ApplyLabels(node, {{"daemon", "true"}}); }},
      {"apply by force",
       [=](Endpoint&) {
         kube::ApiRequest request = ApplyLabels(node, {{"daemon", "true"}, {"clique", "y"}});
         request.query["force"] = "true";
         return request;
       }},
      {"apply another value", [=](Endpoint&) { return ApplyLabels(node, {{"daemon", "true"}, {"clique", "z"}}); }},
      {"somebody changes what was applied",
       [=](Endpoint&) { return kube::MergePatch(api::kImexNodes, node_key, {{"metadata", {{"labels", {{"daemon", "no"}}}}}}); }},
      {"apply what was changed", [=](Endpoint&) { return ApplyLabels(node, {{"daemon", "true"}, {"clique", "z"}}); }},
      {"somebody removes what was applied",
       [=](Endpoint&) {
         return kube::MergePatch(api::kImexNodes, node_key, {{"metadata", {{"labels", {{"clique", nullptr}}}}}});
       }},
      {"apply what was removed", [=](Endpoint&) { return ApplyLabels(node, {{"clique", "z"}}); }},
      {"apply nothing", [=](Endpoint&) { return ApplyLabels(node, json::object()); }},
      {"apply with another UID",
       [=](Endpoint&) { return ApplyLabels(node, {{"a", "b"}}, "00000000-0000-4000-8000-00000000dead"); }},
  };
}

std::vector<Step> NodeIsDeleted(const std::string& node) {
  const api::ObjectKey node_key{"", node};
  return {
      {"delete with another UID",
       [=](Endpoint&) { return kube::Delete(api::kImexNodes, node_key, "00000000-0000-4000-8000-00000000dead"); }},
      {"delete", [=](Endpoint&) { return kube::Delete(api::kImexNodes, node_key); }},
      {"delete again", [=](Endpoint&) { return kube::Delete(api::kImexNodes, node_key); }},
      {"apply what is gone", [=](Endpoint& e) { return ApplyLabels(node, {{"a", "b"}}, e.uid["create drops status"]); }},
  };
}

// Updates with a version, and a deletion that waits for a finalizer.
std::vector<Step> Domain(const std::string& domain) {
  const api::ObjectKey domain_key{"", domain};
  const auto domain_update = [=](const std::string& version, const std::string& uid, int next) {
    json object = DomainObject(domain);
    if (!version.empty()) object["metadata"]["resourceVersion"] = version;
    if (!uid.empty()) object["metadata"]["uid"] = uid;
    object["spec"]["nextChannel"] = next;
    return kube::Update(api::kImexDomains, object);
  };
  return {
      {"domain", [=](Endpoint&) { return kube::Create(api::kImexDomains, "", DomainObject(domain)); }},
      {"update without version", [=](Endpoint&) { return domain_update("", "", 2); }},
      {"update with the version", [=](Endpoint& e) { return domain_update(e.version["domain"], "", 2); }},
      {"update with an old version", [=](Endpoint& e) { return domain_update(e.version["domain"], "", 3); }},
      {"update with another UID",
       [=](Endpoint& e) {
         return domain_update(e.version["update with the version"], "00000000-0000-4000-8000-00000000dead", 3);
       }},
      {"update that changes nothing", [=](Endpoint& e) { return domain_update(e.version["update with the version"], "", 2); }},
      {"test fails",
       [=](Endpoint&) {
         return kube::JsonPatch(api::kImexDomains, domain_key,
                                json::array({{{"op", "test"}, {"path", "/metadata/uid"}, {"value", "x"}},
                                             {{"op", "remove"}, {"path", "/metadata/finalizers/0"}}}));
       }},
      {"delete with an old version",
       [=](Endpoint& e) { return kube::Delete(api::kImexDomains, domain_key, e.uid["domain"], e.version["domain"]); }},
      {"delete waits for finalizers",
       [=](Endpoint& e) {
         return kube::Delete(api::kImexDomains, domain_key, e.uid["domain"], e.version["update with the version"]);
       }},
      {"delete twice", [=](Endpoint&) { return kube::Delete(api::kImexDomains, domain_key); }},
      {"it is still there", [=](Endpoint&) { return kube::Get(api::kImexDomains, domain_key); }},
      {"its name is taken", [=](Endpoint&) { return kube::Create(api::kImexDomains, "", DomainObject(domain)); }},
      {"update while deleting", [=](Endpoint& e) { return domain_update(e.version["it is still there"], "", 4); }},
      {"the last finalizer",
       [=](Endpoint& e) {
         return kube::JsonPatch(api::kImexDomains, domain_key,
                                json::array({{{"op", "test"}, {"path", "/metadata/uid"}, {"value", e.uid["domain"]}},
                                             {{"op", "test"}, {"path", "/metadata/finalizers/0"}, {"value", api::kFinalizer}},
                                             {{"op", "remove"}, {"path", "/metadata/finalizers/0"}}}));
       }},
      {"it is gone", [=](Endpoint&) { return kube::Get(api::kImexDomains, domain_key); }},
  };
}

// Patches with tests, and lists.
std::vector<Step> ComputeDomainInNamespace(const std::string& ns) {
  const api::ObjectKey cd_key{ns, "red"};
  return {
      {"ComputeDomain",
       [=](Endpoint&) {
         return kube::Create(api::kComputeDomains, ns,
                             {{"metadata", {{"name", "red"}}},
                              {"spec",
                               {{"channel", {{"resourceClaimTemplate", {{"name", "red-channel"}}}, {"allocationMode", "Single"}}},
                                {"isolationMode", "Channel"},
                                {"partitionPolicy", "Any"},
                                {"fabricPolicy", "Required"}}}});
       }},
      {"finalizer",
       [=](Endpoint& e) {
         return kube::JsonPatch(
             api::kComputeDomains, cd_key,
             json::array({{{"op", "test"}, {"path", "/metadata/uid"}, {"value", e.uid["ComputeDomain"]}},
                          {{"op", "test"}, {"path", "/metadata/resourceVersion"}, {"value", e.version["ComputeDomain"]}},
                          {{"op", "add"}, {"path", "/metadata/finalizers"}, {"value", {api::kFinalizer}}}}));
       }},
      {"finalizer with an old version",
       [=](Endpoint& e) {
         return kube::JsonPatch(
             api::kComputeDomains, cd_key,
             json::array({{{"op", "test"}, {"path", "/metadata/resourceVersion"}, {"value", e.version["ComputeDomain"]}},
                          {{"op", "add"}, {"path", "/metadata/finalizers"}, {"value", {api::kFinalizer}}}}));
       }},
      {"list of the namespace", [=](Endpoint&) { return kube::List(api::kComputeDomains, ns); }},
      {"list by name", [=](Endpoint&) { return kube::List(api::kComputeDomains, ns, {{"fieldSelector", "metadata.name=red"}}); }},
      {"list by another name",
       [=](Endpoint&) { return kube::List(api::kComputeDomains, ns, {{"fieldSelector", "metadata.name=blue"}}); }},
      {"list by label", [=](Endpoint&) { return kube::List(api::kComputeDomains, ns, {{"labelSelector", "queue"}}); }},
      {"list by the label's value",
       [=](Endpoint&) { return kube::List(api::kComputeDomains, ns, {{"labelSelector", "queue=a"}}); }},
      {"list by two labels",
       [=](Endpoint&) { return kube::List(api::kComputeDomains, ns, {{"labelSelector", "queue,no-such-label=x"}}); }},
      {"ComputeDomain is deleted", [=](Endpoint&) { return kube::Delete(api::kComputeDomains, cd_key); }},
      {"finalizer of one that is deleted goes",
       [=](Endpoint&) {
         return kube::JsonPatch(api::kComputeDomains, cd_key,
                                json::array({{{"op", "test"}, {"path", "/metadata/finalizers/0"}, {"value", api::kFinalizer}},
                                             {{"op", "remove"}, {"path", "/metadata/finalizers/0"}}}));
       }},
      {"list of nothing", [=](Endpoint&) { return kube::List(api::kComputeDomains, ns); }},
  };
}

}  // namespace

std::vector<Step> Script(const std::string& node, const std::string& domain, const std::string& ns) {
  std::vector<Step> script;
  for (std::vector<Step>& part :
       std::vector{NodeAndStatus(node), AppliedLabels(node), NodeIsDeleted(node), Domain(domain), ComputeDomainInNamespace(ns)}) {
    script.insert(script.end(), part.begin(), part.end());
  }
  return script;
}

}  // namespace cd::integration
