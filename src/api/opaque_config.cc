// Validation of the opaque configs. Every message is "field: what is wrong with the value; what to do".
#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/api/resource_claim.h"
#include "src/base/files.h"
#include "src/base/json_reader.h"

namespace cd::api {

using nlohmann::json;

namespace {

constexpr char kConfigApiVersion[] = "resource.nvidia.com/v1beta1";
constexpr char kChannelKind[] = "ComputeDomainChannelConfig";
constexpr char kDaemonKind[] = "ComputeDomainDaemonConfig";
constexpr char kUseTheTemplate[] = "; use the ResourceClaimTemplate that the ComputeDomain names";

using Names = std::vector<std::string_view>;

tl::unexpected<Error> Invalid(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

std::string Join(const Names& names) {
  std::string out;
  for (std::string_view name : names) out.append(out.empty() ? "" : ", ").append(name);
  return out;
}

Status OnlyKnownFields(const json& parameters, const Names& known) {
  for (const auto& [name, value] : parameters.items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return Invalid(Quoted(name) + ": unknown field with value " + Quoted(value) + "; fields are " + Join(known) +
                   ", written exactly like this: correct or remove it");
  }
  return {};
}

Result<std::string> RequiredString(const json& parameters, const char* name, const std::string& remedy) {
  const auto it = parameters.find(name);
  if (it == parameters.end()) return Invalid(std::string(name) + ": missing; " + remedy);
  if (!it->is_string()) return Invalid(std::string(name) + ": " + Quoted(*it) + " is not a string; " + remedy);
  return it->get<std::string>();
}

Result<std::string> DomainId(const json& parameters) {
  const std::string remedy = std::string("set it to the ComputeDomain's metadata.uid") + kUseTheTemplate;
  auto id = RequiredString(parameters, "domainID", remedy);
  if (!id) return id;
  if (!IsUuid(*id)) return Invalid("domainID: " + Quoted(*id) + " is not a UID (a UUID in lower case); " + remedy);
  return id;
}

Result<AllocationMode> Mode(const json& parameters) {
  const auto it = parameters.find("allocationMode");
  if (it == parameters.end() || it->is_null() || *it == "Single") return AllocationMode::kSingle;
  if (*it == "All") return AllocationMode::kAll;
  return Invalid("allocationMode: " + Quoted(*it) +
                 " is unknown; use \"Single\" or \"All\", the value of the ComputeDomain's "
                 "spec.channel.allocationMode");
}

Result<OpaqueConfig> DecodeChannelConfig(const json& parameters) {
  if (auto ok = OnlyKnownFields(parameters, {"apiVersion", "kind", "domainID", "allocationMode"}); !ok) return Fail(ok.error());
  auto id = DomainId(parameters);
  if (!id) return Fail(id.error());
  auto mode = Mode(parameters);
  if (!mode) return Fail(mode.error());
  return ChannelConfig{std::move(*id), *mode};
}

Result<OpaqueConfig> DecodeDaemonConfig(const json& parameters) {
  if (auto ok = OnlyKnownFields(parameters, {"apiVersion", "kind", "domainID"}); !ok) return Fail(ok.error());
  auto id = DomainId(parameters);
  if (!id) return Fail(id.error());
  return DaemonConfig{std::move(*id)};
}

}  // namespace

Result<OpaqueConfig> DecodeOpaqueConfig(const json& parameters) {
  if (!parameters.is_object()) {
    return Invalid("parameters: " + Quoted(parameters) + " is not an object; give a " + kConfigApiVersion + " " + kChannelKind +
                   kUseTheTemplate);
  }
  const std::string use_version = std::string("set it to \"") + kConfigApiVersion + "\"";
  const auto version = RequiredString(parameters, "apiVersion", use_version);
  if (!version) return Fail(version.error());
  if (*version != kConfigApiVersion) return Invalid("apiVersion: " + Quoted(*version) + " is unknown; " + use_version);

  const std::string use_kind = std::string("set it to \"") + kChannelKind + "\" or \"" + kDaemonKind + "\"";
  const auto kind = RequiredString(parameters, "kind", use_kind);
  if (!kind) return Fail(kind.error());
  if (*kind == kChannelKind) return DecodeChannelConfig(parameters);
  if (*kind == kDaemonKind) return DecodeDaemonConfig(parameters);
  return Invalid("kind: " + Quoted(*kind) + " is unknown; " + use_kind);
}

json EncodeChannelConfig(const ChannelConfig& config) {
  return {{"apiVersion", kConfigApiVersion},
          {"kind", kChannelKind},
          {"domainID", config.domain_id},
          {"allocationMode", ToString(config.allocation_mode)}};
}

}  // namespace cd::api
