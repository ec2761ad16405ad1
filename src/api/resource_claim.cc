#include "src/api/resource_claim.h"

#include <algorithm>
#include <charconv>

#include "src/base/json_reader.h"

namespace cd::api {

using nlohmann::json;

namespace {

constexpr char kChannelPrefix[] = "channel-";

// A quantity as our own devices have it: a whole number. Anything else (of another driver, or edited) counts as one slot.
int ReadSlots(const std::string& quantity) {
  int slots = 1;
  const auto [end, error] = std::from_chars(quantity.data(), quantity.data() + quantity.size(), slots);
  return error == std::errc() && end == quantity.data() + quantity.size() && slots > 0 ? slots : 1;
}

AllocationResult ReadResult(JsonReader r) {
  AllocationResult result{r.String("request"), r.String("driver"),          r.String("pool"),
                          r.String("device"),  r.OptionalString("shareID"), std::nullopt};
  if (result.driver != kDriverName) return result;
  if (const auto slots = r.Child("consumedCapacity").OptionalString(kSlotsCapacity)) result.slots = ReadSlots(*slots);
  return result;
}

std::string RawParameters(const json* parameters) {
  if (parameters == nullptr) return "null";
  const json shown = NestsTooDeep(*parameters) ? json(Quoted(*parameters)) : *parameters;  // the decoder will refuse that text
  return shown.dump(-1, ' ', false, json::error_handler_t::replace);
}

// nullopt: another driver's.
std::optional<AllocationConfig> ReadConfig(JsonReader r) {
  JsonReader opaque = r.Child("opaque");
  if (opaque.String("driver") != kDriverName) return std::nullopt;
  AllocationConfig config;
  config.requests = r.Strings("requests");
  config.from_claim = r.String("source") == "FromClaim";
  config.parameters = RawParameters(opaque.Find("parameters"));
  return config;
}

// The one value of an expression that pins the node, or "".
std::string PinnedNode(JsonReader term, std::string_view list, std::string_view key) {
  for (JsonReader& expression : term.Children(list)) {
    const std::vector<std::string> values = expression.Strings("values");
    if (expression.String("key") == key && expression.String("operator") == "In" && values.size() == 1) return values[0];
  }
  return "";
}

std::string ReadNodeName(JsonReader selector) {
  std::vector<JsonReader> terms = selector.Children("nodeSelectorTerms");
  if (terms.size() != 1) return "";
  std::string name = PinnedNode(terms[0], "matchFields", "metadata.name");
  return name.empty() ? PinnedNode(terms[0], "matchExpressions", "kubernetes.io/hostname") : name;
}

// Higher wins: the claim's own config beats the class's, one that names the request beats a general one. Among equals the later
// entry wins, as it does in the API's own order of precedence.
int Precedence(const AllocationConfig& config) {
  return (config.from_claim ? 2 : 0) + (config.requests.empty() ? 0 : 1);
}

bool AppliesTo(const AllocationConfig& config, const std::string& request) {
  const std::string parent = request.substr(0, request.find('/'));
  return config.requests.empty() || std::any_of(config.requests.begin(), config.requests.end(),
                                                [&](const std::string& r) { return r == request || r == parent; });
}

const AllocationConfig* ConfigFor(const ResourceClaim& claim, const std::string& request) {
  const AllocationConfig* best = nullptr;
  for (const AllocationConfig& config : claim.configs) {
    if (AppliesTo(config, request) && (best == nullptr || Precedence(config) >= Precedence(*best))) best = &config;
  }
  return best;
}

std::string Describe(const ResourceClaim& claim, const AllocationResult& result) {
  return "ResourceClaim " + ToString(claim.meta.Ref()) + ", request \"" + result.request + "\"";
}

Result<ChannelConfig> ConfigOfResult(const ResourceClaim& claim, const AllocationResult& result) {
  const AllocationConfig* config = ConfigFor(claim, result.request);
  if (config == nullptr) {
    return Fail(ErrorCode::kInvalidArgument,
                Describe(claim, result) + ": has no opaque config of driver " + kDriverName +
                    ", so no ComputeDomain is named; use the ResourceClaimTemplate that the ComputeDomain names");
  }
  const json parameters = json::parse(config->parameters, nullptr, false);
  auto decoded = DecodeOpaqueConfig(parameters);
  if (!decoded) return Fail(Annotate(decoded.error(), Describe(claim, result) + ", opaque config"));
  if (const auto* channel = std::get_if<ChannelConfig>(&*decoded)) return *channel;
  return Fail(ErrorCode::kInvalidArgument, Describe(claim, result) +
                                               ", opaque config: kind: \"ComputeDomainDaemonConfig\" does not fit device " +
                                               result.device + "; set it to \"ComputeDomainChannelConfig\"");
}

}  // namespace

std::string ChannelDevice(int number) {
  return kChannelPrefix + std::to_string(number);
}
bool IsChannelDevice(std::string_view device) {
  return device.starts_with(kChannelPrefix);
}

std::string ResourceClaim::PoolOfDriver() const {
  for (const AllocationResult& result : results) {
    if (result.driver == kDriverName) return result.pool;
  }
  return "";
}

int ResourceClaim::ChannelSlots() const {
  int slots = 0;
  for (const AllocationResult& result : results) {
    if (result.driver == kDriverName && IsChannelDevice(result.device)) slots += result.slots.value_or(1);
  }
  return slots;
}

Result<ResourceClaim> DecodeResourceClaim(const json& object) {
  auto meta = DecodeMeta(object);
  if (!meta) return Fail(meta.error());
  std::optional<Error> error;
  JsonReader status = JsonReader(&object, "", error).Child("status");
  ResourceClaim claim;
  claim.meta = std::move(*meta);
  claim.allocated = status.Has("allocation");
  JsonReader allocation = status.Child("allocation");
  JsonReader devices = allocation.Child("devices");
  for (JsonReader& r : devices.Children("results")) claim.results.push_back(ReadResult(r));
  for (JsonReader& r : devices.Children("config")) {
    if (auto config = ReadConfig(r)) claim.configs.push_back(std::move(*config));
  }
  claim.node_name = ReadNodeName(allocation.Child("nodeSelector"));
  for (JsonReader& r : status.Children("reservedFor")) {
    if (r.String("resource") == "pods") claim.reserved_for.push_back({claim.meta.ns, r.String("name"), r.String("uid")});
  }
  if (error) return Fail(Annotate(*error, "ResourceClaim " + ToString(claim.meta.Ref())));
  return claim;
}

Result<std::optional<ChannelConfig>> ChannelConfigOf(const ResourceClaim& claim) {
  std::optional<ChannelConfig> found;
  for (const AllocationResult& result : claim.results) {
    if (result.driver != kDriverName || !IsChannelDevice(result.device)) continue;
    auto config = ConfigOfResult(claim, result);
    if (!config) return Fail(config.error());
    if (found && !(*found == *config)) {
      return Fail(ErrorCode::kInvalidArgument,
                  Describe(claim, result) + ", opaque config: domainID: " + Quoted(config->domain_id) + " differs from " +
                      Quoted(found->domain_id) +
                      " of another request; a claim belongs to one ComputeDomain: make one claim for each");
    }
    found = std::move(*config);
  }
  return found;
}

}  // namespace cd::api
