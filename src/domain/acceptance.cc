#include "src/domain/acceptance.h"

namespace cd::domain {

using api::ComputeDomain;

std::optional<std::string> WhyNotAccepted(const ComputeDomain& cd) {
  std::string why;
  const auto refuse = [&](const std::string& sentence) { why.append(why.empty() ? "" : " ").append(sentence); };
  const std::string again = " (the field is fixed at creation: delete the ComputeDomain and create it anew).";
  if (cd.isolation_mode == api::IsolationMode::kDomain) {
    refuse("spec.isolationMode: Domain is not served by this version of the driver; use Channel" + again);
  }
  if (cd.allocation_mode == api::AllocationMode::kAll) {
    refuse("spec.channel.allocationMode: All is not served by this version of the driver; use Single" + again);
  }
  if (cd.imex) {
    refuse("spec.imex: not served by this version of the driver; leave it out" + again);
  }
  if (why.empty()) return std::nullopt;
  return why;
}

}  // namespace cd::domain
