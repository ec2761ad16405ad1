#include "src/domain/acceptance.h"

#include "src/domain/imex_options.h"

namespace cd::domain {

using api::ComputeDomain;

std::optional<std::string> WhyNotAccepted(const ComputeDomain& cd) {
  std::string why;
  const auto refuse = [&](const std::string& sentence) { why.append(why.empty() ? "" : " ").append(sentence); };
  const std::string again = " (the field is fixed at creation: delete the ComputeDomain and create it anew).";
  // Refused by the API server as well; objects that are older than its rules are not.
  if (cd.isolation_mode == api::IsolationMode::kChannel) {
    if (cd.allocation_mode == api::AllocationMode::kAll)
      refuse("spec.channel.allocationMode: All needs spec.isolationMode Domain; use that, or Single" + again);
    if (cd.imex) refuse("spec.imex: needs spec.isolationMode Domain; shared IMEX domains take the cluster's settings" + again);
  } else if (const auto impossible = cd.imex ? WhyNotPossible(*cd.imex, "spec.imex") : std::nullopt) {
    refuse(*impossible + again);
  }
  if (why.empty()) return std::nullopt;
  return why;
}

}  // namespace cd::domain
