// One script of operations on an API server. What it does not try the model of the server must not be trusted with.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/kube/client.h"

namespace cd::integration {

// Where the script runs, and what it has learned there.
class Endpoint {
 public:
  explicit Endpoint(std::function<Result<nlohmann::json>(kube::ApiRequest)> call) : call_(std::move(call)) {}

  Result<nlohmann::json> Call(kube::ApiRequest request) { return call_(std::move(request)); }
  void Learn(const std::string& step, const Result<nlohmann::json>& answer) {
    if (!answer || !answer->contains("metadata")) return;
    version[step] = answer->at("metadata").value("resourceVersion", "");
    uid[step] = answer->at("metadata").value("uid", "");
  }

  std::map<std::string, std::string> version;  // of the object each step answered with
  std::map<std::string, std::string> uid;

 private:
  std::function<Result<nlohmann::json>(kube::ApiRequest)> call_;
};

struct Step {
  std::string name;
  std::function<kube::ApiRequest(Endpoint&)> request;
};

// On an IMEXNode, an IMEXDomain and a namespace of these names, none of which exists but the namespace.
std::vector<Step> Script(const std::string& node, const std::string& domain, const std::string& ns);

}  // namespace cd::integration
