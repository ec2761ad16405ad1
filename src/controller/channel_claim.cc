#include "src/controller/channel_claim.h"

namespace cd::controller {

Result<ChannelClaim> DecodeChannelClaim(const nlohmann::json& object) {
  auto full = api::DecodeResourceClaim(object);
  if (!full) return Fail(full.error());
  ChannelClaim claim;
  claim.meta.ns = full->meta.ns;
  claim.meta.name = full->meta.name;
  claim.meta.uid = full->meta.uid;
  claim.meta.resource_version = full->meta.resource_version;
  claim.meta.deleting = full->meta.deleting;
  claim.node = full->PoolOfDriver();
  if (claim.node.empty()) return claim;
  const auto config = api::ChannelConfigOf(*full);
  if (config) claim.config = *config;
  claim.pods = std::move(full->reserved_for);
  claim.slots = full->ChannelSlots();
  return claim;
}

Result<ClaimTemplate> DecodeClaimTemplate(const nlohmann::json& object) {
  auto meta = api::DecodeMeta(object);
  if (!meta) return Fail(meta.error());
  return ClaimTemplate{std::move(*meta)};
}

}  // namespace cd::controller
