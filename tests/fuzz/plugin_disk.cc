#include <nlohmann/json.hpp>

#include "src/api/references.h"
#include "src/base/files.h"
#include "src/plugin/checkpoint_json.h"
#include "tests/fuzz/fuzz.h"

namespace cd::fuzz {

namespace {

using plugin::ClaimPhase;

// Whatever was held, it is given up by the calls that give things up.
void RequireEnd(plugin::Checkpoint checkpoint) {
  const auto claims = checkpoint.claims;
  for (const auto& [uid, entry] : claims) plugin::Unprepare(checkpoint, uid);
  Require(checkpoint.claims.empty(), "every claim can be unprepared");
  const auto lingering = checkpoint.lingering;
  for (const auto& [uid, grant] : lingering) plugin::EndLingering(checkpoint, uid);
  Require(plugin::HeldChannels(checkpoint).empty(), "nothing is held after the last process");
  plugin::EndWithdrawal(checkpoint, checkpoint.withdrawing);
  Require(plugin::SetMaintenance(checkpoint, "m1").has_value(), "an idle node can be maintained");
}

}  // namespace

void Checkpoint(std::string_view input) {
  const auto checkpoint = plugin::DecodeCheckpoint(input);
  if (!checkpoint) return RequireWords(checkpoint.error(), input);
  const std::string text = plugin::EncodeCheckpoint(*checkpoint);
  const auto again = plugin::DecodeCheckpoint(text);
  Require(again.has_value(), "what was read is written so that it can be read");
  Require(*again == *checkpoint, "nothing is lost by writing");
  for (const auto& [uid, entry] : checkpoint->claims) {
    Require(IsSafePathComponent(uid) && uid == entry.claim.uid, "a claim is filed under its UID, which is a file name");
    Require(!entry.grant || entry.grant->channel >= 1, "channel 0 is nobody's");
    // The sweeper's sum; a time far from now must not overflow.
    if (entry.phase == ClaimPhase::kStarted) static_cast<void>(SteadyTime(Duration(0)) - entry.started);
  }
  RequireEnd(*checkpoint);
}

void Marker(std::string_view input) {
  const nlohmann::json object = nlohmann::json::parse(input, nullptr, false);
  const auto entry = plugin::DecodeClaimParts(object, "");
  if (!entry) return RequireField(entry.error(), input);
  Require(IsSafePathComponent(entry->claim.uid), "a UID is a file name");
  nlohmann::json text{{"claim", api::EncodeRef(entry->claim)}, {"devices", plugin::EncodeDevices(entry->devices)}};
  if (entry->grant) text["grant"] = plugin::EncodeGrant(*entry->grant);
  const auto again = plugin::DecodeClaimParts(nlohmann::json::parse(text.dump()), "");
  Require(again && *again == *entry, "what was read is written and read the same");
}

}  // namespace cd::fuzz
